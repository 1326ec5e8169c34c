"""The model of a record: lists and dictionaries instead of SQL, to compare the stores with."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from bridgehead.contract.events import Event, RecordedEvent
from bridgehead.contract.pending import Answer, PendingItem, Question
from bridgehead.contract.record_words import Part, PendingState
from bridgehead.control_plane import questions
from bridgehead.control_plane.questions import (
    Change,
    ItemReference,
    UnknownItem,
    item_number,
)
from bridgehead.control_plane.records import (
    ANY_EVENT,
    ANY_RUN,
    FINAL_STATES,
    OPEN_ITEMS,
    EventFilter,
    PendingFilter,
    QuestionKey,
    Run,
    RunFilter,
    plain_text,
    supersedes,
)
from bridgehead.control_plane.stores import rows
from bridgehead.control_plane.stores.base import MAX_PAGE, Store, Watch
from bridgehead.control_plane.stores.failures import RecordClosed, RecordReadOnly
from bridgehead.control_plane.stores.migrations import LATEST, Row
from bridgehead.errors import NotFound, StoreError, UserError
from bridgehead.host.clock import Clock, SystemClock, iso_ms


def _is_within(event: Event, where: EventFilter) -> bool:
    said = f"{event.kind} {event.project} {rows.event_row(event)[-1]}"
    asked = _ascii_lower(where.text)
    return (
        (not where.since or event.at >= where.since)
        and (not where.until or event.at < where.until)
        and (not asked or asked in _ascii_lower(said))
    )


def _ascii_lower(text: str) -> str:
    """As the databases do it."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def checked_limit(limit: int) -> int:
    if not 1 <= limit <= MAX_PAGE:
        raise UserError(f"a page has 1 to {MAX_PAGE} entries, not {limit}")
    return limit


