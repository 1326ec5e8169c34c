"""The assistant on a hub: carries out what the state machine decides and asks the
agent, with a fenced prompt (bus §15).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from bridgehead.bus.assistant import assistant
from bridgehead.bus.hub.hub import Hub
from bridgehead.bus.interfaces import Agent, AgentQuestion
from bridgehead.bus.participants.record import MOST_TURNS, AssistantProfile
from bridgehead.bus.wire.message import Message
from bridgehead.bus.wire.session import read_session
from bridgehead.bus.wire.topics import HANDLE
from bridgehead.contract.fencing import Fence
from bridgehead.contract.words import Trust

_log: Final = logging.getLogger("bridgehead.bus.assistant")
SESSIONS: Final = 1000
IDLE_S: Final = 600.0
QUICK_TEXT: Final = 2000
"""Characters that are fenced on the event loop; a longer prompt is made in a thread."""
KEPT_TEXT: Final = 2000
"""Characters of an utterance or an answer that are remembered."""
TASK: Final = (
    "You are the assistant on a message bus of voice satellites and chat rooms. "
    "Answer what the person said last, "
    "in one or two short sentences of plain text that can be spoken aloud: no markup, "
    "no lists, no links."
)


class Postponed(Protocol):
    """Where questions go whose answer takes longer than anybody waits."""

    def keep(
        self, question_id: str, text: str, lang: str | None, entry: Message
    ) -> None: ...

    def answered(self, question_id: str, text: str) -> None: ...


class AssistantHost:
    """One assistant listening to one embedded hub."""

    def __init__(
        self,
        hub: Hub,
        agent: Agent,
        config: assistant.AssistantConfig | None = None,
        *,
        profile_of: Callable[[str], AssistantProfile] = lambda _source: (
            AssistantProfile()
        ),
        later: Postponed | None = None,
    ) -> None:
        self._hub = hub
        self._agent = agent
        config = config or assistant.AssistantConfig()
        self._assistant = assistant.Assistant(config)
        self._task = config.task or TASK
        self._memory = config.memory
        self._conversations = Conversations()
        self._profile_of = profile_of
        self._later = later
        self._asking: dict[str, tuple[assistant.Ask, asyncio.Task[None]]] = {}
        self._again: set[asyncio.Task[None]] = set()
        self._unique = secrets.token_hex(8)
        self._alarm: asyncio.TimerHandle | None = None
        self._listener_token: object | None = None

    def start(self) -> None:
        self._listener_token = self._hub.listen(self._received, echo=False)

    async def stop(self) -> None:
        if self._listener_token is not None:
            self._hub.stop_listening(self._listener_token)
        if self._alarm is not None:
            self._alarm.cancel()
        tasks = [*(task for _, task in self._asking.values()), *self._again]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def ask_again(
        self, question_id: str, text: str, lang: str | None, source: str
    ) -> None:
        """Ask once more what was to be answered later when the bus was stopped."""
        ask = assistant.Ask(question_id, "", text, lang, speaker=source)
        task = asyncio.get_running_loop().create_task(self._ask_late(ask))
        self._again.add(task)
        task.add_done_callback(self._again.discard)

    async def _ask_late(self, ask: assistant.Ask) -> None:
        try:
            text = (await self._agent.ask(await self._question(ask, ask.request))).text
        except Exception as error:  # as in `_ask`
            _log.warning(
                "question %s failed: %s: %s", ask.request, type(error).__name__, error
            )
            text = ""
        if self._later is not None:
            self._later.answered(ask.request, text)

    def _received(self, message: Message) -> None:
        if message.type == HANDLE:
            _report_malformed(message.context)
        self._carry_out(self._assistant.received(message, self._now()))

    def _carry_out(self, effects: list[assistant.AssistantEffect]) -> None:
        for effect in effects:
            if isinstance(effect, assistant.Emit):
                self._hub.publish(effect.message, self._listener_token)
            elif isinstance(effect, assistant.Ask):
                asking = asyncio.get_running_loop().create_task(self._ask(effect))
                self._asking[effect.request] = (effect, asking)
            elif isinstance(effect, assistant.Cancel):
                self._cancel(effect.request)
            elif isinstance(effect, assistant.Defer) and self._later is not None:
                ask, _task = self._asking[effect.request]
                self._later.keep(
                    self._name(effect.request), ask.text, ask.lang, effect.entry
                )
            elif isinstance(effect, assistant.Late) and self._later is not None:
                self._later.answered(self._name(effect.request), effect.text)
        self._set_alarm()

    def _cancel(self, request: str) -> None:
        if request in self._asking:
            _ask, task = self._asking.pop(request)
            task.cancel()

    def _name(self, request: str) -> str:
        """Return a name for a request that is unique, even after a restart."""
        return f"{self._unique}-{request}"

    async def _question(self, ask: assistant.Ask, question_id: str) -> AgentQuestion:
        profile = self._profile_of(ask.speaker)
        memory = self._memory if profile.memory is None else profile.memory
        earlier: tuple[tuple[str, str], ...] = ()
        if memory:
            earlier = self._conversations.earlier(ask.session_id, self._now())[-memory:]
        question = AgentQuestion(
            ask.session_id,
            ask.text,
            ask.lang,
            prompt="",
            task=profile.prompt or self._task,
            earlier=earlier,
            id=question_id,
            participant=ask.speaker,
            tools=profile.tools,
        )
        earlier_characters = sum(len(text) + len(answer) for text, answer in earlier)
        if len(ask.text) + earlier_characters > QUICK_TEXT:
            # Fencing looks at each character of foreign text, which would block the
            # event loop for too long.
            return await asyncio.to_thread(_with_prompt, question)
        return _with_prompt(question)

    async def _ask(self, ask: assistant.Ask) -> None:
        try:
            question = await self._question(ask, self._name(ask.request))
            if ask.in_pieces:
                piece = partial(self._assistant.piece, ask.request)
                question = msgspec.structs.replace(
                    question, heard=lambda text: self._carry_out(piece(text))
                )
            answer = await self._agent.ask(question)
        except Exception as error:
            # Whatever a model's adapter raises, the person gets an answer.
            _log.warning(
                "request %s failed: %s: %s", ask.request, type(error).__name__, error
            )
            self._settle(ask, self._assistant.failed(ask.request, self._now()))
            return
        if answer.text.strip():
            self._conversations.note(ask.session_id, ask.text, answer.text, self._now())
        effects = self._assistant.answered(
            ask.request, answer.text, answer.session, now=self._now()
        )
        self._settle(ask, effects)

    def _settle(
        self, ask: assistant.Ask, effects: list[assistant.AssistantEffect]
    ) -> None:
        self._asking.pop(ask.request, None)
        self._carry_out(effects)

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        deadline = self._assistant.next_deadline()
        if deadline is not None:
            loop = asyncio.get_running_loop()
            # After everything that is ready by then, so that no answer that has
            # arrived is given up.
            self._alarm = loop.call_at(deadline, loop.call_soon, self._wake)

    def _wake(self) -> None:
        self._carry_out(self._assistant.tick(self._now()))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _report_malformed(context: dict[str, Any]) -> None:
    """Log the fields of a session that had to be left out (bus §2)."""
    for field in read_session(context).malformed_fields:
        outer, _, inner = field.partition(".")
        value = context["session"][outer]
        value = value[inner] if inner else value
        _log.warning(
            "session field %s was dropped: it is %s", field, type(value).__name__
        )


class Conversations:
    """Turns by session id; never part of the session itself."""

    def __init__(
        self,
        *,
        turns: int = MOST_TURNS,
        sessions: int = SESSIONS,
        idle_s: float = IDLE_S,
    ) -> None:
        self._turns = turns
        self._sessions = sessions
        self._idle_s = idle_s
        self._by_session: dict[str, tuple[float, deque[tuple[str, str]]]] = {}

    def earlier(self, session_id: str, now: float) -> tuple[tuple[str, str], ...]:
        """Return the turns of a conversation, unless it has been idle for too long."""
        self._forget_idle(now)
        kept = self._by_session.get(session_id)
        return tuple(kept[1]) if kept is not None else ()

    def note(self, session_id: str, text: str, answer: str, now: float) -> None:
        """Remember one more turn."""
        if self._turns == 0:
            return
        _at, turns = self._by_session.pop(session_id, (now, deque(maxlen=self._turns)))
        turns.append((text[:KEPT_TEXT], answer[:KEPT_TEXT]))
        self._by_session[session_id] = (now, turns)
        while len(self._by_session) > self._sessions:
            del self._by_session[next(iter(self._by_session))]

    def _forget_idle(self, now: float) -> None:
        # Sessions are in the order of last use, so we can stop at the first fresh one.
        while self._by_session:
            oldest = next(iter(self._by_session))
            if now - self._by_session[oldest][0] < self._idle_s:
                return
            del self._by_session[oldest]


def _with_prompt(question: AgentQuestion) -> AgentQuestion:
    task = question.task
    if question.lang:
        task += f"\n\nAnswer in the language with the BCP-47 tag {_tag(question.lang)}."
    fence = Fence(secrets.choice)
    prompt = assistant_prompt(
        question.text,
        task,
        question.earlier,
        session_id=question.session_id,
        fence=fence,
    )
    return msgspec.structs.replace(question, prompt=prompt, task=task)


def assistant_prompt(
    text: str,
    task: str,
    earlier: tuple[tuple[str, str], ...],
    *,
    session_id: str,
    fence: Fence,
) -> str:
    """Return a prompt that asks for an answer to `text`.

    `earlier` are pairs of a text and its answer from the same conversation.
    """
    origin = f"participant of session {session_id}"
    parts = [task, fence.preamble]
    for earlier_text, answer in earlier:
        fenced = fence.wrap(earlier_text, origin=origin, trust=Trust.UNTRUSTED)
        parts.append("Said earlier:\n" + fenced)
        fenced = fence.wrap(answer, origin="this assistant", trust=Trust.UNVERIFIED)
        parts.append("Answered then:\n" + fenced)
    parts.append("Said now:\n" + fence.wrap(text, origin=origin, trust=Trust.UNTRUSTED))
    return "\n\n".join(parts)


def _tag(lang: str) -> str:
    """Return a text reduced to a language tag, so that it cannot hold instructions."""
    return "".join(
        character
        for character in lang
        if character.isascii() and (character.isalnum() or character == "-")
    )[:35]
