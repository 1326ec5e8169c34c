"""Decide the verdict of a report from what counts in it (council §11.1).

Pure: the same problems always give the same verdict. `counted` (duplicates joined,
withdrawn ones gone) is made by council/findings/problems.py; by the time it arrives
here everything in it counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from bridgehead.contract.words import Severity, Status, TaskType, Verdict

JUDGED_TASKS: Final = frozenset({TaskType.REVIEW, TaskType.ANALYSIS, TaskType.AUDIT})

MEDIUM_CONCERNS_AT: Final = 3
HIGH_GAPS_FAIL_AT: Final = 2


class Counted(msgspec.Struct, frozen=True):
    """One problem: the outputs that describe it, its highest severity, and whether a
    requirement is unmet.
    """

    ids: tuple[str, ...]
    severity: Severity
    gap: bool


def decide_verdict(
    task_type: TaskType, status: Status, counted: Sequence[Counted]
) -> Verdict | None:
    """Return the verdict, or None for reports that are not judged."""
    if status is not Status.COMPLETED or task_type not in JUDGED_TASKS:
        return None
    reviewed = _by_severity(counted, high_fails_at=None)
    if task_type is not TaskType.AUDIT:
        return reviewed
    # An audit is as strict as the review table, and stricter about unmet requirements
    # (K18, K19).
    audited = _by_severity(
        [problem for problem in counted if problem.gap], high_fails_at=HIGH_GAPS_FAIL_AT
    )
    return max(reviewed, audited, key=lambda verdict: verdict.rank)


def _by_severity(counted: Sequence[Counted], *, high_fails_at: int | None) -> Verdict:
    count = Counter(problem.severity for problem in counted)
    if count[Severity.CRITICAL]:
        return Verdict.FAIL
    if high_fails_at is not None and count[Severity.HIGH] >= high_fails_at:
        return Verdict.FAIL
    if count[Severity.HIGH] or count[Severity.MEDIUM] >= MEDIUM_CONCERNS_AT:
        return Verdict.CONCERNS
    return Verdict.PASS
