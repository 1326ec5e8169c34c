"""The council's verdict from what survived Stage B (council §14.4). Recomputable from the findings alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from bridgehead.contract.verdict import decide_verdict
from bridgehead.contract.words import (
    Mode,
    OutputType,
    Severity,
    Status,
    TaskType,
    Verdict,
)
from bridgehead.council.findings.problems import (
    distinct_problems,
    join_same_requirement,
)
from bridgehead.council.reporting.report import FindingClass
from bridgehead.council.request.plan import is_judged
from bridgehead.council.synthesis.finding import (
    CouncilFinding,
    as_output,
    gap_requirements,
)

MULTI_HIGH_FAIL_AT: Final = 3
MULTI_GAPS_FAIL_AT: Final = 2
_SERIOUS: Final = frozenset({Severity.CRITICAL, Severity.HIGH})


def council_verdict(
    findings: Sequence[CouncilFinding],
    *,
    task_type: TaskType,
    mode: Mode | None,
    several_seats: bool,
) -> Verdict | None:
    """The verdict on findings that are neither withdrawn nor dismissed; None for runs that are not judged.

    `several_seats`: at least two seats whose word counts completed, and this is no fallback run.
    """
    if not is_judged(task_type, mode):
        return None
    left = [
        finding for finding in findings if finding.cls is not FindingClass.WITHDRAWN
    ]
    if not several_seats:
        return decide_verdict(
            task_type, Status.COMPLETED, distinct_problems(map(as_output, left))
        )
    if _fails(left, task_type):
        return Verdict.FAIL
    return (
        Verdict.CONCERNS
        if any(finding.severity in _SERIOUS for finding in left)
        else Verdict.PASS
    )


def stands(verdict: Verdict | None, missed: Sequence[object]) -> Verdict | None:
    """Return the verdict; None where a PASS would cover what nobody has looked at."""
    if missed and verdict is Verdict.PASS:
        return None
    return verdict


def _fails(left: Sequence[CouncilFinding], task_type: TaskType) -> bool:
    multi = join_same_requirement(
        ([finding] for finding in left if finding.cls is FindingClass.MULTI),
        gap_requirements,
    )
    count = Counter(_highest(group) for group in multi)
    deep = any(
        finding.cls is FindingClass.SINGLE
        and finding.severity is Severity.CRITICAL
        and finding.is_high_depth
        for finding in left
    )
    high_gaps = sum(
        _highest(group) is Severity.HIGH
        and any(one.type is OutputType.COMPLIANCE_GAP for one in group)
        for group in multi
    )
    return (
        count[Severity.CRITICAL] > 0
        or deep
        or count[Severity.HIGH] >= MULTI_HIGH_FAIL_AT
        or (task_type is TaskType.AUDIT and high_gaps >= MULTI_GAPS_FAIL_AT)
    )


def _highest(group: Sequence[CouncilFinding]) -> Severity | None:
    ranked = [finding.severity for finding in group if finding.severity is not None]
    return max(ranked, key=lambda severity: severity.rank, default=None)
