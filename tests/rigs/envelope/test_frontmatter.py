"""Frontmatter: the fast readers agree with the full one, and what is written can be read."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridgehead.rigs.envelope.envelope import Envelope, parse_envelope
from bridgehead.rigs.envelope.frontmatter import (
    NotPlain,
    ParseFailure,
    read_lines,
    read_mapping,
    read_usual,
    write_envelope,
    write_mapping,
)
from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.envelope.yaml_loader import load

LINES = st.sampled_from(
    [
        "from: mac-m5max",
        "to: windows-5080",
        "to:",
        "to: []",
        "  - a",
        '  - "1234567"',
        "  - 1234567",
        "  - - x",
        "date: 2026-05-15",
        "status: ▶ go",
        'status: "✅ Done: all # ok"',
        "tldr: it's",
        "tldr: 'it''s'",
        r'tldr: "a\tb\x41\u00e9\U0001F3AF\/"',
        'tldr: "',
        "tldr: a: b",
        "tldr: a # b",
        "tldr: ~",
        "tldr: -dash",
        "tldr: - dash",
        "tldr: 0o17",
        "tldr: a\tb",
        "tldr: a\u2028b",
        "tldr: trailing ",
        "tldr: |",
        "tldr: |-",
        "tldr: |+",
        "tldr: |2-",
        "  one",
        "  two ",
        "    deeper",
        "  ",
        "   ",
        " ",
        "null: x",
        "",
        "# comment",
    ]
)
USUAL_VALUES = {
    "from": ["mac-m5max", "null", "true", "x", "1x"],
    "to": ["windows-5080", "false", "\n  - a\n  - b-2", "\n  - null", "[]"],
    "date": ["2026-05-15", "2026-05-15T10:00:00.000Z", "2026-05", "12:30"],
    "status": [
        "▶ go",
        "✅ Done",
        "✅",
        "▶ a: b",
        "▶ a #b",
        "▶ end ",
        "go",
        "\u2028 go",
        "\xa0 go",
        "é go",
    ],
    "type": ["ACK", "TRUE", "Null"],
    "thread": ["demo-01", "2026", "null", "a"],
    "display_name": [None, "Mike", "no", "NULL", '"q"', "ünï"],
    "tldr": [
        None,
        "step 12, all fine",
        "it's",
        "- x",
        "1e3",
        "a\tb",
        "a\u2028b",
        "nullable",
        "true ",
    ],
    "references": [
        None,
        "\n  - abc1234",
        "\n  - 1234567",
        "\n  - 12e4567\n  - abc1234",
        "[]",
    ],
    "body_hash": ["0" * 63 + "a", "0" * 64, "1e" + "0" * 62, "ab" * 32],
}
AWKWARD = st.text(
    alphabet="aA1-.:#?~e '\"\\[]{},&*!|>%@`\t\n\r\x00\x1b\x7f\x85\u2028\ufeff🎯\uffff",
    max_size=12,
)
TEXTS = st.one_of(st.text(), AWKWARD, st.from_regex(r"\A[-+.0-9xoeE]{1,6}\Z"))


def fast_path(text: str) -> dict[str, Value] | None:
    try:
        return read_lines(text)
    except NotPlain:
        return None


@settings(deadline=None)
@given(st.lists(LINES, min_size=1, max_size=6).map("\n".join))
def test_property_the_fast_path_never_differs_from_the_full_loader(text: str) -> None:
    fast = fast_path(text)
    if fast is not None:
        loaded = load(text)
        assert isinstance(loaded, dict)
        assert list(fast.items()) == list(loaded.items())


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["from", "to", "tldr", "nonce"]),
        st.text() | st.lists(st.text(), min_size=1),
    )
)
def test_property_the_fast_path_agrees_with_the_full_loader_on_what_we_write(
    fields: dict[str, Value],
) -> None:
    text = write_mapping(fields).removesuffix("\n")
    fast = fast_path(text)
    assert fast is None or fast == load(text) == fields


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tldr: |-\n  one\n\n    two ", "one\n\n  two "),
        ("tldr: |\n  one\n", "one\n"),
        ("tldr: |+\n  one\n", "one\n\n"),
        ("tldr: |+\n  one\n\ntype: ACK", "one\n\n"),
        ("tldr: |+\n  \t\n   ", "\t\n \n"),
        ("tldr: |-\n  \n  after a blank line", "\nafter a blank line"),
        ("tldr: |2-\n   starts blank\n  x", " starts blank\nx"),
        ("tldr: |-\n  \ttab first\n  x", "\ttab first\nx"),
    ],
)
def test_blocks_as_the_reference_writes_them_are_read(text: str, expected: str) -> None:
    fast = fast_path(text)
    assert fast is not None
    assert fast["tldr"] == expected


def test_files_of_either_tool_take_the_fast_path() -> None:
    text = (
        "from: mac-m5max\nto:\n  - windows-5080\n  - ops\ndate: 2026-05-15\n"
        'status: "✅ Done: all # ok"\ntype: ACK\nthread: "00"\nreferences:\n  - a1b2c3d\n  - "1234567"\n'
        f"attested_at: 2026-05-15T10:30:00.000Z\nbody_hash: {'0' * 63}a"
    )
    assert fast_path(text) == {
        "from": "mac-m5max",
        "to": ["windows-5080", "ops"],
        "date": "2026-05-15",
        "status": "✅ Done: all # ok",
        "type": "ACK",
        "thread": "00",
        "references": ["a1b2c3d", "1234567"],
        "attested_at": "2026-05-15T10:30:00.000Z",
        "body_hash": f"{'0' * 63}a",
    }


@pytest.mark.parametrize("text", ["", "# nothing", "~", "---  # still nothing"])
def test_frontmatter_that_says_nothing_is_empty(text: str) -> None:
    assert read_mapping(text) == ParseFailure("frontmatter is empty")


@pytest.mark.parametrize("text", ["- a\n- b", "just text", "12", "[a]", '"quoted"'])
def test_frontmatter_must_be_a_mapping(text: str) -> None:
    assert read_mapping(text) == ParseFailure("frontmatter must be a YAML mapping")


def failure(text: str) -> str:
    read = read_mapping(text)
    assert isinstance(read, ParseFailure)
    return read.message


def test_a_repeated_key_is_refused_by_name() -> None:
    assert "'type' is repeated" in failure("type: ACK\nfrom: a\ntype: REQUEST")


def test_a_syntax_error_names_its_line() -> None:
    assert "line 2" in failure("from: a\nto: }")


def test_conflict_markers_are_called_by_their_name() -> None:
    text = "from: a\n<<<<<<< HEAD\ndate: 2026-05-15\n=======\ndate: 2026-05-16\n>>>>>>> theirs"
    assert "git conflict markers" in failure(text)


def test_tabs_cannot_indent() -> None:
    assert "cannot start any token" in failure("from: a\nto:\n\t- b")


def test_numbers_and_nulls_are_never_made_text() -> None:
    assert read_mapping("thread: 2026\nfrom: ~\nreferences: [1234567, 12e4567]") == {
        "thread": 2026,
        "from": None,
        "references": [1234567, None],
    }


@given(
    st.fixed_dictionaries(
        {key: st.sampled_from(values) for key, values in USUAL_VALUES.items()}
    )
)
@settings(max_examples=300)
def test_the_usual_form_is_read_as_any_other(values: dict[str, str | None]) -> None:
    text = "\n".join(
        f"{key}:{value}" if value.startswith("\n") else f"{key}: {value}"
        for key, value in values.items()
        if value is not None
    )
    at_one_stroke = read_usual(text)

    if at_one_stroke is not None:
        assert at_one_stroke == read_lines(text) == load(text)
        assert list(at_one_stroke) == [
            key for key, value in values.items() if value is not None
        ]


def test_what_send_writes_is_read_at_one_stroke() -> None:
    fields: dict[str, Value] = {
        "from": "mac-m5max",
        "to": ["windows-5080", "ops"],
        "date": "2026-05-15",
        "status": "▶ STATE sent",
        "type": "STATE",
        "thread": "demo-01",
        "display_name": "Mike",
        "tldr": "step 1",
        "references": ["abc1234"],
        "body_hash": "ab" * 32,
    }

    assert read_usual(write_mapping(fields).rstrip("\n")) == fields


@settings(deadline=None)
@given(TEXTS)
@example("ends two\n\n")
@example("\n starts blank")
@example("trailing \nspaces \n")
@example("---\nlooks like a fence\n---")
@example("\ufeff")
def test_property_any_text_is_read_back_as_written(text: str) -> None:
    written = write_envelope({"tldr": text, "to": [text, text]}, "x")
    assert parse_envelope(written.encode()) == Envelope(
        {"tldr": text, "to": [text, text]}, "x\n"
    )
    assert load(write_mapping({"tldr": text})) == {"tldr": text}


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["from", "to", "date", "status", "tldr", "references"]),
        TEXTS | st.lists(TEXTS),
    )
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
