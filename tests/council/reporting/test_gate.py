"""A gate speaks about what wants to pass: this state, this scope, a council that ended, the seats one asks for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridgehead.contract.looks import Unlooked, not_looked
from bridgehead.contract.words import OutputType, Severity, Verdict
from bridgehead.council.reporting.gate import (
    BegunCouncil,
    Gate,
    GateDecision,
    GateDemands,
    GatedState,
    coverage_refusals,
    decide_gate,
    refuse_unfinished,
)
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
    return list(
        decided(made, *states, level=level, seats=seats, runtimes=runtimes).refusals
    )


def decided(
    made: CouncilReport,
    *states: GatedState,
    level: Gate = Gate.FAIL,
    seats: int = 0,
    runtimes: tuple[str, ...] = (),
) -> GateDecision:
    return decide_gate(made, GateDemands(level, seats, runtimes), states)


@pytest.mark.parametrize(
    ("missing", "incomplete", "unread_passes", "shut"),
    [
        ((), False, False, False),
        ((), True, False, True),
        ((), True, True, False),
        (("codex",), True, True, True),
    ],
)
def test_only_files_that_were_not_looked_at_can_be_let_pass(
    missing: tuple[str, ...], incomplete: bool, unread_passes: bool, shut: bool
) -> None:
    unread = not_looked("", "a.kt", Unlooked.NOBODY_ABLE)
    made = report(
        required_missing=missing,
        incomplete=incomplete,
        not_looked_at=(unread,) if incomplete else (),
    )

    demands = GateDemands(unread_passes=unread_passes)
    assert any(coverage_refusals(made, demands)) is shut
    allowed = GateDemands(unread_passes=unread_passes, allow_incomplete="read by Ada")
    assert any(coverage_refusals(made, allowed)) is bool(missing)


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
        "it did not look at what commit HEAD changes: other.py, deleted.py"
    ]


def test_a_removal_counts_as_seen_in_the_change_or_with_its_whole_folder() -> None:
    fewer = GatedState("commit HEAD", SAME.digests, ("lib/deleted.py",))

    assert refused(report(), fewer) != []
    assert refused(report(removed=("lib/deleted.py",)), fewer) == []
    assert refused(report(scope_paths=("lib",)), fewer) == []
    assert refused(report(scope_paths=("li",)), fewer) != []
    back = GatedState(
        "commit HEAD", {**SAME.digests, "lib/deleted.py": ""}, ("lib/deleted.py",)
    )
    assert refused(report(removed=("lib/deleted.py",)), back) != []


def test_only_the_letters_of_its_own_threads_need_not_be_seen() -> None:
    made = report(envelope_folders=("threads",))
    paths = ("threads/001.md", "threads/evil.py", "threads.md", "other/002.md")
    state = GatedState("commit HEAD", SAME.digests | dict.fromkeys(paths, ""), paths)

    assert refused(made, state) == [
        "it did not look at what commit HEAD changes: threads/evil.py, threads.md, other/002.md"
    ]


def test_a_decision_names_what_it_speaks_for_and_what_to_do_next() -> None:
    base = "0123456789abcdef"
    other = GatedState("the index", {}, commit="c2")
    state = msgspec.structs.replace(report(), base_commit=base)

    passed = decided(state, other, GatedState("commit HEAD", SAME.digests, commit="c1"))
    refused_now = decided(state, other)
    whole = decided(report(scope_paths=(".",)), other)
    failed = decided(report(), SAME, seats=9)

    assert (passed.state, passed.commit, passed.next_step) == (
        "commit HEAD",
        "c1",
        None,
    )
    assert passed.passed
    assert passed.scope == state.scope
    assert refused_now.next_step == "bridgehead council review --diff 0123456789ab"
    assert whole.next_step == "bridgehead council review ."
    assert failed.next_step == f"bridgehead council show {state.review_id}"


def test_a_state_that_nobody_can_compare_is_refused() -> None:
    lost = GatedState("commit HEAD", SAME.digests, problem="commit x is not here")

    assert refused(report(), lost) == ["commit x is not here"]


@pytest.mark.parametrize(
    ("council", "says"),
    [
        (BegunCouncil("k1"), "council k1 was begun and has not ended"),
        (BegunCouncil("k1", failure="OSError"), "council k1 broke off: OSError"),
        (BegunCouncil("k1", waiting_for=("a", "b")), "council k1 waits for a, b"),
    ],
)
def test_a_council_without_a_result_is_refused_and_says_how_it_goes_on(
    council: BegunCouncil, says: str
) -> None:
    decision = refuse_unfinished(council, Gate.FAIL, SAME, "src")

    assert (decision.refusals, decision.passed) == ((says,), False)
    assert "council resume k1" in (decision.next_step or "")


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
    return list(decide_gate(made, demands, [SAME]).refusals)


def test_a_verdict_refuses_only_if_a_finding_likely_enough_stands_behind_it() -> None:
    made = concerned(0.3)

    assert refused_below(made, 0.0) == ["the verdict is CONCERNS"]
    assert refused_below(made, 0.3) == ["the verdict is CONCERNS"]
    assert refused_below(made, 0.31) == []


def test_a_finding_of_an_older_report_without_a_probability_counts_as_certain() -> None:
    assert refused_below(concerned(None), 0.99) == ["the verdict is CONCERNS"]
