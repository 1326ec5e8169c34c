"""A whole council without I/O: seats, halted bridges, both stages, budgets, late answers, interruption."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from bridgehead.contract.report import BridgeReport
from bridgehead.contract.words import (
    Confidence,
    CouncilProtocol,
    LocalCouncilType,
    Status,
    Verdict,
)
from bridgehead.council.calls import (
    Call,
    CallFailed,
    GivenUp,
    Input,
    Interrupted,
    Questioned,
    Reply,
    Retried,
    Role,
    SeatPending,
    SeatReady,
    SeatReported,
    Step,
    Turn,
    UserAnswered,
)
from bridgehead.council.council import CouncilRun
from bridgehead.council.reporting.report import (
    AbortedReport,
    CouncilReport,
    council_report_from_json,
)
from bridgehead.council.reporting.seat_report import (
    Analysed,
    SeatFacts,
    completed_report,
    halted_report,
    skipped_report,
)
from bridgehead.council.request.plan import (
    DEBATE_PROTOCOL,
    DEEP_COUNCIL,
    PARALLEL_WORKFLOW,
    CouncilOptions,
    CouncilPlan,
    Dismissals,
)
from bridgehead.errors import ProtocolError
from council.support.driving import AT, Driver, item, items, seat, surroundings, task

TODAY = dt.date(2026, 11, 15)
FILES = {
    "src/orders.py": "import db\n\ndef load(cur, oid):\n    cur.execute(q + oid)\n    return cur\n"
}
HERE = "src/orders.py:4 `cur.execute(q + oid)`"
NOTHING_FOUND = Analysed((), Confidence.HIGH, LocalCouncilType.NONE, ("security",))
Says = Callable[[Call], object]
Seats = dict[str, Callable[[], Input]]


def facts(bridge: str) -> SeatFacts:
    return SeatFacts(name=bridge, timeout_seconds=60, started_at=AT, finished_at=AT)


def ready(bridge: str, **fields: Any) -> Callable[[], Input]:
    return lambda: SeatReady(seat=seat(bridge, **fields), at=AT)


def reported(report: BridgeReport, **fields: Any) -> Callable[[], Input]:
    return lambda: SeatReported(report=report, at=AT, **fields)


def halted(bridge: str) -> Callable[[], Input]:
    return reported(
        halted_report(task(), facts(bridge), "not_authenticated", f"log in to {bridge}")
    )


def skipped(bridge: str, reason: str = "cli_not_found") -> Callable[[], Input]:
    return reported(skipped_report(task(), facts(bridge), reason))


def finds(*titles: str, **fields: Any) -> Says:
    """Every expert finds the same; nobody challenges; the Devil's Advocate confirms what it is shown."""

    def says(call: Call) -> object:
        key = call.key
        if key.step is Step.ANALYSIS and key.role is Role.EXPERT:
            return items(
                *(
                    item(title, **{"severity": "HIGH", "evidence": HERE, **fields})
                    for title in titles
                )
            )
        if key.step is Step.STAGE_B and key.role is Role.CHALLENGER:
            shown = json.loads(
                call.prompt.split('"previous_findings":')[1].split("\n")[0][:-1]
            )
            return {"challenge_notes": [note(one["id"]) for one in shown]}
        return {"outputs": [], "rulings": [], "challenges": [], "responses": []}

    return says


def note(finding_id: str, outcome: str = "confirmed", **fields: Any) -> dict[str, Any]:
    usual = {
        "challenge": "shared assumption",
        "mechanism": "missing-assumption",
        "response": "looked",
    }
    return {"finding_id": finding_id, "outcome": outcome, **usual, **fields}


