"""The five-phase debate: weights, thresholds, messages, final positions (council §17)."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from bridgehead.contract.report import BridgeReport
from bridgehead.contract.words import Intensity, OutputState, Verdict
from bridgehead.council.calls import Call, DeadlineReached, Role, Step
from bridgehead.council.debate.five_phase import (
    FivePhaseRun,
    Stance,
    debate_verdict,
    final_state,
    support_share,
    task_budget,
)
from bridgehead.council.request.plan import DEFAULT, SECURITY_ELEVATED
from council.support.driving import AT, Driver, item, items, seat, surroundings, task
from tools.schema_files import violations

FILES = {"src/orders.py": "a\nb\nc\ncur.execute(q + oid)\n"}
HERE = "src/orders.py:4 `cur.execute(q + oid)`"
REVIEWERS = ("a", "b", "c", "d", "challenger")


def test_three_experts_against_the_advocate_are_enough_except_for_security() -> None:
    stances = dict.fromkeys("abc", Stance.SUPPORT) | {
        "challenger": Stance.OPPOSE,
        "d": Stance.ABSTAIN,
    }
    share = support_share(stances, "challenger", REVIEWERS, DEFAULT)
    assert share == Fraction(45, 85)
    assert (
        final_state(share, DEFAULT.threshold("api"), origin_round=1)
        is OutputState.CONFIRMED
    )
    assert (
        final_state(share, DEFAULT.threshold("security"), origin_round=1)
        is OutputState.DISPUTED
    )


def test_nobody_with_a_position_leaves_a_finding_disputed() -> None:
    assert (
        support_share({"a": Stance.ABSTAIN}, "challenger", REVIEWERS, DEFAULT) is None
    )
    assert final_state(None, DEFAULT.consensus, origin_round=1) is OutputState.DISPUTED


@pytest.mark.parametrize(
    ("intensity", "budget"),
    [(Intensity.QUICK, 10), (Intensity.STANDARD, 25), (Intensity.THOROUGH, 35)],
)
def test_the_task_budget_grows_with_the_intensity(
    intensity: Intensity, budget: int
) -> None:
    assert task_budget(intensity, 5) == budget


def run_with(
    says: Any, *, messaging: bool = True, **fields: Any
) -> tuple[Driver, BridgeReport]:
    fields = {"domains": ["api", "testing"], **fields}
    run = FivePhaseRun(seat(messaging=messaging), task(**fields), surroundings(FILES))
    driver = Driver(run, says)
    report = driver.drive()
    assert violations(report) == []
    return driver, report


def panel(
    found: dict[str, list[dict[str, Any]]],
    messages: dict[str, list[dict[str, Any]]] | None = None,
    against: tuple[str, ...] = (),
    merges: tuple[dict[str, Any], ...] = (),
) -> Any:
    """Experts find `found`; in the first round `messages` are sent; everybody supports except `against`."""

    def says(call: Call) -> object:
        key = call.key
        if key.step is Step.ANALYSIS:
            return items(*found.get(key.agent, []))
        if key.step is Step.CHALLENGE:
            said = (messages or {}).get(key.agent, []) if key.round == 2 else []
            return {"messages": said, "outputs": []}
        word = "oppose" if key.agent in against else "support"
        shown = json.loads(
            call.prompt.split('"previous_findings":')[1].split(',"open_challenges"')[0]
        )
        return {
            "positions": [{"finding_id": one["id"], "position": word} for one in shown],
            "merges": list(merges),
        }

    return says


def test_agents_that_cannot_write_to_each_other_debate_all_the_same() -> None:
    doubt = {
        "kind": "challenge",
        "finding_id": "C001",
        "text": "unreachable",
        "mechanism": "non-applicability",
    }
    driver, report = run_with(
        panel({"api": [item()]}, {"testing": [doubt]}), messaging=False
    )
    assert {call.key.step for call in driver.calls} == {
        Step.ANALYSIS,
        Step.CHALLENGE,
        Step.POSITION,
    }
    assert report.dispatch_mode == "plain"
    assert report.debate_rounds and report.debate_rounds >= 2
    answering = [
        call for call in driver.calls if call.key.round == 3 and call.key.agent == "api"
    ]
    assert "unreachable" in answering[0].prompt


def test_a_quick_debate_looks_and_votes() -> None:
    driver, report = run_with(
        panel({"api": [item()]}), messaging=False, intensity="quick"
    )
    assert {call.key.step for call in driver.calls} == {Step.ANALYSIS, Step.POSITION}
    assert report.debate_rounds == 0


def test_with_messaging_a_quiet_round_ends_the_debate() -> None:
    _, report = run_with(panel({"api": [item()]}))
    assert (report.dispatch_mode, report.debate_rounds) == ("agent-teams", 1)
    assert report.termination_reason == "convergence"
    assert report.outputs[0].status is OutputState.CONFIRMED


def test_a_finding_most_weight_opposes_is_disputed_with_its_share() -> None:
    _, report = run_with(
        panel({"api": [item()]}, against=("challenger", "testing", "integration"))
    )
    (disputed,) = report.disputed_outputs
    assert "Support of" in disputed.unresolved_challenge


def test_a_challenge_is_answered_in_the_next_round_and_votes_settle_it() -> None:
    doubt = {
        "kind": "challenge",
        "finding_id": "C001",
        "text": "unreachable",
        "mechanism": "non-applicability",
    }
    driver, report = run_with(panel({"api": [item()]}, {"testing": [doubt]}))
    assert [one["challenge_id"] for one in driver.named("challenge")] == ["CH001"]
    assert report.outputs[0].status is OutputState.CONFIRMED


def test_nobody_challenges_or_withdraws_for_another() -> None:
    mine = {
        "kind": "challenge",
        "finding_id": "C001",
        "text": "own",
        "mechanism": "non-applicability",
    }
    others = {"kind": "withdrawal", "finding_id": "C001", "text": f"wrong {HERE}"}
    driver, report = run_with(
        panel({"api": [item()]}, {"api": [mine], "testing": [others]})
    )
    assert not driver.named("challenge")
    assert not report.withdrawn_outputs


def test_an_owner_may_withdraw_with_proof() -> None:
    gone = {"kind": "withdrawal", "finding_id": "C001", "text": f"handled at {HERE}"}
    _, report = run_with(panel({"api": [item(severity="HIGH")]}, {"api": [gone]}))
    assert [output.id for output in report.withdrawn_outputs] == ["C001"]


def test_two_findings_are_joined_only_if_both_owners_agree() -> None:
    same = {"api": [item(evidence=HERE)], "testing": [item(evidence=HERE)]}
    agreed = ({"finding_id": "C001", "other_id": "C002", "agree": True},)
    _, joined = run_with(panel(same, merges=agreed))
    _, apart = run_with(panel(same))
    assert [output.merged_from for output in joined.outputs] == [("C002",)]
    assert len(apart.outputs) == 2


def test_evidence_that_is_not_there_cannot_be_voted_true() -> None:
    _, report = run_with(panel({"api": [item(evidence="src/gone.py:1")]}))
    assert report.outputs[0].status is OutputState.DISPUTED


def test_published_findings_carry_no_author() -> None:
    driver, _ = run_with(panel({"api": [item()]}))
    later = [
        call
        for call in driver.calls
        if call.key.step is not Step.ANALYSIS and call.key.role is Role.CHALLENGER
    ]
    assert later and all("API Design Specialist" not in call.prompt for call in later)


def test_a_deadline_keeps_the_positions_that_were_given() -> None:
    run = FivePhaseRun(seat(), task(domains=["api"]), surroundings(FILES))
    driver = Driver(run, panel({"api": [item()]}))
    waiting = list(run.start(AT).calls)
    while waiting and waiting[0].key.step is Step.ANALYSIS:
        waiting += run.feed(driver.answer(waiting.pop(0))).calls
    run.feed(DeadlineReached(seat="claude", at=AT))
    assert run.report is not None
    assert run.report.outputs


@pytest.mark.parametrize(
    ("severities", "verdict"),
    [
        (["CRITICAL"], Verdict.FAIL),
        (["HIGH", "HIGH", "HIGH"], Verdict.FAIL),
        (["HIGH"], Verdict.CONCERNS),
        (["MEDIUM", "MEDIUM"], Verdict.CONCERNS),
        (["MEDIUM"], Verdict.PASS),
        ([], Verdict.PASS),
    ],
)
def test_the_verdict_of_a_standalone_debate(
    severities: list[str], verdict: Verdict
) -> None:
    words = ["alpha one", "beta two", "gamma three"]
    found = [item(words[n], severity=one) for n, one in enumerate(severities)]
    _, report = run_with(panel({"api": found}))
    assert debate_verdict(report.outputs, DEFAULT) is verdict


def test_under_the_elevated_preset_any_confirmed_security_finding_fails() -> None:
    _, report = run_with(
        panel({"security": [item(severity="LOW")]}), domains=["security"]
    )
    assert debate_verdict(report.outputs, SECURITY_ELEVATED) is Verdict.FAIL
