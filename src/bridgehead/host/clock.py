"""The time, as an object one can pass in, and the one spelling of a moment on disk and
on the wire.

Every moment is an aware datetime in UTC. `ManualClock` ships for tests: it moves only
when told to.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Protocol

UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))


class Clock(Protocol):
    """What code that needs the time is given."""

    def now(self) -> datetime:
        """Return the moment, aware and in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never run backwards, for measuring and deadlines."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    monotonic = staticmethod(time.monotonic)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class ManualClock:
    """A clock that stands still until `advance` or `sleep` moves it."""

    def __init__(
        self, start: datetime = datetime(2026, 11, 15, 10, 15, 2, 123000, tzinfo=UTC)
    ) -> None:
        self._now = _in_utc(start)
        self._elapsed_seconds = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._elapsed_seconds

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(f"time does not run backwards: {seconds} s")
        self._now += timedelta(seconds=seconds)
        self._elapsed_seconds += seconds


@contextmanager
def time_limit(clock: Clock, seconds: float) -> Iterator[None]:
    """TimeoutError when the block takes longer: at once on the main thread, elsewhere
    when the block has ended.
    """
    until = clock.monotonic() + seconds
    with _alarm(seconds) if isinstance(clock, SystemClock) else nullcontext():
        yield
    if clock.monotonic() > until:
        raise TimeoutError(f"it took longer than {seconds:g} s")


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    import signal

    def ring(_signal: int, _frame: object) -> None:
        raise TimeoutError(f"it took longer than {seconds:g} s")

    try:
        before = signal.signal(signal.SIGALRM, ring)
    except ValueError:  # not the main thread: signals do not reach it
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def iso_ms(moment: datetime) -> str:
    """Spell `moment` as `2026-11-15T10:15:02.123Z`.

    Finer digits are cut, never rounded up.
    """
    return _in_utc(moment).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def rough(seconds: float) -> str:
    """Return `2 min`, `1 h`, `3 d`: a time in the largest unit that says it."""
    for unit, length in UNITS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(max(0, seconds))} s"


def parse_iso(text: str) -> datetime:
    """Read an ISO 8601 moment.

    One without an offset is refused because it names no moment.
    """
    try:
        return _in_utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"not a moment with a time zone: {text!r}") from error


def clamped(moment: datetime, now: datetime) -> datetime:
    """Return `moment`, or `now` if it lies in the future: another clock was ahead, or
    this one has gone back.
    """
    return min(moment, now)


def moment_after(earlier: datetime, now: datetime) -> datetime:
    """Return `now`, or the millisecond after `earlier` if the clock has gone back
    since.
    """
    return max(now, earlier + timedelta(milliseconds=1))


def _in_utc(moment: datetime) -> datetime:
    if moment.utcoffset() is None:
        raise ValueError(f"a moment needs a time zone: {moment.isoformat()}")
    return moment.astimezone(UTC)