class Council:
    """Drives a council with scripted seats and answers; keeps every input for replay."""

    def __init__(
        self, seats: Seats, says: Says, files: Any = FILES, **plan: Any
    ) -> None:
        fields = plan.pop("task_fields", {})
        options = {
            name: plan.pop(name)
            for name in CouncilOptions.__struct_fields__
            if name in plan
        }
        plan["options"] = CouncilOptions(**options)
        # What is not said is the specification's: one call a role.
        plan["protocol"] = options.get("protocol", CouncilProtocol.FULL)
        usual: dict[str, Any] = {
            "task": task(**fields),
            "seats": tuple(seats),
            "today": TODAY,
        }
        self.run = CouncilRun(CouncilPlan(**{**usual, **plan}), surroundings(files))
        self.seats = seats
        self.says = says
        self.calls: list[Call] = []
        self.inputs: list[Input] = []
        self.questions: list[str] = []
        self.typed: list[str | None] = []
        self.last = Turn()

    def drive(self) -> Council:
        self._carry_out(self.run.start(AT))
        return self

    def feed(self, happened: Input) -> Council:
        self.inputs.append(happened)
        self._carry_out(self.run.feed(happened))
        return self

    def _carry_out(self, turn: Turn) -> None:
        self.last = turn
        for seating in turn.seatings:
            self.feed(self.seats[seating.seat]())
        self.calls += turn.calls
        for call in turn.calls:
            self.feed(Driver(None, self.says).answer(call))  # type: ignore[arg-type]
        if turn.question is not None:
            self.questions.append(turn.question.seat)
            answer = self.typed.pop(0) if self.typed else None
            self.feed(UserAnswered(seat=turn.question.seat, answer=answer, at=AT))

    @property
    def report(self) -> CouncilReport:
        assert isinstance(self.run.report, CouncilReport)
        return self.run.report

    @property
    def aborted(self) -> AbortedReport:
        assert isinstance(self.run.report, AbortedReport)
        return self.run.report

    def stage_b(self) -> list[str]:
        return [str(call.key) for call in self.calls if call.key.step is Step.STAGE_B]


TWO: Seats = {"claude": ready("claude"), "codex": ready("codex", connection="mcp")}


def test_two_bridges_that_agree_confirm_a_finding() -> None:
    council = Council(TWO, finds("SQL injection")).drive()
    (finding,) = council.report.multi_source_confirmed
    assert (finding.id, finding.confirmed_by, finding.da_challenged) == (
        "MMC001",
        ("claude", "codex"),
        True,
    )
    assert (
        finding.confirmation.evidence
        and finding.confirmation.model
        and finding.confirmation.runtime
    )
    assert (council.report.verdict, council.report.stage_b) == (
        Verdict.CONCERNS,
        "completed",
    )


def test_a_report_can_be_written_and_read_again() -> None:
    report = Council(TWO, finds("SQL injection")).drive().report
    assert council_report_from_json(msgspec.json.encode(report)) == report


def test_the_older_key_of_a_report_is_understood() -> None:
    document = json.loads(
        msgspec.json.encode(Council(TWO, finds("SQL")).drive().report)
    )
    document["multi_model_confirmed"] = document.pop("multi_source_confirmed")
    read = council_report_from_json(json.dumps(document))
    assert isinstance(read, CouncilReport)
    assert read.multi_source_confirmed


@pytest.mark.parametrize(
    "document", ["", "[]", "{}", '{"status":"ABORTED"}', "nonsense"]
)
def test_what_is_no_report_is_refused(document: str) -> None:
    with pytest.raises(ProtocolError, match="not a council report"):
        council_report_from_json(document)


def test_the_coordinator_is_of_another_family_than_most_findings() -> None:
    council = Council(
        {"claude": ready("claude"), "gemini": ready("gemini")},
        lambda call: _only(call, "claude"),
    )
    council.drive()
    assert council.stage_b()[0].startswith("gemini/")


def _only(call: Call, bridge: str) -> object:
    return (
        finds("Its own")(call)
        if call.key.seat == bridge or call.key.step is Step.STAGE_B
        else items()
    )


def test_the_coordinator_sees_ids_and_no_names() -> None:
    council = Council(TWO, finds("SQL injection")).drive()
    (shown, *_) = [call for call in council.calls if call.key.step is Step.STAGE_B]
    assert "MMC001" in shown.prompt
    assert not [
        name for name in ("claude", "codex", '"C001"', '"X001"') if name in shown.prompt
    ]


@pytest.mark.parametrize(
    ("intensity", "rounds"), [("quick", 1), ("standard", 2), ("thorough", 2)]
)
def test_stage_b_has_the_rounds_of_its_intensity(intensity: str, rounds: int) -> None:
    council = Council(
        TWO, finds("SQL injection"), task_fields={"intensity": intensity}
    ).drive()
    assert council.report.debate_rounds == rounds


