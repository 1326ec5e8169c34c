"""A whole council without I/O: seats, halted runtimes, Stage A, Stage B, report, and what is folded in later
(council §14).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from bridgehead.contract.report import BridgeReport
from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import (
    Confidence,
    CouncilProtocol,
    Intensity,
    LocalCouncilType,
    Status,
    TaskType,
)
from bridgehead.council.attendance import Attendance, SeatStatus
from bridgehead.council.calls import (
    Call,
    CallFailed,
    CallKey,
    DeadlineReached,
    GivenUp,
    Input,
    Interrupted,
    Questioned,
    Reply,
    Result,
    Retried,
    Seat,
    SeatEvent,
    Seating,
    SeatPending,
    SeatReady,
    SeatReported,
    Step,
    Turn,
    UserAnswered,
    UserQuestion,
)
from bridgehead.council.debate.call_batch import BUDGET_REACHED, Budget
from bridgehead.council.debate.five_phase import FivePhaseRun
from bridgehead.council.debate.multi_model import MultiModelRun
from bridgehead.council.debate.seat_run import NO_ANSWER, SeatRun
from bridgehead.council.findings.fingerprint import with_identity
from bridgehead.council.findings.history import FindingRecord
from bridgehead.council.interfaces import RunInputs
from bridgehead.council.reporting.report import STATIC, AbortedReport, CouncilReport
from bridgehead.council.reporting.seat_report import (
    Analysed,
    SeatFacts,
    completed_report,
    skipped_report,
)
from bridgehead.council.request.plan import DEFAULT, CouncilPlan, Preset
from bridgehead.council.request.settings import is_rig
from bridgehead.council.synthesis.council_report import aborted, assemble_report
from bridgehead.council.synthesis.finding import CALLER, SeatReport
from bridgehead.council.synthesis.synthesis import Synthesis

COUNCIL_LOG: Final = "council"
# Warnings of a seat that the council's report repeats: they say what it did not see.
_OF_SEATS: Final = [
    "material_left_out",
    "static_truncated",
    "analyser_failed",
    "analyser_absent",
    "suppressed_by_comment",
    "comment_not_obeyed",
    "borrowed_code",
    "asked_without_tools",
]


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What a run that is taken up again still has to do."""

    calls: Mapping[str, tuple[Call, ...]]
    """By seat; a seat that was ready has to be found again first."""
    seatings: tuple[Seating, ...]
    pending: tuple[SeatPending, ...]
    """Rigs whose answers may have come in meanwhile."""
    question: UserQuestion | None


