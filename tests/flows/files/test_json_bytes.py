"""What counts as a readable file."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.flows.files.json_bytes import (
    MAX_DEPTH,
    Unreadable,
    file_bytes,
    read_object,
)


def nested(levels: int) -> bytes:
    return b'{"a": ' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"\xff\xfe{}", "not UTF-8"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "Infinity"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": ' + b"9" * 400 + b"}", "too large"),
        (b'{"a": 1} x', "not JSON"),
        (b'{"a": 1, "a": 1}', "'a' appears twice"),
        (b"\xef\xbb\xbf\xef\xbb\xbf{}", "not JSON"),
        (b'"text"', "not a JSON object"),
        (nested(MAX_DEPTH + 1), "deeper"),
        (b'{"a": ' + b"[" * 100_000, "deeper"),
        (b'{"a": "' + b'\\"' * 1000, "not JSON"),
        (b"", "not JSON"),
    ],
)
def test_what_two_readers_could_read_differently_is_refused(
    data: bytes, complaint: str
) -> None:
    with pytest.raises(Unreadable, match=complaint):
        read_object(data)


def test_what_every_reader_understands_is_read() -> None:
    assert read_object(b'\xef\xbb\xbf\r\n{"a": {"b": 1, "b": 2}}\r\n') == {
        "a": {"b": 2}
    }
    assert len(json.dumps(read_object(nested(MAX_DEPTH)))) > 2 * MAX_DEPTH


def test_brackets_in_a_string_are_no_levels() -> None:
    assert (
        read_object(json.dumps({"a": "[" * 500, "b": '\\"{' * 300}).encode())["a"]
        == "[" * 500
    )


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.text())))
def test_what_is_written_is_ascii_and_read_back_the_same(
    document: dict[str, object],
) -> None:
    data = file_bytes(document)
    assert data.isascii() and not data.endswith(b"\n")
    assert read_object(data) == document
