from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.rigs.envelope.fields import is_timestamp
from bridgehead.rigs.envelope.text import iso_timestamp, timestamp_ms


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
