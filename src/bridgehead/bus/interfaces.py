"""What a bus needs of the rest of the product (design §1): announcements, approvals,
notices for people, and an agent.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from bridgehead.bus.wire.session import Session
from bridgehead.contract.pending import shown_digest
from bridgehead.errors import UserError
from bridgehead.host.clock import Clock, SystemClock

_log: Final = logging.getLogger("bridgehead.bus")
_ANSWER: Final = re.compile(
    r"/?answer\s+([a-z]-[0-9a-f]+)\s+(\S.*)", re.DOTALL | re.IGNORECASE
)
_SPOKEN: Final = re.compile(r"/?answer\W+(\S.*)", re.DOTALL | re.IGNORECASE)

MOST_SHOWN: Final = 100


class Announcer(Protocol):
    """Takes events of the bus: who joined, left, was refused, changed or revoked;
    outcomes of messages; the health of links.
    """

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
    """Empty if any text will do."""


class Approvals(Protocol):
    """The list of things that wait for a person.

    Methods are called in a worker thread, so they may take their time.
    """

    def ask(self, request: ApprovalRequest) -> None: ...

    def answer_to(self, key: str) -> str | None:
        """Return the answer, None while there is none, or `no` if it was withdrawn."""
        ...

    def withdraw(self, key: str) -> None: ...

    def settle(self, key: str, text: str, by: str) -> None:
        """Answer a question of the bus itself.

        Raise a `UserError` if it was answered meanwhile.
        """
        ...

    def answer(self, item_id: str, text: str, by: str, shown: str) -> None:
        """Answer a pending item for a participant with the grant `approve`.

        `shown` is the digest of the question as the participant was shown it. Raise
        `AnswerRefused` if it is not that of the question as it is now, another
        `UserError` if the item takes no answer.
        """
        ...


class Notice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The data of a `bridgehead.notice`. `kind` says what `id` is the id of.

    The notice of a pending item says how to answer it.
    """

    kind: str
    id: str
    title: str
    status: str
    """finished, failed or needs_you; for a pending item also answered and withdrawn."""
    choices: tuple[str, ...] = ()
    """The only answers a pending item takes; empty when any text will do."""
    by: str | None = None
    """Who answered."""
    prompt: str = ""
    """The whole question, unless it is too long."""
    details: dict[str, str] = {}
    """What else there is to know before answering."""

    @property
    def awaits(self) -> bool:
        return self.kind == "pending" and self.status == "needs_you"

    @property
    def digest(self) -> str:
        """Return the digest of everything that is shown of a question."""
        facts = [f"{name}: {fact}" for name, fact in self.details.items()]
        text = "\n".join([self.title, self.prompt, *facts])
        return shown_digest(self.id, text, self.choices)

    @property
    def rest(self) -> str:
        """Return the part of the question that is not in its title."""
        first, _, rest = self.prompt.strip().partition("\n")
        return rest.strip("\n") if first in self.title else self.prompt.strip()

    def words(self, longest: int, *, may_answer: bool) -> str:
        """Return the text of the notice for a room."""
        if not self.awaits:
            return f"{self.title}: {self.status.replace('_', ' ')}"
        lines = [f"{self.title} ({self.id})"]
        if len(self.rest) > longest:
            lines.append(f"The whole question: bridgehead pending show {self.id}")
        elif self.rest:
            lines.append(self.rest)
        if may_answer:
            ways = " or ".join(f"answer {choice}" for choice in self.choices)
            lines.append(f"To answer, say: {ways or 'answer, and then your answer'}")
        return "\n".join(lines)

    def to_data(self) -> dict[str, Any]:
        """Return the data a participant gets.

        A question has the digest that its answer must carry.
        """
        data: dict[str, Any] = msgspec.to_builtins(self)
        if self.awaits:
            data["digest"] = self.digest
        return data


class Notices(Protocol):
    """What the rest of the product has to tell people (design §1)."""

    def follow(self, notify: Callable[[Notice], object]) -> Callable[[], None]:
        """Call `notify` with each new notice, from another thread, until the returned
        function is called.
        """
        ...

    def open_items(self) -> list[Notice]:
        """Return the items that are pending now; called in a worker thread."""
        ...


