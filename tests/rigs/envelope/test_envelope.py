"""Reading an envelope: splitting frontmatter from body, without ever raising."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridgehead.rigs.envelope.envelope import (
    MAX_ENVELOPE_BYTES,
    Envelope,
    FileParts,
    parse_envelope,
    parse_frontmatter,
    split_file,
)
from bridgehead.rigs.envelope.frontmatter import ParseFailure
from bridgehead.rigs.trust.envelope_problems import check_envelope

PIECES = st.sampled_from(
    [
        b"---",
        b"\n",
        b"\r\n",
        b"\r",
        b"\xef\xbb\xbf",
        b"from: a",
        b"to: [b",
        b"x: &a *a",
        b"\xff\xfe",
        b"\t",
        b" ",
        b"{",
        b'"',
    ]
)
RAW = st.one_of(
    st.binary(),
    st.lists(PIECES).map(b"".join),
    st.binary().map(lambda raw: b"---\n" + raw + b"\n---\n"),
)


@settings(deadline=None)
@given(RAW)
@example(b"---\n---\n")
@example(b"---\r\n\r---\n---\n")
def test_property_reading_never_raises_and_both_readers_agree(raw: bytes) -> None:
    parsed = parse_envelope(raw)
    frontmatter = parse_frontmatter(raw)
    if isinstance(parsed, Envelope):
        assert frontmatter == parsed.frontmatter
    else:
        assert frontmatter == parsed
    assert check_envelope(parsed).valid in (True, False)


@settings(deadline=None)
@given(RAW)
def test_property_splitting_bytes_is_splitting_text(raw: bytes) -> None:
    """rigs §3.1 line by line, as the reference does it."""
    text = (
        raw.decode("utf-8", "replace")
        .removeprefix("\ufeff")
        .replace("\r\n", "\n")
        .replace("\r", "\n")
    )
    lines = text.split("\n")
    if lines[0] != "---" or "---" not in lines[1:]:
        assert isinstance(split_file(raw), ParseFailure)
        return
    end = lines.index("---", 1)
    parts = split_file(raw)
    assert isinstance(parts, FileParts)
    assert parts.frontmatter == "\n".join(lines[1:end])
    assert parts.body.replace("\r\n", "\n").replace("\r", "\n") == "\n".join(
        lines[end + 1 :]
    )


def test_a_body_may_hold_fences() -> None:
    assert parse_envelope(b"---\nfrom: a\n---\nx\n---\ny\n") == Envelope(
        {"from": "a"}, "x\n---\ny\n"
    )


@pytest.mark.parametrize(
    "raw",
    [b"---\nfrom: a\n---", b"---\nfrom: a\n---\n", b"\xef\xbb\xbf---\rfrom: a\r---"],
)
def test_a_file_may_end_with_its_frontmatter(raw: bytes) -> None:
    assert parse_envelope(raw) == Envelope({"from": "a"}, "\n")


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "must begin"),
        (b"from: a\n---\n", "must begin"),
        (b"\n---\nfrom: a\n---\n", "must begin"),
        (b"--- \nfrom: a\n---\n", "must begin"),
        (b"\xef\xbb\xbf\xef\xbb\xbf---\nfrom: a\n---\n", "must begin"),
        (b"---", "no closing"),
        (b"---\nfrom: a\n", "no closing"),
        (b"---\nfrom: a\n --- \n", "no closing"),
        (b"---\n---\nbody", "is empty"),
    ],
)
def test_files_without_proper_fences_do_not_parse(raw: bytes, why: str) -> None:
    parsed = parse_envelope(raw)
    assert isinstance(parsed, ParseFailure)
    assert why in parsed.message


def test_bytes_that_are_not_utf_8_become_replacement_characters() -> None:
    assert parse_envelope(b"---\nfrom: a\xff\n---\n\xc3\n") == Envelope(
        {"from": "a\ufffd"}, "\ufffd\n"
    )


def test_a_file_of_fifty_mebibytes_is_read_and_one_byte_more_is_not() -> None:
    head = b"---\nfrom: a\n---\n"
    largest = head + b"x" * (MAX_ENVELOPE_BYTES - len(head))
    assert isinstance(parse_envelope(largest), Envelope)
    for refused in (parse_envelope(largest + b"x"), parse_frontmatter(largest + b"x")):
        assert isinstance(refused, ParseFailure)
        assert "50 MiB" in refused.message


def test_conflict_markers_in_a_body_break_its_hash() -> None:
    clean = b"---\nbody_hash: 98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4\n---\nhi\n"
    marked = clean.replace(b"hi\n", b"<<<<<<< HEAD\nhi\n=======\nho\n>>>>>>> b\n")
    assert check_envelope(parse_envelope(clean)).hash_mismatch is None
    assert check_envelope(parse_envelope(marked)).hash_mismatch is not None


def test_reading_an_ordinary_file_loads_no_yaml_library() -> None:
    program = (
        "import sys\n"
        "from bridgehead.rigs.envelope.envelope import parse_envelope, parse_frontmatter\n"
        "import bridgehead.rigs.views.listings, bridgehead.rigs.threads.thread, bridgehead.rigs.operations.drafts\n"
        "raw = b'---\\nfrom: a\\nto:\\n  - b\\ntldr: \"x: y\"\\n---\\nbody\\n'\n"
        "assert parse_envelope(raw).frontmatter == parse_frontmatter(raw)\n"
        "heavy = {'yaml', 'dataclasses', 'inspect', 'msgspec', 'json', 'hashlib', 'datetime', 'asyncio'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"
