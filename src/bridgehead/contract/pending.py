"""The one shape of "someone must answer this".

A flow's request, a halted runtime, an envelope awaiting a reply and a bus approval all
become a `PendingItem`. Parts project their own state into it; the record keeps the
items and takes exactly one answer for each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from bridgehead.contract.record_words import (
    AnswerStatus,
    Part,
    PendingKind,
    PendingState,
)

FOR_PROGRAMS: Final = frozenset(
    {"about", "bridge", "request_id", "review_id", "root", "seating", "verification"}
)
"""What a question's context has that tells a person nothing, or is shown elsewhere."""


SAYS_SCHEMA: Final = (
    "\n\nAnswer with one JSON document and nothing else. It must obey this JSON Schema:"
)
"""What the prompt of a flow goes on with where there is a schema."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a part asks.

    `key` is the part's own name for it: asking the same key again asks nothing new.
    """

    key: str
    kind: PendingKind
    part: Part
    origin: str
    """Who waits: `flow`, `runtime codex`, `rig win-5080`, `bus`."""
    title: str
    prompt: str = ""
    """The whole text to be answered; foreign text, shown escaped and put into prompts
    fenced.
    """
    choices: tuple[str, ...] = ()
    """The only texts accepted as an answer; empty when any text will do."""
    schema: dict[str, Any] | None = None
    project: str = ""
    run_id: str | None = None
    expires_at: str | None = None
    advice: str | None = None
    """What to do before answering, where there is something (`codex login`)."""
    context: dict[str, Any] = {}

    @property
    def offers(self) -> tuple[str, ...]:
        """What to choose from: the choices, else what a schema lists that allows
        nothing else.
        """
        listed = (self.schema or {}).get("enum", ())
        return self.choices or tuple(word for word in listed if isinstance(word, str))

    @property
    def text(self) -> str:
        """The whole question for a person.

        One who has only to choose need not read the schema.
        """
        return self.prompt.partition(SAYS_SCHEMA)[0] if self.offers else self.prompt

    @property
    def details(self) -> dict[str, str]:
        """What else there is to know before answering: for which agent, about what, in
        which files, until when.
        """
        told = {
            name: value
            for name, value in self.context.items()
            if name not in FOR_PROGRAMS
        }
        told |= self.context.get("about", {})
        return {
            name: one if isinstance(one, str) else msgspec.json.encode(one).decode()
            for name, one in told.items()
        }


def flat_properties(schema: Mapping[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Return what a form asks for: the properties of a flat object.

    None for a schema that asks for anything else.
    """
    properties = (schema or {}).get("properties")
    if not isinstance(properties, dict) or not all(
        isinstance(one, dict)
        and one.get("type") in ("string", "integer", "number", "boolean")
        for one in properties.values()
    ):
        return {}
    return properties


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The one answer. `text` is the response, or one of the question's choices."""

    status: AnswerStatus = AnswerStatus.SUCCESS
    text: str | None = None
    message: str | None = None
    """Why it failed or was cancelled."""
    by: str = ""
    at: str = ""


class PendingItem(msgspec.Struct, frozen=True, kw_only=True):
    """A question in the record, and its answer once there is one."""

    id: str
    question: Question
    state: PendingState
    opened_at: str
    answer: Answer | None = None


def shown_digest(item_id: str, text: str, choices: Sequence[str]) -> str:
    """Return the digest of a question as it was shown.

    An answer carries it (bus §10.4).
    """
    shown = msgspec.json.encode([item_id, text, list(choices)])
    return hashlib.sha256(shown).hexdigest()


def refusal(question: Question, answer: Answer) -> str | None:
    """Return why this answer does not fit the question, or None when it does."""
    if answer.status is not AnswerStatus.SUCCESS:
        return (
            None
            if answer.message
            else f"status {answer.status} needs a message that says why"
        )
    if answer.text is None or not answer.text.strip():
        return "the answer is empty"
    if question.choices and answer.text.strip() not in question.choices:
        return f"the answer must be one of: {', '.join(question.choices)}"
    return None
