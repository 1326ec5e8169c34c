"""What a council tells the record: its run, the lines of its seats, refusals, and what
waits for a person.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import uuid4

import msgspec

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council.journal import StoredCalls, StoredCouncil
from bridgehead.assembly.council.request import CouncilRequest
from bridgehead.assembly.event_writer import EventWriter
from bridgehead.contract.events import Event
from bridgehead.contract.pending import Question
from bridgehead.contract.record_words import (
    AnswerStatus,
    Part,
    PendingKind,
    PendingState,
    RunState,
)
from bridgehead.control_plane.records import (
    FINAL_STATES,
    PendingFilter,
    QuestionKey,
    Run,
)
from bridgehead.council.calls import CallFailed
from bridgehead.council.council import council_facts
from bridgehead.council.reporting.report import AbortedReport, CouncilReport
from bridgehead.errors import BridgeheadError, shortened
from bridgehead.host.clock import Clock, iso_ms, moment_after, parse_iso

MOST_ANSWERED: Final = 1_000
RETRY: Final = "retry"
FAILURE: Final = "failure"
"""Where a run's data say why it broke off; gone when it is taken up again."""
CHOICES: Final = (RETRY, "skip")
# A title may hold a whole request; a notice is read at a glance.
MOST_TITLE: Final = 200

logger = logging.getLogger(__name__)


class NoticeStatus(StrEnum):
    FINISHED = "finished"
    NEEDS_YOU = "needs_you"
    FAILED = "failed"


