"""Decide what asking, answering and withdrawing do to a pending item.

Pure: item in, change out, times as ISO 8601 text. A store carries the change out, item
and event in one transaction, or does nothing if `event_kind` is None. What cannot be
done raises and leaves the item as it was.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from bridgehead.contract.events import Event
from bridgehead.contract.pending import Answer, PendingItem, Question, refusal
from bridgehead.contract.record_words import PendingState
from bridgehead.errors import AlreadyAnswered, NotFound, UserError

_SHOWN_CANDIDATES: Final = 5
_ITEM_ID: Final = re.compile(r"q-([1-9][0-9]{0,17})")
_ITEM_REFERENCE: Final = re.compile(r"(q?-)?([0-9]{1,18})", re.IGNORECASE)


class UnknownItem(NotFound):
    """No pending item goes by this name."""

    def __init__(self, reference: str) -> None:
        super().__init__(
            f"no pending item {reference!r}",
            hint="`bridgehead pending` lists the open items",
        )


class AmbiguousReference(UserError):
    """An abbreviated id fits several things."""

    def __init__(self, reference: str, candidates: Sequence[str]) -> None:
        shown = ", ".join(candidates[:_SHOWN_CANDIDATES])
        more = ", …" if len(candidates) > _SHOWN_CANDIDATES else ""
        super().__init__(
            f"{reference!r} could mean {shown}{more}", hint="give more of the ID"
        )
        self.candidates = tuple(candidates)


class Change(msgspec.Struct, frozen=True):
    """The item as it is afterwards, and what to write down about it."""

    item: PendingItem
    event_kind: str | None = None
    facts: dict[str, Any] = {}

    def event(self, event_id: str, at: str) -> Event | None:
        """Return the event to append, or None if nothing changed."""
        if self.event_kind is None:
            return None
        question = self.item.question
        return Event(
            id=event_id,
            kind=self.event_kind,
            part=question.part,
            at=at,
            project=question.project,
            run_id=question.run_id,
            data={"id": self.item.id, **self.facts},
        )


def ask(item_id: str, question: Question, at: str) -> Change:
    """Add a question that nobody asked before."""
    item = PendingItem(
        id=item_id, question=question, state=PendingState.OPEN, opened_at=at
    )
    return Change(item, "pending.opened", _wording(question))


def ask_again(item: PendingItem, question: Question, at: str) -> Change:
    """Ask a question whose key is known.

    An answer stands, a withdrawal is undone, and an open question takes the new
    wording.
    """
    is_answered = item.state is PendingState.ANSWERED
    is_open = item.state is PendingState.OPEN
    if is_answered or (is_open and item.question == question):
        return Change(item)
    opened_at = item.opened_at if is_open else at
    reopened = msgspec.structs.replace(
        item, question=question, state=PendingState.OPEN, opened_at=opened_at
    )
    return Change(reopened, "pending.opened", {**_wording(question), "again": True})


def answer(
    item: PendingItem, given: Answer, at: str, asked: Question | None = None
) -> Change:
    """Record the one answer, if it fits and the question is still open.

    If `asked` is given, the question must have that wording.
    """
    if item.state is PendingState.ANSWERED:
        first = item.answer or Answer()
        raise AlreadyAnswered(item.id, by=first.by or None, at=first.at or None)
    if item.state is PendingState.WITHDRAWN:
        raise UserError(f"{item.id} was withdrawn and no longer takes an answer")
    if item.question.expires_at is not None and is_expired(item, at):
        raise UserError(
            f"{item.id} expired at {item.question.expires_at} and no longer takes an "
            "answer"
        )
    if asked is not None and item.question != asked:
        raise UserError(
            f"{item.id} was not answered: the question has changed",
            hint=f"`bridgehead pending {item.id}` shows it",
        )
    why = refusal(item.question, given)
    if why:
        raise UserError(
            f"{item.id} was not answered: {why}", hint="the question stays open"
        )
    signed = msgspec.structs.replace(given, at=given.at or at)
    answered = msgspec.structs.replace(item, state=PendingState.ANSWERED, answer=signed)
    # Not the text, which may be long or confidential: the item has it.
    facts = {"status": signed.status, "by": signed.by}
    return Change(answered, "pending.answered", facts)


def withdraw(item: PendingItem, reason: str) -> Change:
    """Close an open question unanswered; one that is closed already stays as it is."""
    if item.state is not PendingState.OPEN:
        return Change(item)
    withdrawn = msgspec.structs.replace(item, state=PendingState.WITHDRAWN)
    return Change(withdrawn, "pending.withdrawn", {"reason": reason})


def is_expired(item: PendingItem, at: str) -> bool:
    """Return whether the time to answer is over: after `expires_at`, not at it."""
    expires_at = item.question.expires_at
    if expires_at is None:
        return False
    return datetime.fromisoformat(at) > datetime.fromisoformat(expires_at)


def item_id(number: int) -> str:
    return f"q-{number}"


def item_number(full_id: str) -> int:
    """Return the number in a full id, as `item_id` writes it."""
    match = _ITEM_ID.fullmatch(full_id)
    if match is None:
        raise UnknownItem(full_id)
    return int(match[1])


class ItemReference(msgspec.Struct, frozen=True):
    """What a person typed for an item: its number, or perhaps only its last digits.

    The latter is `abbreviated`.
    """

    number: int
    digits: int
    abbreviated: bool

    @classmethod
    def parse(cls, text: str) -> ItemReference:
        match = _ITEM_REFERENCE.fullmatch(text.strip())
        if match is None:
            raise UnknownItem(text)
        return cls(int(match[2]), len(match[2]), abbreviated=match[1] is None)


def _wording(question: Question) -> dict[str, Any]:
    return {"kind": question.kind, "origin": question.origin, "title": question.title}