def test_thorough_challenges_new_integration_findings_too() -> None:
    def says(call: Call) -> object:
        if call.key.step is Step.STAGE_B and call.key.role is Role.INTEGRATION:
            return items(item("Both together lose data", severity="HIGH"))
        return finds("SQL injection")(call)

    council = Council(TWO, says, task_fields={"intensity": "thorough"}).drive()
    (found,) = council.report.integration_findings
    assert (found.id, found.da_challenged, council.report.debate_rounds) == (
        "INT001",
        True,
        3,
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            note("MMC001", "downgraded", new_severity="LOW", response=f"see {HERE}"),
            ("multi", "LOW"),
        ),
        (
            note("MMC001", "downgraded", new_severity="INFO", response="INFO, fine"),
            ("multi", "HIGH"),
        ),
        (note("MMC001", "downgraded", new_severity="CRITICAL"), ("multi", "HIGH")),
        (note("MMC001", "disputed"), ("disputed", "HIGH")),
        (note("MMC001", "withdrawn", response="it is handled"), ("disputed", "HIGH")),
        (
            note("MMC001", "withdrawn", response=f"handled, see {HERE}"),
            ("withdrawn", "HIGH"),
        ),
        (note("MMC001", "raised"), ("multi", "HIGH")),
    ],
)
def test_what_a_note_of_the_devils_advocate_does(
    answer: dict[str, Any], expected: tuple[str, str]
) -> None:
    def says(call: Call) -> object:
        if call.key.step is Step.STAGE_B and call.key.role is Role.CHALLENGER:
            return {"challenge_notes": [answer]}
        return finds("SQL injection")(call)

    report = Council(TWO, says).drive().report
    everything = [
        *report.findings(),
        *(one.finding for one in report.withdrawn_findings),
    ]
    assert [(one.cls.value, one.severity) for one in everything] == [expected]


def test_a_finding_that_changes_class_gets_a_new_id_and_remembers_the_old() -> None:
    def says(call: Call) -> object:
        if call.key.step is Step.STAGE_B and call.key.role is Role.CHALLENGER:
            return {"challenge_notes": [note("MMC001", "disputed")]}
        return finds("SQL injection")(call)

    (finding,) = Council(TWO, says).drive().report.disputed_findings
    assert (finding.id, finding.was) == ("D001", "MMC001")
    assert {one.bridge for one in finding.positions} == {
        "claude",
        "codex",
        "coordinator",
    }


def test_a_failed_coordinator_leaves_the_classification_and_lowers_confidence() -> None:
    def says(call: Call) -> object:
        return None if call.key.step is Step.STAGE_B else finds("SQL injection")(call)

    report = Council(TWO, says).drive().report
    (finding,) = report.multi_source_confirmed
    assert (report.stage_b, finding.confidence) == ("failed", "medium")
    assert "stage_b_failed" in report.warnings


def test_a_coordinator_that_fails_late_leaves_the_classification_too() -> None:
    def says(call: Call) -> object:
        key = call.key
        if key.step is Step.STAGE_B and key.role is Role.INTEGRATION:
            return items(item("Retries repeat the order", severity="HIGH"))
        if key.step is Step.STAGE_B:
            return (
                {"challenge_notes": [note("MMC001", "disputed")]}
                if key.round == 1
                else None
            )
        return finds("SQL injection")(call)

    report = Council(TWO, says, task_fields={"intensity": "thorough"}).drive().report
    assert (report.stage_b, report.challenge_notes) == ("failed", ())
    assert [one.id for one in report.findings()] == ["MMC001"]


def test_an_owed_note_is_asked_for_once_more_and_then_warned_about() -> None:
    def says(call: Call) -> object:
        if call.key.step is Step.STAGE_B and call.key.role is Role.CHALLENGER:
            return {"challenge_notes": []}
        return finds("SQL injection")(call)

    council = Council(TWO, says).drive()
    assert council.stage_b()[:2] == [
        "codex/1/stage_b/challenger",
        "codex/1/stage_b/challenger#2",
    ]
    assert "da_challenge_missing:MMC001" in council.report.warnings
    assert not council.report.multi_source_confirmed[0].da_challenged


# -- seats


