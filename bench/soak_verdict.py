"""Whether a soak was passed: the counts balance and agree with what satellites saw, and memory stays flat. Pure."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

ALLOWED_GROWTH = 1.05
ALLOWED_MIB = 4.0
FEWEST_SAMPLES = 8


@dataclass(frozen=True, slots=True)
class Counted:
    """The bridge's own counts, from its metrics."""

    taken: int
    offered: int
    outcomes: int
    waiting: int
    delivered_out: int


@dataclass(frozen=True, slots=True)
class Verdict:
    lines: tuple[str, ...]
    passed: bool


def counted(metrics: str) -> Counted:
    """Read the counts from the text that `/metrics` serves."""

    def total(name: str, labels: str = "") -> int:
        pattern = rf"^{name}(?:\{{[^}}]*{labels}[^}}]*\}})? ([0-9.e+]+)$"
        return sum(
            int(float(value)) for value in re.findall(pattern, metrics, re.MULTILINE)
        )

    return Counted(
        total("bridgehead_bus_taken_total"),
        total("bridgehead_bus_offered_total"),
        total("bridgehead_bus_messages_total"),
        total("bridgehead_bus_held") + total("bridgehead_bus_queued"),
        total("bridgehead_bus_messages_total", 'direction="out",outcome="delivered"'),
    )


def judge(
    counted: Counted, *, sent: int, received: int, memory: Sequence[float]
) -> Verdict:
    """`sent` and `received` are what satellites counted, `memory` the samples after the warm-up, oldest first."""
    came, ended = counted.taken + counted.offered, counted.outcomes + counted.waiting
    balanced = came == ended and came > 0
    # What was under way when a connection broke is known to the sender alone, so these are bounds.
    plausible = (
        counted.taken <= sent and received <= counted.delivered_out and received > 0
    )
    flat, words = _flatness(memory)
    traffic = f"taken {counted.taken} of {sent} sent, {received} heard of {counted.delivered_out} delivered"
    lines = (
        f"accounted for: {ended} of {came} messages   {_said(balanced)}",
        f"{traffic}   {_said(plausible)}",
        f"{words}   {_said(flat)}",
    )
    return Verdict(lines, balanced and plausible and flat)


def _flatness(memory: Sequence[float]) -> tuple[bool, str]:
    """Compare the first third with the last; medians, so that one moment does not decide."""
    if len(memory) < FEWEST_SAMPLES:
        return False, f"only {len(memory)} samples of memory, which prove nothing"
    third = len(memory) // 3
    before, after = (
        statistics.median(memory[:third]),
        statistics.median(memory[-third:]),
    )
    flat = after <= max(before * ALLOWED_GROWTH, before + ALLOWED_MIB)
    return (
        flat,
        f"memory: {before:.1f} MiB after the warm-up, {after:.1f} MiB at the end",
    )


def _said(fine: bool) -> str:
    return "yes" if fine else "NO"
