"""The table of verdicts, cell by cell (council §11.1)."""

from __future__ import annotations

import pytest

from bridgehead.contract.verdict import Counted, decide_verdict
from bridgehead.contract.words import Severity, Status, TaskType, Verdict

PASS, CONCERNS, FAIL = Verdict.PASS, Verdict.CONCERNS, Verdict.FAIL
LETTERS = dict(zip("CHMLI", reversed(list(Severity)), strict=True))


def counted(letters: str, *, gap: bool = False) -> list[Counted]:
    return [
        Counted((f"C{n:03}",), LETTERS[letter], gap) for n, letter in enumerate(letters)
    ]


@pytest.mark.parametrize(
    ("problems", "review", "audit_of_gaps"),
    [
        ("", PASS, PASS),
        ("I", PASS, PASS),
        ("LLLL", PASS, PASS),
        ("M", PASS, PASS),
        ("MM", PASS, PASS),
        ("MMM", CONCERNS, CONCERNS),
        ("MMMM", CONCERNS, CONCERNS),
        ("H", CONCERNS, CONCERNS),
        ("HH", CONCERNS, FAIL),
        ("HHH", CONCERNS, FAIL),
        ("HM", CONCERNS, CONCERNS),
        ("C", FAIL, FAIL),
        ("CHMLI", FAIL, FAIL),
        ("CC", FAIL, FAIL),
    ],
)
def test_what_counts_decides(
    problems: str, review: Verdict, audit_of_gaps: Verdict
) -> None:
    gaps = counted(problems, gap=True)
    for task_type in (TaskType.REVIEW, TaskType.ANALYSIS):
        assert decide_verdict(task_type, Status.COMPLETED, counted(problems)) is review
        assert decide_verdict(task_type, Status.COMPLETED, gaps) is review
    assert decide_verdict(TaskType.AUDIT, Status.COMPLETED, counted(problems)) is review
    assert decide_verdict(TaskType.AUDIT, Status.COMPLETED, gaps) is audit_of_gaps


def test_an_audit_counts_gaps_apart_from_the_rest() -> None:
    mixed = [*counted("H"), *counted("H", gap=True)]
    assert decide_verdict(TaskType.AUDIT, Status.COMPLETED, mixed) is CONCERNS
    assert (
        decide_verdict(
            TaskType.AUDIT, Status.COMPLETED, [*counted("C"), *counted("L", gap=True)]
        )
        is FAIL
    )


@pytest.mark.parametrize(
    "status", [status for status in Status if status is not Status.COMPLETED]
)
@pytest.mark.parametrize("task_type", TaskType)
def test_what_was_not_completed_is_not_judged(
    status: Status, task_type: TaskType
) -> None:
    assert decide_verdict(task_type, status, counted("C")) is None


@pytest.mark.parametrize(
    "task_type", [TaskType.PLANNING, TaskType.IMPLEMENTATION, TaskType.RESEARCH]
)
def test_what_is_no_judgement_has_no_verdict(task_type: TaskType) -> None:
    assert decide_verdict(task_type, Status.COMPLETED, counted("C")) is None
