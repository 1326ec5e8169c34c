"""Implement what every store of the record does, each operation and statement once.

Stores differ in how they connect, lock and fail (sqlite.py, postgres.py, failures.py).
"""

from __future__ import annotations

import os
from _thread import RLock  # all of `threading` would cost every pause of a flow 1 ms
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, TypeVar
from weakref import WeakSet

from bridgehead.contract.events import Event, RecordedEvent
from bridgehead.contract.pending import Answer, PendingItem, Question
from bridgehead.contract.record_words import Part
from bridgehead.control_plane import questions, records
from bridgehead.control_plane.stores import retention, rows
from bridgehead.control_plane.stores.failures import RecordDamaged, RecordTooNew
from bridgehead.control_plane.stores.migrations import (
    LATEST,
    SUMMED,
    Dialect,
    Row,
    Transaction,
    migrate,
)
from bridgehead.errors import NotFound, StoreError, UserError
from bridgehead.host.clock import Clock, SystemClock, iso_ms

if TYPE_CHECKING:
    import threading

MAX_PAGE: Final = 10_000
FOLLOW_PAGE: Final = 500
EVENT_COLUMNS: Final = "seq, id, kind, part, at, project, run_id, data"
RUN_COLUMNS: Final = (
    "id, part, kind, title, state, started_at, updated_at, project, ended_at, data"
)
ITEM_COLUMNS: Final = "number, state, question, opened_at, answer"
ITEM_VALUES: Final = (
    "part, project, key, kind, state, run_id, question, opened_at, answer"
)
EVENT_BY_ID: Final = f"SELECT {EVENT_COLUMNS} FROM events WHERE id = ?"
LAST_SEQ: Final = "SELECT coalesce(max(seq), 0) FROM events"
RUN_BY_ID: Final = f"SELECT {RUN_COLUMNS} FROM runs WHERE id = ?"
RUNS_LIKE: Final = (
    "SELECT id FROM runs WHERE length(id) >= ? AND (substr(id, 1, ?) = ? OR "
    "substr(id, length(id) - ? + 1) = ?)"
    " ORDER BY started_at DESC, id DESC LIMIT ?"
)
STARTED_BEFORE: Final = (
    "(started_at, id) < (SELECT started_at, id FROM runs WHERE id = ?)"
)
ITEM_BY_NUMBER: Final = f"SELECT {ITEM_COLUMNS} FROM pending WHERE number = ?"
ITEM_BY_KEY: Final = (
    f"SELECT {ITEM_COLUMNS} FROM pending WHERE part = ? AND project = ? AND key = ?"
)
NUMBERS_ENDING: Final = (
    "SELECT number FROM pending WHERE number % ? = ? ORDER BY number DESC LIMIT ?"
)
Page = tuple[str, list[Any]]
SHOWN_MATCHES = 10
_LARGEST = 2**63 - 1
T = TypeVar("T")
Connection = TypeVar("Connection")
_slots: WeakSet[ConnectionSlot[Any]] = WeakSet()
_held: list[ConnectionSlot[Any]] = []
_inherited: list[object] = []


class Watch:
    """Notices that the record may have grown.

    This one just polls.
    """

    def wait(self, stop: threading.Event, poll_seconds: float) -> None:
        """Return when there may be something new, or `stop` is set.

        It may also return for no reason.
        """
        stop.wait(poll_seconds)

    def close(self) -> None:
        return


class Writing:
    """The statements that write a row of `rows.py`.

    From version 3 on, its check sum is the last value.
    """

    def __init__(self, version: int) -> None:
        self.summed = version >= SUMMED
        run_columns = self._columns(RUN_COLUMNS)
        replaced = ", ".join(
            f"{name} = excluded.{name}" for name in run_columns.split(", ")[1:]
        )
        event = self._insert("events", EVENT_COLUMNS.removeprefix("seq, "))
        self.insert_event = f"{event} ON CONFLICT (id) DO NOTHING RETURNING seq"
        self.save_run = (
            f"{self._insert('runs', RUN_COLUMNS)} ON CONFLICT (id) DO UPDATE SET "
            f"{replaced}"
        )
        self.insert_item = f"{self._insert('pending', ITEM_VALUES)} RETURNING number"
        changed = self._columns(ITEM_VALUES).replace(",", " = ?,")
        self.update_item = f"UPDATE pending SET {changed} = ? WHERE number = ?"

    def _columns(self, named: str) -> str:
        return f"{named}, sum" if self.summed else named

    def _insert(self, table: str, named: str) -> str:
        columns = self._columns(named)
        return (
            f"INSERT INTO {table} ({columns}) VALUES "
            f"({', '.join('?' for _ in columns.split())})"
        )

    def values(self, row: Row) -> Row:
        return (*row, rows.row_sum(row)) if self.summed else row

    def append(
        self, transaction: Transaction, encoded: Sequence[Row]
    ) -> list[RecordedEvent]:
        recorded = []
        written = transaction.each(
            self.insert_event, [self.values(row) for row in encoded]
        )
        for row, inserted in zip(encoded, written, strict=True):
            if inserted:
                ((seq,),) = inserted
                stored: Row = (seq, *row)
            else:  # its id is known
                (stored,) = transaction.rows(EVENT_BY_ID, [row[0]])
            recorded.append(rows.recorded_event(stored))
        return recorded