class CouncilRun:
    """One council from its first seating to its report, and on through later answers."""

    def __init__(self, plan: CouncilPlan, inputs: RunInputs) -> None:
        self.plan = plan
        self.report: CouncilReport | AbortedReport | None = None
        self.records: tuple[FindingRecord, ...] = plan.records
        """The history after the last report."""
        self.attendance = Attendance(plan.seats, interactive=plan.options.interactive)
        self._inputs = inputs
        self._budget = Budget(plan.options)
        self._runs: dict[str, SeatRun] = {}
        self._seats: dict[str, Seat] = {}
        self._reports: dict[str, SeatReport] = {}
        self._pending: dict[str, dict[str, str]] = {}
        self._awaited: set[str] = set()
        self._seatings: dict[str, int] = {}
        self._not_tried: list[str] = []
        self._unchecked: set[str] = set()
        """Seats that may turn out to be ready."""
        self._ready_seats: list[Seat] = []
        """Ready, and not begun: how many there are decides how many roles share a call."""
        self._protocol: CouncilProtocol | None = None
        self._layer = Synthesis(plan, inputs, self._budget, self._log)
        self._warnings: list[str] = []
        self._events: list[SeatEvent] = []
        self._at = ""
        self._interrupted: str | None = None

    def again(self) -> CouncilRun:
        """The same council before its start."""
        return CouncilRun(self.plan, self._inputs)

    def start(self, at: str) -> Turn:
        """Begin: every seat is to be checked."""
        self._at = at
        self._log(
            "council_start",
            **council_facts(self.plan.task, self.plan.seats),
            timestamp=at,
        )
        if self.plan.takes_first_available:
            # One seat is enough: the others are tried only if it cannot be had.
            candidates = [seat for seat in self.plan.seats if seat != STATIC]
            first = candidates[:1]
            self._not_tried = candidates[1:]
            return self._turn(
                self._seat(*first, *(b for b in self.plan.seats if b == STATIC))
            )
        return self._turn(self._seat(*self.plan.seats))

    def feed(self, happened: Input) -> Turn:
        """Something happened; returns what is to be done now."""
        self._at = happened.at
        return self._turn(self._handlers[type(happened)](self, happened))

    @property
    def outstanding(self) -> tuple[CallKey, ...]:
        """Keys of all calls that have no result yet."""
        inside = [key for run in self._runs.values() for key in run.outstanding]
        return (*inside, *self._layer.outstanding)

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """Seats that have not come back: being checked, running, or pending."""
        return tuple(
            seat
            for seat in self.plan.seats
            if seat in self._awaited or seat in self._pending
        )

    def unfinished(self, turns: Sequence[Turn], earlier: Sequence[Input]) -> Unfinished:
        """What is left of `turns`, those of an earlier process, after it was fed `earlier`: answered by nobody."""
        waiting = set(self.waiting_for)
        asked = {one.seat: one for one in earlier if isinstance(one, SeatPending)}
        # A seat that was shut out has left calls behind that nobody waits for.
        wanted = {
            key
            for key in self.outstanding
            if key.step is Step.STAGE_B or key.seat in waiting
        }
        latest = {
            call.key: call
            for turn in turns
            for call in turn.calls
            if call.key in wanted
        }
        seats = dict.fromkeys(key.seat for key in latest)
        return Unfinished(
            calls={
                seat: tuple(call for key, call in latest.items() if key.seat == seat)
                for seat in seats
            },
            seatings=_unanswered_seatings(turns, earlier),
            pending=tuple(one for one in asked.values() if one.seat in waiting),
            question=turns[-1].question,
        )

    # -- what can happen

    def _ready(self, happened: SeatReady) -> Turn:
        seat = happened.seat
        if seat.name not in self._awaited:
            return Turn()
        self._seats[seat.name] = seat
        self._unchecked.discard(seat.name)
        self._ready_seats.append(seat)
        return self._begin_ready()

    def _begin_ready(self) -> Turn:
        """Begin with the seats that are ready, once it is known how many share a call."""
        if self._protocol is None:
            if self._unchecked and self.plan.waits_for_seats:
                return Turn()
            count = len(self._ready_seats)
            self._protocol = self.plan.protocol_of(count)
            self._log("protocol", protocol=self._protocol.value, seats=count)
        turn = Turn()
        while self._ready_seats:
            turn = turn.then(self._begin_seat(self._ready_seats.pop(0)))
        return turn

    def _begin_seat(self, seat: Seat) -> Turn:
        task = self.plan.task
        if self.plan.is_parallel_workflow:
            task = msgspec.structs.replace(task, intensity=Intensity.QUICK)
        run = run_for(
            seat,
            task,
            self._inputs,
            budget=self._budget,
            seating=self._seatings[seat.name],
            debate=self.plan.preset if self.plan.is_debate else None,
            shared=self._is_shared,
        )
        self._runs[seat.name] = run
        return self._after_seat(run.start(self._at))

    @property
    def _is_shared(self) -> bool:
        return self._protocol is CouncilProtocol.SHARED

    def _reported(self, happened: SeatReported) -> Turn:
        self._pending.pop(happened.report.bridge, None)
        return self._take_report(happened.report, verified=happened.verified)

    def _pends(self, happened: SeatPending) -> Turn:
        self._awaited.discard(happened.seat)
        self._unchecked.discard(happened.seat)
        asked = {
            "bridge": happened.seat,
            "request": happened.request,
            "since": happened.at,
        }
        self._pending[happened.seat] = asked
        self._log("seat_pending", **asked)
        return self._begin_ready().then(self._advance())

    def _result(self, happened: Result) -> Turn:
        if happened.key.step is Step.STAGE_B:
            return (
                Turn()
                if self._layer.is_done
                else self._after_layer(self._layer.received(happened))
            )
        run = self._runs.get(happened.key.seat)
        return Turn() if run is None else self._after_seat(run.feed(happened))

    def _deadline(self, happened: DeadlineReached) -> Turn:
        run = self._runs.get(happened.seat)
        return Turn() if run is None else self._after_seat(run.feed(happened))

    def _given_up(self, happened: GivenUp) -> Turn:
        run = self._runs.get(happened.seat)
        if run is not None and run.report is None:
            return self._after_seat(run.feed(happened))
        if happened.seat in self._pending or happened.seat in self._awaited:
            self._pending.pop(happened.seat, None)
            return self._take_report(self._skipped(happened.seat, NO_ANSWER))
        return Turn() if self._layer.is_done else self._give_up_stage_b(NO_ANSWER)

    def _retried(self, happened: Retried) -> Turn:
        known = self._reports.get(happened.seat)
        if known is not None and known.report.status is Status.COMPLETED:
            return Turn()
        self.attendance.go_on()
        return self._seat(happened.seat)

    def _questioned(self, happened: Questioned) -> Turn:
        self._log("question", finding_id=happened.finding_id, text=happened.text)
        askable = list(self._askable().values())
        return self._after_layer(
            self._layer.question(happened.finding_id, happened.text, askable)
        )

    def _answered(self, happened: UserAnswered) -> Turn:
        again = self.attendance.answered(happened.seat, happened.answer)
        return self._seat(happened.seat) if again else self._advance()

    def _interrupt(self, happened: Interrupted) -> Turn:
        """End now with what is there: seats are cut short, Stage B is not begun."""
        self._interrupted = happened.signal
        self._warnings.append(f"interrupted:{happened.signal}")
        turn = Turn()
        for seat in list(self._awaited):
            run = self._runs.get(seat)
            if run is None or run.report is not None:
                self._awaited.discard(seat)
                turn = turn.then(
                    self._take_report(self._skipped(seat, "interrupted"), advance=False)
                )
            else:
                turn = turn.then(self._after_seat(run.feed(happened), advance=False))
        if not self._layer.is_done:
            return turn.then(self._give_up_stage_b("interrupted"))
        return turn if self.report is not None else turn.then(self._advance())

    _handlers: Final[Mapping[type, Callable[[Any, Any], Turn]]] = {
        Reply: _result,
        CallFailed: _result,
        SeatReady: _ready,
        SeatReported: _reported,
        SeatPending: _pends,
        DeadlineReached: _deadline,
        GivenUp: _given_up,
        Retried: _retried,
        Questioned: _questioned,
        UserAnswered: _answered,
        Interrupted: _interrupt,
    }

    # -- seats

    def _seat(self, *seats: str) -> Turn:
        for seat in seats:
            self._awaited.add(seat)
            if _may_be_ready(seat):
                self._unchecked.add(seat)
            self._runs.pop(seat, None)
            self._seatings[seat] = self._seatings.get(seat, 0) + 1
        return Turn(
            seatings=tuple(Seating(seat, self._seatings[seat]) for seat in seats)
        )

    def _after_seat(self, turn: Turn, *, advance: bool = True) -> Turn:
        """Pass a seat's turn on; when it brought the report, the council may go on."""
        for report in turn.seat_reports:
            return turn.then(self._take_report(report, written=True, advance=advance))
        return turn

    def _take_report(
        self,
        report: BridgeReport,
        *,
        verified: bool = True,
        written: bool = False,
        advance: bool = True,
    ) -> Turn:
        """A seat came back. `written`: its own turn carries the report already."""
        self._awaited.discard(report.bridge)
        self._unchecked.discard(report.bridge)
        self._ready_seats = [
            seat for seat in self._ready_seats if seat.name != report.bridge
        ]
        self._reports[report.bridge] = SeatReport(
            report if written else self._identified(report), verified
        )
        self.attendance.reported(
            SeatStatus(
                report.bridge,
                report.status,
                report.skip_reason,
                report.halt_reason,
                report.halt_message,
            )
        )
        turn = Turn() if written else Turn(seat_reports=(report,))
        is_empty = report.status in (Status.SKIPPED, Status.HALTED)
        if self._not_tried and is_empty and report.bridge != STATIC:
            return turn.then(self._seat(self._not_tried.pop(0)))
        if not advance:
            return turn
        return turn.then(self._begin_ready()).then(self._advance())

    def _identified(self, report: BridgeReport) -> BridgeReport:
        """Reports that are not of our own making get their evidence checked here, against our tree (§23)."""
        outputs, withdrawn = (
            tuple(
                with_identity(one, self._inputs.tree, self._inputs.renames)
                for one in listed
            )
            for listed in (report.outputs, report.withdrawn_outputs)
        )
        return msgspec.structs.replace(
            report, outputs=outputs, withdrawn_outputs=withdrawn
        )

    def _skipped(self, seat: str, reason: str) -> BridgeReport:
        facts = SeatFacts(
            name=seat, timeout_seconds=0, started_at=self._at, finished_at=self._at
        )
        return skipped_report(self.plan.task, facts, reason)

    # -- going on when all seats are settled

    def _advance(self) -> Turn:
        if self.attendance.aborted_by is not None:
            return self._abort()
        if self._awaited:
            return Turn()
        question = self.attendance.question()
        if (
            question is not None
            and self.plan.options.interactive
            and self._interrupted is None
        ):
            return Turn(question=question)
        while question is not None:
            seat = self.attendance.convert(question.seat)
            reasons = {"halt_reason": seat.halt_reason, "skip_reason": seat.skip_reason}
            self._log("bridge_converted", bridge=seat.name, **reasons)
            question = self.attendance.question()
        if self.attendance.available:
            debate = not self._skips_stage_b and self._interrupted is None
            return self._after_layer(
                self._layer.begin(
                    self._all_reports(),
                    self._askable(),
                    debate=debate,
                    shared=self._is_shared,
                    called_in={name: one.called_in for name, one in self._runs.items()},
                )
            )
        # With a rig still to answer the council is not over (council §14.8).
        return Turn() if self._pending else self._abort()

    @property
    def _skips_stage_b(self) -> bool:
        """Whether nobody takes a second look; a quick council that shares its calls has none."""
        is_quick = self.plan.task.intensity is Intensity.QUICK
        return self.plan.skips_stage_b or (self._is_shared and is_quick)

    def _abort(self) -> Turn:
        cancelled = self.outstanding
        self._awaited.clear()  # whoever is still being checked is not seated any more
        self.report = aborted(self.plan, self.attendance, at=self._at)
        self._log(
            "council_complete", status="ABORTED", abort_reason=self.report.abort_reason
        )
        return Turn(cancelled=cancelled, report=self.report)

    # -- Layer 1 and the report

    def _after_layer(self, calls: tuple[Call, ...]) -> Turn:
        turn = Turn(calls=calls)
        if not self._layer.is_done:
            return turn
        return turn.then(self._amend()).then(self._conclude())

    def _amend(self) -> Turn:
        """Take over what Stage B added to the reports of seats."""
        amended = self._layer.amended
        self._layer.amended = {}
        for name, report in amended.items():
            self._reports[name] = SeatReport(report)
        return Turn(seat_reports=tuple(amended.values()))

    def _give_up_stage_b(self, reason: str) -> Turn:
        turn = Turn(cancelled=self._layer.give_up(reason))
        return turn.then(self._amend()).then(self._conclude())

    def _conclude(self) -> Turn:
        warnings = [*self._warnings, *self._present_warnings(), *self._layer.warnings]
        self.report, self.records = assemble_report(
            self.plan,
            self._inputs,
            self._all_reports(),
            self.attendance,
            self._layer.findings,
            self._layer.debate,
            pending=tuple(self._pending.values()),
            warnings=tuple(dict.fromkeys(warnings)),
            at=self._at,
        )
        self._log("council_complete", status="COMPLETED", verdict=self.report.verdict)
        return Turn(report=self.report)

    def _all_reports(self) -> list[SeatReport]:
        ordered = [
            self._reports[seat] for seat in self.plan.seats if seat in self._reports
        ]
        return [*ordered, *self._caller()]

    def _caller(self) -> list[SeatReport]:
        """What the caller brought along, as a pseudo seat (council §14.7)."""
        if not self.plan.options.seed_findings:
            return []
        facts = SeatFacts(
            name=CALLER, timeout_seconds=0, started_at=self._at, finished_at=self._at
        )
        found = Analysed(
            self.plan.options.seed_findings, Confidence.MEDIUM, LocalCouncilType.NONE
        )
        return [
            SeatReport(self._identified(completed_report(self.plan.task, facts, found)))
        ]

    def _askable(self) -> dict[str, Seat]:
        """COMPLETED seats that can take a prompt."""
        return {
            name: seat
            for name, seat in self._seats.items()
            if name in self.attendance.available
        }

    def _present_warnings(self) -> Iterator[str]:
        """What is true of this report; a seat that is folded in later may end it."""
        for converted in self.attendance.auto_skipped:
            yield f"halted_bridge_skipped:{converted['bridge']}"
        if all(name == STATIC for name in self.attendance.available):
            yield "no_model_took_part"
        for name, seat in self._reports.items():
            if BUDGET_REACHED in seat.report.warnings:
                yield f"{BUDGET_REACHED}:{name}"
            # What a reader must know of one seat: what it was not shown, and who answered instead.
            for warning in seat.report.warnings:
                code, _, detail = warning.partition(":")
                if code in _OF_SEATS:
                    yield f"{code}:{name}" + (
                        f":{detail}" if detail not in ("", name) else ""
                    )
            for replaced in seat.report.model_validation_warnings:
                yield f"model_replaced:{name}:{replaced.model}"
        if self.plan.options.max_cost_usd is not None:
            for name, seat in self._reports.items():
                if seat.report.usage.calls and seat.report.usage.cost_usd is None:
                    yield f"cost_unknown:{name}"

    def _log(self, event: str, **fields: Any) -> None:
        self._events.append(SeatEvent(COUNCIL_LOG, event, fields))

    def _turn(self, turn: Turn) -> Turn:
        events = tuple(self._events)
        self._events = []
        return turn.then(Turn(events=events))


