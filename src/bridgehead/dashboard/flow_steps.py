"""The steps of a flow as a page shows them: how long each took, and where it lies in the time of the run. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bridgehead.flows.timeline import Step
from bridgehead.host.clock import parse_iso

WHOLE: Final = 100.0
SHORTEST: Final = 0.8
"""Of the bar: what took no time at all is still seen."""

_LOOKS: Final = {
    "completed": "completed",
    "fallback": "high",
    "failed": "failed",
    "pending": "waiting",
    "waiting": "waiting",
    "queued": "low",
}


@dataclass(frozen=True, slots=True)
class ShownStep:
    """A step with its bar: `begin` and `length` in hundredths of the whole run."""

    step: Step
    seconds: float | None
    begin: float
    length: float
    look: str
    """A class of the stylesheet."""

    @property
    def is_open(self) -> bool:
        return self.step.ended is None


def shown_steps(steps: Sequence[Step], now: datetime) -> list[ShownStep]:
    """All of them in order; what has not ended goes on until `now`."""
    times = [_times(step, now) for step in steps]
    known = [one for one in times if one is not None]
    first = min((began for began, _ in known), default=now)
    whole = max((max((ended for _, ended in known), default=now) - first).total_seconds(), 0.001)
    return [_shown(step, one, first, whole) for step, one in zip(steps, times, strict=True)]


def _shown(step: Step, times: tuple[datetime, datetime] | None, first: datetime, whole: float) -> ShownStep:
    look = _LOOKS.get(step.status, "info")
    if times is None:
        return ShownStep(step, None, 0.0, 0.0, look)
    began, ended = times
    seconds = max(0.0, (ended - began).total_seconds())
    length = max(SHORTEST, WHOLE * seconds / whole)
    begin = min(WHOLE * (began - first).total_seconds() / whole, WHOLE - length)
    return ShownStep(step, seconds, round(max(0.0, begin), 2), round(length, 2), look)


def _times(step: Step, now: datetime) -> tuple[datetime, datetime] | None:
    try:
        return parse_iso(step.started), parse_iso(step.ended) if step.ended else now
    except ValueError:
        return None
