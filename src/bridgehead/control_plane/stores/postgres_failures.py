"""What Postgres and its driver report, as our own errors: one table by SQLSTATE, one reading of connection failures."""

from __future__ import annotations

import psycopg

from bridgehead.control_plane.stores.failures import (
    RecordFailed,
    RecordFull,
    RecordLocked,
    RecordReadOnly,
    ServerRefused,
    ServerUnreachable,
)
from bridgehead.errors import StoreError


def connection_failure(where: str, said: str) -> StoreError:
    """Why there is no connection. libpq has no codes for this, so its words are read, and not repeated at length."""
    if "FATAL:" in said:
        return ServerRefused(where, said.rpartition("FATAL:")[2].strip().splitlines()[0])
    if "no password supplied" in said:
        return ServerRefused(where, "it asks for a password and none was given")
    if "refused" in said:
        return ServerUnreachable(where, "nothing listens there")
    if "resolve host" in said or "translate host name" in said:
        return ServerUnreachable(where, "there is no such host")
    if "timeout" in said:
        return ServerUnreachable(where, "it did not answer in time")
    if "No such file" in said:
        return ServerUnreachable(where, "there is no such socket")
    if "SSL" in said or "certificate" in said:
        return ServerUnreachable(where, "no encrypted connection could be agreed on")
    return ServerUnreachable(where, "no connection could be made")


def statement_failure(where: str, error: psycopg.Error, *, waited_seconds: float) -> StoreError:
    """Why a statement failed."""
    code = error.sqlstate or ""
    if code in ("55P03", "40P01"):  # lock not available, deadlock
        return RecordLocked(where, waited_seconds)
    if code == "25006":
        return RecordReadOnly(where, "the server takes no writes")
    if code == "53100":
        return RecordFull(where)
    if code == "57014":
        return ServerUnreachable(where, "a statement took longer than allowed; nothing was written")
    if code == "42501" or code.startswith("28"):
        return ServerRefused(where, _first_line(error))
    if code.startswith(("08", "57P")) or (not code and isinstance(error, psycopg.OperationalError)):
        return ServerUnreachable(
            where, "the connection broke; what was being written may or may not be recorded"
        )
    return RecordFailed(where, _first_line(error))


def _first_line(error: psycopg.Error) -> str:
    return error.diag.message_primary or next(iter(str(error).splitlines()), "") or type(error).__name__