class ModelStore(Store):
    """Events in a list, runs and items in dictionaries, one lock around all of it."""

    def __init__(
        self,
        *,
        read_only: bool = False,
        clock: Clock | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self.where = "memory:"
        self.read_only = read_only
        self._clock = clock or SystemClock()
        self._new_id = new_id or (lambda: os.urandom(16).hex())
        self._changed = threading.Condition(threading.RLock())
        self._closed = False
        self._events: list[RecordedEvent] = []
        self._events_by_id: dict[str, RecordedEvent] = {}
        self._runs: dict[str, Run] = {}
        self._items: dict[int, PendingItem] = {}
        self._numbers: dict[QuestionKey, int] = {}
        if not read_only:
            self._record("record.created", {"version": LATEST})

    def _no_statements(self, *_: object) -> Any:
        raise AssertionError("the model does without SQL")

    _read = _write = _version = _note_version = _no_statements

    def append(self, events: Sequence[Event]) -> list[RecordedEvent]:
        encoded = [rows.event_row(event) for event in events]
        if not encoded:
            return []
        with self._writing():
            return [self._append(row) for row in encoded]

    def events(
        self,
        where: EventFilter = ANY_EVENT,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = 100,
        newest_first: bool = False,
    ) -> list[RecordedEvent]:
        with self._reading():
            candidates = [
                one
                for one in self._events
                if after < one.seq and (before is None or one.seq < before)
            ]
        ordered = reversed(candidates) if newest_first else candidates
        return [
            one
            for one in ordered
            if where.admits(one.event) and _is_within(one.event, where)
        ][: checked_limit(limit)]

    def last_seq(self) -> int:
        with self._reading():
            return self._events[-1].seq if self._events else 0

    def save_run(self, run: Run, *, events: Sequence[Event] = ()) -> Run:
        saved, encoded = (
            rows.run_of(rows.run_row(run)),
            [rows.event_row(event) for event in events],
        )
        with self._writing():
            for row in encoded:
                self._append(row)
            known = self._runs.get(run.id)
            if known is None or supersedes(saved, known):
                self._runs[run.id] = saved
            return self._runs[run.id]

    def run(self, run_id: str) -> Run | None:
        plain_text(run_id, "the run asked for")
        with self._reading():
            return self._runs.get(run_id)

    def runs(
        self, where: RunFilter = ANY_RUN, *, limit: int = 100, before: str | None = None
    ) -> list[Run]:
        if before is not None and self.run(before) is None:
            raise NotFound(f"no run {before!r} in the record {self.where}")
        checked_limit(limit)
        latest_first = self._latest_first()
        seen = (
            0 if before is None else [run.id for run in latest_first].index(before) + 1
        )
        return [run for run in latest_first[seen:] if where.admits(run)][:limit]

    def open_pending(self, question: Question, at: str | None = None) -> PendingItem:
        asked, asked_at = (
            rows.checked_question(question),
            at or iso_ms(self._clock.now()),
        )
        with self._writing():
            number = self._numbers.get(QuestionKey.of(asked))
            if number is not None:
                return self._carry_out(
                    questions.ask_again(self._items[number], asked, asked_at), asked_at
                )
            change = questions.ask(
                questions.item_id(max(self._items, default=0) + 1), asked, asked_at
            )
            rows.item_row(change.item)  # refuses what the other stores would refuse
            item = self._carry_out(change, asked_at)
            self._numbers[QuestionKey.of(asked)] = item_number(item.id)
            return item

    def pending(
        self,
        where: PendingFilter = OPEN_ITEMS,
        *,
        limit: int = 100,
        before: str | None = None,
    ) -> list[PendingItem]:
        with self._reading():
            newest = (
                item_number(before)
                if before is not None
                else max(self._items, default=0) + 1
            )
            items = [
                self._items[number]
                for number in sorted(self._items, reverse=True)
                if number < newest
            ]
        return [item for item in items if where.admits(item)][: checked_limit(limit)]

    def pending_item(self, which: str | QuestionKey) -> PendingItem:
        with self._reading():
            number = (
                self._numbers.get(which)
                if isinstance(which, QuestionKey)
                else item_number(which)
            )
            if number not in self._items:
                raise UnknownItem(which if isinstance(which, str) else which.key)
            return self._items[number]

    def answer_pending(self, full_id: str, answer: Answer) -> PendingItem:
        given = rows.checked_answer(answer, full_id)
        return self._change(full_id, lambda item, at: questions.answer(item, given, at))

    def withdraw_pending(self, which: str | QuestionKey, *, reason: str) -> PendingItem:
        return self._change(which, lambda item, _: questions.withdraw(item, reason))

    def prune(self, before: str, *, dry_run: bool = False) -> dict[str, int]:
        before = min(before, iso_ms(self._clock.now()))
        with self._reading() if dry_run else self._writing():
            latest = {
                (run.project, run.part): run.id
                for run in reversed(self._latest_first())
            }
            open_items = [
                item for item in self._items.values() if item.state is PendingState.OPEN
            ]
            busy = {item.question.run_id for item in open_items}
            busy |= {one.event.run_id for one in self._events if one.event.at >= before}

            def run_stays(run: Run) -> bool:
                if run.state not in FINAL_STATES or run.updated_at >= before:
                    return True
                return run.id == latest[run.project, run.part] or bool(
                    busy & {run.id, f"council-{run.id}"}
                )

            staying = {run.id for run in self._runs.values() if run_stays(run)}
            answered = {
                one.event.data["id"]
                for one in self._events
                if one.event.kind == "pending.answered" and one.event.at >= before
            }
            clones = {
                one.event.project: one.seq
                for one in self._events
                if one.event.part is Part.RIGS
            }
            oldest = min((item.opened_at for item in open_items), default="never")

            def of_staying(run_id: str | None) -> bool:
                return run_id is not None and bool(staying & {run_id, run_id[8:]})

            def item_goes(item: PendingItem) -> bool:
                kept = of_staying(item.question.run_id) or item.id in answered
                newest = item_number(item.id) == max(self._items)
                return (
                    item.state is not PendingState.OPEN
                    and item.opened_at < before
                    and not kept
                    and not newest
                )

            def event_goes(one: RecordedEvent) -> bool:
                if (
                    one.event.kind in ("record.created", "record.migrated")
                    or one.event.at >= before
                ):
                    return False
                if one.event.kind.startswith("pending.") and one.event.at >= oldest:
                    return False
                return (
                    not of_staying(one.event.run_id) and one.seq not in clones.values()
                )

            items = {number for number, item in self._items.items() if item_goes(item)}
            counted = {"runs": len(self._runs) - len(staying), "pending": len(items)}
            counted["events"] = sum(map(event_goes, self._events))
            if dry_run or not any(counted.values()):
                return counted
            self._record("record.pruned", {"before": before, **counted})
            gone = [one for one in self._events if event_goes(one)]
            self._runs = {
                run_id: run for run_id, run in self._runs.items() if run_id in staying
            }
            self._items = {
                number: item
                for number, item in self._items.items()
                if number not in items
            }
            self._numbers = {
                key: number
                for key, number in self._numbers.items()
                if number not in items
            }
            self._events = [one for one in self._events if one not in gone]
            self._events_by_id = {one.event.id: one for one in self._events}
            return {**counted, "events": len(gone)}

    def close(self) -> None:
        with self._changed:
            self._closed = True

    def _runs_like(self, reference: str) -> list[str]:
        ids = [run.id for run in self._latest_first()]
        return [
            one
            for one in ids
            if reference and (one.startswith(reference) or one.endswith(reference))
        ]

    def _numbers_ending(self, reference: ItemReference) -> list[int]:
        with self._reading():
            if reference.number in self._items:
                return [reference.number]
            ending = [
                one
                for one in self._items
                if one % 10**reference.digits == reference.number
            ]
        return sorted(ending, reverse=True)

    def _watch(self) -> Watch:
        return _ConditionWatch(self._changed, self.last_seq)

    def _translated(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _failure(self, error: Exception) -> StoreError:
        raise AssertionError("there is no database that could fail") from error

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._changed:
            if self._closed:
                raise RecordClosed(self.where)
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if self.read_only:
            raise RecordReadOnly(self.where, "it was opened for reading")
        with self._reading():
            yield
            self._changed.notify_all()

    def _append(self, row: Row) -> RecordedEvent:
        known = self._events_by_id.get(row[0])
        if known is not None:
            return known
        recorded = rows.recorded_event((self.last_seq() + 1, *row))
        self._events.append(recorded)
        self._events_by_id[recorded.event.id] = recorded
        return recorded

    def _latest_first(self) -> list[Run]:
        with self._reading():
            return sorted(
                self._runs.values(),
                key=lambda run: (run.started_at, run.id),
                reverse=True,
            )

    def _change(
        self, which: str | QuestionKey, decide: Callable[[PendingItem, str], Change]
    ) -> PendingItem:
        with self._writing():
            at = iso_ms(self._clock.now())
            return self._carry_out(decide(self.pending_item(which), at), at)

    def _carry_out(self, change: Change, at: str) -> PendingItem:
        event = change.event(self._new_id(), at)
        if event is not None:
            self._append(rows.event_row(event))
            self._items[item_number(change.item.id)] = change.item
        return change.item

    def _record(self, kind: str, data: dict[str, Any]) -> None:
        at = iso_ms(self._clock.now())
        event = Event(id=self._new_id(), kind=kind, part=Part.RECORD, at=at, data=data)
        self._append(rows.event_row(event))


class _ConditionWatch(Watch):
    def __init__(self, changed: threading.Condition, count: Callable[[], int]) -> None:
        self._changed = changed
        self._count = count
        self._seen = 0

    def wait(self, stop: threading.Event, poll_seconds: float) -> None:
        with self._changed:
            while self._count() == self._seen and not stop.is_set():
                self._changed.wait(poll_seconds)
            self._seen = self._count()
