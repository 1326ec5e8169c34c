"""What a handler is: given a request it says what became of it. It never leaves the orchestrator without an answer."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import NamedTuple

from bridgehead.errors import UserError
from bridgehead.flows.checkpoint_files import CheckpointFiles
from bridgehead.flows.request import AgentRequest
from bridgehead.flows.words import RequestStatus


class Reply(NamedTuple):
    """What comes back for a request; becomes the response file."""

    status: RequestStatus = RequestStatus.SUCCESS
    text: str | None = None
    error_type: str | None = None
    message: str | None = None
    model: str | None = None
    tokens: int | None = None
    confidence: float | None = None
    duration_seconds: float | None = None


class Handler(ABC):
    """One way to get a request answered."""

    @abstractmethod
    def answer(self, request: AgentRequest, files: CheckpointFiles) -> Reply | None:
        """The reply, within the request's time; None when somebody has put the response file there meanwhile."""


HandlerMaker = Callable[[str], Handler]


def make_handler(name: str, others: Mapping[str, HandlerMaker] | None = None) -> Handler:
    """The handler called `pending`, `cmd:WORDS`, or one of the `others` by its scheme (`runtime:NAME`, `rig:ID`)."""
    scheme, _, rest = name.partition(":")
    if name == "pending":
        from bridgehead.flows.handlers.pending import PendingHandler

        return PendingHandler()
    if scheme == "cmd":
        from bridgehead.flows.handlers.command import CommandHandler

        return CommandHandler(_words(rest))
    if others and scheme in others and rest:
        return others[scheme](rest)
    known = ", ".join(("pending", "cmd:WORDS", *(f"{other}:NAME" for other in others or ())))
    raise UserError(f"there is no handler {name!r}", hint=f"handlers: {known}")


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"the command of the handler cannot be split into words: {error}") from error
    if not words:
        raise UserError("the handler cmd: needs a command, for example cmd:'claude -p'")
    return words
