"""What a bus needs of the rest of the product: announcements, approvals, notices for
people, an agent (design §1).
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
    """Takes events of the bus: who came, left, was refused, changed or revoked.

    Outcomes; health.
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
    """Empty where any words will do."""


class Approvals(Protocol):
    """The list of things that wait for a person.

    Called in a worker thread, so it may take its time.
    """

    def ask(self, request: ApprovalRequest) -> None: ...

    def answer_to(self, key: str) -> str | None:
        """Return what was chosen or said, None while it waits.

        `no` when it was withdrawn.
        """
        ...

    def withdraw(self, key: str) -> None: ...

    def settle(self, key: str, text: str, by: str) -> None:
        """Answer a question of the bus itself.

        Raises a `UserError` if it was answered meanwhile.
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
    """What `bridgehead.notice` carries. `kind` says what `id` names.

    A pending item says how it is answered.
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
    """The whole question, where it is not too long."""
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
        """Return what the question has besides its title."""
        first, _, rest = self.prompt.strip().partition("\n")
        return rest.strip("\n") if first in self.title else self.prompt.strip()

    def words(self, longest: int, *, may_answer: bool) -> str:
        """Return the notice as it is said in a room."""
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
        """Return what a participant gets.

        A question brings the digest that its answer must carry.
        """
        built: dict[str, Any] = msgspec.to_builtins(self)
        if self.awaits:
            built["digest"] = self.digest
        return built


class Notices(Protocol):
    """What the rest of the product has to tell people (design §1)."""

    def follow(self, notify: Callable[[Notice], object]) -> Callable[[], None]:
        """Call `notify` with each new notice, from another thread, until the returned
        function is called.
        """
        ...

    def open_items(self) -> list[Notice]:
        """Pending items now, for a page that has just been opened.

        Called in a worker thread.
        """
        ...


class ItemAnswer(msgspec.Struct, frozen=True):
    """An answer to a pending item."""

    id: str
    text: str
    shown: str = ""
    """The digest of the question as it was shown.

    Empty if it was not shown, or something was said since.
    """


class ItemAnswered(msgspec.Struct, frozen=True):
    """What became of an answer to a pending item.

    Names the item again, so that nobody approves by mistake.
    """

    id: str
    ok: bool
    sentence: str = msgspec.field(name="message")
    notice: Notice | None = None
    """The question as it is now, where another one was answered."""

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
    """The questions that one reader has in view where they and everything else are only
    words.

    Whatever else is said there may pose as a question or rename one, so after it every
    question counts as not shown.
    """

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}

    def show(self, notice: Notice) -> None:
        """Note that the reader was told of a question, or of its end."""
        self._digests.pop(notice.id, None)
        if notice.awaits:
            self._digests[notice.id] = notice.digest
        if len(self._digests) > MOST_SHOWN:
            del self._digests[next(iter(self._digests))]

    def speak(self) -> None:
        """Note that the reader was told something else."""
        self._digests.clear()

    def has_in_view(self, notice: Notice) -> bool:
        """Return whether the reader sees this very question already."""
        return notice.awaits and self.digest_of(notice.id) == notice.digest

    def digest_of(self, item_id: str) -> str:
        """Return the digest of the question in view, or nothing."""
        return self._digests.get(item_id, "")


def typed_answer(line: object) -> ItemAnswer | None:
    """Return the answer in `answer q-12 yes`.

    None for anything else, which is meant for the assistant.
    """
    match = _ANSWER.fullmatch(line.strip()) if isinstance(line, str) else None
    return None if match is None else ItemAnswer(match[1].lower(), match[2].strip())


def spoken_answer(line: object, told: Notice | None) -> ItemAnswer | None:
    """Return the answer in `answer q-12 yes`, or in `answer yes` to the question people
    heard; None for anything else.
    """
    given = typed_answer(line)
    match = _SPOKEN.fullmatch(line.strip()) if isinstance(line, str) else None
    if given is not None or match is None or told is None:
        return given
    words = match[1].strip()
    chosen = (
        choice
        for choice in told.choices
        if choice.lower() == words.lower().rstrip(".!")
    )
    return ItemAnswer(told.id, next(chosen, words))


class AgentQuestion(msgspec.Struct, frozen=True):
    """What the assistant asks a model."""

    session_id: str
    text: str
    """What was said, as it was said; for agents that do not take prompts."""
    lang: str | None
    prompt: str
    """The whole prompt, with everything foreign in it behind a fence.

    For agents that take one text.
    """
    task: str = ""
    """What the assistant is to do, for agents that take a conversation, and what was
    said and answered before.
    """
    earlier: tuple[tuple[str, str], ...] = ()
    heard: Callable[[str], None] | None = None
    """Takes the answer piece by piece while it is made, where somebody looks on.

    The whole is returned all the same.
    """
    id: str = ""
    """The same when it is asked again after a restart."""
    participant: str = ""
    tools: tuple[str, ...] = ()
    """Names of the tools it may use for whoever asked."""


class AgentAnswer(msgspec.Struct, frozen=True):
    """What the model answered.

    A session handed back replaces the one that was sent (B-64).
    """

    text: str
    session: Session | None = None


class Agent(Protocol):
    """A model that answers. Whatever it raises becomes a spoken apology.

    The cause goes to the log.
    """

    async def ask(self, question: AgentQuestion) -> AgentAnswer: ...


class BusServices(msgspec.Struct, frozen=True):
    """What the rest of the product lends to a running bus."""

    announcer: Announcer = LogAnnouncer()
    approvals: Approvals | None = None
    agent: Agent | None = None
    notices: Notices | None = None
    clock: Clock = SystemClock()