class CouncilRecord:
    """Writes to the record what becomes of one council."""

    def __init__(
        self, assembly: Assembly, council: StoredCouncil, clock: Clock
    ) -> None:
        self._assembly = assembly
        self._council = council
        self._clock = clock

    def save(
        self,
        state: RunState,
        *,
        event: str | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep where the council stands, with the event that says so."""
        with self._assembly.store() as store:
            known = store.run(self._council.review_id)
            now = iso_ms(self._later_than(known))
            data = {
                **(known.data if known else {}),
                **_settled(self._council),
                **(facts or {}),
            }
            if state is RunState.RUNNING:
                data.pop(FAILURE, None)
            run = Run(
                id=self._council.review_id,
                part=Part.COUNCIL,
                kind=self._council.request.verb,
                title=self._council.title,
                state=state,
                started_at=self._council.started_at,
                updated_at=now,
                project=self._assembly.project,
                ended_at=now if state in FINAL_STATES else None,
                data=data,
            )
            store.save_run(run, events=[self.event(event, data)] if event else [])

    def _later_than(self, known: Run | None) -> datetime:
        """Return now, later than the last update: the record ignores what looks older,
        even after a clock went back.
        """
        now = self._clock.now()
        return moment_after(parse_iso(known.updated_at), now) if known else now

    def failed(self, why: str) -> None:
        """The council broke off.

        Whatever is wrong with the record must not hide what is wrong with the council.
        """
        try:
            self.save(RunState.FAILED, event="run.ended", facts={FAILURE: why})
        except BridgeheadError as error:
            logger.warning("not recorded: %s", error.message)
        self.notice(NoticeStatus.FAILED)

    def notice(self, status: NoticeStatus, verdict: str = "") -> None:
        """Let those know who are not watching.

        A record that cannot be written keeps nobody from the report.

        The facts are what a participant of the bus is sent; who serves the bus follows
        these events.
        """
        council = self._council
        line = " ".join(
            (f"{verdict}: {council.title}" if verdict else council.title).split()
        )
        title = shortened(line, MOST_TITLE)
        facts = {
            "kind": "council",
            "id": council.review_id,
            "title": title,
            "status": str(status),
        }
        try:
            with self._assembly.store() as store:
                store.append([self.event("notice", facts)])
        except BridgeheadError as error:
            logger.warning("the notice was not sent: %s", error.message)

    def event(self, kind: str, data: Mapping[str, Any]) -> Event:
        return Event(
            id=str(uuid4()),
            kind=kind,
            part=Part.COUNCIL,
            at=iso_ms(self._clock.now()),
            project=self._assembly.project,
            run_id=self._council.review_id,
            data=dict(data),
        )

    def open_halted(
        self, halted: Sequence[Mapping[str, str]], calls: StoredCalls
    ) -> None:
        """A converted bridge becomes something to answer.

        It does not hold the run open (council §3).
        """
        with self._assembly.store() as store:
            for entry in halted:
                seat = entry["bridge"]
                message = calls.halt_message(seat)
                seating = calls.seating(seat)
                store.open_pending(
                    Question(
                        key=self._halted_key(seat, seating),
                        kind=PendingKind.HALTED_RUNTIME,
                        part=Part.COUNCIL,
                        origin=f"runtime {seat}",
                        title=(
                            f"halted: {entry['halt_reason']} (council "
                            f"{self._council.review_id})"
                        ),
                        prompt=message,
                        choices=CHOICES,
                        project=self._assembly.project,
                        run_id=self._council.review_id,
                        advice=message or None,
                        context={
                            "bridge": seat,
                            "review_id": self._council.review_id,
                            "seating": seating,
                        },
                    )
                )

    def answered_retry(self, calls: StoredCalls) -> list[str]:
        """Return the seats to be retried: their last halt was answered with `retry`.

        A retry that was done since does not count.
        """
        where = PendingFilter(
            states=(PendingState.ANSWERED,),
            kinds=(PendingKind.HALTED_RUNTIME,),
            run_id=self._council.review_id,
        )
        with self._assembly.store(read_only=True) as store:
            items = store.pending(where)
        seats = []
        for item in items:
            if item.answer is None or item.answer.status is not AnswerStatus.SUCCESS:
                continue
            if (item.answer.text or "").strip() != RETRY:
                continue
            seat = str(item.question.context["bridge"])
            if calls.seating(seat) == item.question.context.get("seating"):
                seats.append(seat)
        return seats

    def withdraw_halted(self, bridges: Sequence[str], calls: StoredCalls) -> None:
        """Withdraw the questions about seats that are taken again."""
        with self._assembly.store() as store:
            for seat in bridges:
                asked = self._halted_key(seat, calls.seating(seat))
                key = QuestionKey(
                    part=Part.COUNCIL, key=asked, project=self._assembly.project
                )
                try:
                    store.withdraw_pending(key, reason="the seat was retried")
                except BridgeheadError:
                    continue  # it was never asked about

    def _halted_key(self, bridge: str, seating: int) -> str:
        return f"{self._council.review_id}/{bridge}/{seating}"


def councils_to_retry(assembly: Assembly) -> frozenset[str]:
    """Councils of this project with a halted seat that somebody answered for."""
    where = PendingFilter(
        states=(PendingState.ANSWERED,),
        kinds=(PendingKind.HALTED_RUNTIME,),
        project=assembly.project,
    )
    with assembly.store(read_only=True) as store:
        items = store.pending(where, limit=MOST_ANSWERED)
    return frozenset(item.question.run_id or "" for item in items)


def record_crash(
    assembly: Assembly, request: CouncilRequest, review_id: str, why: str, clock: Clock
) -> None:
    """Record a council that broke off before it was settled, so that no gate speaks of
    the one before it.
    """
    now = iso_ms(clock.now())
    title = request.task.strip() or f"{request.verb} {' '.join(request.scope.paths)}"
    run = Run(
        id=review_id,
        part=Part.COUNCIL,
        kind=request.verb,
        title=title.strip(),
        state=RunState.FAILED,
        started_at=now,
        updated_at=now,
        project=assembly.project,
        ended_at=now,
        data={FAILURE: why},
    )
    event = Event(
        id=str(uuid4()),
        kind="council.crashed",
        part=Part.COUNCIL,
        at=now,
        project=assembly.project,
        run_id=review_id,
        data={FAILURE: why},
    )
    try:
        with assembly.store() as store:
            store.save_run(run, events=[event])
    except BridgeheadError as error:
        logger.warning("not recorded: %s", error.message)


class RecordObserver:
    """Appends the lines of a running council in a thread of its own, so that no seat
    waits for a disk.
    """

    def __init__(
        self, assembly: Assembly, record: CouncilRecord, refused: Iterable[str] = ()
    ) -> None:
        """`refused`: runtimes whose last call was refused, in whichever process."""
        self._record = record
        self._refused = set(refused)
        self._writer = EventWriter(assembly, part="council", logger=logger)

    def happened(self, bridge: str, line: Mapping[str, Any]) -> None:
        self._put("council.event", {"bridge": bridge, **line})

    def refused(self, bridge: str, failed: CallFailed) -> None:
        self._refused.add(bridge)
        facts = {
            "bridge": bridge,
            "reason": failed.reason,
            "error_class": failed.error_class.value,
        }
        self._put("council.refused", facts)

    def accepted(self, bridge: str) -> None:
        if bridge in self._refused:
            self._refused.discard(bridge)
            self._put("council.accepted", {"bridge": bridge})

    def close(self) -> None:
        self._writer.close()

    def _put(self, kind: str, data: Mapping[str, Any]) -> None:
        self._writer.put(self._record.event(kind, data))


def _settled(council: StoredCouncil) -> dict[str, Any]:
    """Return what was known before the first call."""
    facts = council_facts(council.task, council.seats)
    del facts["review_id"]  # the run is called by it
    return {**facts, "mode": council.task.mode.value if council.task.mode else None}


def report_facts(
    report: CouncilReport | AbortedReport, files: Mapping[str, str]
) -> dict[str, Any]:
    """Return what the record says about a report."""
    facts: dict[str, Any] = {
        "report": dict(files),
        "timestamp": report.timestamp,
        "waiting_for": [],
    }
    if isinstance(report, AbortedReport):
        return {**facts, "status": report.status, "abort_reason": report.abort_reason}
    counts = Counter(
        entry.severity.value if entry.severity else "unrated"
        for entry in report.findings()
    )
    return {
        **facts,
        "status": "COMPLETED",
        "verdict": report.verdict,
        "gate_verdict": report.gate_verdict,
        "incomplete": report.incomplete,
        "findings": dict(counts),
        "dismissed": len(report.dismissed_findings),
        "skipped": dict(report.skip_reasons),
        "usage": msgspec.to_builtins(report.usage),
        "seats": list(report.bridges_available),
        "pending": [entry["bridge"] for entry in report.bridges_pending],
    }
