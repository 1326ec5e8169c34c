"""Councils whose roles share calls: when that is so, and what comes of it."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace
from typing import Any

import pytest

from bridgehead.contract.words import CouncilProtocol, Verdict
from bridgehead.council.calls import (
    Answer,
    Call,
    GivenUp,
    Interrupted,
    Reply,
    Role,
    SeatPending,
    SeatReady,
    SeatReported,
    Step,
)
from bridgehead.council.council import CouncilRun
from bridgehead.council.replies.items import Intake
from bridgehead.council.reporting.report import CouncilReport
from bridgehead.council.reporting.seat_report import completed_report
from bridgehead.council.request.plan import (
    DEBATE_PROTOCOL,
    PARALLEL_WORKFLOW,
    CouncilPlan,
    choose_protocol,
)
from council.support.driving import (
    AT,
    Driver,
    item,
    items,
    seat,
    sections,
    surroundings,
    task,
)
from council.test_council import (
    FILES,
    HERE,
    NOTHING_FOUND,
    Council,
    facts,
    halted,
    note,
    ready,
    reported,
    skipped,
)

FOUR = {
    "claude": ready("claude"),
    "codex": ready("codex", connection="mcp"),
    "gemini": ready("gemini"),
    "opencode": ready("opencode"),
}
SHARED = CouncilProtocol.SHARED
FULL = CouncilProtocol.FULL
QUICK = {"intensity": "quick", "domains": ["security", "testing"]}


def found(call: Call, *titles: str, **fields: Any) -> object:
    """Every seat reports the same in its section on security; nobody says more."""
    if call.key.role is not Role.EXPERTS or call.key.step is not Step.ANALYSIS:
        return {"outputs": [], "challenge_notes": []}
    usual = {"severity": "HIGH", "evidence": HERE, **fields}
    entries = [item(title, **usual) for title in titles]
    return sections(security=items(*entries), testing=items())


def says(call: Call) -> object:
    return found(call, "SQL injection")


def keys(council: Council) -> list[str]:
    return [str(call.key) for call in council.calls]


# -- which protocol


@pytest.mark.parametrize(
    ("fields", "seats", "expected"),
    [
        ({}, 2, SHARED),
        ({"intensity": "quick"}, 4, SHARED),
        ({"intensity": "thorough"}, 4, FULL),
        ({}, 1, FULL),
        ({}, 0, FULL),
        ({"task_type": "audit"}, 2, SHARED),
        ({"task_type": "analysis"}, 2, SHARED),
        ({"task_type": "research"}, 2, FULL),
        ({"task_type": "implementation"}, 2, FULL),
        ({"task_type": "planning", "mode": "design"}, 2, FULL),
    ],
)
def test_what_is_not_said_follows_from_task_intensity_and_seats(
    fields: dict[str, Any], seats: int, expected: CouncilProtocol
) -> None:
    chosen = choose_protocol(None, task=task(**fields), is_debate=False, seats=seats)
    assert chosen is expected


@pytest.mark.parametrize("wanted", CouncilProtocol)
def test_what_is_said_holds_for_every_review(wanted: CouncilProtocol) -> None:
    for fields in ({}, {"intensity": "thorough"}):
        for seats in (1, 4):
            chosen = choose_protocol(
                wanted, task=task(**fields), is_debate=False, seats=seats
            )
            assert chosen is wanted


def test_a_debate_shares_nothing_whatever_is_said() -> None:
    assert choose_protocol(SHARED, task=task(), is_debate=True, seats=4) is FULL


def test_a_plan_without_a_word_on_it_is_full() -> None:
    """Councils that were stored before there was a choice are taken up as they began."""
    plan = CouncilPlan(task=task(), seats=("claude",), today=dt.date(2026, 11, 15))
    assert plan.protocol_of(4) is FULL


@pytest.mark.parametrize("route", [PARALLEL_WORKFLOW, DEBATE_PROTOCOL])
def test_where_one_seat_is_enough_it_works_alone(route: str) -> None:
    council = Council(FOUR, says, protocol=None, route=route).drive()
    assert not [call for call in council.calls if call.key.role is Role.EXPERTS]


# -- seats are counted when all are there


def start(*names: str) -> CouncilRun:
    plan = CouncilPlan(
        task=task(**QUICK), seats=names, today=dt.date(2026, 11, 15), protocol=None
    )
    run = CouncilRun(plan, surroundings(FILES))
    run.start(AT)
    return run


def is_ready(name: str) -> SeatReady:
    return SeatReady(seat=seat(name), at=AT)


def test_seats_begin_together_once_all_are_checked() -> None:
    run = start("claude", "codex")
    assert run.feed(is_ready("claude")).calls == ()
    assert [str(call.key) for call in run.feed(is_ready("codex")).calls] == [
        "claude/1/analysis/experts",
        "codex/1/analysis/experts",
    ]


def test_a_seat_that_turns_out_to_be_alone_makes_one_call_a_role() -> None:
    run = start("claude", "codex")
    run.feed(is_ready("claude"))
    calls = run.feed(skipped("codex")()).calls
    assert [str(call.key) for call in calls] == [
        "claude/1/analysis/security",
        "claude/1/analysis/testing",
        "claude/1/analysis/integration",
        "claude/1/analysis/challenger",
    ]


@pytest.mark.parametrize("waiting", ["static", "rig:one"])
def test_nobody_waits_for_a_seat_that_makes_its_own_report(waiting: str) -> None:
    run = start("claude", "codex", waiting)
    run.feed(is_ready("claude"))
    assert len(run.feed(is_ready("codex")).calls) == 2


def test_a_halted_seat_is_counted_out() -> None:
    run = start("claude", "codex")
    run.feed(is_ready("claude"))
    assert len(run.feed(halted("codex")()).calls) == 4


def test_a_seat_that_was_given_up_before_it_began_is_not_asked() -> None:
    run = start("claude", "codex", "gemini")
    run.feed(is_ready("claude"))
    run.feed(GivenUp(seat="claude", at=AT))
    run.feed(is_ready("gemini"))
    calls = run.feed(is_ready("codex")).calls
    assert {call.key.seat for call in calls} == {"codex", "gemini"}


def test_an_interruption_before_the_first_call_aborts() -> None:
    run = start("claude", "codex")
    run.feed(is_ready("claude"))
    turn = run.feed(Interrupted(signal="SIGINT", at=AT))
    assert turn.calls == ()
    assert not isinstance(run.report, CouncilReport)


def test_a_pending_rig_holds_nobody_up() -> None:
    run = start("claude", "codex", "rig:one")
    run.feed(is_ready("claude"))
    run.feed(SeatPending(seat="rig:one", request="r", at=AT))
    assert len(run.feed(is_ready("codex")).calls) == 2


# -- a quick council


def test_four_seats_make_four_calls_in_a_quick_council() -> None:
    council = Council(FOUR, says, protocol=None, task_fields=QUICK).drive()
    assert keys(council) == [f"{name}/1/analysis/experts" for name in FOUR]
    (finding,) = council.report.multi_source_confirmed
    assert finding.confirmed_by == ("claude", "codex", "gemini", "opencode")
    assert (council.report.stage_b, council.report.verdict) == (
        "skipped",
        Verdict.CONCERNS,
    )
    assert council.report.exchange_modes_used == ("shared",)


def test_the_same_inputs_give_the_same_council_again() -> None:
    council = Council(FOUR, says, protocol=None, task_fields=QUICK).drive()
    again = council.run.again()
    again.start(AT)
    for happened in council.inputs:
        again.feed(happened)
    assert again.report == council.run.report


def test_seats_that_report_by_themselves_take_part_as_ever() -> None:
    static = reported(completed_report(task(), facts("static"), NOTHING_FOUND))
    seats = {**FOUR, "static": static}
    council = Council(seats, says, protocol=None, task_fields=QUICK).drive()
    assert len(council.calls) == 4
    assert "static" in council.report.bridges_available


# -- a standard council: one challenge, then everybody is heard once

STANDARD = {"domains": ["security", "testing"]}
TWO_SHARED = {name: FOUR[name] for name in ("claude", "codex")}
THERE = "src/orders.py:3 `def load(cur, oid):`"
NOWHERE = "src/orders.py:900"


def challenged(
    outcome: str, answer: dict[str, Any] | None = None, **fields: Any
) -> Any:
    """The coordinator says `outcome` of everything; owners answer as given."""
    reports = fields.pop("reports", tuple(FOUR))
    title = fields.pop("title", "SQL injection")
    severity = fields.pop("severity", "HIGH")
    opinions = fields.pop("opinions", {})

    def says(call: Call) -> object:
        key = call.key
        ids = re.findall(r'"id":"((?:MMC|SS)\d+)"', call.prompt)
        if key.step is Step.ANALYSIS:
            titles = [title] if key.seat in reports else []
            return found(call, *titles, severity=severity)
        if call.answer is Answer.EXAMINATION:
            return {"challenge_notes": [note(one, outcome, **fields) for one in ids]}
        assert call.answer is Answer.DEFENCES
        mine = re.findall(r'"target_finding_id":"((?:MMC|SS)\d+)"', call.prompt)
        opinion = opinions.get(key.seat)
        return {
            "responses": [{"finding_id": one, **answer} for one in mine]
            if answer
            else [],
            "challenge_notes": [note(one, **opinion) for one in ids] if opinion else [],
        }

    return says


def hold(says: Any, seats: Any = FOUR, **plan: Any) -> Council:
    plan = {"task_fields": STANDARD, "protocol": SHARED, **plan}
    return Council(seats, says, **plan).drive()


def outcome_of(council: Council) -> tuple[str, str | None]:
    report = council.report
    (one,) = [
        *report.findings(),
        *(withdrawn.finding for withdrawn in report.withdrawn_findings),
    ]
    return one.cls.value, one.severity


def test_what_is_confirmed_needs_no_answer() -> None:
    council = hold(challenged("confirmed"))
    assert len(council.calls) == 5
    assert outcome_of(council) == ("multi", "HIGH")
    (one,) = council.report.findings()
    assert one.da_challenged
    assert (council.report.stage_b, council.report.debate_rounds) == ("completed", 1)


def test_four_seats_make_nine_calls_at_most() -> None:
    answer = {"status": "confirmed", "defense": f"reached from {THERE}"}
    council = hold(challenged("withdrawn", answer, response=f"handled, see {HERE}"))
    assert keys(council)[4:] == [
        "codex/1/stage_b/challenger",
        *(f"{name}/2/stage_b/experts" for name in FOUR),
    ]
    assert council.report.debate_rounds == 2


@pytest.mark.parametrize(
    ("proposed", "answer", "expected"),
    [
        ("withdrawn", {"status": "confirmed", "defense": THERE}, ("disputed", "HIGH")),
        ("withdrawn", {"status": "confirmed", "defense": "no"}, ("withdrawn", "HIGH")),
        (
            "withdrawn",
            {"status": "confirmed", "defense": NOWHERE},
            ("withdrawn", "HIGH"),
        ),
        ("withdrawn", None, ("withdrawn", "HIGH")),
        ("withdrawn", {"status": "withdrawn", "defense": "x"}, ("withdrawn", "HIGH")),
        ("withdrawn", {"status": "revised", "severity": "LOW"}, ("multi", "LOW")),
        ("downgraded", {"status": "confirmed", "defense": THERE}, ("disputed", "HIGH")),
        ("downgraded", None, ("multi", "MEDIUM")),
        ("disputed", {"status": "confirmed", "defense": THERE}, ("disputed", "HIGH")),
        ("disputed", None, ("disputed", "HIGH")),
    ],
)
def test_owners_are_heard_before_a_finding_is_changed(
    proposed: str, answer: dict[str, Any] | None, expected: tuple[str, str]
) -> None:
    says = challenged(
        proposed, answer, response=f"handled, see {HERE}", new_severity="MEDIUM"
    )
    assert outcome_of(hold(says, TWO_SHARED)) == expected


def test_a_withdrawal_without_proof_is_a_dispute() -> None:
    says = challenged("withdrawn", None, response="it is handled somewhere")
    assert outcome_of(hold(says, TWO_SHARED)) == ("disputed", "HIGH")


def test_the_record_has_challenge_answer_and_ruling() -> None:
    answer = {"status": "confirmed", "defense": f"reached from {THERE}"}
    says = challenged("disputed", answer, reports=("codex",), response="unsure")
    (one,) = hold(says, TWO_SHARED).report.disputed_findings
    steps = [(step.step, step.by) for step in one.record]
    assert steps == [
        ("claim", "codex, Security Auditor"),
        ("challenge", "second look"),
        ("defence", "codex"),
        ("ruling", "second look"),
    ]
    assert {position.bridge: position.position for position in one.positions} == {
        "codex": f"reached from {THERE}",
        "coordinator": "unsure",
    }


def test_prompts_name_no_seat_and_begin_alike() -> None:
    council = hold(challenged("disputed"))
    first, *later = [call.prompt for call in council.calls if call.key.seat == "codex"]
    start = first.index("You review the scope in several roles")
    assert len(later) == 2
    assert all(prompt.startswith(first[:start]) for prompt in later)
    for call in council.calls[4:]:
        assert not [name for name in FOUR if name in call.prompt]


def test_seats_that_did_not_report_it_can_outweigh_its_owner() -> None:
    doubt = {"outcome": "withdrawn", "response": f"handled, see {THERE}"}
    answer = {"status": "confirmed", "defense": f"reached from {THERE}"}
    says = challenged(
        "withdrawn",
        answer,
        reports=("claude",),
        response=f"handled, see {HERE}",
        opinions={"gemini": doubt},
    )
    council = hold(says)
    assert outcome_of(council) == ("withdrawn", "HIGH")
    assert len(council.calls) <= 9
    by = [one.get("by", "coordinator") for one in council.report.challenge_notes]
    assert by == ["claude", "gemini", "coordinator"]


def test_a_challenge_that_others_decide_stays_in_the_record() -> None:
    doubt = {"outcome": "withdrawn", "response": f"handled, see {THERE}"}
    says = challenged("disputed", reports=("claude",), opinions={"gemini": doubt})
    council = hold(says)
    assert outcome_of(council) == ("withdrawn", "HIGH")
    notes = council.report.challenge_notes
    assert [(one.get("by"), one["outcome"]) for one in notes] == [
        ("gemini", "withdrawn"),
        (None, "disputed"),
    ]


def test_one_that_did_not_report_it_cannot() -> None:
    doubt = {"outcome": "withdrawn", "response": f"handled, see {THERE}"}
    says = challenged("confirmed", reports=("claude",), opinions={"gemini": doubt})
    assert outcome_of(hold(says)) == ("disputed", "HIGH")


def test_nobody_is_asked_whose_word_can_change_nothing() -> None:
    """With two seats, the one that did not report it is the coordinator and has spoken."""
    council = hold(challenged("confirmed", reports=("claude",)), TWO_SHARED)
    assert len(council.calls) == 3


@pytest.mark.parametrize(
    ("severity", "calls"),
    [("CRITICAL", 5), ("HIGH", 5), ("MEDIUM", 5), ("LOW", 4), ("INFO", 4)],
)
def test_what_counts_in_no_verdict_is_not_challenged(severity: str, calls: int) -> None:
    council = hold(challenged("confirmed", severity=severity))
    assert len(council.calls) == calls
    assert council.report.stage_b == ("completed" if calls == 5 else "skipped")
    assert outcome_of(council) == ("multi", severity)


def test_what_is_low_is_challenged_where_a_call_is_made_anyway() -> None:
    def says(call: Call) -> object:
        said = challenged("confirmed", reports=("claude",))(call)
        if call.key.step is Step.ANALYSIS and call.key.seat == "codex":
            low = item("A typo in a comment", severity="LOW", evidence=THERE)
            note_of_it = item("Nice names", severity="INFO", evidence=THERE)
            return sections(security=items(), testing=items(low, note_of_it))
        return said

    council = hold(says, TWO_SHARED)
    (challenge,) = [one for one in council.calls if one.key.step is Step.STAGE_B]
    assert "A typo in a comment" in challenge.prompt
    assert "Nice names" not in challenge.prompt


def test_findings_that_follow_from_several_come_with_the_challenge() -> None:
    def says(call: Call) -> object:
        said = challenged("confirmed")(call)
        if call.answer is Answer.EXAMINATION:
            return {**said, "outputs": [item("Both lose data", severity="HIGH")]}
        return said

    (one,) = hold(says, TWO_SHARED).report.integration_findings
    assert one.id == "INT001"


def test_a_failed_challenge_leaves_what_was_joined() -> None:
    def says(call: Call) -> object:
        return None if call.key.step is Step.STAGE_B else found(call, "SQL injection")

    report = hold(says).report
    assert (report.stage_b, len(report.multi_source_confirmed)) == ("failed", 1)


def test_a_serious_finding_without_a_note_is_warned_about() -> None:
    council = hold(lambda call: found(call, "SQL injection"), TWO_SHARED)
    assert "da_challenge_missing:MMC001" in council.report.warnings


def test_a_budget_for_the_challenge_alone_leaves_disputes() -> None:
    says = challenged("withdrawn", None, response=f"handled, see {HERE}")
    council = hold(says, TWO_SHARED, max_calls=3)
    assert len(council.calls) == 3
    assert outcome_of(council) == ("disputed", "HIGH")
    assert "budget_reached" in council.report.warnings


def test_a_seat_whose_answer_fails_has_said_nothing() -> None:
    def says(call: Call) -> object:
        if call.answer is Answer.DEFENCES:
            return None
        return challenged("withdrawn", None, response=f"handled, see {HERE}")(call)

    assert outcome_of(hold(says, TWO_SHARED)) == ("withdrawn", "HIGH")


def test_an_interruption_before_the_answers_leaves_disputes() -> None:
    says = challenged("withdrawn", None, response=f"handled, see {HERE}")
    council = hold(says, TWO_SHARED)
    again = council.run.again()
    again.start(AT)
    for happened in council.inputs:
        if isinstance(happened, Reply) and happened.key.round == 2:
            break
        again.feed(happened)
    turn = again.feed(Interrupted(signal="SIGINT", at=AT))
    assert len(turn.cancelled) == 2
    assert isinstance(again.report, CouncilReport)
    assert len(again.report.disputed_findings) == 1


def test_a_standard_council_comes_out_the_same_when_it_is_fed_again() -> None:
    answer = {"status": "confirmed", "defense": f"reached from {THERE}"}
    council = hold(challenged("withdrawn", answer, response=f"see {HERE}"))
    again = council.run.again()
    asked = list(again.start(AT).calls)
    for happened in council.inputs:
        asked += again.feed(happened).calls
    assert again.report == council.run.report
    assert [call.prompt for call in asked] == [call.prompt for call in council.calls]


def test_a_rig_that_answers_later_makes_no_finished_call_again() -> None:
    pending = {
        **TWO_SHARED,
        "rig:one": lambda: SeatPending(seat="rig:one", request="r", at=AT),
    }
    council = hold(challenged("confirmed"), pending)
    made = len(council.calls)
    report = completed_report(task(), facts("rig:one"), NOTHING_FOUND)
    council.feed(SeatReported(report=report, at=AT))
    assert len(council.calls) == made
    assert outcome_of(council) == ("multi", "HIGH")


# -- an expert that a finding calls for

SIGNAL = {"domain": "cryptographic", "reason": "how is the key kept?"}


def calling(late: dict[str, Any], **fields: Any) -> Any:
    """The finding of claude calls for an expert, who says `late` in its section."""

    def says(call: Call) -> object:
        said = challenged("confirmed", reports=("claude",), **fields)(call)
        if call.key.step is Step.ANALYSIS and call.key.seat == "claude":
            said["sections"][0]["cross_domain_signals"] = [SIGNAL]
        if call.answer is Answer.DEFENCES and 'Section "cryptographic"' in call.prompt:
            return {**said, "sections": [{"domain": "cryptographic", **late}]}
        return said

    return says


KEY_IN_CODE = item("The key stands in the code", severity="HIGH", evidence=THERE)


def test_an_expert_that_a_finding_calls_for_has_a_section_of_the_answer() -> None:
    council = hold(calling(items(KEY_IN_CODE)), TWO_SHARED)
    assert keys(council)[3:] == ["claude/2/stage_b/experts"]
    assert "how is the key kept?" in council.calls[-1].prompt
    late = council.report.single_source_findings[1]
    assert (late.id, late.title, late.domains) == (
        "SS002",
        "The key stands in the code",
        ("cryptographic",),
    )
    (source,) = late.source_findings
    assert (source.bridge, source.finding_id) == ("claude", "C002")
    assert "cryptographic" in council.report.domains_covered


def test_the_report_of_its_seat_is_written_again_with_what_it_found() -> None:
    council = hold(calling(items(KEY_IN_CODE)), TWO_SHARED)
    (again,) = [one for one in council.last.seat_reports if one.bridge == "claude"]
    assert [one.id for one in again.outputs] == ["C001", "C002"]
    assert again.outputs[1].agent == "Cryptography Specialist"
    assert again.unexplored_domains == ()


def test_what_it_repeats_is_not_listed_twice() -> None:
    known = item("SQL injection", severity="HIGH", evidence=HERE)
    council = hold(calling(items(known)), TWO_SHARED)
    assert len(list(council.report.findings())) == 1


@pytest.mark.parametrize(
    "late", [{}, {"outputs": [], "summary": "I cannot review this code."}]
)
def test_an_expert_that_gives_no_section_or_declines_leaves_its_domain_unexplored(
    late: dict[str, Any],
) -> None:
    council = hold(calling(late), TWO_SHARED)
    assert "cryptographic" not in council.report.domains_covered
    assert len(list(council.report.findings())) == 1


def test_a_quick_council_calls_nobody_in() -> None:
    council = hold(
        calling(items(KEY_IN_CODE)), TWO_SHARED, task_fields={**STANDARD, **QUICK}
    )
    assert len(council.calls) == 2


def test_a_further_expert_is_asked_once() -> None:
    pending = {
        **TWO_SHARED,
        "rig:one": lambda: SeatPending(seat="rig:one", request="r", at=AT),
    }
    council = hold(calling(items(KEY_IN_CODE)), pending)
    found_there = item("The total is off by one", severity="HIGH")
    draft = Intake(task()).draft(found_there)
    output = draft.output("R001", domain="security", agent="a")
    analysed = replace(NOTHING_FOUND, outputs=(output,))
    report = completed_report(task(), facts("rig:one"), analysed)
    made = len(council.calls)
    council.feed(SeatReported(report=report, at=AT))
    later = council.calls[made:]
    assert later, "a new finding is challenged"
    assert not [one for one in later if 'Section "cryptographic"' in one.prompt]


def test_what_a_further_expert_found_stays_when_a_rig_answers_later() -> None:
    pending = {
        **TWO_SHARED,
        "rig:one": lambda: SeatPending(seat="rig:one", request="r", at=AT),
    }
    council = hold(calling(items(KEY_IN_CODE)), pending)
    made = len(council.calls)
    report = completed_report(task(), facts("rig:one"), NOTHING_FOUND)
    council.feed(SeatReported(report=report, at=AT))
    assert [one.title for one in council.report.single_source_findings] == [
        "SQL injection",
        "The key stands in the code",
    ]
    assert len(council.calls) == made


# -- taken up again at any point


def resumed_after(council: Council, count: int, says: Any) -> CouncilRun:
    """The same council in a second process that knows the first `count` inputs."""
    earlier = council.inputs[:count]
    run = council.run.again()
    turns = [run.start(AT), *(run.feed(happened) for happened in earlier)]
    left = run.unfinished(turns, earlier)
    known = {one.key for one in earlier if isinstance(one, Reply)}
    waiting = [call for calls in left.calls.values() for call in calls]
    assert known.isdisjoint(call.key for call in waiting), "a finished call again"
    happened = [council.seats[one.seat]() for one in left.seatings]
    while run.report is None:
        if not happened:
            happened = [Driver(None, says).answer(waiting.pop(0))]  # type: ignore[arg-type]
        turn = run.feed(happened.pop(0))
        assert known.isdisjoint(call.key for call in turn.calls)
        waiting += turn.calls
    return run


def test_a_council_that_is_cut_off_anywhere_ends_the_same_and_asks_nothing_twice() -> (
    None
):
    doubt = {"outcome": "withdrawn", "response": f"handled, see {THERE}"}
    answer = {"status": "confirmed", "defense": f"reached from {THERE}"}
    says = calling(items(KEY_IN_CODE), answer=answer, opinions={"gemini": doubt})
    council = hold(says, protocol=None)
    assert len(council.calls) == 8
    for count in range(1, len(council.inputs)):
        run = resumed_after(council, count, says)
        assert run.report == council.run.report, count
