"""One council in one process: what it works with, who watches it, what is written when
it pauses or ends (council §14.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import anyio
import msgspec

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council.events import (
    CouncilRecord,
    NoticeStatus,
    RecordObserver,
    report_facts,
)
from bridgehead.assembly.council.files import (
    StoredScopes,
    carried_history,
    heeding_stop,
    read_history,
    write_history,
)
from bridgehead.assembly.council.host_seat import HostSeatRequests
from bridgehead.assembly.council.journal import (
    CouncilJournal,
    StoredCalls,
    StoredCouncil,
    make_run,
    seat_reports,
)
from bridgehead.assembly.council.opening import AskQuestion
from bridgehead.assembly.council.refusals import last_refusals
from bridgehead.assembly.council.reports import Written, mark_superseded, write_report
from bridgehead.assembly.council.seats import Workplace, local_seats, rig_threads
from bridgehead.contract.record_words import RunState
from bridgehead.council.council import COUNCIL_LOG, CouncilRun, council_facts
from bridgehead.council.findings.tree import stopping_when
from bridgehead.council.interfaces import Observer
from bridgehead.council.reporting.gate import (
    Gate,
    GateDemands,
    GateOutcome,
    council_exit_code,
    coverage_refusals,
)
from bridgehead.council.reporting.report import AbortedReport, CouncilReport
from bridgehead.council.request.plan import is_judged
from bridgehead.council.running.artifacts import Mask, OutputFolder, RunLog
from bridgehead.council.running.conductor import (
    AskUser,
    Means,
    Reported,
    Waiting,
    Wish,
    conduct,
)
from bridgehead.council.runtimes.machine import Machine
from bridgehead.council.scope.scope import Scope, text_digest
from bridgehead.council.scope.withheld import Reason
from bridgehead.errors import BridgeheadError
from bridgehead.exit_codes import ExitCode
from bridgehead.flows.engine.run_request import Pause
from bridgehead.host.clock import Clock
from bridgehead.host.command import Cancel


@dataclass(frozen=True, slots=True)
class Audience:
    """Who is with a running council: watchers, and somebody to ask.

    Nobody by default.
    """

    watchers: tuple[Observer, ...] = ()
    ask: AskQuestion | None = None
    ask_user: AskUser | None = None
    handle_signals: bool = False
    stop: Cancel | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """How far a council came in this process."""

    council: StoredCouncil
    report: CouncilReport | AbortedReport | None
    written: Written | None
    waiting_for: tuple[str, ...] = ()
    pause: Pause | None = None
    signal: str | None = None

    @property
    def is_incomplete(self) -> bool:
        """Return whether something was not looked at to the end."""
        return isinstance(self.report, CouncilReport) and self.report.incomplete

    def _is_refused_for_coverage(self, allow_incomplete: str) -> bool:
        if not isinstance(self.report, CouncilReport):
            return False
        demands = GateDemands(
            allow_incomplete=allow_incomplete,
            unread_passes=self.council.plan.unread_passes,
        )
        return any(coverage_refusals(self.report, demands))

    def exit_code(
        self, gate: Gate | None = None, *, allow_incomplete: str = ""
    ) -> ExitCode:
        report = self.report
        return council_exit_code(
            _outcome(report),
            verdict=report.gate_verdict if isinstance(report, CouncilReport) else None,
            incomplete=self._is_refused_for_coverage(allow_incomplete),
            task_type=self.council.task.task_type,
            mode=self.council.task.mode,
            gate=gate,
            abort_reason=report.abort_reason
            if isinstance(report, AbortedReport)
            else None,
            signal=self.signal,
            pending=("host",) if self.pause is not None else (),
        )


@dataclass
class CouncilProcess:
    """A council that was begun or taken up again. The caller holds its lock."""

    assembly: Assembly
    journal: CouncilJournal
    council: StoredCouncil
    scope: Scope
    record: CouncilRecord
    machine: Machine
    clock: Clock
    resumed: bool = False

    @cached_property
    def mask(self) -> Mask:
        return Mask(self.assembly.environ)

    @cached_property
    def run(self) -> CouncilRun:
        return make_run(self.council, self.scope)

    @cached_property
    def calls(self) -> StoredCalls:
        return self.journal.calls_of(self.council.review_id)

    @cached_property
    def outputs(self) -> OutputFolder:
        project = self.assembly.places.project
        return OutputFolder(
            project,
            self.council.review_id,
            self.clock,
            mask=self.mask,
            goes_on=self.resumed,
        )

    @cached_property
    def host_seat(self) -> HostSeatRequests | None:
        return HostSeatRequests.of(self.assembly, self.council, self.clock)

    @cached_property
    def workplace(self) -> Workplace:
        return Workplace.prepare(self.assembly, self.council, self.scope)

    @cached_property
    def earlier_report(self) -> Written | None:
        """Where the report of an earlier process is."""
        if not self.resumed:
            return None
        with self.assembly.store(read_only=True) as store:
            run = store.run(self.council.review_id)
        files = run.data.get("report") if run is not None else None
        return msgspec.convert(files, Written) if isinstance(files, dict) else None

    def conduct(self, audience: Audience, wishes: Sequence[Wish] = ()) -> Finished:
        """Take the council as far as it goes in this process."""
        with self._recording_failure():
            before = len(self.calls.inputs())
            observer = RecordObserver(
                self.assembly, self.record, last_refusals(self.assembly)
            )
            if self.resumed:
                facts = council_facts(self.council.task, self.council.seats)
                for watcher in audience.watchers:
                    watcher.happened(COUNCIL_LOG, {"event": "council_resumed", **facts})
            try:
                here = (self.machine, self.clock, self.workplace)
                seats = local_seats(
                    self.assembly, self.council, self.scope, *here, resumed=self.resumed
                )
                with heeding_stop(
                    self.assembly, self.council.review_id, audience.stop
                ) as stop:
                    means = self._means(
                        audience, observer, seats.settings.max_concurrency, stop
                    )
                    ending = anyio.run(conduct, self.run, seats, means, wishes)
            finally:
                observer.close()
            is_new = not self.resumed or len(self.calls.inputs()) > before
            match ending:
                case Waiting():
                    return self._wait(ending, is_new=is_new)
                case Reported(report) if is_new or self.earlier_report is None:
                    return self._report(report)
                case Reported(report):
                    self._settle()
                    return Finished(
                        self.council, report, self.earlier_report, self.run.waiting_for
                    )

    def _means(
        self,
        audience: Audience,
        observer: RecordObserver,
        max_concurrency: int,
        stop: Cancel,
    ) -> Means:
        return Means(
            log=RunLog(self.outputs, (observer, *audience.watchers), self.clock),
            journal=self.calls,
            desk=self.host_seat,
            ask_user=audience.ask_user,
            clock=self.clock,
            mask=self.mask,
            max_concurrency=max_concurrency,
            handle_signals=audience.handle_signals,
            stop=stop,
        )

    @contextmanager
    def _recording_failure(self) -> Iterator[None]:
        """What ends the council against everybody's will is in the record before it is
        raised.
        """
        try:
            yield
        except (BridgeheadError, OSError) as error:
            self.record.failed(str(error))
            raise
        except Exception as error:
            self.record.failed(f"{type(error).__name__}: {error}")
            raise

    def _wait(self, waiting: Waiting, *, is_new: bool) -> Finished:
        pause = (
            self.host_seat.pause(waiting.calls)
            if self.host_seat is not None and waiting.calls
            else None
        )
        asked = tuple(
            dict.fromkeys([*waiting.seats, *(call.key.seat for call in waiting.calls)])
        )
        self.journal.wait(self.council.review_id)
        self.record.save(
            RunState.WAITING, event="run.waiting", facts={"waiting_for": list(asked)}
        )
        if is_new:
            self.record.notice(NoticeStatus.NEEDS_YOU)
        return Finished(self.council, None, None, asked, pause)

    def _report(self, report: CouncilReport | AbortedReport) -> Finished:
        """Write the report, and settle everything that depends on it."""
        council = self.council
        calls = self.calls
        if isinstance(report, CouncilReport):
            report = self._with_scope(report)
        with stopping_when(lambda: calls.signal is not None):
            seats = seat_reports(self.run.again(), calls.inputs())
        project = self.assembly.places.project
        written = write_report(
            project,
            self.outputs,
            report,
            seats,
            council,
            self.workplace.finish(council),
        )
        if self.earlier_report is not None:
            mark_superseded(
                project, self.outputs, self.earlier_report, written, seats, council
            )
        if isinstance(report, CouncilReport):
            self._carry_history(report)
        self.record.open_halted(report.auto_skipped_halted_bridges, calls)
        self._settle(
            report_facts(report, written.recorded),
            aborted=isinstance(report, AbortedReport),
        )
        self._notify(report)
        return Finished(
            council, report, written, self.run.waiting_for, signal=calls.signal
        )

    def _with_scope(self, report: CouncilReport) -> CouncilReport:
        """Return the report with what was reviewed, for a gate to compare later."""
        if self.earlier_report is not None:
            report = msgspec.structs.replace(
                report, supersedes=self.earlier_report.markdown
            )
        seen = {path: text_digest(text) for path, text in self.scope.texts.items()}
        kept_back = {
            entry.path: ""
            for entry in self.scope.left_out
            if entry.reason not in (Reason.IGNORED, Reason.MASKED)
        }
        threads = rig_threads(self.assembly.places.project, self.council)
        return msgspec.structs.replace(
            report,
            commit=self.scope.commit,
            base_commit=self.scope.base_commit,
            scope_paths=self.council.scope_request.named_paths,
            removed=self.scope.removed,
            envelope_folders=tuple(sorted(threads)),
            reviewed=kept_back | seen,
        )

    def _carry_history(self, report: CouncilReport) -> None:
        """Add what became of the findings to the history, if this council ran to its end."""
        if self.calls.signal is not None:
            return
        if not is_judged(report.task_type, report.mode):
            return
        history = carried_history(
            read_history(self.assembly),
            self.council.plan.records,
            self.run.records,
            self.council.review_id,
        )
        write_history(self.assembly, history)

    def _settle(
        self, facts: Mapping[str, Any] | None = None, *, aborted: bool = False
    ) -> None:
        """Leave the council open while a rig may still answer, else put everything of
        it away.
        """
        review_id = self.council.review_id
        if self.host_seat is not None:
            self.host_seat.end()
        if self.run.waiting_for:
            self.journal.wait(review_id)
            state = RunState.WAITING
        else:
            self.journal.end(review_id)
            StoredScopes(self.assembly).forget(review_id)
            Workplace.clear(self.assembly, review_id)
            state = RunState.FAILED if aborted else RunState.COMPLETED
        self.record.save(
            state, event="council.reported" if facts is not None else None, facts=facts
        )

    def _notify(self, report: CouncilReport | AbortedReport) -> None:
        """Say that it is over, and that somebody could still help a seat that halted."""
        if isinstance(report, CouncilReport) and self.calls.signal is None:
            self.record.notice(NoticeStatus.FINISHED, verdict=report.verdict_word or "")
        else:
            self.record.notice(NoticeStatus.FAILED)
        if report.auto_skipped_halted_bridges:
            self.record.notice(NoticeStatus.NEEDS_YOU)


def _outcome(report: CouncilReport | AbortedReport | None) -> GateOutcome:
    if report is None:
        return GateOutcome.PENDING
    return (
        GateOutcome.ABORTED if isinstance(report, AbortedReport) else GateOutcome.REPORT
    )
