"""Councils put together with the machine: called, taken up again, written down, told to the record (council §14.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import anyio
import msgspec

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council_desk import FlowDesk, Pause
from bridgehead.assembly.council_files import (
    SeatsFile,
    carried_history,
    read_history,
    write_history,
    write_seats_file,
)
from bridgehead.assembly.council_journal import CouncilBook, KeptJournal
from bridgehead.assembly.council_kept import KeptCouncil, make_run, seat_reports, surroundings_of
from bridgehead.assembly.council_opening import AskQuestion, Opened, open_council
from bridgehead.assembly.council_record import CouncilRecord, RecordObserver, report_facts
from bridgehead.assembly.council_request import CouncilRequest
from bridgehead.assembly.council_scopes import ScopeShelf
from bridgehead.assembly.council_seats import Workplace, local_seats, make_machine
from bridgehead.assembly.council_writing import Written, write_context, write_report
from bridgehead.contract.words import RunState, TaskType
from bridgehead.council.artifacts import OutputFolder
from bridgehead.council.calls import CallFailed, GivenUp, Retried, Seat
from bridgehead.council.council_run import CouncilRun
from bridgehead.council.dispatch import Means, Reported, Waiting, conduct
from bridgehead.council.dry_run import DryRun, plan_calls
from bridgehead.council.exit_code import Gate, Outcome, council_exit_code
from bridgehead.council.masking import Mask
from bridgehead.council.modes import is_judged
from bridgehead.council.partners import AskUser, Observer
from bridgehead.council.preflight import Ready
from bridgehead.council.report import AbortedReport, CouncilReport
from bridgehead.council.run_log import RunLog
from bridgehead.council.runtimes.machine import Machine
from bridgehead.council.runtimes.rig import RIG_MARK
from bridgehead.council.scope import Scope
from bridgehead.council.seating import OwnReport
from bridgehead.errors import NotFound, UserError
from bridgehead.exit_codes import ExitCode
from bridgehead.host.cancel import Cancel
from bridgehead.host.clock import Clock, SystemClock, iso_ms

SCOPE_CHANGED: Final = "scope_changed_since_start"
BY_ENVELOPE: Final = "asked by envelope"
_NO_CALLS: Final = {"static": "static analysis"}


class NothingToResume(NotFound):
    """No council of this project waits for anything."""

    def __init__(self, reference: str | None = None) -> None:
        what = "no council of this project is open" if reference is None else f"council {reference} is closed"
        super().__init__(what, hint="bridgehead council list; a skipped seat: resume ID --retry BRIDGE")


class NoVerdictToGate(UserError):
    """A gate in front of a run that ends without a verdict."""

    def __init__(self, task_type: TaskType) -> None:
        super().__init__(f"--gate needs a verdict, and {task_type} ends without one")


@dataclass(frozen=True, slots=True)
class Company:
    """Who is with a running council: watchers, and somebody to ask; nobody by default."""

    watchers: tuple[Observer, ...] = ()
    ask: AskQuestion | None = None
    ask_user: AskUser | None = None
    handle_signals: bool = False
    stop: Cancel | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """How far a council came in this process."""

    kept: KeptCouncil
    report: CouncilReport | AbortedReport | None
    written: Written | None
    waiting_for: tuple[str, ...] = ()
    pause: Pause | None = None
    signal: str | None = None

    def exit_code(self, gate: Gate | None = None) -> ExitCode:
        report = self.report
        return council_exit_code(
            _outcome(report),
            verdict=report.gate_verdict if isinstance(report, CouncilReport) else None,
            task_type=self.kept.task.task_type,
            mode=self.kept.task.mode,
            gate=gate,
            abort_reason=report.abort_reason if isinstance(report, AbortedReport) else None,
            signal=self.signal,
            pending=("host",) if self.pause is not None else (),
        )


@dataclass
class Councils:
    """The councils of the project a command runs in."""

    assembly: Assembly
    clock: Clock = field(default_factory=SystemClock)

    @cached_property
    def machine(self) -> Machine:
        return make_machine(self.assembly)

    def call(self, request: CouncilRequest, company: Company, *, gate: Gate | None = None) -> Finished:
        """Hold a council from its first seating as far as it goes."""
        with closing(CouncilBook(self.assembly.places.project, self.clock)) as book:
            opened = self._open(request, company.ask, book)
            _refuse_gate(opened.kept, gate)
            self._refuse_unplaceable(opened)
            self._note_settings(request, opened.seats)
            book.begin(opened.kept)
            ScopeShelf(self.assembly).keep(opened.kept.review_id, opened.scope)
            write_context(self.assembly.places.project, opened, self.clock)
            record = CouncilRecord(self.assembly, opened.kept, self.clock)
            record.save(RunState.RUNNING, event="council.started")
            return self._conduct(_Session(book, opened.kept, opened.scope, record), company, ())

    def resume(
        self,
        reference: str | None,
        company: Company,
        *,
        retry: Sequence[str] = (),
        close: bool = False,
        gate: Gate | None = None,
    ) -> Finished:
        """Take a council up again: fold in what was answered, seat again whom `retry` names, or `close` the wait."""
        with closing(CouncilBook(self.assembly.places.project, self.clock)) as book:
            kept = self._find(reference, book, retry)
            _refuse_gate(kept, gate)
            record = CouncilRecord(self.assembly, kept, self.clock)
            wanted = list(dict.fromkeys([*retry, *record.answered_retry()]))
            journal = book.calls_of(kept.review_id)
            _refuse_retry(kept, wanted, journal)
            scope, changed = self._scope_again(kept)
            if changed:
                kept = msgspec.structs.replace(kept, warnings=(*kept.warnings, SCOPE_CHANGED))
            book.take_up(kept.review_id)
            # A closed council that is opened again needs its scope, and the commit in it, until it closes again.
            ScopeShelf(self.assembly).keep(kept.review_id, scope)
            if wanted:
                record.withdraw_halted(wanted)
            now = iso_ms(self.clock.now())
            wishes: list[Retried | GivenUp] = [Retried(bridge=bridge, at=now) for bridge in wanted]
            if close:
                wishes += [GivenUp(bridge=bridge, at=now) for bridge in kept.bridges]
            return self._conduct(_Session(book, kept, scope, record, resumed=True), company, wishes)

    def dry_run(self, request: CouncilRequest, company: Company) -> DryRun:
        """Every call that would be made now; nothing is called and nothing written."""
        opened = self._open(request, company.ask, None)
        kept, scope = opened.kept, opened.scope
        seats = local_seats(self.assembly, kept, scope, self.machine, self.clock, Workplace.imagined())
        asked = [
            bridge for bridge in kept.bridges if bridge not in _NO_CALLS and not bridge.startswith(RIG_MARK)
        ]
        no_calls = {
            bridge: _NO_CALLS.get(bridge, BY_ENVELOPE) for bridge in kept.bridges if bridge not in asked
        }
        ready: list[Seat] = []
        with ThreadPoolExecutor(max_workers=max(len(asked), 1)) as threads:
            outcomes = list(threads.map(lambda bridge: seats.check(bridge, Cancel()), asked))
        for bridge, outcome in zip(asked, outcomes, strict=True):
            if isinstance(outcome, Ready):
                ready.append(outcome.seat)
            elif isinstance(outcome, OwnReport):
                report = outcome.report
                no_calls[bridge] = report.skip_reason or report.halt_reason or report.status.value
        return plan_calls(
            kept.plan(), surroundings_of(kept, scope), ready, no_calls, at=iso_ms(self.clock.now())
        )

    # -- parts of a run

    def _open(self, request: CouncilRequest, ask: AskQuestion | None, book: CouncilBook | None) -> Opened:
        return open_council(
            self.assembly,
            request,
            machine=self.machine,
            clock=self.clock,
            is_taken=lambda review_id: self._is_taken(review_id, book),
            ask=ask,
        )

    def _is_taken(self, review_id: str, book: CouncilBook | None) -> bool:
        if book is not None and review_id in book.ids():
            return True
        with self.assembly.store(read_only=True) as store:
            return store.run(review_id) is not None

    def _find(self, reference: str | None, book: CouncilBook, retry: Sequence[str]) -> KeptCouncil:
        if reference is None:
            found = book.newest_open()
            if found is None:
                raise NothingToResume
        else:
            found = _unique(reference, book.ids())
        kept = book.kept(found)
        if kept is None:
            raise NothingToResume(found)
        wants_more = retry or CouncilRecord(self.assembly, kept, self.clock).answered_retry()
        if not wants_more and not book.is_open(found):
            raise NothingToResume(found)
        return kept

    def _scope_again(self, kept: KeptCouncil) -> tuple[Scope, bool]:
        """The scope as it was when the council began; what is on disk now when that is gone."""
        shelf = ScopeShelf(self.assembly)
        now = shelf.resolve(kept.request)
        changed = now is None or now.fingerprint != kept.scope_fingerprint
        scope = shelf.kept(kept.review_id) or now
        if scope is None:
            raise NothingToResume(kept.review_id)
        return scope, changed

    def _refuse_unplaceable(self, opened: Opened) -> None:
        """A desk that is taken, or nothing to branch off from, is found out before the council exists."""
        FlowDesk.of(self.assembly, opened.kept, self.clock)
        Workplace.prepare(self.assembly, opened.kept, opened.scope)

    def _note_settings(self, request: CouncilRequest, seats: SeatsFile) -> None:
        if request.write_settings or (request.interactive and request.reconfigure):
            write_seats_file(self.assembly, seats, self.clock.now())

    def _conduct(self, session: _Session, company: Company, wishes: Sequence[Retried | GivenUp]) -> Finished:
        kept = session.kept
        mask = Mask(self.assembly.environ)
        run = make_run(kept, session.scope)
        journal = session.book.calls_of(kept.review_id)
        before = len(journal.inputs())
        outputs = OutputFolder(
            self.assembly.places.project, kept.review_id, self.clock, mask=mask, goes_on=session.resumed
        )
        observer = RecordObserver(self.assembly, session.record)
        desk = FlowDesk.of(self.assembly, kept, self.clock)
        workplace = Workplace.prepare(self.assembly, kept, session.scope)
        seats = local_seats(self.assembly, kept, session.scope, self.machine, self.clock, workplace)
        means = Means(
            log=RunLog(outputs, _Everybody((observer, *company.watchers)), self.clock),
            journal=journal,
            desk=desk,
            ask_user=company.ask_user,
            clock=self.clock,
            mask=mask,
            max_concurrency=seats.settings.max_concurrency,
            handle_signals=company.handle_signals,
            stop=company.stop,
        )
        try:
            ending = anyio.run(conduct, run, seats, means, wishes)
        finally:
            observer.close()
        if desk is not None and isinstance(ending, Reported):
            desk.end()
        says_nothing_new = session.resumed and len(journal.inputs()) == before
        match ending:
            case Reported(report) if not (says_nothing_new and session.earlier_report(self.assembly)):
                return self._report(session, run, report, journal, outputs, workplace)
            case Reported(report):
                self._settle(session, run)
                return Finished(kept, report, session.earlier_report(self.assembly), run.waiting_for)
            case Waiting(calls, bridges):
                pause = desk.pause(calls) if desk is not None and calls else None
                session.book.wait(kept.review_id)
                session.record.save(
                    RunState.WAITING, event="run.waiting", facts={"waiting_for": list(bridges)}
                )
                asked = dict.fromkeys([*bridges, *(call.key.bridge for call in calls)])
                return Finished(kept, None, None, tuple(asked), pause)

    def _report(
        self,
        session: _Session,
        run: CouncilRun,
        report: CouncilReport | AbortedReport,
        journal: KeptJournal,
        outputs: OutputFolder,
        workplace: Workplace,
    ) -> Finished:
        kept = session.kept
        earlier = session.earlier_report(self.assembly)
        if earlier is not None and isinstance(report, CouncilReport):
            report = msgspec.structs.replace(report, supersedes=earlier.markdown)
        seats = seat_reports(kept, session.scope, journal.inputs())
        written = write_report(
            self.assembly.places.project, outputs, report, seats, kept, workplace.finish(kept)
        )
        judged = isinstance(report, CouncilReport) and is_judged(report.task_type, report.mode)
        if judged and journal.signal is None:
            history = read_history(self.assembly)
            write_history(self.assembly, carried_history(history, kept.records, run.records, kept.review_id))
        halted = report.auto_skipped_halted_bridges
        session.record.open_halted(
            halted, {one["bridge"]: journal.halt_message(one["bridge"]) for one in halted}
        )
        self._settle(
            session, run, report_facts(report, written.files), aborted=isinstance(report, AbortedReport)
        )
        return Finished(kept, report, written, run.waiting_for, signal=journal.signal)

    def _settle(
        self,
        session: _Session,
        run: CouncilRun,
        facts: Mapping[str, Any] | None = None,
        *,
        aborted: bool = False,
    ) -> None:
        """Leave the council open while a rig may still answer, else put everything of it away."""
        review_id = session.kept.review_id
        if run.waiting_for:
            session.book.wait(review_id)
            state = RunState.WAITING
        else:
            session.book.end(review_id)
            ScopeShelf(self.assembly).forget(review_id)
            Workplace.clear(self.assembly, review_id)
            state = RunState.FAILED if aborted else RunState.COMPLETED
        if facts is not None:
            session.record.save(state, event="council.reported", facts=facts)


@dataclass(frozen=True, slots=True)
class _Session:
    """One council in this process."""

    book: CouncilBook
    kept: KeptCouncil
    scope: Scope
    record: CouncilRecord
    resumed: bool = False

    def earlier_report(self, assembly: Assembly) -> Written | None:
        """Where the report of an earlier process is."""
        if not self.resumed:
            return None
        with assembly.store(read_only=True) as store:
            run = store.run(self.kept.review_id)
        files = run.data.get("report") if run is not None else None
        return Written.of(files) if isinstance(files, dict) else None


class _Everybody:
    """Tells all observers."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    def happened(self, bridge: str, line: Mapping[str, Any]) -> None:
        for observer in self._observers:
            observer.happened(bridge, line)

    def refused(self, bridge: str, failed: CallFailed) -> None:
        for observer in self._observers:
            observer.refused(bridge, failed)

    def accepted(self, bridge: str) -> None:
        for observer in self._observers:
            observer.accepted(bridge)