class Store(ABC):
    """The record.

    What a method wrote is durable when it returns. A store can be used from several
    threads and processes at once.

    Times are ISO 8601 text. Listings are paged by what was last seen (`after`,
    `before`), never by counting, so rows that arrive meanwhile neither repeat nor
    hide others.
    """

    dialect: ClassVar[Dialect]
    driver_error: ClassVar[type[Exception]]
    """What the database raises."""

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
        # Below LATEST only to make records of earlier versions, on which migrations are
        # tried.
        self._up_to = up_to
        self._writing = Writing(up_to)
        self._slot: ConnectionSlot[Any] = ConnectionSlot()

    def close(self) -> None:
        """Let go of the record; closing twice is fine."""
        with self._slot.lock:
            self._slot.closed = True
            self._drop_connection()

    def _drop_connection(self) -> None:
        if self._slot.connection is not None:
            self._slot.connection.close()
            self._slot.connection = None

    @abstractmethod
    def _read(self, work: Callable[[Transaction], T]) -> T:
        """Do `work` on the record as it is."""

    @abstractmethod
    def _write(self, work: Callable[[Transaction], T]) -> T:
        """Do `work` in one write transaction, alone among all writers.

        Durable when it returns.
        """

    @abstractmethod
    def _version(self, transaction: Transaction) -> int:
        """Return how many migrations the record has seen."""

    @abstractmethod
    def _note_version(self, transaction: Transaction, version: int) -> None:
        """Write down that the record has now seen so many."""

    @abstractmethod
    def _failure(self, error: Exception) -> StoreError:
        """Return why a statement failed."""

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn what the database raises into a failure of ours."""
        try:
            yield
        except self.driver_error as error:
            raise self._failure(error) from error
        except rows.UnreadableRow as error:
            raise RecordDamaged(self.where, str(error)) from error

    def _watch(self) -> Watch:
        return Watch()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refuse_newer(self, version: int) -> None:
        """Raise RecordTooNew if a newer program has changed the record."""
        if version > LATEST:
            raise RecordTooNew(self.where, version, LATEST)

    # Events

    def append(self, events: Sequence[Event]) -> list[RecordedEvent]:
        """Record all of `events` or none.

        One whose id is known already is returned as it was first recorded.
        """
        encoded = [rows.event_row(event) for event in events]
        if not encoded:
            return []
        return self._write(
            lambda transaction: self._writing.append(transaction, encoded)
        )

    def events(
        self,
        where: records.EventFilter = records.ANY_EVENT,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = 100,
        newest_first: bool = False,
    ) -> list[RecordedEvent]:
        """Return the events with `after < seq < before`, at most `limit`."""
        bounds: list[tuple[str, Any]] = [
            ("seq > ?", min(max(after, 0), _LARGEST)),
            *where.bounds(),
        ]
        if before is not None:
            bounds.append(("seq < ?", min(max(before, 0), _LARGEST)))
        order = "seq DESC" if newest_first else "seq"
        return self._page(
            listing(EVENT_COLUMNS, "events", where.allowed(), bounds, order, limit),
            rows.recorded_event,
        )

    def last_seq(self) -> int:
        """Return the seq of the newest event, or 0."""
        found = self._read(lambda transaction: transaction.rows(LAST_SEQ))
        return int(found[0][0]) if found else 0

    def follow(
        self,
        after: int = 0,
        *,
        stop: threading.Event,
        where: records.EventFilter = records.ANY_EVENT,
        poll_seconds: float = 0.25,
    ) -> Iterator[RecordedEvent]:
        """Yield the events after `after`, and each new one, until `stop` is set."""
        with closing(self._watch()) as watch, self._translated():
            while not stop.is_set():
                # Seq order is commit order, so nothing can still appear at or below the
                # newest one seen.
                newest = self.last_seq()
                while after < newest and not stop.is_set():
                    page = self.events(
                        where, after=after, before=newest + 1, limit=FOLLOW_PAGE
                    )
                    for recorded in page:
                        if stop.is_set():
                            return
                        yield recorded
                    after = page[-1].seq if len(page) == FOLLOW_PAGE else newest
                watch.wait(stop, poll_seconds)

    # Runs

    def save_run(
        self, run: records.Run, *, events: Sequence[Event] = ()
    ) -> records.Run:
        """Keep `run` unless the record knows a later state of it.

        Return the run as it is kept (see `records.supersedes`). `events` are
        appended in the same transaction.
        """
        encoded = rows.run_row(run)
        encoded_events = [rows.event_row(event) for event in events]

        def save(transaction: Transaction) -> records.Run:
            self._writing.append(transaction, encoded_events)
            known = _run(transaction, run.id)
            if known is not None and not records.supersedes(run, known):
                return known
            transaction.rows(self._writing.save_run, self._writing.values(encoded))
            return rows.run_of(encoded)

        return self._write(save)

    def run(self, run_id: str) -> records.Run | None:
        """Return the run with this id."""
        records.plain_text(run_id, "the run asked for")
        return self._read(lambda transaction: _run(transaction, run_id))

    def runs(
        self,
        where: records.RunFilter = records.ANY_RUN,
        *,
        limit: int = 100,
        before: str | None = None,
    ) -> list[records.Run]:
        """Return the runs, the latest started first.

        `before` is the id of the last run of the page before.
        """
        if before is not None and self.run(before) is None:
            raise NotFound(f"no run {before!r} in the record {self.where}")
        bounds = [] if before is None else [(STARTED_BEFORE, before)]
        order = "started_at DESC, id DESC"
        return self._page(
            listing(RUN_COLUMNS, "runs", where.allowed(), bounds, order, limit),
            rows.run_of,
        )

    def find_run(self, reference: str) -> records.Run:
        """Return the only run whose id is, begins or ends with `reference`."""
        ids = [reference] if self.run(reference) else self._runs_like(reference)
        if len(ids) > 1:
            raise questions.AmbiguousReference(reference, ids)
        run = self.run(ids[0]) if ids else None
        if run is None:
            raise NotFound(f"no run {reference!r} in the record {self.where}")
        return run

    # Pending items

    def open_pending(self, question: Question, at: str | None = None) -> PendingItem:
        """Ask a question, now unless `at` is given.

        A known key is the same question once more (see `questions.ask_again`).
        """
        asked = rows.checked_question(question)
        asked_at = at or iso_ms(self._clock.now())
        return self._write(lambda transaction: self._open(transaction, asked, asked_at))

    def pending(
        self,
        where: records.PendingFilter = records.OPEN_ITEMS,
        *,
        limit: int = 100,
        before: str | None = None,
    ) -> list[PendingItem]:
        """Return the items, the latest asked first.

        `before` is the id of the last item of the page before.
        """
        bounds: list[tuple[str, Any]] = []
        if before is not None:
            bounds.append(("number < ?", questions.item_number(before)))
        allowed = where.allowed()
        page = listing(ITEM_COLUMNS, "pending", allowed, bounds, "number DESC", limit)
        return self._page(page, rows.item_of)

    def pending_item(self, which: str | records.QuestionKey) -> PendingItem:
        """Return the item with this full id, or with this key."""
        return self._read(lambda transaction: _item(transaction, which))

    def answer_pending(
        self, full_id: str, answer: Answer, *, asked: Question | None = None
    ) -> PendingItem:
        """Take the one answer; exactly one of several that race is taken.

        With `asked` it is refused if the question was reworded in the meantime.
        """
        given = rows.checked_answer(answer, full_id)
        return self._change(
            full_id, lambda item, at: questions.answer(item, given, at, asked)
        )

    def refuse_answer(self, item: PendingItem, answer: Answer) -> None:
        """Raise what `answer_pending` would raise now; nothing is changed."""
        given = rows.checked_answer(answer, item.id)
        questions.answer(item, given, iso_ms(self._clock.now()))

    def withdraw_pending(
        self, which: str | records.QuestionKey, *, reason: str
    ) -> PendingItem:
        """Close a question unanswered.

        What is closed already is returned as it is: look at its state.
        """
        return self._change(which, lambda item, _: questions.withdraw(item, reason))

    def find_pending(self, reference: str) -> PendingItem:
        """Return the item that `q-12`, `12`, or its last digits name."""
        meant = questions.ItemReference.parse(reference)
        numbers = self._numbers_ending(meant) if meant.abbreviated else [meant.number]
        if not numbers:
            raise questions.UnknownItem(reference)
        if len(numbers) > 1:
            raise questions.AmbiguousReference(
                reference, [questions.item_id(number) for number in numbers]
            )
        return self.pending_item(questions.item_id(numbers[0]))

    # Retention

    def prune(self, before: str, *, dry_run: bool = False) -> dict[str, int]:
        """Delete what ended before this moment.

        Return how many rows of each table, also for a `dry_run`, which deletes
        nothing.

        What is still needed stays, however old: runs that have not ended, that
        wait for somebody or that are the latest of their project; open items;
        the events of both; the last event of each rig's clone, by which
        `pending` finds the clone. If this is killed in between, the record is
        whole and the next call goes on.
        """
        now = iso_ms(self._clock.now())
        before = min(records.moment_text(before, "the moment to prune before"), now)
        old = {table: self._count_old(table, before) for table in retention.PRUNED}
        if dry_run or not any(old.values()):
            return old
        self._record_pruning({"before": before, **old}, now)
        return {table: self._delete_old(table, before) for table in retention.PRUNED}

    def _count_old(self, table: str, before: str) -> int:
        old = retention.old_rows(table, self.dialect)
        values = old.values(before)
        found = self._read(lambda transaction: transaction.rows(old.counting, values))
        return sum(count for (count,) in found)

    def _delete_old(self, table: str, before: str) -> int:
        """Delete a few rows at a time, and return how many there were."""
        old = retention.old_rows(table, self.dialect)
        values = old.values(before)
        deleted = 0
        while True:
            batch = self._write(
                lambda transaction: transaction.rows(old.deleting, values)
            )
            if not batch:
                return deleted
            deleted += len(batch)

    def forget_runs(self, run_ids: Sequence[str]) -> None:
        """Delete runs of any age, with their events and what was asked in them."""
        self._record_pruning({"runs": len(run_ids)}, iso_ms(self._clock.now()))
        which = f"IN ({placeholders(len(run_ids))})"

        def delete(transaction: Transaction) -> None:
            transaction.rows(f"DELETE FROM events WHERE run_id {which}", run_ids)
            transaction.rows(f"DELETE FROM pending WHERE run_id {which}", run_ids)
            transaction.rows(f"DELETE FROM runs WHERE id {which}", run_ids)

        self._write(delete)

    def _record_pruning(self, facts: dict[str, Any], now: str) -> None:
        """Append the event; it comes before anything is deleted."""
        self.append(
            [
                Event(
                    id=self._new_id(),
                    kind="record.pruned",
                    part=Part.RECORD,
                    at=now,
                    data=facts,
                )
            ]
        )

    def compact(self) -> None:  # noqa: B027  most stores have nothing to do
        """Give back the space of what was deleted, if the database does not."""

    # Statements

    def _runs_like(self, reference: str) -> list[str]:
        """Return ids that begin or end with `reference`, the latest first."""
        if not reference:
            return []
        length = len(reference)
        values = [length, length, reference, length, reference, SHOWN_MATCHES]
        found = self._read(lambda transaction: transaction.rows(RUNS_LIKE, values))
        return [run_id for (run_id,) in found]

    def _numbers_ending(self, reference: questions.ItemReference) -> list[int]:
        """Return item numbers that end in these digits, the latest first."""
        if self._read(
            lambda transaction: transaction.rows(ITEM_BY_NUMBER, [reference.number])
        ):
            return [reference.number]
        values = [10**reference.digits, reference.number, SHOWN_MATCHES]
        found = self._read(lambda transaction: transaction.rows(NUMBERS_ENDING, values))
        return [number for (number,) in found]

    def _page(self, page: Page, decode: Callable[[Row], T]) -> list[T]:
        statement, values = page
        return self._read(
            lambda transaction: [
                decode(row) for row in transaction.rows(statement, values)
            ]
        )

    def _open(
        self, transaction: Transaction, question: Question, at: str
    ) -> PendingItem:
        known = _find_key(transaction, records.QuestionKey.of(question))
        if known is not None:
            return self._carry_out(
                transaction, questions.ask_again(known, question, at), at
            )
        unnumbered = questions.ask(questions.item_id(0), question, at).item
        ((number,),) = transaction.rows(
            self._writing.insert_item, self._writing.values(rows.item_row(unnumbered))
        )
        return self._note(
            transaction, questions.ask(questions.item_id(number), question, at), at
        )

    def _change(
        self,
        which: str | records.QuestionKey,
        decide: Callable[[PendingItem, str], questions.Change],
    ) -> PendingItem:
        def change(transaction: Transaction) -> PendingItem:
            at = iso_ms(self._clock.now())
            return self._carry_out(
                transaction, decide(_item(transaction, which), at), at
            )

        return self._write(change)

    def _carry_out(
        self, transaction: Transaction, change: questions.Change, at: str
    ) -> PendingItem:
        if change.event_kind is not None:
            number = questions.item_number(change.item.id)
            values = self._writing.values(rows.item_row(change.item))
            transaction.rows(self._writing.update_item, [*values, number])
        return self._note(transaction, change, at)

    def _note(
        self, transaction: Transaction, change: questions.Change, at: str
    ) -> PendingItem:
        event = change.event(self._new_id(), at)
        if event is not None:
            self._writing.append(transaction, [rows.event_row(event)])
        return change.item

    def _migrate_once(self, transaction: Transaction) -> bool:
        """Take the record one step nearer to our version, in one transaction.

        Return False if it is there.
        """
        version = self._version(transaction)
        if version >= self._up_to:
            return False
        # A new record is set up whole, an older one taken up step by step.
        reached = version + 1 if version else self._up_to
        migrate(transaction, self.dialect, start=version, end=reached)
        self._note_version(transaction, reached)
        migrated = Event(
            id=self._new_id(),
            kind="record.migrated" if version else "record.created",
            part=Part.RECORD,
            at=iso_ms(self._clock.now()),
            data={"from": version, "to": reached} if version else {"version": reached},
        )
        Writing(reached).append(transaction, [rows.event_row(migrated)])
        return True


def listing(
    columns: str,
    table: str,
    allowed: Mapping[str, Sequence[str]],
    bounds: Sequence[tuple[str, Any]],
    order: str,
    limit: int,
) -> Page:
    """Return the query for a page: rows with the allowed values, within the bounds.

    A bound is a condition and its one value. The length of a page is limited, so
    that answers stay bounded whatever a surface asks for.
    """
    if not 1 <= limit <= MAX_PAGE:
        raise UserError(f"a page has 1 to {MAX_PAGE} entries, not {limit}")
    conditions = []
    parameters: list[Any] = []
    for column, values in allowed.items():
        conditions.append(f"{column} IN ({placeholders(len(values))})")
        parameters += values
    for condition, value in bounds:
        conditions.append(condition)
        parameters.append(value)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    query = f"SELECT {columns} FROM {table}{where} ORDER BY {order} LIMIT ?"
    return query, [*parameters, limit]


def placeholders(count: int) -> str:
    """Return so many question marks, separated by commas."""
    return ", ".join(["?"] * count)


def _run(transaction: Transaction, run_id: str) -> records.Run | None:
    found = transaction.rows(RUN_BY_ID, [run_id])
    return rows.run_of(found[0]) if found else None


def _item(transaction: Transaction, which: str | records.QuestionKey) -> PendingItem:
    if isinstance(which, records.QuestionKey):
        item = _find_key(transaction, which)
    else:
        found = transaction.rows(ITEM_BY_NUMBER, [questions.item_number(which)])
        item = rows.item_of(found[0]) if found else None
    if item is None:
        raise questions.UnknownItem(which if isinstance(which, str) else which.key)
    return item


def _find_key(transaction: Transaction, key: records.QuestionKey) -> PendingItem | None:
    found = transaction.rows(ITEM_BY_KEY, [Part(key.part).value, key.project, key.key])
    return rows.item_of(found[0]) if found else None


class ConnectionSlot(Generic[Connection]):
    """A connection and its lock; hold `lock` while using `connection`."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.connection: Connection | None = None
        self.closed = False
        _slots.add(self)


def _hold_all() -> None:
    for slot in list(_slots):
        slot.lock.acquire()
        _held.append(slot)


def _release_all() -> None:
    while _held:
        _held.pop().lock.release()


def _abandon_all() -> None:
    while _held:
        slot = _held.pop()
        # Kept alive on purpose: closing it here would close it for the parent.
        _inherited.append(slot.connection)
        slot.connection = None
        slot.lock = RLock()


os.register_at_fork(
    before=_hold_all, after_in_parent=_release_all, after_in_child=_abandon_all
)
