"""Moments are aware, in UTC, and spelled one way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.host.clock import (
    Clock,
    ManualClock,
    SystemClock,
    clamped,
    iso_ms,
    moment_after,
    parse_iso,
)

MOMENT = datetime(2026, 11, 15, 10, 15, 2, 123000, tzinfo=UTC)


def test_the_system_clock_gives_aware_utc_moments_and_monotonic_seconds() -> None:
    clock: Clock = SystemClock()
    first = clock.monotonic()
    clock.sleep(0)
    assert clock.now().utcoffset() == timedelta(0)
    assert clock.monotonic() >= first


def test_a_manual_clock_moves_only_when_told_to() -> None:
    clock: Clock = ManualClock(MOMENT)
    assert (clock.now(), clock.monotonic()) == (MOMENT, 0.0)
    clock.sleep(90)
    assert (clock.now(), clock.monotonic()) == (MOMENT + timedelta(seconds=90), 90.0)


def test_a_manual_clock_refuses_to_run_backwards() -> None:
    clock = ManualClock(MOMENT)
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)
    assert clock.now() == MOMENT


@pytest.mark.parametrize(
    ("moment", "spelled"),
    [
        (MOMENT, "2026-11-15T10:15:02.123Z"),
        (MOMENT.replace(microsecond=0), "2026-11-15T10:15:02.000Z"),
        (MOMENT.replace(microsecond=999999), "2026-11-15T10:15:02.999Z"),
        (
            datetime(2026, 11, 15, 12, 15, 2, tzinfo=timezone(timedelta(hours=2))),
            "2026-11-15T10:15:02.000Z",
        ),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000Z"),
    ],
)
def test_a_moment_is_spelled_in_utc_with_three_digits(
    moment: datetime, spelled: str
) -> None:
    assert iso_ms(moment) == spelled


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-15T10:15:02.123Z",
        "2026-11-15T11:15:02.123+01:00",
        "2026-11-15T10:15:02.123000+00:00",
    ],
)
def test_the_same_moment_is_read_from_every_offset(text: str) -> None:
    assert parse_iso(text) == MOMENT
    assert parse_iso(text).utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-11-15",
        "2026-11-15T10:15:02",
        "2026-13-01T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
    ],
)
def test_text_that_names_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a moment with a time zone"):
        parse_iso(text)


def test_a_naive_datetime_is_refused_everywhere() -> None:
    naive = datetime(2026, 11, 15)
    with pytest.raises(ValueError, match="needs a time zone"):
        iso_ms(naive)
    with pytest.raises(ValueError, match="needs a time zone"):
        ManualClock(naive)


@given(st.datetimes(timezones=st.just(UTC)))
def test_property_what_is_written_is_read_back_to_the_millisecond(
    moment: datetime,
) -> None:
    cut = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    assert parse_iso(iso_ms(moment)) == cut


def test_a_moment_from_another_clock_is_never_in_the_future() -> None:
    now = ManualClock().now()
    second = timedelta(seconds=1)

    assert clamped(now + second, now) == now
    assert clamped(now - second, now) == now - second


def test_what_follows_is_later_even_if_the_clock_has_gone_back() -> None:
    now = ManualClock().now()
    second = timedelta(seconds=1)

    assert moment_after(now - second, now) == now
    assert moment_after(now, now) > now
    assert moment_after(now + second, now) > now + second
