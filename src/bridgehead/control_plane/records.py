"""What the record keeps besides events and questions: runs, and the filters its
listings take.

Pure. A filter is checked when it is made, so a store never sees one that it could not
compare with anything.
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
    """Return whether `saved` may take the place of `kept`: the later update wins,
    whatever the states.

    A run that ended is opened again by a later update (`council resume --retry`), never
    by a late writer that still holds an older picture. At the same millisecond an end
    beats anything else, because it is written last.
    """
    saved_at, kept_at = (
        datetime.fromisoformat(run.updated_at) for run in (saved, kept)
    )
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
    """What a listing is limited to: an empty tuple or None admits everything,
    `project=""` what belongs to none.
    """

    parts: tuple[Part, ...] = ()
    project: str | None = None

    def __post_init__(self) -> None:
        for column, values in self.allowed().items():
            for value in values:
                plain_text(value, f"the {column} asked for")

    def allowed(self) -> dict[str, tuple[str, ...]]:
        """For each limited column the values that pass."""
        fields = msgspec.structs.asdict(self).items()
        given = {
            name.removesuffix("s"): value
            for name, value in fields
            if name not in ("since", "until", "text")
        }
        return {
            column: tuple(str(one) for one in value)
            if isinstance(value, tuple)
            else (value,)
            for column, value in given.items()
            if value not in ((), None)
        }

    def admits(self, entry: Event | Run | PendingItem) -> bool:
        """Return whether a listing limited like this shows `entry`."""
        asked = entry.question if isinstance(entry, PendingItem) else entry
        columns = self.allowed().items()
        return all(
            getattr(entry if name == "state" else asked, name) in values
            for name, values in columns
        )


class EventFilter(Filter, frozen=True, kw_only=True):
    kinds: tuple[str, ...] = ()
    run_id: str | None = None
    since: str | None = None
    """Not before this moment, in UTC as the record writes it; a day stands for its
    first moment.
    """
    until: str | None = None
    """Before this moment."""
    text: str = ""
    """Somewhere in its kind, its project or its facts, capitals or not."""

    def __post_init__(self) -> None:
        super().__post_init__()
        plain_text(self.text, "the text asked for")

    def bounds(self) -> list[tuple[str, str]]:
        """Return what no column's value alone decides, as conditions of SQL with one
        value each.
        """
        # The databases know small letters of ASCII only.
        sought = re.sub(
            r"[A-Z]|[\\%_]",
            lambda one: one[0].lower() if one[0].isalpha() else f"\\{one[0]}",
            self.text,
        )
        where = "lower(kind || ' ' || project || ' ' || data) LIKE ? ESCAPE '\\'"
        given = (
            ("at >= ?", self.since),
            ("at < ?", self.until),
            (where, f"%{sought}%" if sought else None),
        )
        return [(condition, value) for condition, value in given if value]


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
    """Return `text` if it names a moment in time (ISO 8601 with an offset), so that it
    can be compared later.
    """
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