def test_a_halted_bridge_is_converted_and_recorded_when_nobody_can_be_asked() -> None:
    council = Council({**TWO, "gemini": halted("gemini")}, finds("SQL")).drive()
    report = council.report
    assert report.skip_reasons == {"gemini": "halted:not_authenticated"}
    assert report.partial_coverage and not council.questions


def test_the_user_is_asked_and_may_skip() -> None:
    council = Council(
        {**TWO, "gemini": halted("gemini")}, finds("SQL"), interactive=True
    )
    council.typed = ["what?", "skip"]
    report = council.drive().report
    assert council.questions == ["gemini", "gemini"]
    assert (report.skip_reasons, report.partial_coverage) == (
        {"gemini": "user_chose_skip"},
        False,
    )


def test_a_retry_seats_the_bridge_again_with_calls_of_its_own() -> None:
    tries = iter([halted("gemini"), ready("gemini")])
    council = Council(
        {"claude": ready("claude"), "gemini": lambda: next(tries)()},
        finds("SQL"),
        interactive=True,
    )
    council.typed = ["retry"]
    report = council.drive().report
    assert report.bridges_available == ("claude", "gemini")
    assert any(
        str(call.key).startswith("gemini/1/") and call.key.seating == 2
        for call in council.calls
    )


def test_an_abort_stops_everything() -> None:
    council = Council(
        {**TWO, "gemini": halted("gemini")}, finds("SQL"), interactive=True
    )
    council.typed = ["abort"]
    assert council.drive().aborted.abort_reason == "user_abort:gemini"


def test_a_retry_takes_the_abort_back() -> None:
    council = Council(
        {**TWO, "gemini": halted("gemini")}, finds("SQL"), interactive=True
    )
    council.typed = ["abort"]
    council.drive().seats["gemini"] = ready("gemini")
    assert council.feed(Retried(seat="gemini", at=AT)).report.bridges_available == (
        *TWO,
        "gemini",
    )


@pytest.mark.parametrize("route", [DEEP_COUNCIL, PARALLEL_WORKFLOW])
def test_after_a_bridge_relayed_an_abort_nobody_is_asked_anything(route: str) -> None:
    relayed = msgspec.structs.replace(
        skipped_report(task(), facts("claude"), "stopped"),
        status=Status.ABORTED,
        skip_reason=None,
    )
    seats = {"claude": reported(relayed), "codex": ready("codex")}
    council = Council(seats, finds("SQL"), route=route).drive()
    assert (council.aborted.abort_reason, council.calls) == ("user_abort:claude", [])


def test_nothing_completed_is_an_aborted_report() -> None:
    aborted = (
        Council({"claude": skipped("claude"), "codex": halted("codex")}, finds("SQL"))
        .drive()
        .aborted
    )
    assert aborted.abort_reason == "No bridges returned COMPLETED results"
    assert (aborted.bridges_skipped, aborted.bridges_halted) == (
        ("claude",),
        ("codex",),
    )


def test_one_runtime_alone_has_no_stage_b() -> None:
    council = Council(
        {"claude": ready("claude")}, finds("SQL"), runtimes=("claude",)
    ).drive()
    assert (council.report.stage_b, council.stage_b()) == ("skipped", [])
    assert council.report.verdict is Verdict.CONCERNS


def test_the_quick_route_takes_the_first_bridge_that_can_be_had() -> None:
    seats = {
        "claude": skipped("claude"),
        "codex": ready("codex"),
        "gemini": ready("gemini"),
    }
    council = Council(seats, finds("SQL"), route=PARALLEL_WORKFLOW).drive()
    assert council.report.bridges_available == ("codex",)
    assert {call.key.seat for call in council.calls} == {"codex"}
    assert {call.key.round for call in council.calls} == {1}


def debating(*titles: str) -> Says:
    def says(call: Call) -> object:
        said = finds(*titles)(call)
        return (
            {"messages": [], "positions": [], "merges": [], **said}
            if isinstance(said, dict)
            else said
        )

    return says


def test_a_standalone_debate_has_rounds_though_nobody_can_write_to_anybody() -> None:
    report = (
        Council({"claude": ready("claude")}, debating("SQL"), route=DEBATE_PROTOCOL)
        .drive()
        .report
    )
    assert report.type == "debate-protocol"
    assert report.verdict is Verdict.CONCERNS


