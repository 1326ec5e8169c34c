"""One holder at a time, across threads and processes.

The kernel keeps the lock (flock), so it ends with its holder, however that ends; the
pid written into the file is for the message only. The lock file stays: removing it
would let two holders lock two files of one name.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from _thread import get_ident  # `threading` costs every pause of a flow 5 ms
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bridgehead.errors import BridgeheadError, LockTimeout
from bridgehead.host.clock import Clock, SystemClock, iso_ms
from bridgehead.host.file_errors import AnyPath, FileFailure, NotRegularFile, translated

if TYPE_CHECKING:
    import sqlite3

POLL_SECONDS = 0.02
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_HOLDER = r"(\d{1,10}) ([A-Za-z0-9._-]{1,255}) ([0-9TZ:.-]{1,30})"

# Which thread of this process holds which lock file; flock alone would let a thread
# wait for itself.
_held: dict[tuple[int, int], int] = {}


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """All of what is written in the block, or nothing of it.

    IMMEDIATE takes the write lock first: no reader of this transaction can find itself
    outdated at the commit.
    """
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def locked_at_once(handle: int) -> bool:
    """Return whether an open file is locked now.

    It stays so for as long as a copy of the handle is open anywhere.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class LockReentered(BridgeheadError):
    """A thread asked for a lock it already holds: it would wait for itself."""

    def __init__(self, path: AnyPath) -> None:
        super().__init__(
            f"{os.fspath(path)} is already locked by this thread; the lock cannot be "
            "taken twice"
        )


class FileLock:
    """A context manager that holds the lock file at `path`, waiting at most
    `timeout_seconds` for it.
    """

    def __init__(
        self,
        path: AnyPath,
        timeout_seconds: float = 10.0,
        *,
        clock: Clock | None = None,
    ) -> None:
        self.path = Path(path)
        self.timeout_seconds = timeout_seconds
        self._clock = clock or SystemClock()
        self._handle: int | None = None

    def __enter__(self) -> FileLock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Take the lock, or raise LockTimeout naming who holds it."""
        deadline = self._clock.monotonic() + self.timeout_seconds
        while (handle := self._try()) is None:
            left = deadline - self._clock.monotonic()
            if left <= 0:
                raise LockTimeout(
                    str(self.path), self.timeout_seconds, read_holder(self.path)
                )
            self._clock.sleep(min(POLL_SECONDS, left))
        self._handle = handle
        self._sign(handle)

    def release(self) -> None:
        """Give the lock back; a lock that is not held is left alone."""
        handle = self._handle
        self._handle = None
        if handle is not None:
            _held.pop(_identity(os.fstat(handle)), None)
            # Nobody holds it any more; who looks need not ask whether the process
            # lives.
            with suppress(OSError):
                os.ftruncate(handle, 0)
            os.close(handle)

    def _try(self) -> int | None:
        with translated(self.path, "locked"):
            handle = os.open(self.path, _FLAGS, 0o600)
        try:
            taken = self._take(handle)
        except BaseException:
            os.close(handle)
            raise
        if not taken:
            os.close(handle)
            return None
        return handle

    def _take(self, handle: int) -> bool:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise NotRegularFile(self.path, "locked")
        if _held.get(_identity(found)) == get_ident():
            raise LockReentered(self.path)
        if not self._flock(handle) or not self._is_still_there(found):
            return False
        _held[_identity(found)] = get_ident()
        return True

    def _flock(self, handle: int) -> bool:
        try:
            return locked_at_once(handle)
        except OSError as error:
            reason = (
                "its file system has no locks "
                f"({errno.errorcode.get(error.errno or 0, 'unknown')})"
            )
            raise FileFailure(self.path, "locked", reason) from error

    def _is_still_there(self, locked: os.stat_result) -> bool:
        """Somebody may have removed the file between our opening and locking it."""
        try:
            return _identity(os.lstat(self.path)) == _identity(locked)
        except FileNotFoundError:
            return False

    def _sign(self, handle: int) -> None:
        """Say who holds the lock; on a full disk it is held all the same."""
        signature = f"{os.getpid()} {os.uname().nodename} {iso_ms(self._clock.now())}\n"
        try:
            os.ftruncate(handle, 0)
            os.pwrite(handle, signature.encode(), 0)
        except OSError:
            return


def read_holder(path: AnyPath) -> str | None:
    """Say who signed the lock file, for a message; None if it does not say."""
    try:
        handle = os.open(
            path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
    except OSError:
        return None
    try:
        signed = re.match(_HOLDER, os.pread(handle, 300, 0).decode("ascii", "replace"))
    except OSError:
        return None
    finally:
        os.close(handle)
    return f"pid {signed[1]} on {signed[2]} since {signed[3]}" if signed else None


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def is_alive(pid: int) -> bool:
    """Return whether there is a process of that number, ours or another user's."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
