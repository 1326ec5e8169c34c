"""Text as the npm tool treats it: whitespace, surrogates, timestamps."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.rigs.envelope.fields import is_timestamp
from bridgehead.rigs.envelope.text import (
    headline,
    iso_timestamp,
    timestamp_ms,
    trim,
    utf8,
)


@pytest.mark.parametrize("blank", ["\t", "\u00a0", "\ufeff", "\u2028", "\u3000"])
def test_ecmascript_whitespace_is_trimmed(blank: str) -> None:
    assert trim(f"{blank}rig{blank}") == "rig"


@pytest.mark.parametrize("kept", ["\x1c", "\x85", "\u200b"])
def test_what_only_python_calls_whitespace_is_kept(kept: str) -> None:
    assert trim(f"{kept}rig") == f"{kept}rig"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one", "one"),
        ("one\ntwo", "one"),
        ("one\r\ntwo", "one"),
        ("one\u2028two", "one"),
        ("\n  \ntwo\nthree", "two"),
        ("one\x0btwo", "one\x0btwo"),
        (" \n\t", ""),
        ("", ""),
    ],
)
def test_a_headline_is_the_first_line_with_something_on_it(
    text: str, expected: str
) -> None:
    assert headline(text) == expected


def test_lone_surrogates_are_replaced_and_pairs_joined() -> None:
    assert utf8("a\ud800b") == "a\ufffdb".encode()
    assert utf8("\ud83c\udfaf") == "🎯".encode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00", 0),
        ("1970-01-01T02:00:00.250+0200", 250),
        ("1970-01-01T00:00:00.123456789Z", 123),
        ("1969-12-31T23:59:59.999Z", -1),
        ("2026-13-45T00:00:00Z", None),
        ("2026-05-15T00:00:00+99:99", None),
        ("soon", None),
    ],
)
def test_times_of_any_zone_are_read(text: str, expected: int | None) -> None:
    assert timestamp_ms(text) == expected


@settings(deadline=None)
@given(st.integers(0, 4_102_444_800_000))
def test_property_written_times_are_timestamps_and_read_back(unix_ms: int) -> None:
    text = iso_timestamp(unix_ms)
    assert is_timestamp(text)
    assert text.endswith("Z")
    assert timestamp_ms(text) == unix_ms
