"""A gate speaks about what wants to pass: this state, this scope, a council that ended, the seats one asks for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridgehead.contract.words import OutputType, Severity, Verdict
from bridgehead.council.reporting.gate import Gate, GateDemands, GatedState, objections
from bridgehead.council.reporting.report import CouncilReport, FindingClass
from council.support.finding_entries import finding_entry
from council.test_council import Council, finds, ready, skipped

SEEN = {"src/app.py": "d1", "src/db.py": "d2", "logo.png": ""}
SAME = GatedState(
    "commit HEAD",
    {"src/app.py": "d1", "src/db.py": "d2", "logo.png": "d3", "other.py": "d4"},
)


def report(**changes: Any) -> CouncilReport:
    seats = {
        "claude": ready("claude"),
        "codex": ready("codex"),
        "gemini": skipped("gemini", "cli_not_found"),
    }
    made = Council(seats, finds()).drive().report
    return msgspec.structs.replace(
        made, reviewed=SEEN, gate_verdict=Verdict.PASS, **changes
    )


def refused(
    made: CouncilReport,
    *states: GatedState,
    level: Gate = Gate.FAIL,
    seats: int = 0,
    runtimes: tuple[str, ...] = (),
) -> list[str]:
    return list(objections(made, GateDemands(level, seats, runtimes), states))


def test_a_report_about_this_state_passes() -> None:
    assert refused(report(), SAME, seats=2, runtimes=("claude", "codex")) == []


def test_a_report_of_another_state_is_refused_and_what_nobody_may_see_is_not_compared() -> (
    None
):
    edited = GatedState(
        "commit HEAD", {**SAME.digests, "src/app.py": "changed", "logo.png": "changed"}
    )
    gone = GatedState("commit HEAD", {"src/app.py": "d1"})

    assert refused(report(), edited) == [
        "it is about another state than commit HEAD: src/app.py"
    ]
    assert refused(report(), gone) == [
        "it is about another state than commit HEAD: src/db.py"
    ]
    assert refused(report(), edited, SAME) == []  # the index may be what was reviewed


def test_a_report_that_looked_at_less_than_the_change_is_refused() -> None:
    wider = GatedState(
        "commit HEAD",
        SAME.digests,
        ("src/app.py", "other.py", "logo.png", "deleted.py"),
    )

    assert refused(report(), wider) == [
        "it did not look at what commit HEAD changes: other.py"
    ]


@pytest.mark.parametrize(
    ("made", "options", "says"),
    [
        (
            {"warnings": ("interrupted:SIGINT",)},
            {},
            "the council was stopped before its end",
        ),
        ({}, {"seats": 3}, "2 seats completed; 3 required"),
        (
            {},
            {"runtimes": ("codex", "gemini")},
            "gemini did not take part and is required",
        ),
    ],
)
def test_what_else_a_gate_refuses(
    made: dict[str, Any], options: dict[str, Any], says: str
) -> None:
    assert refused(report(**made), SAME, **options) == [says]


def test_the_verdict_is_the_last_word() -> None:
    made = msgspec.structs.replace(report(), gate_verdict=Verdict.CONCERNS)

    assert refused(made, SAME) == []
    assert refused(made, SAME, level=Gate.CONCERNS) == ["the verdict is CONCERNS"]


def concerned(probability: float | None) -> CouncilReport:
    entry = finding_entry(
        id="SS001",
        cls=FindingClass.SINGLE,
        type=OutputType.FINDING,
        severity=Severity.HIGH,
        title="",
        description="",
        domains=(),
        fingerprint="",
        probability=probability,
    )
    return msgspec.structs.replace(
        report(), gate_verdict=Verdict.CONCERNS, single_source_findings=(entry,)
    )


def refused_below(made: CouncilReport, least: float) -> list[str]:
    demands = GateDemands(Gate.CONCERNS, min_probability=least)
    return list(objections(made, demands, [SAME]))


def test_a_verdict_refuses_only_if_a_finding_likely_enough_stands_behind_it() -> None:
    made = concerned(0.3)

    assert refused_below(made, 0.0) == ["the verdict is CONCERNS"]
    assert refused_below(made, 0.3) == ["the verdict is CONCERNS"]
    assert refused_below(made, 0.31) == []


def test_a_finding_of_an_older_report_without_a_probability_counts_as_certain() -> None:
    assert refused_below(concerned(None), 0.99) == ["the verdict is CONCERNS"]
