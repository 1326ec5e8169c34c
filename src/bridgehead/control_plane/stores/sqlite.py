"""The record in one SQLite file: private, with a write-ahead log, every commit synced."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from _thread import allocate_lock
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bridgehead.control_plane.stores.base import ConnectionSlot, Watch
from bridgehead.control_plane.stores.failures import (
    NotARecord,
    RecordClosed,
    RecordDamaged,
    RecordFailed,
    RecordFull,
    RecordLocked,
    RecordReadOnly,
    RecordUnplaceable,
)
from bridgehead.control_plane.stores.migrations import LATEST, SQLITE, NoRows, Row, Transaction
from bridgehead.control_plane.stores.rows import UnreadableRow
from bridgehead.control_plane.stores.sql import SqlStore
from bridgehead.errors import FileError, StoreError
from bridgehead.host.clock import Clock
from bridgehead.host.directories import make_private_dir

if TYPE_CHECKING:
    import threading

_creating = allocate_lock()
APPLICATION_ID: Final = 0x42484452  # "BHDR", in the file's header
OLDEST_SQLITE: Final = (3, 37, 0)  # STRICT tables
_RETRY_SECONDS: Final = 0.01
T = TypeVar("T")


class SqliteStore(SqlStore):
    """A store over one file; a reader of a file that does not exist (yet) sees an empty record."""

    dialect = SQLITE

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        clock: Clock | None = None,
        new_id: Callable[[], str] | None = None,
        busy_timeout_seconds: float = 10.0,
        up_to: int = LATEST,
        vfs: str | None = None,
    ) -> None:
        super().__init__(str(path), read_only=read_only, clock=clock, new_id=new_id, up_to=up_to)
        self._path = path.absolute()
        self._busy_timeout_seconds = busy_timeout_seconds
        self._vfs = vfs
        self._slot: ConnectionSlot[sqlite3.Connection] = ConnectionSlot()
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise RecordFailed(self.where, f"SQLite {sqlite3.sqlite_version} is older than 3.37")
        with self._using_connection():
            pass

    def close(self) -> None:
        with self._slot.lock:
            self._slot.closed = True
            if self._slot.connection is not None:
                self._slot.connection.close()
                self._slot.connection = None

    def _read(self, work: Callable[[Transaction], T]) -> T:
        with self._using_connection() as connection:
            return work(SqliteTransaction(connection) if connection is not None else NoRows())

    def _write(self, work: Callable[[Transaction], T]) -> T:
        if self.read_only:
            raise RecordReadOnly(self.where, "it was opened for reading")
        with self._using_connection() as connection:
            assert connection is not None  # only a reader goes without
            with _transaction(connection) as transaction:
                self._refuse_newer(self._version(transaction))
                return work(transaction)

    def _version(self, transaction: Transaction) -> int:
        return int(transaction.rows("PRAGMA user_version")[0][0])

    def _note_version(self, transaction: Transaction, version: int) -> None:
        transaction.rows(f"PRAGMA application_id = {APPLICATION_ID}")
        transaction.rows(f"PRAGMA user_version = {version}")

    @contextmanager
    def _watch(self) -> Iterator[Watch]:
        watch = _DataVersionWatch(self._connect_if_there)
        try:
            with self._translated():
                yield watch
        finally:
            watch.close()

    @contextmanager
    def _using_connection(self) -> Iterator[sqlite3.Connection | None]:
        with self._slot.lock, self._translated():
            if self._slot.closed:
                raise RecordClosed(self.where)
            if self._slot.connection is None:
                self._slot.connection = self._open_file()
            yield self._slot.connection

    def _open_file(self) -> sqlite3.Connection | None:
        if not self.read_only:
            make_record_file(self._path)
        connection = self._connect_if_there()
        if connection is None:
            if self.read_only:
                return None
            raise RecordUnplaceable(self.where, "it vanished while it was being opened")
        try:
            return self._prepared(connection)
        except BaseException:
            connection.close()
            raise

    def _connect_if_there(self) -> sqlite3.Connection | None:
        """A connection without any promise about what is in the file; it never creates one."""
        if not is_record_file(self._path):
            return None
        name = str(self._path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        vfs = f"&vfs={self._vfs}" if self._vfs else ""
        return sqlite3.connect(
            f"file:{name}?mode=rw{vfs}",
            uri=True,
            timeout=self._busy_timeout_seconds,
            isolation_level=None,
            check_same_thread=False,
        )

    def _prepared(self, connection: sqlite3.Connection) -> sqlite3.Connection | None:
        version = self._identified_version(connection)
        if self.read_only:
            return self._prepared_to_read(connection, version)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        while version < self._up_to:
            with _transaction(connection) as transaction:
                self._migrate_once(transaction)
                version = self._version(transaction)
                self._refuse_newer(version)
        self._use_write_ahead_log(connection)
        return connection

    def _prepared_to_read(self, connection: sqlite3.Connection, version: int) -> sqlite3.Connection | None:
        if version == 0:
            connection.close()
            return None
        if version < self._up_to:
            # An older record is brought up to date by whoever meets it first, also to read.
            SqliteStore(
                self._path,
                clock=self._clock,
                new_id=self._new_id,
                busy_timeout_seconds=self._busy_timeout_seconds,
                vfs=self._vfs,
            ).close()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _identified_version(self, connection: sqlite3.Connection) -> int:
        """The version of the record in this file, 0 for an empty file; raises for anything else."""
        connection.execute("BEGIN")  # all three at one moment: another process may be creating the record
        ((application_id,),) = connection.execute("PRAGMA application_id")
        ((version,),) = connection.execute("PRAGMA user_version")
        ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master")
        connection.execute("COMMIT")
        if application_id != APPLICATION_ID and (application_id, version, tables) != (0, 0, 0):
            raise NotARecord(self.where, "it is an SQLite file of another program")
        self._refuse_newer(version)
        return int(version)

    def _use_write_ahead_log(self, connection: sqlite3.Connection) -> None:
        """Switch the journal; SQLite does not wait by itself when several processes do this at once."""
        deadline = time.monotonic() + self._busy_timeout_seconds
        while True:
            try:
                ((mode,),) = connection.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)
        if mode != "wal":
            _warn_about_journal(self.where)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise failure(self.where, error, waited_seconds=self._busy_timeout_seconds) from error
        except UnreadableRow as error:
            raise RecordDamaged(self.where, str(error)) from error


class SqliteTransaction:
    """Statements on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._connection.execute(statement, values).fetchall()

    def each(self, statement: str, values: Sequence[Sequence[Any]]) -> list[list[Row]]:
        return [self._connection.execute(statement, row).fetchall() for row in values]


