"""The verdict of several seats, cell by cell (council §14.4)."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.contract.words import Mode, OutputType, Severity, TaskType, Verdict
from bridgehead.council.reporting.report import FindingClass
from bridgehead.council.synthesis.finding import CouncilFinding, Source
from bridgehead.council.synthesis.verdict import council_verdict
from council.synthesis.test_synthesis import output, seat_report

PASS, CONCERNS, FAIL = Verdict.PASS, Verdict.CONCERNS, Verdict.FAIL
MULTI, SINGLE, DISPUTED, WITHDRAWN = (
    FindingClass.MULTI,
    FindingClass.SINGLE,
    FindingClass.DISPUTED,
    FindingClass.WITHDRAWN,
)
LETTERS: dict[str, Severity | None] = {
    **dict(zip("CHMLI", reversed(list(Severity)), strict=True)),
    "-": None,
}


def finding(
    letter: str, cls: FindingClass = MULTI, *, deep: bool = False, **fields: Any
) -> CouncilFinding:
    values = {"type": OutputType.FINDING, "domains": ("security",), **fields}
    made = output(
        1,
        "C",
        ("t", LETTERS[letter], values["type"], fields.get("requirement_id"), False),
    )
    seat = seat_report(
        "claude", [made], connection_used="native-dispatch" if deep else "cli"
    )
    return CouncilFinding(
        cls=cls,
        severity=LETTERS[letter],
        title="t",
        description="d",
        evidence=None,
        action=None,
        sources=(Source(seat, made),),
        **values,
    )


def gap(letter: str, requirement: str) -> CouncilFinding:
    return finding(letter, type=OutputType.COMPLIANCE_GAP, requirement_id=requirement)


def verdict(
    *findings: CouncilFinding, task_type: TaskType = TaskType.REVIEW, **given: Any
) -> Verdict | None:
    return council_verdict(
        findings, task_type=task_type, **{"mode": None, "several_seats": True, **given}
    )


@pytest.mark.parametrize(
    ("letters", "multi", "single"),
    [
        ("", PASS, PASS),
        ("-", PASS, PASS),
        ("IL", PASS, PASS),
        ("MMMM", PASS, PASS),
        ("H", CONCERNS, CONCERNS),
        ("HH", CONCERNS, CONCERNS),
        ("HHH", FAIL, CONCERNS),
        ("HHHH", FAIL, CONCERNS),
        ("C", FAIL, CONCERNS),
        ("CC", FAIL, CONCERNS),
        ("CM-", FAIL, CONCERNS),
    ],
)
def test_what_several_seats_found_weighs_more(
    letters: str, multi: Verdict, single: Verdict
) -> None:
    assert verdict(*(finding(letter, MULTI) for letter in letters)) is multi
    assert verdict(*(finding(letter, SINGLE) for letter in letters)) is single
    assert verdict(*(finding(letter, DISPUTED) for letter in letters)) is single
    assert verdict(*(finding(letter, WITHDRAWN) for letter in letters)) is PASS


def test_a_critical_finding_found_in_depth_fails_alone() -> None:
    assert verdict(finding("C", SINGLE, deep=True)) is FAIL
    assert verdict(finding("H", SINGLE, deep=True)) is CONCERNS
    assert verdict(finding("C", DISPUTED, deep=True)) is CONCERNS
    assert verdict(finding("C", WITHDRAWN, deep=True)) is PASS


@pytest.mark.parametrize(
    ("gaps", "audit", "review"),
    [
        ([("H", "R-1")], CONCERNS, CONCERNS),
        ([("H", "R-1"), ("H", "R-1")], CONCERNS, CONCERNS),
        ([("H", "R-1"), ("H", "R-2")], FAIL, CONCERNS),
        ([("H", "R-1"), ("H", "R-2"), ("H", "R-3")], FAIL, FAIL),
        ([("H", "R-1"), ("H", "R-1"), ("H", "R-1")], CONCERNS, CONCERNS),
        ([("H", "R-1"), ("M", "R-2")], CONCERNS, CONCERNS),
        ([("M", "R-1"), ("M", "R-2")], PASS, PASS),
        ([("M", "R-1"), ("H", "R-1"), ("H", "R-2")], FAIL, CONCERNS),
    ],
)
def test_an_audit_counts_unmet_requirements_once(
    gaps: list[tuple[str, str]], audit: Verdict, review: Verdict
) -> None:
    found = [gap(*one) for one in gaps]
    assert verdict(*found, task_type=TaskType.AUDIT) is audit
    for task_type in (TaskType.REVIEW, TaskType.ANALYSIS):
        assert verdict(*found, task_type=task_type) is review


def test_problems_that_are_no_gaps_do_not_count_as_ones() -> None:
    assert verdict(finding("H"), finding("H"), task_type=TaskType.AUDIT) is CONCERNS
    assert verdict(finding("H"), gap("H", "R-1"), task_type=TaskType.AUDIT) is CONCERNS


def test_one_seat_alone_is_judged_as_a_seat() -> None:
    three = [finding("M", cls) for cls in (MULTI, SINGLE, DISPUTED)]
    assert verdict(finding("C", SINGLE), several_seats=False) is FAIL
    assert verdict(finding("H", SINGLE), several_seats=False) is CONCERNS
    assert verdict(finding("C", WITHDRAWN), several_seats=False) is PASS
    assert verdict(*three, several_seats=True) is PASS


@pytest.mark.parametrize(
    "given",
    [
        {"task_type": TaskType.PLANNING},
        {"mode": Mode.BRAINSTORM},
        {"mode": Mode.DESIGN},
    ],
)
def test_what_is_not_judged_has_no_verdict(given: dict[str, Any]) -> None:
    assert verdict(finding("C"), **given) is None
    assert verdict(finding("C"), several_seats=False, **given) is None