def test_a_debate_that_words_asked_for_seats_everybody_and_is_challenged_across_seats() -> (
    None
):
    static = completed_report(task(), facts("static"), NOTHING_FOUND)
    council = Council(
        {**TWO, "static": reported(static)},
        debating("SQL"),
        route=DEBATE_PROTOCOL,
        everybody=True,
    ).drive()
    assert council.report.bridges_available == ("claude", "codex", "static")
    assert council.report.stage_b == "completed"
    assert council.report.multi_source_confirmed


# -- budgets


def test_a_budget_ends_the_council_before_the_next_round_and_before_stage_b() -> None:
    council = Council(TWO, finds("SQL"), max_calls=7).drive()
    assert len(council.calls) <= 7
    assert (council.report.stage_b, "budget_reached" in council.report.warnings) == (
        "skipped",
        True,
    )


def test_a_seat_that_reports_no_cost_is_named_when_cost_is_limited() -> None:
    report = Council(TWO, finds("SQL"), max_cost_usd=5.0).drive().report
    assert {"cost_unknown:claude", "cost_unknown:codex"} <= set(report.warnings)


# -- late answers, resume, interruption


def rig_report(title: str = "SQL injection") -> BridgeReport:
    council = Council(
        {"claude": ready("claude")}, finds(title), runtimes=("claude",)
    ).drive()
    report = council.run._reports["claude"].report
    fields = {"bridge": "rig:winbox", "model_family": "acme", "connection_used": "rig"}
    return BridgeReport(
        **{
            name: fields.get(name, getattr(report, name))
            for name in report.__struct_fields__
        }
    )


def test_a_pending_rig_does_not_hold_the_report_and_is_folded_in_later() -> None:
    seats: Seats = {
        "claude": ready("claude"),
        "rig:winbox": lambda: SeatPending(seat="rig:winbox", request="req-1", at=AT),
    }
    council = Council(seats, finds("SQL injection")).drive()
    first = council.report
    assert [one["bridge"] for one in first.bridges_pending] == ["rig:winbox"]
    assert not first.partial_coverage and first.single_source_findings
    calls_before = len(council.calls)

    council.feed(SeatReported(report=rig_report(), at=AT, verified=True))
    (confirmed,) = council.report.multi_source_confirmed
    assert confirmed.confirmed_by == ("claude", "rig:winbox")
    assert not council.report.bridges_pending
    assert {call.key.step for call in council.calls[calls_before:]} == {Step.STAGE_B}


def test_stage_b_is_not_repeated_for_findings_that_have_not_changed() -> None:
    seats: Seats = {
        "claude": ready("claude"),
        "rig:winbox": lambda: SeatPending(seat="rig:winbox", request="req-1", at=AT),
    }
    council = Council(seats, finds("SQL injection")).drive()
    before = council.stage_b()
    other = rig_report("A wholly unrelated leak of sockets")
    outputs = tuple(
        type(one)(
            **{**{n: getattr(one, n) for n in one.__struct_fields__}, "evidence": None}
        )
        for one in other.outputs
    )
    other = BridgeReport(
        **{
            **{n: getattr(other, n) for n in other.__struct_fields__},
            "outputs": outputs,
        }
    )
    council.feed(SeatReported(report=other, at=AT, verified=True))
    shown = [call.prompt for call in council.calls if call.key.step is Step.STAGE_B][
        len(before) :
    ]
    # What is settled is shown for comparison, and its outcome stays.
    assert shown and all(prompt.count('"settled":') == 1 for prompt in shown)
    notes = [note["finding_id"] for note in council.report.challenge_notes]
    assert len(notes) == len(set(notes))
    assert len({finding.id for finding in council.report.findings()}) == 2


def test_an_unverified_rig_confirms_nobody() -> None:
    seats: Seats = {
        "claude": ready("claude"),
        "rig:winbox": reported(rig_report(), verified=False),
    }
    report = Council(seats, finds("SQL injection")).drive().report
    assert not report.multi_source_confirmed
    (finding,) = report.single_source_findings
    assert finding.source_bridge == "claude"
    assert [(one.bridge, one.unverified) for one in finding.source_findings] == [
        ("claude", False),
        ("rig:winbox", True),
    ]


