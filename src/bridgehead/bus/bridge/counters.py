"""Count what became of messages (B-72, bus §10.6), also for Prometheus.

No payload, ever.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from bridgehead.bus.actions import Outcome

LATENCY_BOUNDS_S: Final = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.5,
    1.0,
    5.0,
    30.0,
)
MAX_PARTICIPANTS: Final = 20_000
BATCH: Final = 256

Kind = tuple[str, str, str]
"""Direction, outcome, and the reason or an empty text."""

Counted = tuple[str, str, str, str | None, float]
"""Participant, direction, outcome, reason, and the seconds a message waited."""


class Histogram:
    """How often a duration fell into which range."""

    def __init__(self) -> None:
        self._counts = [0] * (len(LATENCY_BOUNDS_S) + 1)
        self._sum = 0.0

    def note(self, seconds: float, times: int = 1) -> None:
        self._counts[bisect_left(LATENCY_BOUNDS_S, seconds)] += times
        self._sum += seconds * times

    def lines(self, name: str) -> Iterator[str]:
        yield f"# TYPE {name} histogram"
        total = 0
        for bound, count in zip(
            (*map(str, LATENCY_BOUNDS_S), "+Inf"), self._counts, strict=True
        ):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self._sum:.6f}"
        yield f"{name}_count {total}"


class OutcomeCounters:
    """The counters of one bridge.

    Outcomes are collected and added up many at a time; whoever reads finds all of them.
    """

    def __init__(self) -> None:
        self.noted: list[Counted] = []
        """Outcomes not added up yet; whoever notes them calls `add_up` at `BATCH`."""
        self._outcomes: Counter[Kind] = Counter()
        self._by_participant: dict[str, Counter[Kind]] = {}
        self.hub_ignored: Counter[str] = Counter()
        self._to_bus = Histogram()
        self._to_participant = Histogram()

    def count(self, outcome: Outcome) -> None:
        self.noted.append(
            (
                outcome.participant,
                outcome.direction,
                outcome.outcome,
                outcome.reason,
                outcome.waited_s,
            )
        )

    def add_up(self) -> None:
        # Most outcomes are alike and did not wait, so few are left once equal ones are
        # counted.
        equal = Counter(self.noted)
        self.noted.clear()
        for noted, times in equal.items():
            participant_id, direction, outcome, reason, waited_s = noted
            kind = (direction, outcome, reason or "")
            self._outcomes[kind] += times
            self._counter_of(participant_id)[kind] += times
            if outcome == "delivered":
                latency = self._to_bus if direction == "in" else self._to_participant
                latency.note(waited_s, times)

    def _counter_of(self, participant_id: str) -> Counter[Kind]:
        own = self._by_participant.get(participant_id)
        if own is None:
            while len(self._by_participant) >= MAX_PARTICIPANTS:
                del self._by_participant[next(iter(self._by_participant))]
            own = self._by_participant[participant_id] = Counter()
        return own

    @property
    def outcomes(self) -> Counter[Kind]:
        """Return how often each (direction, outcome, reason) ended a message."""
        self.add_up()
        return self._outcomes

    @property
    def total(self) -> int:
        return sum(self.outcomes.values())

    def of(self, participant_id: str) -> Counter[str]:
        """Return the outcomes of one participant, by direction, outcome and reason."""
        self.add_up()
        named: Counter[str] = Counter()
        own = self._by_participant.get(participant_id, Counter())
        for (direction, outcome, reason), count in own.items():
            name = f"{direction} {outcome}"
            if reason:
                name += f":{reason}"
            named[name] = count
        return named

    def forget(self, participant_id: str) -> None:
        self.add_up()
        self._by_participant.pop(participant_id, None)

    def prometheus(self, figures: Iterable[tuple[str, str, int]] = ()) -> str:
        """Return all counters as text; `figures` are (name, meaning, value) of now."""
        named = {
            f'direction="{way}",outcome="{end}",reason="{why}"': n
            for (way, end, why), n in self.outcomes.items()
        }
        lines = counter_lines(
            "bridgehead_bus_messages_total", "What became of messages.", named
        )
        ignored = {
            f'reason="{reason}"': count for reason, count in self.hub_ignored.items()
        }
        lines += counter_lines(
            "bridgehead_bus_hub_ignored_total",
            "Hub messages that took no part.",
            ignored,
        )
        lines += self._to_bus.lines("bridgehead_bus_to_bus_seconds")
        lines += self._to_participant.lines("bridgehead_bus_to_participant_seconds")
        for name, meaning, value in figures:
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [
                f"# HELP {name} {meaning}",
                f"# TYPE {name} {kind}",
                f"{name} {value}",
            ]
        return "\n".join(lines) + "\n"


def counter_lines(name: str, meaning: str, counts: dict[str, int]) -> list[str]:
    """Return the lines of a counter with its labels as Prometheus reads them."""
    counted = (
        f"{name}{{{labels}}} {count}" for labels, count in sorted(counts.items())
    )
    return [f"# HELP {name} {meaning}", f"# TYPE {name} counter", *counted]
