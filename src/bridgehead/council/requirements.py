"""What became of each requirement of an audit: unmet, disputed, met, or not mentioned by anybody. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bridgehead.contract.task import Requirement
from bridgehead.contract.words import OutputState
from bridgehead.council.joint import SeatReport
from bridgehead.council.report import FindingEntry, RequirementEntry

UNMET, DISPUTED, MET, NOT_MENTIONED = "unmet", "disputed", "met", "not_mentioned"


def told_requirements(
    requirements: Sequence[Requirement], seats: Iterable[SeatReport], standing: Sequence[FindingEntry]
) -> tuple[RequirementEntry, ...]:
    """One entry per requirement, in the order of the audit."""
    said: dict[str, set[bool]] = {}
    for seat in seats:
        for output in seat.report.outputs:
            if isinstance(output.requirement_id, str) and output.status is not OutputState.WITHDRAWN:
                said.setdefault(output.requirement_id, set()).add(output.met is True)
    return tuple(
        RequirementEntry(
            id=one.id,
            level=one.level.value,
            text=one.text,
            state=_state(said.get(one.id, set())),
            findings=tuple(entry.id for entry in standing if entry.requirement_id == one.id),
        )
        for one in requirements
    )


def _state(said: set[bool]) -> str:
    if not said:
        return NOT_MENTIONED
    if len(said) > 1:
        return DISPUTED
    return MET if True in said else UNMET
