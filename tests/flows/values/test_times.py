"""Moments: what RFC 3339 allows, and how they are written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.flows.values.times import NEVER, deadline_after, parse_time, utc_text


@pytest.mark.parametrize(
    "text",
    [
        "2025-11-18T10:30:00",
        "2025-02-30T10:30:00Z",
        "2025-11-18 10:30:00Z",
        "2025-11-18T24:00:00Z",
        "2025-11-18T10:30:60Z",
        "2025-11-18T10:30:00+24:00",
        "2025-11-18T10:30:00+01:60",
        "2025-11-18T10:30:00.Z",
        "2025-11-18T10:30:00Z\n",
        "٢٠٢٥-11-18T10:30:00Z",
        "0000-01-01T00:00:00Z",
        "",
    ],
)
def test_what_names_no_moment_is_none(text: str) -> None:
    assert parse_time(text) is None


def test_any_fraction_and_any_zone_name_a_moment() -> None:
    assert parse_time("2025-11-18t10:30:00.1234567891z") == datetime(
        2025, 11, 18, 10, 30, 0, 123456, tzinfo=UTC
    )
    assert parse_time("2025-11-18T10:30:00-23:59") == datetime(
        2025, 11, 19, 10, 29, tzinfo=UTC
    )


def test_microseconds_are_written_only_when_there_are_some() -> None:
    moment = datetime(2025, 11, 18, 11, 30, tzinfo=timezone(timedelta(hours=1)))
    assert utc_text(moment) == "2025-11-18T10:30:00Z"
    assert (
        utc_text(moment + timedelta(microseconds=120)) == "2025-11-18T10:30:00.000120Z"
    )


@settings(deadline=None, max_examples=60)
@given(
    st.datetimes(
        min_value=datetime(1, 1, 2),
        max_value=datetime(9999, 12, 30),
        timezones=st.just(UTC),
    )
)
def test_a_moment_survives_being_written(moment: datetime) -> None:
    assert parse_time(utc_text(moment)) == moment


def test_a_deadline_past_the_end_of_the_calendar_never_comes() -> None:
    assert deadline_after("9999-12-31T23:59:59Z", 600) == NEVER
    assert deadline_after("2025-11-18T10:30:00Z", 120) == datetime(
        2025, 11, 18, 10, 32, tzinfo=UTC
    )


def test_a_deadline_at_either_end_of_the_calendar_can_be_written_in_utc() -> None:
    assert deadline_after("9999-12-31T20:00:00-05:00", 120) == NEVER
    assert (
        utc_text(deadline_after("0001-01-01T00:00:00+05:00", 120))
        == "0001-01-01T00:00:00Z"
    )
