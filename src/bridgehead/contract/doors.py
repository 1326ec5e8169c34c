"""Decide by which door an answer may come.

Pure: door, question and evidence in, decision out. What asks for a person is answered
by a person: in a form of the host, at the terminal, on the page, on a paired device. A
tool call is a model's, and so is what a handler says; a command is a person's if
nothing speaks for an agent and the person confirms it at the terminal.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from bridgehead.contract.pending import Question
from bridgehead.contract.record_words import PendingKind, is_person


class Door(StrEnum):
    """How an answer reaches us."""

    COMMAND = "command"
    FORM = "form"
    PAGE = "page"
    DEVICE = "device"
    TOOL = "tool"


PERSONS_DOORS: Final = frozenset({Door.FORM, Door.PAGE, Door.DEVICE})
"""Behind these is a person: a host, a session or a participant that was admitted as one
answers for that.
"""
WAYS: Final = (
    "a person answers it on the page (`bridgehead web`), on a paired device, or in a "
    "terminal"
)


class Evidence(msgspec.Struct, frozen=True):
    """What is known of whoever runs a command."""

    agent: str = ""
    """The agent that runs it, if one was recognised."""
    has_terminal: bool = False
    confirmed: bool | None = None
    """What the person at the terminal said; None: nobody was asked yet."""


class Decision(msgspec.Struct, frozen=True):
    """Whether the answer may come this way.

    With `must_confirm` that depends on a person at the terminal.
    """

    allowed: bool
    must_confirm: bool = False
    reason: str = ""
    hint: str = ""


ALLOWED: Final = Decision(True)


def asks_for_person(question: Question) -> bool:
    """Return whether only a person may answer: an approval, or a question that a flow
    puts to a person.
    """
    if question.kind is PendingKind.BUS_APPROVAL:
        return True
    return is_person(question.context.get("agent"))


def request_asks_for_person(request: Mapping[str, Any]) -> bool:
    """Return the same for the request of a flow, as its file has it."""
    return is_person(request.get("agent_name"))


def decide_door(
    door: Door, for_person: bool, evidence: Evidence, item: str
) -> Decision:
    """Decide whether an answer to `item` may come by this door."""
    if not for_person or door in PERSONS_DOORS:
        return ALLOWED
    hint = f"{WAYS}: bridgehead answer {item} …"
    if door is Door.TOOL:
        reason = f"{item} asks for a person; an agent may not answer it"
        return Decision(False, reason=reason, hint=hint)
    if evidence.agent:
        reason = (
            f"{item} asks for a person, and this command runs under {evidence.agent}"
        )
        return Decision(False, reason=reason, hint=hint)
    if not evidence.has_terminal:
        reason = (
            f"{item} asks for a person, and this command has no terminal to ask one"
        )
        return Decision(False, reason=reason, hint=hint)
    if evidence.confirmed is None:
        return Decision(False, must_confirm=True)
    if not evidence.confirmed:
        reason = f"{item} was not answered: it was not confirmed at the terminal"
        return Decision(False, reason=reason)
    return ALLOWED