def council_facts(task: BridgeInput, seats: Sequence[str]) -> dict[str, Any]:
    """What is told about a council when it begins, and when it is taken up again."""
    return {
        "review_id": task.session_id,
        "bridges": list(seats),
        "task_type": task.task_type.value,
        "scope": task.scope_text,
        "intensity": task.intensity.value,
        "domains": list(task.domains),
        "files": task.files,
        "loc": task.loc,
    }


def run_for(
    seat: Seat,
    task: BridgeInput,
    inputs: RunInputs,
    *,
    budget: Budget | None = None,
    seating: int = 1,
    debate: Preset | None = None,
    shared: bool = False,
) -> SeatRun:
    """Several models make a council inside the seat; agents that can write to each other, and a standalone
    `debate`, use the five-phase engine; everybody else the usual rounds (council §9, §12.1, §17)."""
    if task.task_type is TaskType.IMPLEMENTATION:
        # Several models would make several changes in one checkout.
        seat = msgspec.structs.replace(seat, models=seat.models[:1])
    if debate is not None or (seat.messaging and not shared):
        return FivePhaseRun(
            seat, task, inputs, budget=budget, seating=seating, preset=debate or DEFAULT
        )
    kind = MultiModelRun if len(seat.models) > 1 else SeatRun
    return kind(seat, task, inputs, budget=budget, seating=seating, shared=shared)


def _may_be_ready(seat: str) -> bool:
    """Whether a seat can be one that is asked; the others make their own reports."""
    return seat != STATIC and not is_rig(seat)


def _unanswered_seatings(
    turns: Sequence[Turn], earlier: Sequence[Input]
) -> tuple[Seating, ...]:
    """Checks that were asked for and never came back; each outcome answers one."""
    answered = [_checked_bridge(happened) for happened in earlier]
    left = []
    for seating in (one for turn in turns for one in turn.seatings):
        if seating.seat in answered:
            answered.remove(seating.seat)
        else:
            left.append(seating)
    return tuple(left)


def _checked_bridge(happened: Input) -> str | None:
    match happened:
        case SeatReady(seat=seat):
            return seat.name
        case SeatReported(report=report):
            return report.bridge
        case SeatPending(seat=name):
            return name
        case _:
            return None
