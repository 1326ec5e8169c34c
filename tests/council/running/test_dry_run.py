"""Every call is listed before it is made, answers can be held to a schema, proposals end somewhere."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from typing import Any

import jsonschema
import msgspec
import pytest

from bridgehead.cli.council.display import calls_document, calls_text
from bridgehead.contract.words import Mode, TaskType, Verdict
from bridgehead.council.calls import Answer, Call, CallKey, CallUsage, Reply, Role, Step
from bridgehead.council.debate.call_batch import Tally
from bridgehead.council.reporting.gate import Gate, GateOutcome, council_exit_code
from bridgehead.council.request.plan import (
    DEBATE_PROTOCOL,
    PARALLEL_WORKFLOW,
    SECURITY_ELEVATED,
    CouncilPlan,
    is_judged,
)
from bridgehead.council.running.dry_run import plan_calls
from bridgehead.council.seating.answer_schemas import schema_of
from bridgehead.exit_codes import ExitCode
from council.support.driving import AT, item, items, seat, surroundings, task
from council.test_council import TWO, Council, finds, note, ready

SHARED = {"protocol": None}


def planned(intensity: str = "standard", **fields: Any) -> Any:
    plan = CouncilPlan(
        task=task(domains=["security", "api"], intensity=intensity),
        seats=("claude", "codex", "gemini"),
        today=dt.date(2026, 11, 15),
        **fields,
    )
    ready = [seat("claude"), seat("codex")]
    return plan_calls(plan, surroundings(), ready, {"gemini": "cli_not_found"}, at=AT)


def test_a_dry_run_lists_every_first_call_with_its_prompt() -> None:
    listed = planned()
    keys = [str(call.key) for one in listed.seats for call in one.first_calls]
    assert keys[:4] == [
        "claude/1/analysis/security",
        "claude/1/analysis/api",
        "claude/1/analysis/integration",
        "claude/1/analysis/challenger",
    ]
    assert (listed.first_calls, listed.no_calls) == (8, {"gemini": "cli_not_found"})
    assert all(call.prompt for one in listed.seats for call in one.first_calls)


def test_the_price_is_what_the_calls_of_the_seats_cost_before() -> None:
    listed = replace(planned(), call_prices={"codex": 0.05})
    codex = next(seat for seat in listed.seats if seat.name == "codex")
    second_look = listed.stage_b_calls if listed.coordinator == "codex" else 0

    assert listed.cost_usd == pytest.approx(
        (0.05 * 4, 0.05 * (codex.most_calls + second_look))
    )
    text = calls_text(listed)
    assert (
        f"about $0.20 to ${listed.cost_usd[1]:.2f} at what calls of earlier councils cost"
        in text
    )
    assert text.endswith("no price is known yet for claude; --max-cost sets a limit\n")
    assert "about $" not in calls_text(planned())


@pytest.mark.parametrize("intensity", ["quick", "standard", "thorough"])
def test_a_real_run_never_makes_more_calls_than_were_announced(intensity: str) -> None:
    council = Council(
        TWO, finds("SQL injection"), task_fields={"intensity": intensity}
    ).drive()
    plan = council.run.plan
    seats = [seat("claude"), seat("codex", connection="mcp")]
    listed = plan_calls(plan, surroundings(), seats, {}, at=AT)
    assert len(council.calls) <= listed.most_calls


@pytest.mark.parametrize(
    ("intensity", "least", "most"), [("quick", 2, 2), ("standard", 2, 5)]
)
def test_shared_calls_are_announced_exactly(
    intensity: str, least: int, most: int
) -> None:
    listed = planned(intensity, **SHARED)
    assert (listed.protocol, listed.first_calls, listed.most_calls) == (
        "shared",
        least,
        most,
    )
    text = calls_text(listed)
    assert "claude/1/analysis/experts" in text
    assert "protocol shared" in text
    assert f"at least {least} calls, at most {most}; none was made" in text
    assert calls_document(listed)["protocol"] == "shared"


def test_a_thorough_council_is_announced_with_a_call_for_each_role() -> None:
    listed = planned("thorough", **SHARED)
    assert (listed.protocol, listed.first_calls) == ("full", 8)


def test_a_shared_council_keeps_to_what_was_announced() -> None:
    fields = {"intensity": "standard", "domains": ["security", "api"]}
    council = Council(TWO, finds("SQL injection"), task_fields=fields, protocol=None)
    council.drive()
    seats = [seat("claude"), seat("codex", connection="mcp")]
    listed = plan_calls(council.run.plan, surroundings(), seats, {}, at=AT)
    first = [call for call in council.calls if call.key.attempt == 1]
    assert listed.first_calls <= len(first) <= listed.most_calls


@pytest.mark.parametrize("intensity", ["quick", "standard", "thorough"])
@pytest.mark.parametrize("messaging", [False, True])
def test_a_debate_never_makes_more_calls_than_were_announced(
    intensity: str, messaging: bool
) -> None:
    seats = {name: ready(name, messaging=messaging) for name in ("claude", "codex")}
    council = Council(
        seats,
        finds("SQL injection"),
        task_fields={"intensity": intensity},
        route=DEBATE_PROTOCOL,
        preset=SECURITY_ELEVATED.name,
    ).drive()
    planned = [seat(name, messaging=messaging) for name in seats]

    listed = plan_calls(council.run.plan, surroundings(), planned, {}, at=AT)

    first = [str(call.key) for one in listed.seats for call in one.first_calls]
    assert first == [str(call.key) for call in council.calls][: len(first)]
    asked = [call for call in council.calls if call.key.attempt == 1]
    assert len(first) < len(asked) <= listed.most_calls, (
        "a repair per call is not counted"
    )


def test_a_price_that_is_not_known_makes_the_sum_unknown() -> None:
    def priced(calls: list[float | None]) -> float | None:
        tally = Tally()
        for number, cost in enumerate(calls):
            key = CallKey(
                seat="claude",
                round=1,
                step=Step.ANALYSIS,
                role=Role.EXPERT,
                domain=f"d{number}",
            )
            tally.answered(
                Reply(key=key, text="x", at=AT, usage=CallUsage(cost_usd=cost))
            )
        return tally.usage().cost_usd

    assert priced([0.25, 0.5]) == 0.75
    assert priced([0.25, None]) is None
    assert priced([]) is None


def test_the_quick_route_announces_one_seat_and_no_stage_b() -> None:
    listed = planned(route=PARALLEL_WORKFLOW)
    assert (
        [one.name for one in listed.seats],
        listed.coordinator,
        listed.stage_b_calls,
    ) == (["claude"], None, 0)


@pytest.mark.parametrize("answer", Answer)
def test_every_kind_of_answer_has_a_strict_schema(answer: Answer) -> None:
    schema = schema_of(answer)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) == set(schema["properties"])


def test_an_answer_as_prompted_fits_its_schema() -> None:
    entry = {**item(), "requirement_id": None, "met": None}
    answer = {
        **items(entry),
        "agent": "a",
        "domain": "security",
        "summary": "s",
        "confidence": "high",
    }
    jsonschema.validate(json.loads(json.dumps(answer)), schema_of(Answer.ITEMS))


@pytest.mark.parametrize(
    ("mode", "judged"),
    [(Mode.REVIEW, True), (Mode.BRAINSTORM, False), (Mode.DESIGN, False), (None, True)],
)
def test_open_ended_modes_are_not_judged(mode: Mode | None, judged: bool) -> None:
    assert is_judged(TaskType.REVIEW, mode) is judged


def test_a_gate_on_a_mode_without_a_verdict_is_a_mistake_of_the_user() -> None:
    code = council_exit_code(
        GateOutcome.REPORT,
        verdict=None,
        task_type=TaskType.REVIEW,
        mode=Mode.DESIGN,
        gate=Gate.FAIL,
    )
    assert code is ExitCode.USER
    assert not Gate.CONCERNS.refuses(None)
    assert Gate.CONCERNS.refuses(Verdict.FAIL)


DESIGN = {"task_type": "planning", "mode": "design"}


def designs(
    call: Call, outcome: str = "confirmed", chosen: tuple[str, ...] = ("MMC001",)
) -> object:
    key = call.key
    if key.step is Step.ANALYSIS and key.role is Role.EXPERT:
        return items(
            item("Split the service", type="proposal", proposal={"tradeoffs": ["cost"]})
        )
    if key.step is Step.STAGE_B and key.role is Role.CHALLENGER:
        return {
            "challenge_notes": [note("MMC001", outcome, challenge="who pays?")],
            "recommendation": {"chosen": list(chosen), "reason": "simplest"},
        }
    return {"outputs": [], "rulings": [], "challenges": [], "responses": []}


def test_a_chosen_proposal_is_accepted_and_a_design_has_no_verdict() -> None:
    report = Council(TWO, designs, task_fields=DESIGN).drive().report
    (proposal,) = report.proposals
    assert (proposal["id"], proposal["status"], proposal["tradeoffs"]) == (
        "P001",
        "accepted",
        ["cost"],
    )
    assert proposal["lineage"]["derived_from"] == ["claude:C001", "codex:X001"]
    assert report.verdict is None and report.recommendation is not None


def test_a_proposal_with_an_open_challenge_is_never_accepted() -> None:
    council = Council(
        TWO, lambda call: designs(call, "disputed"), task_fields=DESIGN
    ).drive()
    (proposal,) = council.report.proposals
    assert proposal["status"] == "parked"
    assert proposal["open_questions"] == ["who pays?"]


def test_choosing_none_parks_everything() -> None:
    council = Council(
        TWO, lambda call: designs(call, chosen=()), task_fields=DESIGN
    ).drive()
    assert [one["status"] for one in council.report.proposals] == ["parked"]


def test_research_lists_contradictions() -> None:
    def says(call: Call) -> object:
        if call.key.step is Step.STAGE_B and call.key.role is Role.CHALLENGER:
            return {
                "challenge_notes": [note("MMC001")],
                "contradictions": [{"finding_ids": ["MMC001"], "about": "x"}],
            }
        return finds("A claim", type="observation")(call)

    report = Council(TWO, says, task_fields={"task_type": "research"}).drive().report
    assert report.contradictions == ({"finding_ids": ["MMC001"], "about": "x"},)
    assert report.verdict is None


def test_half_characters_in_a_recommendation_do_not_stop_the_report() -> None:
    halves = ("MMC001", "\ud800")
    report = (
        Council(TWO, lambda call: designs(call, chosen=halves), task_fields=DESIGN)
        .drive()
        .report
    )
    assert report.recommendation == {
        "chosen": ["MMC001", "\ufffd"],
        "reason": "simplest",
    }
    assert msgspec.json.encode(report)


def test_a_review_has_no_recommendation_even_if_the_coordinator_gives_one() -> None:
    assert Council(TWO, designs).drive().report.recommendation is None
