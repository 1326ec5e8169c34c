"""Who is at work in this process: seats that were taken, calls under way, bridges still being looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import anyio

from bridgehead.contract.words import ErrorClass
from bridgehead.council.calls import Call, CallKey, SeatEvent, Step
from bridgehead.council.council_run import COUNCIL_LOG
from bridgehead.council.preflight import Ready
from bridgehead.council.runtimes.exchange import Outcome, Refused

PROGRESS: Final = "progress"
# These shut a seat out before it began: another connection may do, or a person must act (council §4.1, §19).
_SHUT_OUT: Final = (ErrorClass.AUTH, ErrorClass.RETIRED)


@dataclass
class Seated:
    """A bridge while it sits."""

    ready: Ready
    places: anyio.CapacityLimiter
    deadline: anyio.CancelScope
    was_heard: bool = False
    shut_out: bool = False

    @property
    def bridge(self) -> str:
        return self.ready.seat.bridge


@dataclass
class Running:
    """A call under way."""

    call: Call
    scope: anyio.CancelScope
    since: float


@dataclass
class AtWork:
    checking: dict[str, None] = field(default_factory=dict)
    """Bridges in pre-flight, and the static seat while it analyses, in the order they began."""
    seated: dict[str, Seated] = field(default_factory=dict)
    running: dict[CallKey, Running] = field(default_factory=dict)

    def calls_of(self, bridge: str) -> list[Running]:
        return [running for running in self.running.values() if running.call.key.bridge == bridge]

    def progress(self, now: float) -> Iterator[SeatEvent]:
        """A line per live seat. One that is still being looked at has no log yet; the council speaks for it."""
        if self.checking:
            yield SeatEvent(COUNCIL_LOG, PROGRESS, {"looking_at": list(self.checking)})
        oldest: dict[str, Running] = {}
        for running in self.running.values():
            oldest.setdefault(running.call.key.bridge, running)
        for bridge, running in oldest.items():
            key, elapsed = running.call.key, round(now - running.since, 1)
            facts = {"round": key.round, "role": key.role.value, "elapsed_s": elapsed}
            yield SeatEvent(bridge, PROGRESS, facts)


def shut_out(call: Call, seated: Seated, outcome: Outcome) -> Refused | None:
    """The refusal that ends a seat before anybody of it was heard."""
    if isinstance(outcome, Refused) and outcome.error_class in _SHUT_OUT:
        return None if seated.was_heard or call.key.step is Step.STAGE_B else outcome
    return None
