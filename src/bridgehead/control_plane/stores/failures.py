"""Every way in which a store can fail, each with its own sentence and what to do about it.

StoreError
  RecordUnplaceable  RecordLocked  RecordReadOnly  RecordFull  RecordTooNew  NotARecord  RecordDamaged
  RecordClosed  RecordFailed  ServerUnreachable  ServerRefused  DriverMissing

None of them leaves anything half written. `where` is what people may see of the place: never a password.
"""

from __future__ import annotations

from bridgehead.errors import StoreError

_ELSEWHERE = "or name another place with [store] url"


class RecordUnplaceable(StoreError):
    """There is no place for the record: a directory is missing, or is none, or may not be used."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"the record {where} cannot be opened: {why}", hint=f"mend the path, {_ELSEWHERE}")


class RecordLocked(StoreError):
    """Another process has been writing for longer than we were ready to wait."""

    def __init__(self, where: str, waited_seconds: float) -> None:
        super().__init__(
            f"the record {where} is locked by another process; gave up after {waited_seconds:g} s, nothing was written",
            hint="wait for the other command to end and repeat this one",
        )


class RecordReadOnly(StoreError):
    """Writing was asked of a record that can only be read."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"the record {where} is read-only ({why}); nothing was written", hint=f"allow writing to it, {_ELSEWHERE}"
        )


class RecordFull(StoreError):
    """No space left where the record is."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"no space is left for the record {where}; nothing was written",
            hint="free some space and repeat the command; what was recorded before is intact",
        )


class RecordTooNew(StoreError):
    """A newer bridgehead has written this record."""

    def __init__(self, where: str, found: int, known: int) -> None:
        super().__init__(
            f"the record {where} has version {found}, this program knows versions up to {known}; it was left alone",
            hint=f"use the newer bridgehead that wrote it, {_ELSEWHERE}",
        )


class NotARecord(StoreError):
    """Something else is where the record should be."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(
            f"{where} is not a bridgehead record: {what}; it was left alone", hint=f"move it away, {_ELSEWHERE}"
        )


class RecordDamaged(StoreError):
    """The record is ours, but is not as it was written. Nothing is appended to it."""

    def __init__(self, where: str, detail: str) -> None:
        super().__init__(
            f"the record {where} is damaged ({detail}); it was left alone",
            hint="save what can be read with `bridgehead record export --output FILE`; then move it and the files "
            "beside it away, and put a copy made by `bridgehead record backup` in its place",
        )


class RecordClosed(StoreError):
    """The store was closed before."""

    def __init__(self, where: str) -> None:
        super().__init__(f"the record {where} was closed and cannot be used any more")


class RecordFailed(StoreError):
    """The database refused for a reason that has no class of its own."""

    def __init__(self, where: str, detail: str) -> None:
        super().__init__(f"the record {where} could not be used: {detail}; nothing was written")


class ServerUnreachable(StoreError):
    """The database server does not answer, or stopped answering."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"the record's server {where} cannot be reached: {why}",
            hint=f"start the server or mend the address, {_ELSEWHERE}",
        )


class ServerRefused(StoreError):
    """The database server answers, but not to us."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"the record's server {where} refused: {why}",
            hint="check user, password, database and grants in [store] url",
        )


class DriverMissing(StoreError):
    """The store needs a package that is not installed."""

    def __init__(self, scheme: str, extra: str) -> None:
        super().__init__(
            f"a record at {scheme}:// needs a driver that is not installed", hint=f"pip install 'bridgehead[{extra}]'"
        )