def test_only_a_pending_rig_means_waiting_and_no_report() -> None:
    seats: Seats = {
        "claude": skipped("claude"),
        "rig:winbox": lambda: SeatPending(seat="rig:winbox", request="r", at=AT),
    }
    council = Council(seats, finds("SQL")).drive()
    assert council.run.report is None
    assert council.run.waiting_for == ("rig:winbox",)
    council.feed(GivenUp(seat="rig:winbox", at=AT))
    assert council.aborted.skip_reasons["rig:winbox"] == "no_answer"


def test_feeding_the_recorded_inputs_again_gives_the_same_report_and_no_new_call() -> (
    None
):
    council = Council(TWO, finds("SQL injection", "A missing lock")).drive()
    again = CouncilRun(council.run.plan, surroundings(FILES))
    issued = list(again.start(AT).calls)
    for happened in council.inputs:
        issued += again.feed(happened).calls
    answered = {
        one.key for one in council.inputs if isinstance(one, Reply | CallFailed)
    }
    assert again.report == council.run.report
    assert {call.key for call in issued} == answered
    assert again.outstanding == ()


def test_a_half_fed_run_knows_what_is_outstanding() -> None:
    council = Council(TWO, finds("SQL injection")).drive()
    again = CouncilRun(council.run.plan, surroundings(FILES))
    again.start(AT)
    for happened in council.inputs[:4]:
        again.feed(happened)
    assert again.outstanding
    assert again.report is None


def test_a_bridge_without_an_answer_can_be_retried_after_the_report() -> None:
    tries = iter([skipped("gemini"), ready("gemini")])
    council = Council(
        {"claude": ready("claude"), "gemini": lambda: next(tries)()},
        finds("SQL injection"),
    ).drive()
    assert council.report.single_source_findings
    council.feed(Retried(seat="gemini", at=AT))
    assert council.report.multi_source_confirmed


def test_what_comes_late_is_held_against_everything_that_is_there() -> None:
    """Seen: the coordinator got the late findings alone, and numbered its own from 1 again."""
    tries = iter([skipped("gemini"), ready("gemini")])

    def says(call: Call) -> object:
        if call.key.step is Step.STAGE_B and call.key.role is Role.INTEGRATION:
            title = (
                "A retried order is charged twice",
                "Locks of the importer deadlock workers",
            )
            return items(item(title[call.key.seating - 1], severity="LOW"))
        if call.key.seat == "gemini" and call.key.step is Step.ANALYSIS:
            late = {"severity": "HIGH", "evidence": "src/orders.py:1 `import db`"}
            return finds("The driver is imported lazily", **late)(call)
        return finds("SQL injection")(call)

    council = Council({**TWO, "gemini": lambda: next(tries)()}, says).drive()
    before = len(council.calls)
    assert [one.id for one in council.report.findings()] == ["MMC001", "INT001"]

    council.feed(Retried(seat="gemini", at=AT))

    late = [call for call in council.calls[before:] if call.key.step is Step.STAGE_B]
    for call in late:
        assert "SQL injection" in call.prompt
        assert "The driver is imported lazily" in call.prompt
        assert '"settled"' in call.prompt
    ids = [one.id for one in council.report.findings()]
    assert len(ids) == len(set(ids)) == 4
    confirmed = council.report.multi_source_confirmed[0]
    assert (confirmed.id, confirmed.da_challenged) == ("MMC001", True)


def test_a_completed_bridge_is_not_seated_again() -> None:
    council = Council(TWO, finds("SQL injection")).drive()
    calls = len(council.calls)
    council.feed(Retried(seat="claude", at=AT))
    assert len(council.calls) == calls


def test_an_interruption_reports_what_is_there_without_stage_b() -> None:
    run = CouncilRun(
        CouncilPlan(task=task(), seats=("claude",), today=TODAY), surroundings(FILES)
    )
    run.start(AT)
    (expert, *_) = run.feed(SeatReady(seat=seat("claude"), at=AT)).calls
    run.feed(Driver(None, finds("SQL injection")).answer(expert))  # type: ignore[arg-type]
    turn = run.feed(Interrupted(signal="SIGINT", at=AT))
    assert isinstance(run.report, CouncilReport)
    assert (run.report.stage_b, len(turn.cancelled)) == ("skipped", 2)
    assert "interrupted:SIGINT" in run.report.warnings
    assert list(run.report.findings())