class ItemAnswer(msgspec.Struct, frozen=True):
    """An answer to a pending item."""

    id: str
    text: str
    shown: str = ""
    """The digest of the question as it was shown.

    Empty if it was not shown, or something else was said since.
    """


class ItemAnswered(msgspec.Struct, frozen=True):
    """The result of an answer to a pending item.

    It repeats the item, so that nobody approves by mistake.
    """

    id: str
    ok: bool
    sentence: str = msgspec.field(name="message")
    notice: Notice | None = None
    """The question as it is now, if it is not the one that was answered."""

    def to_data(self) -> dict[str, Any]:
        """Return what the participant is sent."""
        facts = {"id": self.id, "ok": self.ok, "message": self.sentence}
        if self.notice is None:
            return facts
        return {**facts, "notice": self.notice.to_data()}


class AnswerRefused(UserError):
    """An answer to another question than the open one, or none of its choices."""

    def __init__(self, message: str, notice: Notice) -> None:
        super().__init__(message, hint="read the question again and answer it")
        self.notice = notice


class ShownQuestions:
    """The questions that a reader was shown in a place where everything is plain text.

    Any other text there may pose as a question or change the meaning of one, so after
    it every question counts as not shown.
    """

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}

    def show(self, notice: Notice) -> None:
        """Note that the reader was shown a question, or that it is settled."""
        self._digests.pop(notice.id, None)
        if notice.awaits:
            self._digests[notice.id] = notice.digest
        if len(self._digests) > MOST_SHOWN:
            del self._digests[next(iter(self._digests))]

    def speak(self) -> None:
        """Note that the reader was shown something else."""
        self._digests.clear()

    def has_in_view(self, notice: Notice) -> bool:
        """Return whether the reader sees this very question already."""
        return notice.awaits and self.digest_of(notice.id) == notice.digest

    def digest_of(self, item_id: str) -> str:
        """Return the digest of a question that counts as shown, else an empty text."""
        return self._digests.get(item_id, "")


def typed_answer(line: object) -> ItemAnswer | None:
    """Return the answer in `answer q-12 yes`.

    Return None for anything else, which is meant for the assistant.
    """
    if not isinstance(line, str):
        return None
    match = _ANSWER.fullmatch(line.strip())
    if match is None:
        return None
    return ItemAnswer(match[1].lower(), match[2].strip())


def spoken_answer(line: object, question: Notice | None) -> ItemAnswer | None:
    """Return the answer in `answer q-12 yes`, or in `answer yes` to this question.

    Return None for anything else.
    """
    answer = typed_answer(line)
    if answer is not None:
        return answer
    if question is None or not isinstance(line, str):
        return None
    match = _SPOKEN.fullmatch(line.strip())
    if match is None:
        return None
    text = match[1].strip()
    spoken = text.lower().rstrip(".!")
    for choice in question.choices:
        if choice.lower() == spoken:
            return ItemAnswer(question.id, choice)
    return ItemAnswer(question.id, text)


class AgentQuestion(msgspec.Struct, frozen=True):
    """What the assistant asks a model."""

    session_id: str
    text: str
    """What the person said, unchanged; for agents that do not take prompts."""
    lang: str | None
    prompt: str
    """The whole prompt, with foreign text in fences; for agents that take one text."""
    task: str = ""
    """What the assistant is to do, for agents that take a conversation."""
    earlier: tuple[tuple[str, str], ...] = ()
    """What was said and answered before."""
    heard: Callable[[str], None] | None = None
    """Called with each piece of the answer as it is made, if somebody is watching.

    The whole answer is returned all the same.
    """
    id: str = ""
    """Stays the same when the question is repeated after a restart."""
    participant: str = ""
    tools: tuple[str, ...] = ()
    """Names of the tools that may be used for this participant."""


class AgentAnswer(msgspec.Struct, frozen=True):
    """What the model answered.

    A session handed back replaces the one that was sent (B-64).
    """

    text: str
    session: Session | None = None


class Agent(Protocol):
    """A model that answers. If it raises, an apology is spoken and the cause logged."""

    async def ask(self, question: AgentQuestion) -> AgentAnswer: ...


class BusServices(msgspec.Struct, frozen=True):
    """What the rest of the product lends to a running bus."""

    announcer: Announcer = LogAnnouncer()
    approvals: Approvals | None = None
    agent: Agent | None = None
    notices: Notices | None = None
    clock: Clock = SystemClock()
