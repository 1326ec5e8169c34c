"""Keep the record in one SQLite file, or in memory.

The file is private, has a write-ahead log, and every commit is synced.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bridgehead.control_plane.stores import failures
from bridgehead.control_plane.stores.base import ConnectionSlot, Store, Watch
from bridgehead.control_plane.stores.migrations import (
    LATEST,
    SQLITE,
    NoRows,
    Row,
    Transaction,
)
from bridgehead.errors import FileError, StoreError
from bridgehead.host import locks
from bridgehead.host.clock import Clock
from bridgehead.host.directories import make_private_dir
from bridgehead.host.files import put_in_place, read_bounded, write_atomic

if TYPE_CHECKING:
    import threading

APPLICATION_ID: Final = 0x42484452  # "BHDR", in the file's header
OLDEST_SQLITE: Final = (3, 37, 0)  # STRICT tables
_RETRY_SECONDS: Final = 0.01
LOG_HEAD: Final = 32
FRAME_HEAD: Final = 24
LOG_LOOKS: Final = 10
T = TypeVar("T")


class SqliteStore(Store):
    """A store over one file.

    A reader of a file that does not exist (yet) sees an empty record.
    """

    dialect = SQLITE
    driver_error = sqlite3.Error
    _slot: ConnectionSlot[sqlite3.Connection]

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
        super().__init__(
            str(path), read_only=read_only, clock=clock, new_id=new_id, up_to=up_to
        )
        self._path = path.absolute()
        self._busy_timeout_seconds = busy_timeout_seconds
        self._vfs = vfs
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise failures.RecordFailed(
                self.where, f"SQLite {sqlite3.sqlite_version} is older than 3.37"
            )
        with self._using_connection():
            pass

    def compact(self) -> None:
        with self._using_connection() as connection:
            if connection is not None:
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _read(self, work: Callable[[Transaction], T]) -> T:
        with self._using_connection() as connection:
            if connection is None:
                return work(NoRows())
            return work(SqliteTransaction(connection))

    def _write(self, work: Callable[[Transaction], T]) -> T:
        if self.read_only:
            raise failures.RecordReadOnly(self.where, "it was opened for reading")
        with self._using_connection() as connection:
            assert connection is not None  # only a reader goes without
            with locks.transaction(connection):
                transaction = SqliteTransaction(connection)
                self._refuse_newer(self._version(transaction))
                return work(transaction)

    def _version(self, transaction: Transaction) -> int:
        return int(transaction.rows("PRAGMA user_version")[0][0])

    def _note_version(self, transaction: Transaction, version: int) -> None:
        transaction.rows(f"PRAGMA application_id = {APPLICATION_ID}")
        transaction.rows(f"PRAGMA user_version = {version}")

    def _watch(self) -> Watch:
        return _DataVersionWatch(lambda: self._connect_if_there(self._path))

    @contextmanager
    def _using_connection(self) -> Iterator[sqlite3.Connection | None]:
        with self._slot.lock, self._translated():
            if self._slot.closed:
                raise failures.RecordClosed(self.where)
            if self._slot.connection is None:
                self._slot.connection = self._open_file()
            try:
                yield self._slot.connection
            except sqlite3.Error as error:
                # The next statement may not touch the damaged page; what it wrote would
                # be lost with the rest.
                if primary_code(error) == sqlite3.SQLITE_CORRUPT:
                    note_damage(self._path, str(error))
                raise

    def _open_file(self) -> sqlite3.Connection | None:
        if not self.read_only:
            damage = noted_damage(self._path)
            if damage is not None:
                raise failures.RecordDamaged(self.where, damage)
            if not is_record_file(self._path):
                self._create()
        log_before = _log_state(self._path)
        connection = self._connect_if_there(self._path)
        if connection is None:
            if self.read_only:
                return None
            raise failures.RecordUnplaceable(
                self.where, "it vanished while it was being opened"
            )
        try:
            version = self._identified_version(connection)
            if log_before is not None and _log_state(self._path) != log_before:
                self._refuse_damaged_log()
            if self.read_only:
                return self._prepared_to_read(connection, version)
            return self._prepared_to_write(connection, version)
        except BaseException:
            connection.close()
            raise

    def _create(self) -> None:
        """Set the record up under another name, and rename it when it is whole.

        An empty record would count as a damaged one.
        """
        temporary = self._path.with_name(
            f".{self._path.name[:50]}.{os.getpid()}.{os.urandom(8).hex()}.tmp"
        )
        with _placing(self._path):
            if not self._path.parent.exists():
                make_private_dir(self._path.parent)
            os.close(
                os.open(
                    temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
                )
            )
        try:
            connection = self._connect_if_there(temporary)
            assert connection is not None
            with closing(connection):
                self._prepared_to_write(connection, version=0)
            with _placing(self._path):
                put_in_place(temporary, self._path)
        finally:
            for suffix in ("", "-journal", "-wal", "-shm"):
                with suppress(OSError):  # what stays is swept up later (host/files.py)
                    temporary.with_name(temporary.name + suffix).unlink()

    def _connect_if_there(self, path: Path) -> sqlite3.Connection | None:
        """Return a connection without any promise about what is in the file.

        It never creates one.
        """
        if not is_record_file(path):
            return None
        vfs = f"&vfs={self._vfs}" if self._vfs else ""
        return sqlite3.connect(
            f"{file_uri(path)}{vfs}",
            uri=True,
            timeout=self._busy_timeout_seconds,
            isolation_level=None,
            check_same_thread=False,
        )

    def _refuse_damaged_log(self) -> None:
        """Raise RecordDamaged if a log that was left behind is damaged.

        SQLite has just read it as far as it could, and forgets the rest.
        """
        damage = log_damage(self._path)
        if damage is None:
            return
        kept = self._path.with_name(self._path.name + "-wal.damaged")
        with suppress(FileError, OSError):
            write_atomic(kept, log_of(self._path).read_bytes(), private=True)
            damage = (
                f"{damage}; what was recorded last may be missing, the log is kept as "
                f"{kept}"
            )
        note_damage(self._path, damage)
        raise failures.RecordDamaged(self.where, damage)

    def _prepared_to_write(
        self, connection: sqlite3.Connection, version: int
    ) -> sqlite3.Connection:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA cell_size_check = ON")
        while version < self._up_to:
            with locks.transaction(connection):
                transaction = SqliteTransaction(connection)
                self._migrate_once(transaction)
                version = self._version(transaction)
                self._refuse_newer(version)
        self._use_write_ahead_log(connection)
        return connection

    def _prepared_to_read(
        self, connection: sqlite3.Connection, version: int
    ) -> sqlite3.Connection:
        if version < self._up_to:
            # An older record is brought up to date by whoever meets it first, also to
            # read.
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
        """Return the version of the record in this file; raises for anything else."""
        ((application_id,),) = connection.execute("PRAGMA application_id")
        ((version,),) = connection.execute("PRAGMA user_version")
        ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master")
        if (application_id, version, tables) == (0, 0, 0):
            raise failures.RecordDamaged(self.where, "it is empty")
        if application_id != APPLICATION_ID:
            raise failures.NotARecord(
                self.where, "it is an SQLite file of another program"
            )
        self._refuse_newer(version)
        return int(version)

    def _use_write_ahead_log(self, connection: sqlite3.Connection) -> None:
        """Switch the journal.

        SQLite does not wait by itself when several processes do this at once.
        """
        deadline = time.monotonic() + self._busy_timeout_seconds
        while True:
            try:
                ((mode,),) = connection.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                busy = primary_code(error) in (
                    sqlite3.SQLITE_BUSY,
                    sqlite3.SQLITE_LOCKED,
                )
                if not busy or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)
        if mode != "wal":
            import logging  # rarely needed, and not cheap to import

            logging.getLogger("bridgehead.record").warning(
                "the file system of %s has no shared memory, so the record does "
                "without a write-ahead log and is "
                "slower; use a local disk, or Postgres for several machines",
                self.where,
            )

    def _failure(self, error: Exception) -> StoreError:
        assert isinstance(error, sqlite3.Error)
        return failure(self.where, error, waited_seconds=self._busy_timeout_seconds)


class MemoryStore(SqliteStore):
    """The record in memory, for tests and trials, gone with the process.

    A reader sees nothing.
    """

    def __init__(
        self,
        *,
        read_only: bool = False,
        clock: Clock | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        super().__init__(
            Path("memory:"), read_only=read_only, clock=clock, new_id=new_id
        )

    def _open_file(self) -> sqlite3.Connection | None:
        if self.read_only:
            return None
        connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False
        )
        return self._prepared_to_write(connection, version=0)

    def _use_write_ahead_log(self, connection: sqlite3.Connection) -> None:
        """There is nothing to recover."""

    def _watch(self) -> Watch:
        return Watch()


class SqliteTransaction:
    """Statements on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._connection.execute(statement, values).fetchall()

    def each(self, statement: str, values: Sequence[Sequence[Any]]) -> list[list[Row]]:
        return [self._connection.execute(statement, row).fetchall() for row in values]


