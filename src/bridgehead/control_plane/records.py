"""Define what the record keeps besides events and questions: runs, and filters.

A filter is checked when it is made, so a store never sees one that it could not compare
with anything.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Final

import msgspec

from bridgehead.contract.events import Event
from bridgehead.contract.pending import PendingItem, Question
from bridgehead.contract.record_words import Part, PendingKind, PendingState, RunState
from bridgehead.errors import UserError

_CONTAINS_TEXT: Final = (
    "lower(kind || ' ' || project || ' ' || data) LIKE ? ESCAPE '\\'"
)
_NOT_COLUMNS: Final = ("since", "until", "text")
FINAL_STATES: Final = frozenset(
    {RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED}
)


class Unrecordable(UserError):
    """A value that the record cannot hold the same way in every store."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} cannot be recorded: {why}")


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A council, flow or bus run, as far as it has come."""

    id: str
    part: Part
    kind: str
    title: str
    state: RunState
    started_at: str
    updated_at: str
    project: str = ""
    ended_at: str | None = None
    data: dict[str, Any] = {}


def supersedes(saved: Run, kept: Run) -> bool:
    """Return whether `saved` may replace `kept`: the later update wins.

    A run that ended is opened again by a later update (`council resume --retry`),
    never by a late writer that still holds an older picture. At the same
    millisecond an end beats anything else, because it is written last.
    """
    saved_at = datetime.fromisoformat(saved.updated_at)
    kept_at = datetime.fromisoformat(kept.updated_at)
    if saved_at != kept_at:
        return saved_at > kept_at
    return saved.state in FINAL_STATES or kept.state not in FINAL_STATES


class QuestionKey(msgspec.Struct, frozen=True, kw_only=True):
    """A part's own name for its question; one pending item each."""

    part: Part
    key: str
    project: str = ""

    def __post_init__(self) -> None:
        plain_text(self.key, "the question asked for")
        plain_text(self.project, "the project asked for")

    @classmethod
    def of(cls, question: Question) -> QuestionKey:
        return cls(part=question.part, key=question.key, project=question.project)


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """What a listing is limited to.

    An empty tuple or None admits everything, `project=""` what belongs to no
    project.
    """

    parts: tuple[Part, ...] = ()
    project: str | None = None

    def __post_init__(self) -> None:
        for column, values in self.allowed().items():
            for value in values:
                plain_text(value, f"the {column} asked for")

    def allowed(self) -> dict[str, tuple[str, ...]]:
        """Return the values that pass, for each limited column."""
        allowed: dict[str, tuple[str, ...]] = {}
        for name, value in msgspec.structs.asdict(self).items():
            if name in _NOT_COLUMNS or value in ((), None):
                continue
            column = name.removesuffix("s")
            values = value if isinstance(value, tuple) else (value,)
            allowed[column] = tuple(map(str, values))
        return allowed

    def admits(self, entry: Event | Run | PendingItem) -> bool:
        """Return whether a listing limited like this shows `entry`."""
        subject = entry.question if isinstance(entry, PendingItem) else entry
        for column, values in self.allowed().items():
            holder = entry if column == "state" else subject
            if getattr(holder, column) not in values:
                return False
        return True


class EventFilter(Filter, frozen=True, kw_only=True):
    kinds: tuple[str, ...] = ()
    run_id: str | None = None
    # Not before this moment, in UTC as the record writes it; a day stands for its first
    # moment.
    since: str | None = None
    until: str | None = None  # before this moment
    text: str = ""  # anywhere in kind, project or facts, in capitals or not

    def __post_init__(self) -> None:
        super().__post_init__()
        plain_text(self.text, "the text asked for")

    def bounds(self) -> list[tuple[str, str]]:
        """Return the other limits, as conditions of SQL with one value each."""
        bounds: list[tuple[str, str]] = []
        if self.since:
            bounds.append(("at >= ?", self.since))
        if self.until:
            bounds.append(("at < ?", self.until))
        if self.text:
            bounds.append((_CONTAINS_TEXT, f"%{_like_pattern(self.text)}%"))
        return bounds


def _like_pattern(text: str) -> str:
    """Return a text for LIKE: escaped, in lower case as far as databases know it."""
    lowered = re.sub("[A-Z]", lambda letter: letter[0].lower(), text)
    return re.sub(r"[\\%_]", r"\\\g<0>", lowered)


class RunFilter(Filter, frozen=True, kw_only=True):
    kinds: tuple[str, ...] = ()
    states: tuple[RunState, ...] = ()


class PendingFilter(Filter, frozen=True, kw_only=True):
    """By default what is still open.

    `states=()` admits what was answered and withdrawn too.
    """

    states: tuple[PendingState, ...] = (PendingState.OPEN,)
    kinds: tuple[PendingKind, ...] = ()
    run_id: str | None = None


def plain_text(text: str, what: str) -> str:
    """Return `text` if every store can hold it: UTF-8 without NUL."""
    if "\0" in text:
        raise Unrecordable(what, "it contains a NUL character")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Unrecordable(
                what, "it is not valid Unicode (half a surrogate pair)"
            ) from None
    return text


def moment_text(text: str, what: str) -> str:
    """Return `text` if it is a time in ISO 8601 with an offset, or raise."""
    try:
        without_offset = datetime.fromisoformat(text).utcoffset() is None
    except ValueError:
        without_offset = True
    if without_offset:
        raise Unrecordable(what, f"{text!r} is not an ISO 8601 time with an offset")
    return text


ANY_EVENT: Final = EventFilter()
ANY_RUN: Final = RunFilter()
OPEN_ITEMS: Final = PendingFilter()
