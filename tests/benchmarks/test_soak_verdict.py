"""The verdict of the soak can be no as well as yes."""

from __future__ import annotations

import pytest

from bench.soak_verdict import Counted, counted, judge
from bridgehead.bus.actions import Outcome
from bridgehead.bus.bridge.counters import OutcomeCounters

COUNTED = Counted(taken=100, offered=50, outcomes=148, waiting=2, delivered_out=40)
FLAT = [60.0, 61.0, 60.5] * 10


def test_books_that_balance_and_flat_memory_pass() -> None:
    assert judge(COUNTED, sent=120, received=40, memory=FLAT).passed


@pytest.mark.parametrize(
    ("counted", "sent", "received", "memory"),
    [
        (Counted(100, 50, 147, 2, 40), 120, 40, FLAT),  # one message has no outcome
        (Counted(100, 50, 149, 2, 40), 120, 40, FLAT),  # one has two
        (Counted(0, 0, 0, 0, 0), 120, 0, FLAT),  # nothing happened at all
        (COUNTED, 99, 40, FLAT),  # more was taken than anybody sent
        (COUNTED, 120, 41, FLAT),  # more was received than was delivered
        (COUNTED, 120, 40, [60.0 + sample / 5 for sample in range(60)]),  # it grows
        (COUNTED, 120, 40, FLAT[:4]),  # nobody looked
    ],
)
def test_anything_else_does_not(
    counted: Counted, sent: int, received: int, memory: list[float]
) -> None:
    verdict = judge(counted, sent=sent, received=received, memory=memory)
    assert not verdict.passed
    assert sum(line.endswith("NO") for line in verdict.lines) == 1 + (
        counted.taken == 0
    )


def test_the_books_are_read_from_what_the_bridge_serves() -> None:
    ledger = OutcomeCounters()
    for outcome in (
        Outcome("a", "in", "t", "delivered"),
        Outcome("a", "out", "t", "delivered"),
        Outcome("b", "out", "t", "delivered"),
        Outcome("b", "out", "t", "dropped", "echo"),
    ):
        ledger.count(outcome)
    gauges = [
        ("bridgehead_bus_taken_total", "", 1),
        ("bridgehead_bus_offered_total", "", 12_345_678),
    ]
    gauges += [("bridgehead_bus_held", "", 1), ("bridgehead_bus_queued", "", 1)]

    assert counted(ledger.prometheus(gauges)) == Counted(1, 12_345_678, 4, 2, 2)
