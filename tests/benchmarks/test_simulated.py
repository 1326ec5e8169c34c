"""Simulated reviewers find, miss and invent as often as they are set to, and alike for one seed."""

from __future__ import annotations

import datetime as dt
from statistics import mean

import anyio

from bench.simulated import SimulatedConnection, Site, Skill, Telling
from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import CapabilityProfile, Severity
from bridgehead.council.calls import Answer, Call, CallKey, Role, Step
from bridgehead.council.council import CouncilRun
from bridgehead.council.findings.tree import Tree
from bridgehead.council.interfaces import RunInputs
from bridgehead.council.reporting.report import CouncilReport
from bridgehead.council.request.domains import load_registry
from bridgehead.council.request.plan import CouncilPlan
from bridgehead.council.running.conductor import Means, Reported, conduct
from bridgehead.council.runtimes.exchange import RuntimeAnswer
from council.support.scripted_seats import ScriptedSeats


def site(number: int, *, is_defect: bool, severity: Severity = Severity.HIGH) -> Site:
    return Site(
        path=f"src/module_{number}.py",
        line=3,
        code=f"value_{number} = compute_{number}(source_{number})",
        domain="security",
        severity=severity,
        tellings=tuple(
            Telling(title, f"{title}: `compute_{number}(source_{number})`.")
            for title in (
                f"compute_{number} takes unchecked input",
                f"source_{number} is never validated",
            )
        ),
        is_defect=is_defect,
    )


SITES = [site(number, is_defect=number % 2 == 0) for number in range(40)]


def seen(reviewer: SimulatedConnection) -> set[int]:
    key = CallKey(
        seat="x", round=1, step=Step.ANALYSIS, role=Role.EXPERT, domain="security"
    )
    outcome = reviewer.answer(
        Call(key, "look", 60, Answer.ITEMS, CapabilityProfile.INSPECT)
    )
    assert isinstance(outcome, RuntimeAnswer)
    return {number for number in range(40) if f"compute_{number}(" in outcome.text}


def reviewer(
    skill: Skill, name: str = "a", *, seed: int = 1, correlation: float = 0.0
) -> SimulatedConnection:
    return SimulatedConnection(
        SITES, skill, name=name, seed=seed, correlation=correlation
    )


def test_a_seed_makes_the_same_reviewer_again() -> None:
    assert seen(reviewer(Skill(), seed=7)) == seen(reviewer(Skill(), seed=7))
    assert seen(reviewer(Skill(), seed=7)) != seen(reviewer(Skill(), seed=8))


def test_recall_and_false_positives_are_what_they_are_set_to() -> None:
    perfect = seen(reviewer(Skill(recall=1.0, false_positives=0.0)))
    found = [
        len(seen(reviewer(Skill(recall=0.5, false_positives=0.0), seed=seed))) / 20
        for seed in range(60)
    ]

    assert perfect == set(range(0, 40, 2))
    assert abs(mean(found) - 0.5) < 0.1


def test_reviewers_with_one_cause_agree_and_independent_ones_do_not() -> None:
    together = [
        seen(reviewer(Skill(recall=0.5), name, correlation=1.0)) for name in ("a", "b")
    ]
    apart = [seen(reviewer(Skill(recall=0.5), name)) for name in ("a", "b")]

    assert together[0] == together[1]
    assert apart[0] != apart[1]


def council(skill: Skill) -> CouncilReport:
    texts = {one.path: f"import x\n\n{one.code}\n" for one in SITES}
    task = BridgeInput(
        session_id="a", scope="src/", task_description="look", domains=("security",)
    )
    plan = CouncilPlan(task, ("claude", "codex"), dt.date(2026, 11, 15))
    run = CouncilRun(plan, RunInputs(load_registry(), b"s" * 32, tree=Tree.of(texts)))
    seats = ScriptedSeats({name: reviewer(skill, name) for name in ("claude", "codex")})
    ending = anyio.run(conduct, run, seats, Means())
    assert isinstance(ending, Reported)
    assert isinstance(ending.report, CouncilReport)
    return ending.report


def confirmed_titles(report: CouncilReport) -> set[int]:
    titles = " ".join(
        entry.title
        for entry in (*report.multi_source_confirmed, *report.single_source_findings)
    )
    return {
        n for n in range(40) if f"compute_{n} " in titles or f"source_{n} " in titles
    }


def test_a_discriminating_challenger_takes_false_findings_away_and_leaves_true_ones() -> (
    None
):
    skill = Skill(
        recall=1.0,
        false_positives=1.0,
        doubts_true=0.0,
        doubts_false=1.0,
        keeps_false=0.0,
    )

    assert confirmed_titles(council(skill)) == set(range(0, 40, 2))


def test_a_compliant_defender_cannot_withdraw_true_findings_without_a_reason() -> None:
    skill = Skill(recall=1.0, false_positives=0.0, doubts_true=0.0, sycophancy=1.0)
    report = council(skill)

    assert report.withdrawn_findings == ()
    everything = (
        *report.multi_source_confirmed,
        *report.single_source_findings,
        *report.disputed_findings,
    )
    assert len(everything) >= 20
