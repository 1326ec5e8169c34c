"""What a bus needs of the rest of the product: announcements, approvals, notices for people, an agent (design §1)."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from bridgehead.bus.wire.session import Session
from bridgehead.host.clock import Clock, SystemClock

_log: Final = logging.getLogger("bridgehead.bus")
_ANSWER: Final = re.compile(r"/?answer\s+([a-z]-[0-9a-f]+)\s+(\S.*)", re.DOTALL | re.IGNORECASE)


class Announcer(Protocol):
    """Takes events of the bus: who came, left, was refused, changed or revoked; outcomes; health."""

    def announce(self, kind: str, data: dict[str, Any]) -> None:
        """Note that something happened. Must not wait and must not raise."""
        ...


class LogAnnouncer:
    """Writes events to the log at level debug."""

    def announce(self, kind: str, data: dict[str, Any]) -> None:
        _log.debug("%s %s", kind, data)


class ApprovalRequest(msgspec.Struct, frozen=True):
    """A question of the bus to a person."""

    key: str
    title: str
    prompt: str
    expires_in_s: float
    choices: tuple[str, ...] = ("yes", "no")
    """Empty where any words will do."""


class Approvals(Protocol):
    """The list of things that wait for a person. Called in a worker thread, so it may take its time."""

    def ask(self, request: ApprovalRequest) -> None: ...

    def answer_to(self, key: str) -> str | None:
        """What was chosen or said, None while it waits; `no` when it was withdrawn."""
        ...

    def withdraw(self, key: str) -> None: ...

    def settle(self, key: str, text: str, by: str) -> None:
        """Answer a question of the bus itself; raises a `UserError` if it was answered meanwhile."""
        ...

    def answer(self, item_id: str, text: str, by: str) -> None:
        """Answer a pending item for a participant with the grant `approve`; raises a `UserError` if it cannot be."""
        ...


class Notice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What `bridgehead.notice` carries. `kind` says what `id` names; a pending item says how it is answered."""

    kind: str
    id: str
    title: str
    status: str
    """finished, failed or needs_you; for a pending item also answered and withdrawn."""
    choices: tuple[str, ...] = ()
    """The only answers a pending item takes; empty when any text will do."""
    by: str | None = None
    """Who answered."""

    def to_data(self) -> dict[str, Any]:
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built


class Notices(Protocol):
    """What the rest of the product has to tell people (design §1)."""

    def follow(self, notify: Callable[[Notice], object]) -> Callable[[], None]:
        """Call `notify` with each new notice, from another thread, until the returned function is called."""
        ...

    def open_items(self) -> list[Notice]:
        """Pending items now, for a page that has just been opened. Called in a worker thread."""
        ...


class ItemAnswer(msgspec.Struct, frozen=True):
    """An answer to a pending item."""

    id: str
    text: str


def typed_answer(line: object) -> ItemAnswer | None:
    """`answer q-12 yes` as an answer; None for anything else, which is meant for the assistant."""
    match = _ANSWER.fullmatch(line.strip()) if isinstance(line, str) else None
    return None if match is None else ItemAnswer(match[1].lower(), match[2].strip())


class AgentQuestion(msgspec.Struct, frozen=True):
    """What the assistant asks a model."""

    session_id: str
    text: str
    """What was said, as it was said; for agents that do not take prompts."""
    lang: str | None
    prompt: str
    """The whole prompt, with everything foreign in it behind a fence; for agents that take one text."""
    task: str = ""
    """What the assistant is to do, for agents that take a conversation, and what was said and answered before."""
    earlier: tuple[tuple[str, str], ...] = ()
    heard: Callable[[str], None] | None = None
    """Takes the answer piece by piece while it is made, where somebody looks on; the whole is returned all the same."""
    id: str = ""
    """The same when it is asked again after a restart."""
    participant: str = ""
    tools: tuple[str, ...] = ()
    """Names of the tools it may use for whoever asked."""


class AgentAnswer(msgspec.Struct, frozen=True):
    """What the model answered; a session handed back replaces the one that was sent (B-64)."""

    text: str
    session: Session | None = None


class Agent(Protocol):
    """A model that answers. Whatever it raises becomes a spoken apology; the cause goes to the log."""

    async def ask(self, question: AgentQuestion) -> AgentAnswer: ...


class BusServices(msgspec.Struct, frozen=True):
    """What the rest of the product lends to a running bus."""

    announcer: Announcer = LogAnnouncer()
    approvals: Approvals | None = None
    agent: Agent | None = None
    notices: Notices | None = None
    clock: Clock = SystemClock()
