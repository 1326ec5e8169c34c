"""What SQLite reports, as our own errors."""

from __future__ import annotations

import sqlite3

from bridgehead.control_plane.stores.failures import (
    NotARecord,
    RecordDamaged,
    RecordFailed,
    RecordFull,
    RecordLocked,
    RecordReadOnly,
    RecordUnplaceable,
)
from bridgehead.errors import StoreError


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds the lock."""
    return _primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


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


def _primary_code(error: sqlite3.Error) -> int:
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
