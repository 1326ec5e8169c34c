"""Every way in which a store can fail, each with a sentence and what to do about it.

StoreError
  RecordUnplaceable  RecordLocked  RecordReadOnly  RecordFull  RecordTooNew
  NotARecord  RecordDamaged  RecordClosed  RecordFailed
  ServerUnreachable  ServerRefused  DriverMissing

None of them leaves anything half written. `where` is what people may see of the place:
never a password.
"""

from __future__ import annotations

from typing import ClassVar

from bridgehead.errors import StoreError

_ELSEWHERE = "or name another place with [store] url"


class RecordError(StoreError):
    """`says` is the sentence, with a place for `where` and for each further fact.

    `advice` what to do.
    """

    says: ClassVar[str]
    advice: ClassVar[str | None] = None

    def __init__(self, where: str, *facts: object) -> None:
        super().__init__(self.says.format(where, *facts), hint=self.advice)


class RecordUnplaceable(RecordError):
    """There is no place for the record: a directory is missing, or is none, or may not
    be used.
    """

    says = "the record {} cannot be opened: {}"
    advice = f"fix the path, {_ELSEWHERE}"


class RecordLocked(RecordError):
    """Another process has been writing for longer than we were ready to wait."""

    says = (
        "the record {} is locked by another process; gave up after {:g} s, nothing "
        "was written"
    )
    advice = "wait for the other command to end, then retry"


class RecordReadOnly(RecordError):
    """Writing was asked of a record that can only be read."""

    says = "the record {} is read-only ({}); nothing was written"
    advice = f"allow writing to it, {_ELSEWHERE}"


class RecordFull(RecordError):
    """No space left where the record is."""

    says = "no space is left for the record {}; nothing was written"
    advice = "free some space, then retry; existing records are intact"


class RecordTooNew(RecordError):
    """A newer bridgehead has written this record."""

    says = (
        "the record {} has version {}, this program supports versions up to {}; it "
        "was not changed"
    )
    advice = f"use the newer bridgehead that wrote it, {_ELSEWHERE}"


class NotARecord(RecordError):
    """Something else is where the record should be."""

    says = "{} is not a bridgehead record: {}; it was not changed"
    advice = f"move it away, {_ELSEWHERE}"


class RecordDamaged(RecordError):
    """The record is ours, but is not as it was written. Nothing is appended to it."""

    says = "the record {} is damaged ({}); it was not changed"
    advice = (
        "save what can be read with `bridgehead record export --output FILE`; then "
        "move it and the files "
        "beside it away, and put a copy made by `bridgehead record backup` in its place"
    )


class RecordClosed(RecordError):
    """The store was closed before."""

    says = "the record {} was closed and can no longer be used"


class RecordFailed(RecordError):
    """The database refused for a reason that has no class of its own."""

    says = "the record {} could not be used: {}; nothing was written"


class ServerUnreachable(RecordError):
    """The database server does not answer, or stopped answering."""

    says = "the record's server {} cannot be reached: {}"
    advice = f"start the server or fix the address, {_ELSEWHERE}"


class ServerRefused(RecordError):
    """The database server answers, but not to us."""

    says = "the record's server {} refused: {}"
    advice = "check user, password, database and grants in [store] url"


class DriverMissing(RecordError):
    """The store needs a package that is not installed."""

    says = "a record at {} needs a driver that is not installed"
    advice = "pip install 'bridgehead[postgres]'"
