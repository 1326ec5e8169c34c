"""What a verdict counts: problems, not items (council §11.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from bridgehead.contract.ids import id_sort_key
from bridgehead.contract.report import Output
from bridgehead.contract.verdict import Counted
from bridgehead.contract.words import OutputState, OutputType, Severity
from bridgehead.council.findings.joining import Comment, join

_Member = TypeVar("_Member")


def distinct_problems(outputs: Iterable[Output]) -> list[Counted]:
    """The distinct problems in `outputs`: same problem in other words or domains counts once, withdrawn ones not."""
    live = [
        Comment.of(output)
        for output in outputs
        if output.status is not OutputState.WITHDRAWN and output.severity is not None
    ]
    groups = [list(found.members) for found in join(live, same_domain=False)]
    problems = [
        _problem(group) for group in join_same_requirement(groups, _gap_requirements)
    ]
    return sorted(
        problems,
        key=lambda problem: (-problem.severity.rank, id_sort_key(problem.ids[0])),
    )


def join_same_requirement(
    groups: Iterable[list[_Member]], gaps_of: Callable[[list[_Member]], set[str]]
) -> list[list[_Member]]:
    """Join groups that hold compliance gaps on the same requirement, transitively; `gaps_of` names the requirements."""
    joined: list[list[_Member]] = []
    for group in groups:
        wanted = gaps_of(group)
        related = (
            [other for other in joined if wanted & gaps_of(other)] if wanted else []
        )
        joined = [other for other in joined if other not in related]
        joined.append([*(member for other in related for member in other), *group])
    return joined


def _gap_requirements(group: list[Comment]) -> set[str]:
    return {
        candidate.requirement_id
        for candidate in group
        if candidate.type is OutputType.COMPLIANCE_GAP and candidate.requirement_id
    }


def _problem(group: list[Comment]) -> Counted:
    rated: list[Severity] = [
        candidate.severity for candidate in group if candidate.severity is not None
    ]
    return Counted(
        ids=tuple(sorted((candidate.id for candidate in group), key=id_sort_key)),
        severity=max(rated, key=lambda severity: severity.rank),
        gap=any(candidate.type is OutputType.COMPLIANCE_GAP for candidate in group),
    )
