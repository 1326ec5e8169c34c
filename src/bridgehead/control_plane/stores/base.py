"""What every store of the record does, and the one connection it holds. How stores fail is in `failures.py`."""

from __future__ import annotations

import os
from _thread import RLock  # all of `threading` would cost every pause of a flow 1 ms
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, Self, TypeVar
from weakref import WeakSet

from bridgehead.contract.events import Event, RecordedEvent
from bridgehead.contract.pending import Answer, PendingItem, Question
from bridgehead.control_plane.questions import AmbiguousReference, ItemReference, UnknownItem, item_id
from bridgehead.control_plane.records import (
    ANY_EVENT,
    ANY_RUN,
    OPEN_ITEMS,
    EventFilter,
    PendingFilter,
    QuestionKey,
    Run,
    RunFilter,
)
from bridgehead.errors import NotFound, UserError

if TYPE_CHECKING:
    import threading

MAX_PAGE: Final = 10_000
FOLLOW_PAGE: Final = 500
Connection = TypeVar("Connection")
_slots: WeakSet[ConnectionSlot[Any]] = WeakSet()
_held: list[ConnectionSlot[Any]] = []
_inherited: list[object] = []


class Watch(Protocol):
    """Notices that the record may have grown."""

    def wait(self, stop: threading.Event, poll_seconds: float) -> None:
        """Return when there may be something new, or `stop` is set; now and then for no reason is fine."""
        ...


class Store(ABC):
    """The record. Durable when a method returns, usable from several threads and processes at once.

    Times are given as ISO 8601 text. Listings are paged by what was last seen (`after`, `before`), never by counting,
    so rows that arrive meanwhile neither repeat nor hide others.
    """

    where: str
    read_only: bool

    # Events

    @abstractmethod
    def append(self, events: Sequence[Event]) -> list[RecordedEvent]:
        """Record all of `events` or none; one whose id is known already is returned as it was first recorded."""

    @abstractmethod
    def events(
        self,
        where: EventFilter = ANY_EVENT,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = 100,
        newest_first: bool = False,
    ) -> list[RecordedEvent]:
        """The events with `after < seq < before`, at most `limit`."""

    @abstractmethod
    def last_seq(self) -> int:
        """The seq of the newest event, 0 when there is none."""

    def follow(
        self, after: int = 0, *, stop: threading.Event, where: EventFilter = ANY_EVENT, poll_seconds: float = 0.25
    ) -> Iterator[RecordedEvent]:
        """Yield the events after `after`, then each new one as it is recorded, in order, until `stop` is set."""
        with self._watch() as watch:
            while not stop.is_set():
                # Seq order is commit order, so nothing can still appear at or below the newest one seen.
                newest = self.last_seq()
                while after < newest and not stop.is_set():
                    page = self.events(where, after=after, before=newest + 1, limit=FOLLOW_PAGE)
                    for recorded in page:
                        if stop.is_set():
                            return
                        yield recorded
                    after = page[-1].seq if len(page) == FOLLOW_PAGE else newest
                watch.wait(stop, poll_seconds)

    # Runs

    @abstractmethod
    def save_run(self, run: Run, *, events: Sequence[Event] = ()) -> Run:
        """Keep `run` unless the record knows a later state of it; `events` are appended in the same transaction.

        Returns the run as it is kept (see `records.supersedes`).
        """

    @abstractmethod
    def run(self, run_id: str) -> Run | None:
        """The run with this id."""

    @abstractmethod
    def runs(self, where: RunFilter = ANY_RUN, *, limit: int = 100, before: str | None = None) -> list[Run]:
        """The latest started first; `before` is the id of the last run of the page before."""

    def find_run(self, reference: str) -> Run:
        """The run with this id, or the only one whose id begins or ends with it."""
        ids = [reference] if self.run(reference) else self._runs_like(reference)
        if len(ids) > 1:
            raise AmbiguousReference(reference, ids)
        run = self.run(ids[0]) if ids else None
        if run is None:
            raise NotFound(f"no run {reference!r} in the record {self.where}")
        return run

    # What waits for someone

    @abstractmethod
    def open_pending(self, question: Question, at: str | None = None) -> PendingItem:
        """Ask; `at` is now unless given. A known key is the same question again (see `questions.ask_again`)."""

    @abstractmethod
    def pending(
        self, where: PendingFilter = OPEN_ITEMS, *, limit: int = 100, before: str | None = None
    ) -> list[PendingItem]:
        """The latest asked first; `before` is the id of the last item of the page before."""

    @abstractmethod
    def pending_item(self, which: str | QuestionKey) -> PendingItem:
        """The item with this full id, or with this key."""

    @abstractmethod
    def answer_pending(self, full_id: str, answer: Answer) -> PendingItem:
        """Take the one answer; exactly one of several that race is taken."""

    @abstractmethod
    def withdraw_pending(self, which: str | QuestionKey, *, reason: str) -> PendingItem:
        """Close a question unanswered. What is closed already is returned as it is: look at its state."""

    def find_pending(self, reference: str) -> PendingItem:
        """The item a person means by `q-12`, `12`, or by the last digits that only one item has."""
        meant = ItemReference.parse(reference)
        numbers = self._numbers_ending(meant) if meant.abbreviated else [meant.number]
        if meant.number in numbers:
            numbers = [meant.number]
        if not numbers:
            raise UnknownItem(reference)
        if len(numbers) > 1:
            raise AmbiguousReference(reference, [item_id(number) for number in numbers])
        return self.pending_item(item_id(numbers[0]))

    # Life

    @abstractmethod
    def prune(self, before: str, *, dry_run: bool = False) -> dict[str, int]:
        """Delete what ended before this moment; how many rows of each table, also of those a `dry_run` leaves.

        What is still needed stays, however old: runs that have not ended, that wait for somebody or that are the
        latest of their project; open items; the events of both; the last event of each rig's clone, by which
        `pending` finds the clone. Killed in between, the record is whole and the next call goes on.
        """

    def compact(self) -> None:  # noqa: B027  most stores have nothing to do
        """Give back the space of what was deleted, where the database does not do so by itself."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the record; closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def _watch(self) -> AbstractContextManager[Watch]: ...

    @abstractmethod
    def _runs_like(self, reference: str) -> list[str]:
        """Ids of runs that begin or end with `reference`, the latest first, enough of them to show."""

    @abstractmethod
    def _numbers_ending(self, reference: ItemReference) -> list[int]:
        """Numbers of items that end in these digits, the latest first, enough of them to show."""


def checked_limit(limit: int) -> int:
    """Return `limit` if a page may be that long; answers stay bounded whatever a surface asks for."""
    if not 1 <= limit <= MAX_PAGE:
        raise UserError(f"a page holds 1 to {MAX_PAGE} entries, not {limit}")
    return limit


class ConnectionSlot(Generic[Connection]):
    """A connection and its lock. Whoever uses `connection` holds `lock`."""

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


os.register_at_fork(before=_hold_all, after_in_parent=_release_all, after_in_child=_abandon_all)