class _DataVersionWatch(Watch):
    """Asks SQLite whether another connection has committed.

    That is far cheaper than looking for rows.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection | None]) -> None:
        # A connection of its own: commits of a connection do not change its own
        # data_version.
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


def is_record_file(path: Path) -> bool:
    """Return whether there is something at `path`.

    Raise NotARecord if it is anything but a regular file.
    """
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    except OSError as error:
        raise failures.RecordUnplaceable(
            str(path), error.strerror or str(error)
        ) from error
    if stat.S_ISLNK(mode):
        raise failures.NotARecord(
            str(path), "it is a symbolic link, and those are not followed"
        )
    if not stat.S_ISREG(mode):
        raise failures.NotARecord(
            str(path),
            "it is a directory" if stat.S_ISDIR(mode) else "it is not a regular file",
        )
    return True


def file_uri(path: Path) -> str:
    """Return the address by which SQLite opens a file, and never creates it."""
    name = str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file:{name}?mode=rw"


@contextmanager
def _placing(path: Path) -> Iterator[None]:
    try:
        yield
    except FileError as error:
        raise failures.RecordUnplaceable(str(path), error.message) from error
    except OSError as error:
        raise failures.RecordUnplaceable(
            str(path), error.strerror or str(error)
        ) from error


# What is known about damage.


def mark_of(path: Path) -> Path:
    """Return the file beside a record that marks it as damaged.

    Nothing is appended while it is there.
    """
    return path.with_name(path.name + ".damaged")


def note_damage(path: Path, what: str) -> None:
    """Stop all writing until `bridgehead record check` finds the record whole."""
    with suppress(FileError):
        write_atomic(mark_of(path), f"{what}\n", private=True)


def noted_damage(path: Path) -> str | None:
    """Return what was found wrong with the record earlier."""
    mark = mark_of(path)
    if not os.path.lexists(mark):
        return None
    try:
        content = read_bounded(mark, 10_000)
    except FileError:
        return f"{mark} is there"
    return content.decode("utf-8", "replace").strip() or "it was found damaged"


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _log_state(path: Path) -> int | None:
    """Return what changes when a connection takes up a log that was left behind.

    That is the time of the index, which is then made anew. Return None without a
    log.
    """
    with suppress(OSError):
        if log_of(path).stat().st_size:
            with suppress(FileNotFoundError):
                return path.with_name(path.name + "-shm").stat().st_mtime_ns
            return 0
    return None


def log_damage(path: Path) -> str | None:
    """Return what is wrong with the log beside a record; None if nothing is.

    SQLite reads a log up to the first frame that is wrong, because that is how a
    write that was cut off ends. A frame that is right after one that is wrong shows
    that the log was damaged.
    """
    seen = None
    for _ in range(LOG_LOOKS):
        try:
            damage = _log_damage(log_of(path).read_bytes())
        except OSError:
            return None  # there is none, or SQLite will say why it cannot be read
        if damage is None or damage == seen:
            return damage
        # Perhaps somebody is just writing, and it is whole when we look again.
        seen = damage
    return None


def _log_damage(content: bytes) -> str | None:
    """Return what is wrong with the content of a log; None if nothing is."""
    if len(content) <= LOG_HEAD:
        return None
    head = struct.unpack(">8I", content[:LOG_HEAD])
    magic, _version, page_size, _checkpoint, *salts, sum_1, sum_2 = head
    order = {0x377F0682: "<", 0x377F0683: ">"}.get(magic)
    if order is None or _log_sum(content[:24], (0, 0), order) != (sum_1, sum_2):
        return "the head of its log is damaged"
    length = FRAME_HEAD + page_size
    sums_before = {(sum_1, sum_2)}
    first_wrong = 0
    starts = range(LOG_HEAD, len(content) - length + 1, length)
    for number, start in enumerate(starts, start=1):
        frame = content[start : start + length]
        frame_head = struct.unpack(">6I", frame[:FRAME_HEAD])
        _page, _commit, *frame_salts, sum_1, sum_2 = frame_head
        is_of_this_log = frame_salts == salts
        if first_wrong and not is_of_this_log:
            continue
        summed = frame[:8] + frame[FRAME_HEAD:]
        sums = {_log_sum(summed, before, order) for before in sums_before}
        is_right = is_of_this_log and (sum_1, sum_2) in sums
        if is_right and first_wrong:
            return f"frame {first_wrong} of its log is damaged"
        if not is_right:
            first_wrong = first_wrong or number
        # The next frame goes on from this sum. For a wrong frame it is not known which
        # of the two is right.
        sums_before = {(sum_1, sum_2), min(sums)}
    return None


def _log_sum(content: bytes, before: tuple[int, int], order: str) -> tuple[int, int]:
    sum_1, sum_2 = before
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for first, second in zip(words[::2], words[1::2], strict=True):
        sum_1 = (sum_1 + first + sum_2) & 0xFFFFFFFF
        sum_2 = (sum_2 + second + sum_1) & 0xFFFFFFFF
    return sum_1, sum_2


def failure(where: str, error: sqlite3.Error, *, waited_seconds: float) -> StoreError:
    """Return why a statement failed."""
    match primary_code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return failures.RecordLocked(where, waited_seconds)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return failures.RecordReadOnly(
                where, "its file or directory is write-protected"
            )
        case sqlite3.SQLITE_FULL:
            return failures.RecordFull(where)
        case sqlite3.SQLITE_NOTADB:
            return failures.NotARecord(where, "it is not an SQLite file")
        case sqlite3.SQLITE_CORRUPT:
            return failures.RecordDamaged(where, str(error))
        case sqlite3.SQLITE_CANTOPEN:
            return failures.RecordUnplaceable(
                where,
                "it, or a file SQLite keeps beside it (-wal, -shm), cannot be opened",
            )
        case _:
            return failures.RecordFailed(where, str(error))


def primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's own code.

    A header that names a format nobody has written counts as damage, too.
    """
    if str(error) == "unsupported file format":
        return sqlite3.SQLITE_CORRUPT
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
