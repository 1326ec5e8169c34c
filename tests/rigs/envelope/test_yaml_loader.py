"""Everything YAML that is not a plain `key: value` line."""

from __future__ import annotations

import pytest
import yaml

from bridgehead.rigs.envelope import yaml_loader
from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.envelope.yaml_loader import (
    MAX_DEPTH,
    MAX_VALUES,
    YamlRefused,
    load,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: >-\n  one\n  two", {"a": "one two"}),
        ("a: |\n  one\n  two", {"a": "one\ntwo\n"}),
        ("a: |+\n  one\n", {"a": "one\n\n"}),
        ("a: [b, 'c', 1]", {"a": ["b", "c", 1]}),
        ("a: {b: c}", {"a": {"b": "c"}}),
        ("a: &x b\nc: *x", {"a": "b", "c": "b"}),
        ("a: !!str 12\nb: !odd 12\nc: ! 12", {"a": "12", "b": "12", "c": "12"}),
        ("<<: {a: b}", {"<<": {"a": "b"}}),
        ("1: a\ntrue: b\n~: c\n1.5: d", {"1": "a", "true": "b", "": "c", "1.5": "d"}),
        ("1: a\n'1': b", {"1": "b"}),
        ("a:\n- b\n- c", {"a": ["b", "c"]}),
        ("\ufeffa: b", {"a": "b"}),
        ("a: b\n...", {"a": "b"}),
        ('a: "b\n  c"', {"a": "b c"}),
        ("a: [b,\n  c\n]", {"a": ["b", "c"]}),
        ("a: &x\n  - 'b\n    c'", {"a": ["b c"]}),
        ('# x\na: "\\ud83c\\uDFAF \\\\ud83c \\ud83c"', {"a": "🎯 \\ud83c \ufffd"}),
        ("# x\na: \\ud83c\\udfaf", {"a": "\\ud83c\\udfaf"}),
        ("", None),
    ],
)
def test_yaml_beyond_the_fast_path(text: str, expected: Value) -> None:
    assert load(text) == expected


@pytest.mark.parametrize(
    "odd", list("\x85\u2028\u2029\ufeff\x7f\x9f\x00\x1b\ufffe\uffff\t")
)
@pytest.mark.parametrize(
    "text", ["a: x{}y", 'a: "x{}y"', "a: 'x{}y'", "a: |-\n  x{}y", "a: [x{}y]"]
)
def test_characters_that_pyyaml_misreads_are_content(odd: str, text: str) -> None:
    value = load(text.format(odd))
    assert value in ({"a": f"x{odd}y"}, {"a": [f"x{odd}y"]})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: b\na: c", "'a' is repeated"),
        ("a: {b: 1, b: 2}", "'b' is repeated"),
        ("a: b\n--- \nc: d", "more than one document"),
        ("a: *nobody", "no anchor"),
        ("a: &x [*x]", "stands in"),
        ("a: [b", "line 2"),
        ("a: [b,\nc]", "line 2: not indented"),
        ('a: "b\nc"', "line 2: not indented"),
        ("a:\n  - {b: c,\n  d: e}", "line 3: not indented"),
        ("a: 'b\n\tc'", "line 2: not indented"),
    ],
)
def test_what_is_refused_and_why(text: str, why: str) -> None:
    with pytest.raises(YamlRefused, match=why):
        load(text)


def aliases(count: int) -> str:
    return "a: &x b\nto: [" + ", ".join(["*x"] * count) + "]"


def test_an_anchor_may_be_used_a_hundred_times() -> None:
    assert load(aliases(100)) == {"a": "b", "to": ["b"] * 100}
    with pytest.raises(YamlRefused, match="more than 100 times"):
        load(aliases(101))


def test_a_bomb_of_nested_aliases_is_refused() -> None:
    levels = [
        f"l{n}: &l{n} [" + ", ".join([f"*l{n - 1}"] * 9) + "]" for n in range(1, 9)
    ]
    with pytest.raises(YamlRefused, match="more than 100 times"):
        load("\n".join(["l0: &l0 [x, x, x]", *levels]))


@pytest.mark.parametrize("bracket", ["[", "{a: ", "- "])
def test_deep_nesting_is_refused_and_does_not_end_the_process(bracket: str) -> None:
    assert load("a: " + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1))
    with pytest.raises(YamlRefused, match="nested deeper"):
        load("a:\n  " + bracket * 100_000)


def test_keys_that_are_collections_do_not_double_with_every_one_around_them() -> None:
    assert len(str(load("? ? ? x"))) < 200
    with pytest.raises(YamlRefused, match="longer than 1024"):
        load("? " * 20 + "x")


def test_more_values_than_any_envelope_has_are_refused() -> None:
    with pytest.raises(YamlRefused, match="values"):
        load("a: [" + "x," * MAX_VALUES + "]")


def test_pyyaml_without_its_c_parser_reads_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(yaml_loader, "_Loader", yaml.BaseLoader)
    assert load("a: &x [b, 12]\nc: *x\nd: |\n  e\u2028\n") == {
        "a": ["b", 12],
        "c": ["b", 12],
        "d": "e\u2028\n",
    }
    with pytest.raises(YamlRefused, match="not indented"):
        load('a: "b\nc"')
