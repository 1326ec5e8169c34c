"""The assistant on a hub: carries out what the state machine decides and asks the agent, with a fenced prompt (bus
§15).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from functools import partial
from typing import Any, Final

import msgspec

from bridgehead.bus.assistant.assistant import Ask, Assistant, AssistantConfig, AssistantEffect, Cancel, Emit
from bridgehead.bus.hub.hub import Hub
from bridgehead.bus.interfaces import Agent, AgentQuestion
from bridgehead.bus.wire.message import Message
from bridgehead.bus.wire.session import read_session
from bridgehead.bus.wire.topics import HANDLE
from bridgehead.contract.fencing import Fence
from bridgehead.contract.words import Trust

_log: Final = logging.getLogger("bridgehead.bus.assistant")
TURNS: Final = 6
SESSIONS: Final = 1000
IDLE_S: Final = 600.0
QUICK_TEXT: Final = 2000
"""Characters that are fenced on the event loop; a longer prompt is made in a thread."""
KEPT_TEXT: Final = 2000
"""Characters of an utterance or an answer that are remembered."""
TASK: Final = (
    "You are the assistant on a message bus of voice satellites and chat rooms. Answer what the person said last, "
    "in one or two short sentences of plain text that can be spoken aloud: no markup, no lists, no links."
)


class AssistantHost:
    """One assistant listening to one embedded hub."""

    def __init__(
        self, hub: Hub, agent: Agent, config: AssistantConfig | None = None, conversations: Conversations | None = None
    ) -> None:
        self._hub = hub
        self._agent = agent
        self._assistant = Assistant(config)
        self._task = (config.task if config is not None else None) or TASK
        self._conversations = conversations or Conversations()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._listener_token: object | None = None

    def start(self) -> None:
        self._listener_token = self._hub.listen(self._received, echo=False)

    async def stop(self) -> None:
        if self._listener_token is not None:
            self._hub.stop_listening(self._listener_token)
        if self._alarm is not None:
            self._alarm.cancel()
        for task in self._asking.values():
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)

    def _received(self, message: Message) -> None:
        if message.type == HANDLE:
            _report_malformed(message.context)
        self._carry_out(self._assistant.received(message, self._now()))

    def _carry_out(self, effects: list[AssistantEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Emit):
                self._hub.publish(effect.message, self._listener_token)
            elif isinstance(effect, Ask):
                self._asking[effect.request] = asyncio.get_running_loop().create_task(self._ask(effect))
            elif isinstance(effect, Cancel) and (task := self._asking.pop(effect.request, None)):
                task.cancel()
        self._set_alarm()

    async def _ask(self, ask: Ask) -> None:
        earlier = self._conversations.earlier(ask.session_id, self._now())
        try:
            if len(ask.text) + sum(len(said) + len(answered) for said, answered in earlier) > QUICK_TEXT:
                # Foreign text is looked at character by character, which is no work for the loop everybody shares.
                question = await asyncio.to_thread(_question, ask, self._task, earlier)
            else:
                question = _question(ask, self._task, earlier)
            if ask.in_pieces:
                question = msgspec.structs.replace(question, heard=partial(self._heard, ask.request))
            answer = await self._agent.ask(question)
        except Exception as error:  # whatever a model's adapter raises, the person gets an answer
            _log.warning("request %s failed: %s: %s", ask.request, type(error).__name__, error)
            self._settle(ask, self._assistant.failed(ask.request, self._now()))
            return
        if answer.text.strip():
            self._conversations.note(ask.session_id, ask.text, answer.text, self._now())
        self._settle(ask, self._assistant.answered(ask.request, answer.text, answer.session, now=self._now()))

    def _heard(self, request: str, text: str) -> None:
        self._carry_out(self._assistant.piece(request, text))

    def _settle(self, ask: Ask, effects: list[AssistantEffect]) -> None:
        self._asking.pop(ask.request, None)
        self._carry_out(effects)

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        deadline = self._assistant.next_deadline()
        if deadline is not None:
            self._alarm = asyncio.get_running_loop().call_at(deadline, self._wake)

    def _wake(self) -> None:
        self._carry_out(self._assistant.tick(self._now()))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _report_malformed(context: dict[str, Any]) -> None:
    """A field of the session that has to be left out is worth a line to whoever wrote it (bus §2)."""
    for field in read_session(context).malformed_fields:
        outer, _, inner = field.partition(".")
        value = context["session"][outer]
        value = value[inner] if inner else value
        _log.warning("session field %s is left out: it is %s", field, type(value).__name__)


class Conversations:
    """Turns by session id; never part of the session itself."""

    def __init__(self, *, turns: int = TURNS, sessions: int = SESSIONS, idle_s: float = IDLE_S) -> None:
        self._turns = turns
        self._sessions = sessions
        self._idle_s = idle_s
        self._by_session: dict[str, tuple[float, deque[tuple[str, str]]]] = {}

    def earlier(self, session_id: str, now: float) -> tuple[tuple[str, str], ...]:
        """The turns of a conversation that has not gone cold."""
        self._forget_idle(now)
        kept = self._by_session.get(session_id)
        return tuple(kept[1]) if kept is not None else ()

    def note(self, session_id: str, said: str, answered: str, now: float) -> None:
        """Remember one more turn."""
        if self._turns == 0:
            return
        _at, turns = self._by_session.pop(session_id, (now, deque(maxlen=self._turns)))
        turns.append((said[:KEPT_TEXT], answered[:KEPT_TEXT]))
        self._by_session[session_id] = (now, turns)
        while len(self._by_session) > self._sessions:
            del self._by_session[next(iter(self._by_session))]

    def _forget_idle(self, now: float) -> None:
        # In order of last use, so the first that is fresh ends the search.
        while self._by_session:
            oldest = next(iter(self._by_session))
            if now - self._by_session[oldest][0] < self._idle_s:
                return
            del self._by_session[oldest]


def _question(ask: Ask, task: str, earlier: tuple[tuple[str, str], ...]) -> AgentQuestion:
    if ask.lang:
        task += f"\n\nAnswer in the language with the BCP-47 tag {_tag(ask.lang)}."
    prompt = assistant_prompt(ask.text, task, earlier, session_id=ask.session_id, fence=Fence(secrets.choice))
    return AgentQuestion(ask.session_id, ask.text, ask.lang, prompt, task, earlier)


def assistant_prompt(
    text: str, task: str, earlier: tuple[tuple[str, str], ...], *, session_id: str, fence: Fence
) -> str:
    """Ask for an answer to `text`; `earlier` are (said, answered) pairs of the same conversation."""
    origin = f"participant of session {session_id}"
    parts = [task, fence.preamble]
    for said, answered in earlier:
        parts.append("Said earlier:\n" + fence.wrap(said, origin=origin, trust=Trust.UNTRUSTED))
        parts.append("Answered then:\n" + fence.wrap(answered, origin="this assistant", trust=Trust.UNVERIFIED))
    parts.append("Said now:\n" + fence.wrap(text, origin=origin, trust=Trust.UNTRUSTED))
    return "\n\n".join(parts)


def _tag(lang: str) -> str:
    """A language tag has no room for instructions: what is none is cut down to one."""
    return "".join(
        character for character in lang if character.isascii() and (character.isalnum() or character == "-")
    )[:35]
