"""The record in a SQL database: every operation and statement once, over what SQLite and Postgres share."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar

from bridgehead.contract.events import Event, RecordedEvent
from bridgehead.contract.pending import Answer, PendingItem, Question
from bridgehead.contract.record_words import Part
from bridgehead.control_plane import questions
from bridgehead.control_plane.questions import Change, ItemReference, UnknownItem, item_number
from bridgehead.control_plane.records import (
    ANY_EVENT,
    ANY_RUN,
    OPEN_ITEMS,
    EventFilter,
    PendingFilter,
    QuestionKey,
    Run,
    RunFilter,
    moment_text,
    plain_text,
    supersedes,
)
from bridgehead.control_plane.stores import rows
from bridgehead.control_plane.stores.base import Store, checked_limit
from bridgehead.control_plane.stores.failures import RecordTooNew
from bridgehead.control_plane.stores.migrations import LATEST, SUMMED, Dialect, Row, Transaction, migrate, next_version
from bridgehead.errors import NotFound
from bridgehead.host.clock import Clock, SystemClock, iso_ms

EVENT_COLUMNS: Final = "seq, id, kind, part, at, project, run_id, data"
RUN_COLUMNS: Final = "id, part, kind, title, state, started_at, updated_at, project, ended_at, data"
ITEM_COLUMNS: Final = "number, state, question, opened_at, answer"
ITEM_VALUES: Final = "part, project, key, kind, state, run_id, question, opened_at, answer"
EVENT_BY_ID: Final = f"SELECT {EVENT_COLUMNS} FROM events WHERE id = ?"
LAST_SEQ: Final = "SELECT coalesce(max(seq), 0) FROM events"
RUN_BY_ID: Final = f"SELECT {RUN_COLUMNS} FROM runs WHERE id = ?"
RUNS_LIKE: Final = (
    "SELECT id FROM runs WHERE length(id) >= ? AND (substr(id, 1, ?) = ? OR substr(id, length(id) - ? + 1) = ?)"
    " ORDER BY started_at DESC, id DESC LIMIT ?"
)
STARTED_BEFORE: Final = "(started_at, id) < (SELECT started_at, id FROM runs WHERE id = ?)"
ITEM_BY_NUMBER: Final = f"SELECT {ITEM_COLUMNS} FROM pending WHERE number = ?"
ITEM_BY_KEY: Final = f"SELECT {ITEM_COLUMNS} FROM pending WHERE part = ? AND project = ? AND key = ?"
NUMBERS_ENDING: Final = "SELECT number FROM pending WHERE number % ? = ? ORDER BY number DESC LIMIT ?"
# What may be deleted; every ? is the moment before which it ended. Questions of a council's host seat name their run
# with `council-` before its id.
OLD_RUNS: Final = (
    "state IN ('completed', 'failed', 'cancelled') AND updated_at < ?"
    " AND EXISTS (SELECT 1 FROM runs o WHERE o.project = runs.project AND o.part = runs.part"
    " AND (o.started_at, o.id) > (runs.started_at, runs.id))"
    " AND NOT EXISTS (SELECT 1 FROM pending p WHERE p.state = 'open' AND p.run_id IN (runs.id, 'council-' || runs.id))"
    " AND NOT EXISTS (SELECT 1 FROM events e WHERE e.run_id IN (runs.id, 'council-' || runs.id) AND e.at >= ?)"
)
RUN_STAYS: Final = (
    "EXISTS (SELECT 1 FROM runs WHERE runs.id IN ({0}.run_id, substr({0}.run_id, 9))"
    f" AND runs.id NOT IN (SELECT id FROM runs WHERE {OLD_RUNS}))"
)
OLD_ITEMS: Final = (
    f"state <> 'open' AND opened_at < ? AND NOT {RUN_STAYS.format('pending')}"
    " AND number < (SELECT max(number) FROM pending)"  # the newest number given out is there
    " AND number NOT IN (SELECT {number} FROM events e WHERE e.kind = 'pending.answered' AND e.at >= ?)"
)
OLD_EVENTS: Final = (
    f"at < ? AND kind NOT IN ('record.created', 'record.migrated') AND NOT {RUN_STAYS.format('events')}"
    " AND (kind NOT LIKE 'pending.%'"
    " OR at < (SELECT coalesce(min(opened_at), 'never') FROM pending WHERE state = 'open'))"
    " AND seq NOT IN (SELECT max(e.seq) FROM events e WHERE e.part = 'rigs' GROUP BY e.project)"
)
PRUNED: Final = {"runs": ("id", OLD_RUNS), "pending": ("number", OLD_ITEMS), "events": ("seq", OLD_EVENTS)}
PRUNED_AT_ONCE: Final = 10_000  # in one transaction: others want to write, too
Page = tuple[str, list[Any]]
SHOWN_MATCHES = 10
_LARGEST = 2**63 - 1
T = TypeVar("T")


class Writing:
    """The statements that write a row of `rows.py`; from version 3 on its sum is the last value."""

    def __init__(self, version: int) -> None:
        self.summed = version >= SUMMED
        run_columns = self._columns(RUN_COLUMNS)
        replaced = ", ".join(f"{name} = excluded.{name}" for name in run_columns.split(", ")[1:])
        event = self._insert("events", EVENT_COLUMNS.removeprefix("seq, "))
        self.insert_event = f"{event} ON CONFLICT (id) DO NOTHING RETURNING seq"
        self.save_run = f"{self._insert('runs', RUN_COLUMNS)} ON CONFLICT (id) DO UPDATE SET {replaced}"
        self.insert_item = f"{self._insert('pending', ITEM_VALUES)} RETURNING number"
        changed = self._columns(ITEM_VALUES).replace(",", " = ?,")
        self.update_item = f"UPDATE pending SET {changed} = ? WHERE number = ?"

    def _columns(self, named: str) -> str:
        return f"{named}, sum" if self.summed else named

    def _insert(self, table: str, named: str) -> str:
        columns = self._columns(named)
        return f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' for _ in columns.split())})"

    def values(self, row: Row) -> Row:
        return (*row, rows.row_sum(row)) if self.summed else row

    def append(self, transaction: Transaction, encoded: Sequence[Row]) -> list[RecordedEvent]:
        recorded = []
        written = transaction.each(self.insert_event, [self.values(row) for row in encoded])
        for row, inserted in zip(encoded, written, strict=True):
            if inserted:
                recorded.append(rows.recorded_event((inserted[0][0], *row)))
            else:
                recorded.append(rows.recorded_event(transaction.rows(EVENT_BY_ID, [row[0]])[0]))
        return recorded


class SqlStore(Store):
    """A store over a SQL database."""

    dialect: ClassVar[Dialect]

    def __init__(
        self,
        where: str,
        *,
        read_only: bool = False,
        clock: Clock | None = None,
        new_id: Callable[[], str] | None = None,
        up_to: int = LATEST,
    ) -> None:
        self.where = where
        self.read_only = read_only
        self._clock = clock or SystemClock()
        self._new_id = new_id or (lambda: os.urandom(16).hex())
        # Below LATEST only to make records of earlier versions, on which migrations are tried.
        self._up_to = up_to
        self._writing = Writing(up_to)

    @abstractmethod
    def _read(self, work: Callable[[Transaction], T]) -> T:
        """Do `work` on the record as it is."""

    @abstractmethod
    def _write(self, work: Callable[[Transaction], T]) -> T:
        """Do `work` in one write transaction, alone among all writers; durable when it returns."""

    @abstractmethod
    def _version(self, transaction: Transaction) -> int:
        """How many migrations the record has seen."""

    @abstractmethod
    def _note_version(self, transaction: Transaction, version: int) -> None:
        """Write down that the record has now seen so many."""

    def _refuse_newer(self, version: int) -> None:
        """Keep our hands off what a newer program has made, also while we had the record open."""
        if version > LATEST:
            raise RecordTooNew(self.where, version, LATEST)

    def append(self, events: Sequence[Event]) -> list[RecordedEvent]:
        encoded = [rows.event_row(event) for event in events]
        return self._write(lambda transaction: self._writing.append(transaction, encoded)) if encoded else []

    def events(
        self,
        where: EventFilter = ANY_EVENT,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = 100,
        newest_first: bool = False,
    ) -> list[RecordedEvent]:
        bounds: list[tuple[str, Any]] = [("seq > ?", min(max(after, 0), _LARGEST)), *where.bounds()]
        if before is not None:
            bounds.append(("seq < ?", min(max(before, 0), _LARGEST)))
        order = "seq DESC" if newest_first else "seq"
        page = listing(EVENT_COLUMNS, "events", where.allowed(), bounds, order, checked_limit(limit))
        return self._page(page, rows.recorded_event)

    def last_seq(self) -> int:
        found = self._read(lambda transaction: transaction.rows(LAST_SEQ))
        return int(found[0][0]) if found else 0

    def save_run(self, run: Run, *, events: Sequence[Event] = ()) -> Run:
        encoded, encoded_events = rows.run_row(run), [rows.event_row(event) for event in events]

        def save(transaction: Transaction) -> Run:
            self._writing.append(transaction, encoded_events)
            known = _run(transaction, run.id)
            if known is not None and not supersedes(run, known):
                return known
            transaction.rows(self._writing.save_run, self._writing.values(encoded))
            return rows.run_of(encoded)

        return self._write(save)

    def run(self, run_id: str) -> Run | None:
        plain_text(run_id, "the run asked for")
        return self._read(lambda transaction: _run(transaction, run_id))

    def runs(self, where: RunFilter = ANY_RUN, *, limit: int = 100, before: str | None = None) -> list[Run]:
        if before is not None and self.run(before) is None:
            raise NotFound(f"no run {before!r} in the record {self.where}")
        bounds = [] if before is None else [(STARTED_BEFORE, before)]
        order, columns = "started_at DESC, id DESC", RUN_COLUMNS
        page = listing(columns, "runs", where.allowed(), bounds, order, checked_limit(limit))
        return self._page(page, rows.run_of)

    def open_pending(self, question: Question, at: str | None = None) -> PendingItem:
        asked, asked_at = rows.checked_question(question), at or iso_ms(self._clock.now())
        return self._write(lambda transaction: self._open(transaction, asked, asked_at))

    def pending(
        self, where: PendingFilter = OPEN_ITEMS, *, limit: int = 100, before: str | None = None
    ) -> list[PendingItem]:
        bounds = [] if before is None else [("number < ?", item_number(before))]
        order, columns = "number DESC", ITEM_COLUMNS
        page = listing(columns, "pending", where.allowed(), bounds, order, checked_limit(limit))
        return self._page(page, rows.item_of)

    def pending_item(self, which: str | QuestionKey) -> PendingItem:
        return self._read(lambda transaction: _item(transaction, which))

    def answer_pending(self, full_id: str, answer: Answer) -> PendingItem:
        given = rows.checked_answer(answer, full_id)
        return self._change(full_id, lambda item, at: questions.answer(item, given, at))

    def withdraw_pending(self, which: str | QuestionKey, *, reason: str) -> PendingItem:
        return self._change(which, lambda item, _: questions.withdraw(item, reason))

    def prune(self, before: str, *, dry_run: bool = False) -> dict[str, int]:
        now = iso_ms(self._clock.now())
        before = min(moment_text(before, "the moment to prune before"), now)
        counted = {table: self._prune(table, before, count_only=True) for table in PRUNED}
        if dry_run or not any(counted.values()):
            return counted
        facts = {"before": before, **counted}
        # Before anything is deleted, so that a record that was pruned always says so.
        self.append([Event(id=self._new_id(), kind="record.pruned", part=Part.RECORD, at=now, data=facts)])
        return {table: self._prune(table, before) for table in PRUNED}

    def _prune(self, table: str, before: str, *, count_only: bool = False) -> int:
        key, condition = PRUNED[table]
        ended, values = condition.replace("{number}", self.dialect.number_of_item), [before] * condition.count("?")
        if count_only:
            count = f"SELECT count(*) FROM {table} WHERE {ended}"
            return sum(found for (found,) in self._read(lambda transaction: transaction.rows(count, values)))
        some = f"SELECT {key} FROM {table} WHERE {ended} LIMIT {PRUNED_AT_ONCE}"
        delete, deleted = f"DELETE FROM {table} WHERE {key} IN ({some}) RETURNING 1", 0
        while count_now := len(self._write(lambda transaction: transaction.rows(delete, values))):
            deleted += count_now
        return deleted

    def _runs_like(self, reference: str) -> list[str]:
        length = len(reference)
        values = [length, length, reference, length, reference, SHOWN_MATCHES]
        found = self._read(lambda transaction: transaction.rows(RUNS_LIKE, values))
        return [run_id for (run_id,) in found] if reference else []

    def _numbers_ending(self, reference: ItemReference) -> list[int]:
        exact = self._read(lambda transaction: transaction.rows(ITEM_BY_NUMBER, [reference.number]))
        if exact:
            return [reference.number]
        values = [10**reference.digits, reference.number, SHOWN_MATCHES]
        found = self._read(lambda transaction: transaction.rows(NUMBERS_ENDING, values))
        return [number for (number,) in found]

    def _page(self, page: Page, decode: Callable[[Row], T]) -> list[T]:
        statement, values = page
        return self._read(lambda transaction: [decode(row) for row in transaction.rows(statement, values)])

    def _open(self, transaction: Transaction, question: Question, at: str) -> PendingItem:
        known = _find_key(transaction, QuestionKey.of(question))
        if known is not None:
            return self._carry_out(transaction, questions.ask_again(known, question, at), at)
        unnumbered = questions.ask(questions.item_id(0), question, at).item
        ((number,),) = transaction.rows(self._writing.insert_item, self._writing.values(rows.item_row(unnumbered)))
        return self._note(transaction, questions.ask(questions.item_id(number), question, at), at)

    def _change(self, which: str | QuestionKey, decide: Callable[[PendingItem, str], Change]) -> PendingItem:
        def change(transaction: Transaction) -> PendingItem:
            at = iso_ms(self._clock.now())
            return self._carry_out(transaction, decide(_item(transaction, which), at), at)

        return self._write(change)

    def _carry_out(self, transaction: Transaction, change: Change, at: str) -> PendingItem:
        if change.event_kind is not None:
            number = item_number(change.item.id)
            values = self._writing.values(rows.item_row(change.item))
            transaction.rows(self._writing.update_item, [*values, number])
        return self._note(transaction, change, at)

    def _note(self, transaction: Transaction, change: Change, at: str) -> PendingItem:
        event = change.event(self._new_id(), at)
        if event is not None:
            self._writing.append(transaction, [rows.event_row(event)])
        return change.item

    def _migrate_once(self, transaction: Transaction) -> bool:
        """Take the record one transaction nearer to the version we work with; False when it is there."""
        version = self._version(transaction)
        if version >= self._up_to:
            return False
        reached = next_version(version, self._up_to)
        migrate(transaction, self.dialect, start=version, end=reached)
        self._note_version(transaction, reached)
        migrated = rows.event_row(self._migration_event(version, reached))
        Writing(reached).append(transaction, [migrated])
        return True

    def _migration_event(self, version: int, reached: int) -> Event:
        return Event(
            id=self._new_id(),
            kind="record.migrated" if version else "record.created",
            part=Part.RECORD,
            at=iso_ms(self._clock.now()),
            data={"from": version, "to": reached} if version else {"version": reached},
        )


def listing(
    columns: str,
    table: str,
    allowed: Mapping[str, Sequence[str]],
    bounds: Sequence[tuple[str, Any]],
    order: str,
    limit: int,
) -> Page:
    """A page of `table`: rows with the allowed values, within the bounds (a condition and its one value each)."""
    conditions = [f"{column} IN ({', '.join('?' * len(values))})" for column, values in allowed.items()]
    conditions += [condition for condition, _ in bounds]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    given = [value for values in allowed.values() for value in values] + [value for _, value in bounds]
    return f"SELECT {columns} FROM {table}{where} ORDER BY {order} LIMIT ?", [*given, limit]


def _run(transaction: Transaction, run_id: str) -> Run | None:
    found = transaction.rows(RUN_BY_ID, [run_id])
    return rows.run_of(found[0]) if found else None


def _item(transaction: Transaction, which: str | QuestionKey) -> PendingItem:
    if isinstance(which, QuestionKey):
        item = _find_key(transaction, which)
    else:
        found = transaction.rows(ITEM_BY_NUMBER, [item_number(which)])
        item = rows.item_of(found[0]) if found else None
    if item is None:
        raise UnknownItem(which if isinstance(which, str) else which.key)
    return item


def _find_key(transaction: Transaction, key: QuestionKey) -> PendingItem | None:
    found = transaction.rows(ITEM_BY_KEY, [Part(key.part).value, key.project, key.key])
    return rows.item_of(found[0]) if found else None
