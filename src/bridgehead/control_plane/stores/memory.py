"""The record in memory, for tests and trials: SQLite without a file, gone with the process."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from bridgehead.control_plane.stores.base import Watch
from bridgehead.control_plane.stores.failures import RecordClosed, RecordReadOnly
from bridgehead.control_plane.stores.migrations import SQLITE, NoRows, Transaction
from bridgehead.control_plane.stores.sql import SqlStore
from bridgehead.control_plane.stores.sqlite import SqliteTransaction, transaction_on
from bridgehead.host.clock import Clock

T = TypeVar("T")


class MemoryStore(SqlStore):
    """One connection, and one lock around all of it; opened to be read it is empty."""

    dialect = SQLITE

    def __init__(
        self, *, read_only: bool = False, clock: Clock | None = None, new_id: Callable[[], str] | None = None
    ) -> None:
        super().__init__("memory:", read_only=read_only, clock=clock, new_id=new_id)
        self._changed = threading.Condition(threading.RLock())
        self._closed = False
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        if not read_only:
            self._write(self._migrate_once)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._connection.close()

    def _read(self, work: Callable[[Transaction], T]) -> T:
        with self._changed:
            self._refuse_closed()
            return work(NoRows() if self.read_only else SqliteTransaction(self._connection))

    def _write(self, work: Callable[[Transaction], T]) -> T:
        if self.read_only:
            raise RecordReadOnly(self.where, "it was opened for reading")
        with self._changed:
            self._refuse_closed()
            with transaction_on(self._connection) as transaction:
                done = work(transaction)
            self._changed.notify_all()
            return done

    def _refuse_closed(self) -> None:
        if self._closed:
            raise RecordClosed(self.where)

    def _version(self, transaction: Transaction) -> int:
        return int(transaction.rows("PRAGMA user_version")[0][0])

    def _note_version(self, transaction: Transaction, version: int) -> None:
        transaction.rows(f"PRAGMA user_version = {version}")

    @contextmanager
    def _watch(self) -> Iterator[Watch]:
        yield _ConditionWatch(self._changed, self.last_seq)


class _ConditionWatch:
    def __init__(self, changed: threading.Condition, newest: Callable[[], int]) -> None:
        self._changed = changed
        self._newest = newest
        self._seen = 0

    def wait(self, stop: threading.Event, poll_seconds: float) -> None:
        with self._changed:
            while self._newest() == self._seen and not stop.is_set():
                self._changed.wait(poll_seconds)
            self._seen = self._newest()