def test_an_interruption_before_anything_was_heard_aborts() -> None:
    run = CouncilRun(
        CouncilPlan(task=task(), seats=("claude", "codex"), today=TODAY),
        surroundings(FILES),
    )
    run.start(AT)
    run.feed(Interrupted(signal="SIGTERM", at=AT))
    assert isinstance(run.report, AbortedReport)


# -- what is known from before


def dismissal(fingerprint: str, **fields: Any) -> dict[str, Any]:
    usual = {
        "fingerprint": fingerprint,
        "title": "SQL injection",
        "reason": "checked",
        "author": "Ada",
    }
    return {**usual, "date": "2026-11-01", **fields}


def test_a_dismissed_finding_leaves_the_verdict_and_is_listed() -> None:
    known = next(
        Council(TWO, finds("SQL injection")).drive().report.findings()
    ).fingerprint
    council = Council(
        TWO, finds("SQL injection"), dismissals=Dismissals((dismissal(known),))
    ).drive()
    assert council.report.verdict is Verdict.PASS
    assert [one.reason for one in council.report.dismissed_findings] == ["checked"]


def test_a_change_cannot_silence_its_own_gate() -> None:
    known = next(
        Council(TWO, finds("SQL injection")).drive().report.findings()
    ).fingerprint
    entries = (dismissal(known),)
    by_change = (
        Council(TWO, finds("SQL injection"), dismissals=Dismissals(entries, base=()))
        .drive()
        .report
    )
    before = (
        Council(
            TWO, finds("SQL injection"), dismissals=Dismissals(entries, base=entries)
        )
        .drive()
        .report
    )
    allowed = Council(
        TWO,
        finds("SQL injection"),
        dismissals=Dismissals(entries, base=()),
        allow_new_dismissals=True,
    )
    assert (by_change.verdict, by_change.gate_verdict) == (
        Verdict.PASS,
        Verdict.CONCERNS,
    )
    assert by_change.dismissed_findings[0].dismissed_in_this_change
    assert before.gate_verdict is Verdict.PASS
    assert allowed.drive().report.gate_verdict is Verdict.PASS


def test_runs_are_compared_through_the_records_they_leave() -> None:
    first = Council(TWO, finds("SQL injection")).drive()
    again = Council(
        TWO, finds("SQL injection"), records=first.run.records, previous_review_id="r0"
    ).drive()
    gone = Council(
        TWO, finds(), records=again.run.records, previous_review_id="r1"
    ).drive()
    assert [one.id for one in again.report.comparison.persistent] == ["MMC001"]
    assert [one.how for one in gone.report.comparison.fixed] == ["not_reported"]


def test_a_finding_known_by_its_title_alone_is_marked_and_named_by_its_fingerprint_when_it_is_gone() -> (
    None
):
    first = Council(TWO, finds("SQL injection", evidence="")).drive()
    (found,) = first.report.findings()
    assert (found.fingerprint[:3], found.identity) == ("t1:", "weak")
    counted_on = tuple(
        msgspec.structs.replace(one, key=f"{one.key}-2") for one in first.run.records
    )
    gone = Council(TWO, finds(), records=counted_on, previous_review_id="r0").drive()
    assert [one.fingerprint for one in gone.report.comparison.fixed] == [
        found.fingerprint
    ]


def test_the_callers_findings_take_part_in_a_fallback() -> None:
    seeded = rig_report("What the caller saw").outputs
    council = Council(
        {"claude": ready("claude")},
        finds("SQL injection"),
        fallback=True,
        seed_findings=seeded,
    )
    report = council.drive().report
    assert report.fallback and report.bridges_invoked == ("claude",)
    assert {
        source.bridge for one in report.findings() for source in one.source_findings
    } == {"claude", "caller"}


def test_static_alone_is_said_to_be_no_model() -> None:
    static = rig_report()
    names = static.__struct_fields__
    fields = {
        "bridge": "static",
        "model_family": "static-analysis",
        "connection_used": "embedded",
    }
    report = BridgeReport(
        **{name: fields.get(name, getattr(static, name)) for name in names}
    )
    council = Council({"static": reported(report)}, finds()).drive()
    assert "no_model_took_part" in council.report.warnings
    assert (council.report.stage_b, council.report.council_type) == (
        "skipped",
        "static-analysis",
    )