class _DataVersionWatch:
    """Asks SQLite whether another connection has committed; far cheaper than looking for rows."""

    def __init__(self, connect: Callable[[], sqlite3.Connection | None]) -> None:
        # A connection of its own: commits of a connection do not change its own data_version.
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._seen: int | None = None

    def wait(self, stop: threading.Event, poll_seconds: float) -> None:
        while (version := self._data_version()) == self._seen:
            if stop.wait(poll_seconds):
                return
        self._seen = version

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _data_version(self) -> int | None:
        self._connection = self._connection or self._connect()
        if self._connection is None:
            return None
        ((version,),) = self._connection.execute("PRAGMA data_version")
        return int(version)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[SqliteTransaction]:
    # IMMEDIATE takes the write lock first: no reader of this transaction can find itself outdated at the commit.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield SqliteTransaction(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _warn_about_journal(where: str) -> None:
    import logging  # rarely needed, and not cheap to import

    logging.getLogger("bridgehead.record").warning(
        "the file system of %s has no shared memory, so the record does without a write-ahead log and is slower; "
        "use a local disk, or Postgres for several machines",
        where,
    )


def make_record_file(path: Path) -> None:
    """Make sure that a regular file is at `path`: an empty one (0600) if there was none."""
    with _creating:
        if not is_record_file(path):
            _create(path)


def is_record_file(path: Path) -> bool:
    """Whether there is something at `path`; raises if it is anything but a regular file."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    except OSError as error:
        raise RecordUnplaceable(str(path), error.strerror or str(error)) from error
    if stat.S_ISLNK(mode):
        raise NotARecord(str(path), "it is a symbolic link, and those are not followed")
    if not stat.S_ISREG(mode):
        raise NotARecord(str(path), "it is a directory" if stat.S_ISDIR(mode) else "it is not a regular file")
    return True


def _create(path: Path) -> None:
    try:
        if not path.parent.exists():
            make_private_dir(path.parent)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        is_record_file(path)  # another process was faster
    except FileError as error:
        raise RecordUnplaceable(str(path), error.message) from error
    except OSError as error:
        raise RecordUnplaceable(str(path), error.strerror or str(error)) from error


def failure(where: str, error: sqlite3.Error, *, waited_seconds: float) -> StoreError:
    """Why a statement failed."""
    match _primary_code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return RecordLocked(where, waited_seconds)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return RecordReadOnly(where, "its file or directory is write-protected")
        case sqlite3.SQLITE_FULL:
            return RecordFull(where)
        case sqlite3.SQLITE_NOTADB:
            return NotARecord(where, "it is not an SQLite file")
        case sqlite3.SQLITE_CORRUPT:
            return RecordDamaged(where, str(error))
        case sqlite3.SQLITE_CANTOPEN:
            return RecordUnplaceable(
                where, "it, or a file SQLite keeps beside it (-wal, -shm), cannot be opened"
            )
        case _:
            return RecordFailed(where, str(error))


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds the lock."""
    return _primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _primary_code(error: sqlite3.Error) -> int:
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
