from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridgehead.rigs.envelope.envelope import Envelope, parse_envelope
from bridgehead.rigs.envelope.frontmatter import write_envelope, write_mapping
from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.envelope.yaml_loader import load

AWKWARD = st.text(
    alphabet="aA1-.:#?~e '\"\\[]{},&*!|>%@`\t\n\r\x00\x1b\x7f\x85\u2028\ufeff🎯\uffff", max_size=12
)
TEXTS = st.one_of(st.text(), AWKWARD, st.from_regex(r"\A[-+.0-9xoeE]{1,6}\Z"))


@settings(deadline=None)
@given(TEXTS)
@example("ends two\n\n")
@example("\n starts blank")
@example("trailing \nspaces \n")
@example("---\nlooks like a fence\n---")
@example("\ufeff")
def test_property_any_text_is_read_back_as_written(text: str) -> None:
    written = write_envelope({"tldr": text, "to": [text, text]}, "x")
    assert parse_envelope(written.encode()) == Envelope({"tldr": text, "to": [text, text]}, "x\n")
    assert load(write_mapping({"tldr": text})) == {"tldr": text}


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from("from to date status tldr references".split()), TEXTS | st.lists(TEXTS))
)
def test_property_fields_keep_their_order(fields: dict[str, Value]) -> None:
    fields = {"nonce": "x", **fields}  # an empty mapping is no frontmatter
    parsed = parse_envelope(write_envelope(fields, "").encode())
    assert isinstance(parsed, Envelope)
    assert list(parsed.frontmatter.items()) == list(fields.items())


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ([], " []"),
        (["a"], "\n  - a"),
        (["1234567", "a: b"], '\n  - "1234567"\n  - "a: b"'),
        (["one\ntwo"], "\n  - |-\n    one\n    two"),
        (None, " null"),
        (True, " true"),
        (15, " 15"),
        ('say "it\'s"', ' say "it\'s"'),
        ('"it\'s"', ' "\\"it\'s\\""'),
        ('"quoted"', " '\"quoted\"'"),
        ("a\\b: c", ' "a\\\\b: c"'),
        ("\x7f\x9f", ' "\x7f\x9f"'),
        ("a\x01b\x1b", ' "a\\x01b\\e"'),
        ("a\tb", ' "a\\tb"'),
        ("a\x85\u2028\u2029", ' "a\\N\\L\\P"'),
        ("one\n\n  two\n", " |\n  one\n\n    two"),
        (":colon first", " :colon first"),
        ("a:", ' "a:"'),
        ("-", ' "-"'),
        ("?", ' "?"'),
    ],
)
def test_how_values_are_written(value: Value, written: str) -> None:
    assert write_mapping({"tldr": value}) == f"tldr:{written}\n"


def test_the_body_is_written_normalised_and_without_a_blank_line_before_it() -> None:
    assert write_envelope({"from": "a"}, "x  \r\n\r\n") == "---\nfrom: a\n---\nx\n"


def test_nested_collections_are_not_frontmatter() -> None:
    with pytest.raises(TypeError):
        write_mapping({"to": [["a"]]})
