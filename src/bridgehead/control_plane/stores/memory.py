"""The record in memory, for tests and trials: SQLite without a file, gone with the process."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bridgehead.control_plane.stores.base import Watch
from bridgehead.control_plane.stores.sqlite import SqliteStore
from bridgehead.host.clock import Clock


class MemoryStore(SqliteStore):
    """One connection; opened to be read it is empty."""

    def __init__(
        self, *, read_only: bool = False, clock: Clock | None = None, new_id: Callable[[], str] | None = None
    ) -> None:
        super().__init__(Path(":memory:"), read_only=read_only, clock=clock, new_id=new_id)
        self.where = "memory:"

    def _open_file(self) -> sqlite3.Connection | None:
        if self.read_only:
            return None
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        return self._prepared_to_write(connection, version=0)

    def _use_write_ahead_log(self, connection: sqlite3.Connection) -> None:
        """Nothing outlives the process, so there is nothing to log."""

    @contextmanager
    def _watch(self) -> Iterator[Watch]:
        yield _Polling()


class _Polling:
    def wait(self, stop: threading.Event, poll_seconds: float) -> None:
        stop.wait(poll_seconds)