THREE: Seats = {**TWO, "gemini": ready("gemini", connection="mcp")}
WRONG = f"it is wrong, see {HERE}"


def questioned(**answers: dict[str, Any]) -> Council:
    """claude and codex report one problem, gemini another; then each answers a question about the first."""

    def says(call: Call) -> object:
        if "QUESTION: really?" in call.prompt:
            return {"challenge_notes": [note("MMC001", **answers[call.key.seat])]}
        titles = (
            ("Unbounded queue",) if call.key.seat == "gemini" else ("SQL injection",)
        )
        return (
            finds(*titles)(call) if call.key.step is not Step.STAGE_B else finds()(call)
        )

    council = Council(THREE, says).drive()
    assert [one.id for one in council.report.multi_source_confirmed] == ["MMC001"]
    return council.feed(Questioned(finding_id="MMC001", text="really?", at=AT))


@pytest.mark.parametrize(
    ("claude", "codex", "gemini", "cls", "severity"),
    [
        ({}, {}, {}, "multi", "HIGH"),
        ({}, {}, {"outcome": "downgraded", "new_severity": "LOW"}, "multi", "HIGH"),
        ({}, *2 * [{"outcome": "downgraded", "new_severity": "LOW"}], "multi", "HIGH"),
        (
            {},
            *2 * [{"outcome": "downgraded", "new_severity": "LOW", "response": WRONG}],
            "multi",
            "LOW",
        ),
        ({}, {}, {"outcome": "withdrawn", "response": WRONG}, "disputed", "HIGH"),
        (*2 * [{"outcome": "withdrawn", "response": WRONG}], {}, "withdrawn", "HIGH"),
        (*2 * [{"outcome": "withdrawn", "response": "sorry"}], {}, "disputed", "HIGH"),
        ({}, {}, {"outcome": "disputed"}, "disputed", "HIGH"),
    ],
)
def test_what_a_question_changes_follows_from_all_answers(
    claude: dict[str, Any],
    codex: dict[str, Any],
    gemini: dict[str, Any],
    cls: str,
    severity: str,
) -> None:
    council = questioned(claude=claude, codex=codex, gemini=gemini)
    (finding,) = [
        one for one in council.report.everything() if one.title == "SQL injection"
    ]
    assert (finding.cls, finding.severity) == (cls, severity)
    steps = [(one.step, one.by) for one in finding.record][-4:]
    assert steps == [
        ("challenge", "you"),
        ("defence", "claude"),
        ("defence", "codex"),
        ("ruling", "gemini"),
    ]
    assert len(list(council.report.everything())) == 2, "the other finding is as it was"
    asked = [call for call in council.calls if "QUESTION: really?" in call.prompt]
    assert [call.key.seat for call in asked] == ["claude", "codex", "gemini"]
    assert ["you reported it" in call.prompt for call in asked] == [True, True, False]
    assert not any(
        '"by":"claude' in call.prompt or '"by": "claude' in call.prompt
        for call in asked
    )
    again = CouncilRun(council.run.plan, surroundings(FILES))
    again.start(AT)
    for happened in council.inputs:
        again.feed(happened)
    assert again.report == council.report, "what was answered is never asked again"


def test_a_finding_that_becomes_disputed_takes_no_id_that_is_taken() -> None:
    def says(call: Call) -> object:
        if "QUESTION:" in call.prompt:
            return {"challenge_notes": [note("MMC001", "disputed")]}
        if call.key.step is Step.STAGE_B and call.key.role is Role.CHALLENGER:
            return {"challenge_notes": [note("MMC001"), note("MMC002", "disputed")]}
        return finds("SQL injection", "Unbounded queue of jobs")(call)

    council = Council(TWO, says).drive()
    assert [one.id for one in council.report.disputed_findings] == ["D001"]
    council.feed(Questioned(finding_id="MMC001", text="really?", at=AT))
    assert sorted(one.id for one in council.report.disputed_findings) == [
        "D001",
        "D002",
    ]