def _outcome(report: CouncilReport | AbortedReport | None) -> Outcome:
    if report is None:
        return Outcome.PENDING
    return Outcome.ABORTED if isinstance(report, AbortedReport) else Outcome.REPORT


def _refuse_gate(kept: KeptCouncil, gate: Gate | None) -> None:
    if gate is not None and not is_judged(kept.task.task_type, kept.task.mode):
        raise NoVerdictToGate(kept.task.task_type)


def _refuse_retry(kept: KeptCouncil, wanted: Sequence[str], journal: KeptJournal) -> None:
    for bridge in wanted:
        if bridge not in kept.bridges:
            raise NotFound(
                f"{bridge!r} has no seat in council {kept.review_id}",
                hint=f"seats: {', '.join(kept.bridges)}",
            )
        if journal.completed(bridge):
            raise UserError(
                f"{bridge} completed its seat in council {kept.review_id}; there is nothing to retry"
            )


def _unique(reference: str, ids: Sequence[str]) -> str:
    found = [one for one in ids if one == reference] or [one for one in ids if one.startswith(reference)]
    if not found:
        raise NotFound(f"no council {reference!r} in this project", hint="bridgehead council list")
    if len(found) > 1:
        raise UserError(f"{reference!r} begins several councils: {', '.join(found)}")
    return found[0]
