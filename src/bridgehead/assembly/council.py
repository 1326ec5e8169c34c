"""Councils put together with the machine: called, taken up again, written down, told to the record (council §14.1)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import msgspec

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council_company import Company
from bridgehead.assembly.council_desk import FlowDesk
from bridgehead.assembly.council_dry_run import imagine_calls
from bridgehead.assembly.council_files import write_seats_file
from bridgehead.assembly.council_journal import CouncilBook
from bridgehead.assembly.council_kept import KeptCouncil, seat_reports
from bridgehead.assembly.council_lock import hold_council
from bridgehead.assembly.council_opening import Opened, open_council
from bridgehead.assembly.council_record import CouncilRecord, councils_told_to_retry
from bridgehead.assembly.council_refusals import NothingToResume, only_council, refuse_gate, refuse_retry
from bridgehead.assembly.council_request import CouncilRequest
from bridgehead.assembly.council_scopes import ScopeShelf
from bridgehead.assembly.council_seats import Workplace, forget_probes, make_machine, rig_threads
from bridgehead.assembly.council_session import Finished, Session
from bridgehead.assembly.council_writing import write_context
from bridgehead.contract.words import RunState
from bridgehead.council.calls import GivenUp, Retried
from bridgehead.council.dry_run import DryRun
from bridgehead.council.exit_code import Gate
from bridgehead.council.runtimes.machine import Machine
from bridgehead.council.scope import Scope
from bridgehead.host.clock import Clock, SystemClock, iso_ms

__all__ = ["Company", "Councils", "Finished"]

SCOPE_CHANGED: Final = "scope_changed_since_start"


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
        if request.options.reconfigure:
            forget_probes(self.assembly)
        with closing(CouncilBook(self.assembly.places.project, self.clock)) as book:
            opened = open_council(
                self.assembly,
                request,
                machine=self.machine,
                clock=self.clock,
                is_taken=lambda review_id: review_id in book.ids() or self._is_recorded(review_id),
                ask=company.ask,
            )
            kept = opened.kept
            refuse_gate(kept, gate)
            with hold_council(self.assembly, kept.review_id):
                self._refuse_unplaceable(opened)
                if request.options.rewrites_settings:
                    write_seats_file(self.assembly, opened.seats, self.clock.now())
                book.begin(kept)
                ScopeShelf(self.assembly).keep(kept.review_id, opened.scope)
                write_context(self.assembly.places.project, opened, self.clock)
                record = CouncilRecord(self.assembly, kept, self.clock)
                record.save(RunState.RUNNING, event="council.started")
                session = Session(self.assembly, book, kept, opened.scope, record, self.machine, self.clock)
                return session.conduct(company)

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
            review_id = self._named(reference, book, retry)
            with hold_council(self.assembly, review_id):
                kept = self._resumable(review_id, book, retry)
                refuse_gate(kept, gate)
                session, retried = self._take_up(kept, book, retry)
                now = iso_ms(self.clock.now())
                wishes: list[Retried | GivenUp] = [Retried(bridge=bridge, at=now) for bridge in retried]
                if close:
                    wishes += [GivenUp(bridge=bridge, at=now) for bridge in kept.bridges]
                return session.conduct(company, wishes)

    def dry_run(self, request: CouncilRequest, company: Company) -> DryRun:
        """Every call that would be made now; nothing is called and nothing written."""
        opened = open_council(
            self.assembly,
            request,
            machine=self.machine,
            clock=self.clock,
            is_taken=self._is_recorded,
            ask=company.ask,
        )
        return imagine_calls(self.assembly, opened, self.machine, self.clock)

    # -- parts of a run

    def _is_recorded(self, review_id: str) -> bool:
        with self.assembly.store(read_only=True) as store:
            return store.run(review_id) is not None

    def _named(self, reference: str | None, book: CouncilBook, retry: Sequence[str]) -> str:
        """The council that is meant: the newest with something to do when none is named."""
        if reference is not None:
            return only_council(reference, book.ids())
        if retry and (ids := book.ids()):
            return ids[0]
        told = councils_told_to_retry(self.assembly)
        for review_id in book.ids():
            if book.is_open(review_id) or (review_id in told and self._answered_retry(review_id, book)):
                return review_id
        raise NothingToResume

    def _resumable(self, review_id: str, book: CouncilBook, retry: Sequence[str]) -> KeptCouncil:
        kept = book.kept(review_id)
        if kept is None:
            raise NothingToResume(review_id)
        if not (retry or book.is_open(review_id) or self._answered_retry(review_id, book)):
            raise NothingToResume(review_id)
        return kept

    def _answered_retry(self, review_id: str, book: CouncilBook) -> list[str]:
        kept = book.kept(review_id)
        if kept is None:
            return []
        return CouncilRecord(self.assembly, kept, self.clock).answered_retry(book.calls_of(review_id))

    def _take_up(
        self, kept: KeptCouncil, book: CouncilBook, retry: Sequence[str]
    ) -> tuple[Session, list[str]]:
        """The council as it was left, and the bridges to be seated again."""
        record = CouncilRecord(self.assembly, kept, self.clock)
        journal = book.calls_of(kept.review_id)
        scope, changed = self._scope_again(kept)
        retried = list(dict.fromkeys([*retry, *record.answered_retry(journal)]))
        refuse_retry(kept, retried, seat_reports(kept, scope, journal.inputs()))
        if changed:
            kept = msgspec.structs.replace(kept, warnings=(*kept.warnings, SCOPE_CHANGED))
        book.take_up(kept.review_id)
        # A closed council that is opened again needs its scope, and the commit in it, until it closes again.
        ScopeShelf(self.assembly).keep(kept.review_id, scope)
        record.withdraw_halted(retried, journal)
        record.save(RunState.RUNNING, event="council.resumed")
        session = Session(self.assembly, book, kept, scope, record, self.machine, self.clock, resumed=True)
        return session, retried

    def _scope_again(self, kept: KeptCouncil) -> tuple[Scope, bool]:
        """The scope as it was when the council began; what is on disk now when that is gone."""
        shelf = ScopeShelf(self.assembly)
        now, before = shelf.resolve(kept), shelf.kept(kept.review_id)
        scope = before or now
        if scope is None:
            raise NothingToResume(kept.review_id)
        if before is None or now is None:
            return scope, now is None or now.fingerprint != kept.scope_fingerprint
        # Envelopes that came or went meanwhile are no change of what is looked at.
        threads = rig_threads(self.assembly.places.project, kept)
        return scope, now.without(threads).fingerprint != before.without(threads).fingerprint

    def _refuse_unplaceable(self, opened: Opened) -> None:
        """A desk that is taken, or nothing to branch off from, is found out before the council exists."""
        FlowDesk.of(self.assembly, opened.kept, self.clock)
        Workplace.prepare(self.assembly, opened.kept, opened.scope)
