"""Which runtime conducts Stage B: one that did not find most of what it is to judge (council §14.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from bridgehead.council.calls import Seat
from bridgehead.council.joint import JointFinding

PREFERENCE: Final = ("claude", "codex", "gemini", "opencode", "openai")


def choose_coordinator(
    seats: Mapping[str, Seat], findings: Sequence[JointFinding], wanted: str | None
) -> Seat | None:
    """`seats` are the COMPLETED ones that can be asked; static and rigs are never among them."""
    if not seats:
        return None
    if wanted is not None and wanted in seats:
        return seats[wanted]
    majority = _majority_family(findings)
    ordered = sorted(seats.values(), key=lambda seat: _place(seat.bridge))
    return next((seat for seat in ordered if seat.model_family != majority), ordered[0])


def _majority_family(findings: Sequence[JointFinding]) -> str | None:
    """The family behind most findings; the first on ties."""
    counts = Counter(
        source.seat.report.model_family
        for finding in findings
        for source in {source.bridge: source for source in finding.sources}.values()
        if source.families
    )
    return counts.most_common(1)[0][0] if counts else None


def _place(bridge: str) -> tuple[int, str]:
    return (PREFERENCE.index(bridge) if bridge in PREFERENCE else len(PREFERENCE)), bridge
