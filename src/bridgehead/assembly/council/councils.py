"""Councils on this machine: held, resumed, planned without a call (`--dry-run`), and
what is refused before one begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import msgspec

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council.events import (
    CouncilRecord,
    councils_to_retry,
    record_crash,
)
from bridgehead.assembly.council.files import (
    StoredScopes,
    ask_to_stop,
    hold_council,
    write_seats_file,
)
from bridgehead.assembly.council.host_seat import HostSeatRequests
from bridgehead.assembly.council.journal import (
    CouncilJournal,
    StoredCouncil,
    make_run,
    run_inputs,
    seat_reports,
)
from bridgehead.assembly.council.opening import (
    Opened,
    new_id,
    open_council,
    write_context,
)
from bridgehead.assembly.council.refusals import last_refusals
from bridgehead.assembly.council.reports import Reports
from bridgehead.assembly.council.request import CouncilRequest
from bridgehead.assembly.council.retention import prune_daily
from bridgehead.assembly.council.run import Audience, CouncilProcess, Finished
from bridgehead.assembly.council.seats import (
    Workplace,
    forget_probes,
    local_seats,
    make_machine,
    rig_threads,
)
from bridgehead.assembly.council.views import council_now, list_councils
from bridgehead.contract.record_words import RunState
from bridgehead.contract.report import BridgeReport
from bridgehead.contract.words import Status
from bridgehead.control_plane.questions import AmbiguousReference
from bridgehead.council.calls import GivenUp, Questioned, Retried, Seat
from bridgehead.council.reporting.gate import Gate
from bridgehead.council.request.plan import is_judged
from bridgehead.council.request.settings import is_rig
from bridgehead.council.running.dry_run import DryRun, plan_calls
from bridgehead.council.runtimes.machine import Machine
from bridgehead.council.scope.scope import Scope
from bridgehead.council.seating.preflight import Ready
from bridgehead.council.seating.seating import OwnReport
from bridgehead.errors import BridgeheadError, NotFound, UserError
from bridgehead.host.clock import Clock, SystemClock, iso_ms
from bridgehead.host.command import Cancel

__all__ = ["Audience", "Councils", "Finished"]

_NO_CALLS: Final = {"static": "static analysis"}
LATELY: Final = 10


@dataclass
class Councils:
    """The councils of the project a command runs in."""

    assembly: Assembly
    clock: Clock = field(default_factory=SystemClock)

    @cached_property
    def machine(self) -> Machine:
        return make_machine(self.assembly)

    def call(
        self, request: CouncilRequest, audience: Audience, *, gate: Gate | None = None
    ) -> Finished:
        """Hold a council from its first seating as far as it goes."""
        if request.options.reconfigure:
            forget_probes(self.assembly)
        with closing(
            CouncilJournal(self.assembly.places.project, self.clock)
        ) as journal:
            opened = self._open(request, journal, audience)
            council = opened.council
            refuse_gate(council, gate)
            with hold_council(self.assembly, council.review_id):
                # A root that is taken, or nothing to branch off from, is found out
                # before the council exists.
                HostSeatRequests.of(self.assembly, council, self.clock)
                Workplace.prepare(self.assembly, council, opened.scope)
                # From here on a gate knows that it was begun, whatever becomes of it.
                record = CouncilRecord(self.assembly, council, self.clock)
                record.save(RunState.RUNNING, event="council.started")
                if request.options.rewrites_settings:
                    write_seats_file(self.assembly, opened.seats, self.clock.now())
                journal.begin(council)
                StoredScopes(self.assembly).save(council.review_id, opened.scope)
                write_context(self.assembly.places.project, opened, self.clock)
                process = CouncilProcess(
                    self.assembly,
                    journal,
                    council,
                    opened.scope,
                    record,
                    self.machine,
                    self.clock,
                )
                return self._conduct(process, audience)

    def resume(
        self,
        reference: str | None,
        audience: Audience,
        *,
        retry: Sequence[str] = (),
        close: bool = False,
        gate: Gate | None = None,
    ) -> Finished:
        """Take a council up again: fold in what was answered, seat again whom `retry`
        names, or `close` the wait.
        """
        with closing(
            CouncilJournal(self.assembly.places.project, self.clock)
        ) as journal:
            review_id = self._named(reference, journal, retry)
            with hold_council(self.assembly, review_id):
                council = self._resumable(review_id, journal, retry)
                refuse_gate(council, gate)
                process, retried = self._take_up(council, journal, retry)
                now = iso_ms(self.clock.now())
                wishes: list[Retried | GivenUp] = [
                    Retried(seat=seat, at=now) for seat in retried
                ]
                if close:
                    wishes += [GivenUp(seat=seat, at=now) for seat in council.seats]
                return self._conduct(process, audience, wishes)

    def challenge(
        self,
        reference: str | None,
        finding_id: str,
        text: str,
        audience: Audience,
        *,
        gate: Gate | None = None,
    ) -> Finished:
        """Put one more question about one finding to its seat and the others.

        The report is superseded.
        """
        stored = Reports(self.assembly, self.clock).find(reference)
        finding = stored.askable(finding_id)
        if not text.strip():
            raise UserError(
                "the question is empty",
                hint=f'bridgehead council challenge {finding.id} "QUESTION"',
            )
        review_id = stored.review_id
        kept = CouncilJournal(self.assembly.places.project, self.clock)
        with closing(kept) as journal, hold_council(self.assembly, review_id):
            council = journal.council(review_id)
            if council is None:
                raise nothing_to_resume(f"council {review_id} is closed")
            refuse_gate(council, gate)
            process, _ = self._take_up(council, journal, ())
            asked = Questioned(
                finding_id=finding.id, text=text.strip(), at=iso_ms(self.clock.now())
            )
            return self._conduct(process, audience, [asked])

    def _conduct(
        self,
        process: CouncilProcess,
        audience: Audience,
        wishes: Sequence[Questioned | Retried | GivenUp] = (),
    ) -> Finished:
        finished = process.conduct(audience, wishes)
        prune_daily(self.assembly, process.council.review_id, self.clock)
        return finished

    def stop(self, reference: str | None) -> str:
        """Ask the council that runs to end with what it has; its id.

        Without a name: the newest that is open.
        """
        with closing(
            CouncilJournal(self.assembly.places.project, self.clock)
        ) as journal:
            review_id = self._named(reference, journal, ())
        ask_to_stop(self.assembly, review_id)
        return review_id

    def dry_run(self, request: CouncilRequest, audience: Audience) -> DryRun:
        """Return every call that would be made now.

        Nothing is called and nothing written.
        """
        opened = open_council(
            self.assembly,
            request,
            machine=self.machine,
            clock=self.clock,
            is_taken=self._is_recorded,
            ask=audience.ask,
        )
        return planned_calls(self.assembly, opened, self.machine, self.clock)

    # -- parts of a run

    def _open(
        self, request: CouncilRequest, journal: CouncilJournal, audience: Audience
    ) -> Opened:
        """Settle a council.

        A crash on the way is recorded, a refusal in words is not.
        """

        def is_taken(review_id: str) -> bool:
            return review_id in journal.ids() or self._is_recorded(review_id)

        try:
            return open_council(
                self.assembly,
                request,
                machine=self.machine,
                clock=self.clock,
                is_taken=is_taken,
                ask=audience.ask,
            )
        except BridgeheadError:
            raise
        except (Exception, KeyboardInterrupt) as error:
            review_id = request.review_id or new_id(is_taken)
            why = f"{type(error).__name__}: {error}"
            record_crash(self.assembly, request, review_id, why, self.clock)
            raise

    def _is_recorded(self, review_id: str) -> bool:
        with self.assembly.store(read_only=True) as store:
            return store.run(review_id) is not None

    def _named(
        self, reference: str | None, journal: CouncilJournal, retry: Sequence[str]
    ) -> str:
        """Return the council that is meant: the newest with something to do when none
        is named.
        """
        if reference is not None:
            return only_council(reference, journal.ids())
        if retry and (ids := journal.ids()):
            return ids[0]
        answered = councils_to_retry(self.assembly)
        for review_id in journal.ids():
            if journal.is_open(review_id) or (
                review_id in answered and self._answered_retry(review_id, journal)
            ):
                return review_id
        raise nothing_to_resume("no council of this project is open")

    def _resumable(
        self, review_id: str, journal: CouncilJournal, retry: Sequence[str]
    ) -> StoredCouncil:
        council = journal.council(review_id)
        wanted = (
            retry
            or journal.is_open(review_id)
            or self._answered_retry(review_id, journal)
        )
        if council is None or not wanted:
            raise nothing_to_resume(f"council {review_id} is closed")
        return council

    def _answered_retry(self, review_id: str, journal: CouncilJournal) -> list[str]:
        council = journal.council(review_id)
        if council is None:
            return []
        return CouncilRecord(self.assembly, council, self.clock).answered_retry(
            journal.calls_of(review_id)
        )

    def _take_up(
        self, council: StoredCouncil, journal: CouncilJournal, retry: Sequence[str]
    ) -> tuple[CouncilProcess, list[str]]:
        """Return the council as it was left, and the seats to be taken again."""
        record = CouncilRecord(self.assembly, council, self.clock)
        calls = journal.calls_of(council.review_id)
        scope, changed = self._scope_again(council)
        retried = list(dict.fromkeys([*retry, *record.answered_retry(calls)]))
        refuse_retry(
            council, retried, seat_reports(make_run(council, scope), calls.inputs())
        )
        if changed:
            plan = replace(
                council.plan,
                warnings=(*council.plan.warnings, "scope_changed_since_start"),
            )
            council = msgspec.structs.replace(council, plan=plan)
        journal.take_up(council.review_id)
        # A closed council that is opened again needs its scope, and the commit in it,
        # until it closes again.
        StoredScopes(self.assembly).save(council.review_id, scope)
        record.withdraw_halted(retried, calls)
        record.save(RunState.RUNNING, event="council.resumed")
        process = CouncilProcess(
            self.assembly,
            journal,
            council,
            scope,
            record,
            self.machine,
            self.clock,
            resumed=True,
        )
        return process, retried

    def _scope_again(self, council: StoredCouncil) -> tuple[Scope, bool]:
        """Return the scope as it was when the council began.

        What is on disk now when that is gone.
        """
        scopes = StoredScopes(self.assembly)
        now = scopes.resolve(council)
        before = scopes.read(council.review_id)
        scope = before or now
        if scope is None:
            raise nothing_to_resume(f"council {council.review_id} is closed")
        if before is None or now is None:
            return scope, now is None or now.fingerprint != council.scope_fingerprint
        # Envelopes that came or went meanwhile are no change of what is looked at.
        threads = rig_threads(self.assembly.places.project, council)
        return scope, now.without(threads).fingerprint != before.without(
            threads
        ).fingerprint


def planned_calls(
    assembly: Assembly, opened: Opened, machine: Machine, clock: Clock
) -> DryRun:
    """Return the calls of a council that was settled and not begun."""
    council = opened.council
    scope = opened.scope
    seats = local_seats(assembly, council, scope, machine, clock, Workplace.imagined())
    asked = [one for one in council.seats if one not in _NO_CALLS and not is_rig(one)]
    no_calls = {
        bridge: _NO_CALLS.get(bridge, "asked by envelope")
        for bridge in council.seats
        if bridge not in asked
    }
    ready: list[Seat] = []
    with ThreadPoolExecutor(max_workers=max(len(asked), 1)) as threads:
        outcomes = list(
            threads.map(lambda bridge: seats.check(bridge, Cancel()), asked)
        )
    for bridge, outcome in zip(asked, outcomes, strict=True):
        if isinstance(outcome, Ready):
            ready.append(outcome.seat)
        elif isinstance(outcome, OwnReport):
            report = outcome.report
            no_calls[bridge] = (
                report.skip_reason or report.halt_reason or report.status.value
            )
    planned = plan_calls(
        council.plan,
        run_inputs(council, scope),
        ready,
        no_calls,
        at=iso_ms(clock.now()),
    )
    refused = last_refusals(assembly)
    refusals = {name: refused[name].reason for name in council.seats if name in refused}
    return replace(planned, refusals=refusals, call_prices=call_prices(assembly))


def call_prices(assembly: Assembly) -> dict[str, float]:
    """Return what a call of each seat cost on average lately."""
    spent: dict[str, tuple[float, int]] = {}
    for council in list_councils(assembly, limit=LATELY).councils:
        for seat in council_now(assembly, council.id).live.seats:
            if seat.cost_usd is not None and seat.calls:
                cost, calls = spent.get(seat.bridge, (0.0, 0))
                spent[seat.bridge] = cost + seat.cost_usd, calls + seat.calls
    return {seat: cost / calls for seat, (cost, calls) in spent.items()}


def nothing_to_resume(why: str) -> NotFound:
    return NotFound(
        why,
        hint=(
            "bridgehead council list, or ask a seat again: bridgehead council resume "
            "ID --retry SEAT"
        ),
    )


def refuse_gate(council: StoredCouncil, gate: Gate | None) -> None:
    if gate is not None and not is_judged(council.task.task_type, council.task.mode):
        raise UserError(
            f"--gate needs a verdict, and {council.task.task_type} gives none",
            hint="omit --gate",
        )


def refuse_retry(
    council: StoredCouncil, wanted: Sequence[str], reports: Iterable[BridgeReport]
) -> None:
    """Only a seat that came back without a usable reply is seated again (council §3)."""
    status = {report.bridge: report.status for report in reports}
    for seat in wanted:
        if seat not in council.seats:
            raise NotFound(
                f"{seat!r} has no seat in council {council.review_id}",
                hint=f"seats: {', '.join(council.seats)}",
            )
        if seat not in status:
            raise UserError(
                f"{seat} has not answered yet in council {council.review_id}",
                hint=(
                    "check for its answer with: bridgehead council resume "
                    f"{council.review_id}"
                ),
            )
        if status[seat] is Status.COMPLETED:
            raise UserError(
                f"{seat} completed in council {council.review_id}; there is nothing "
                "to retry"
            )


def only_council(reference: str, ids: Sequence[str]) -> str:
    found = [one for one in ids if one == reference] or [
        one for one in ids if one.startswith(reference)
    ]
    if not found:
        raise NotFound(
            f"no council {reference!r} in this project", hint="bridgehead council list"
        )
    if len(found) > 1:
        raise AmbiguousReference(reference, found)
    return found[0]
