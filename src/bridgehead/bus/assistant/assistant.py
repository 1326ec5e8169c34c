"""The embedded assistant (bus §15): a small orchestrator with one handler, as a state machine without I/O.

Messages, answers and the time go in; messages, questions and cancellations come out. Every `ovos.utterance.handle`
ends in exactly one `ovos.utterance.handled`, the last message of its round, on every path (B-60).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bridgehead.bus.wire.message import Message, has_malformed_carrier, json_copy
from bridgehead.bus.wire.session import (
    DEFAULT,
    Session,
    context_session_id,
    merge_into_default,
    read_session,
    reimpose_deployment_fields,
    replace_snapshot,
)
from bridgehead.bus.wire.topics import HANDLE, HANDLED, SPEAK, STOP, UNMATCHED

SKILL: Final = "bridgehead.assistant"
INTENT: Final = "bridgehead.assistant:ask"
PIPELINE: Final = "bridgehead-assistant"
SORRY: Final = "Sorry, I could not get an answer."


class AssistantConfig(msgspec.Struct, frozen=True):
    """How the assistant speaks and how long it waits."""

    lang: str | None = None
    timeout_s: float = 30
    apologies: dict[str, str] = {}
    """Language to text; English is always there."""
    max_running: int = 16


class Emit(msgspec.Struct, frozen=True):
    """Put this message on the bus."""

    message: Message


class Ask(msgspec.Struct, frozen=True):
    """Ask the runtime; its answer comes back under `request`."""

    request: str
    session_id: str
    text: str
    lang: str | None = None


class Cancel(msgspec.Struct, frozen=True):
    """The answer to this request is no longer wanted."""

    request: str


AssistantEffect = Emit | Ask | Cancel


class _Running(msgspec.Struct, frozen=True):
    entry: Message
    session_id: str
    lang: str | None
    deadline: float


class Assistant:
    """Conversations in progress and the default session."""

    def __init__(self, config: AssistantConfig | None = None, store: Session | None = None) -> None:
        self._config = config or AssistantConfig()
        self.store: Session = {**(store or {}), "session_id": DEFAULT}
        self._running: dict[str, _Running] = {}
        self._asked = 0

    def received(self, message: Message, now: float) -> list[AssistantEffect]:
        """The bus carried `message`; utterances and stops are taken, everything else is ignored (B-59)."""
        if has_malformed_carrier(message):
            return []
        if message.type == HANDLE:
            return self._utterance(message, now)
        if message.type == STOP:
            return self._stopped(context_session_id(message.context))
        return []

    def answered(self, request: str, text: str, session: Session | None = None) -> list[AssistantEffect]:
        """The runtime answered; an answer nobody waits for is discarded."""
        running = self._running.pop(request, None)
        if running is None:
            return []
        if not text.strip():
            return self._apologise(running)
        handed_back = self._take_back(running, session)
        data: dict[str, Any] = {"utterance": text} | ({"lang": running.lang} if running.lang else {})
        return [
            self._emit(running.entry, SPEAK, data, handed_back),
            self._emit(running.entry, HANDLED, {}, handed_back),
        ]

    def failed(self, request: str) -> list[AssistantEffect]:
        """The runtime could not answer; the cause is for the log, never for speech (B-67)."""
        running = self._running.pop(request, None)
        return [] if running is None else self._apologise(running)

    def tick(self, now: float) -> list[AssistantEffect]:
        """Let the time be `now`: requests that took too long are given up."""
        effects: list[AssistantEffect] = []
        for request in [name for name, running in self._running.items() if running.deadline <= now]:
            effects += [Cancel(request), *self._apologise(self._running.pop(request))]
        return effects

    def next_deadline(self) -> float | None:
        return min((running.deadline for running in self._running.values()), default=None)

    def _utterance(self, entry: Message, now: float) -> list[AssistantEffect]:
        named = context_session_id(entry.context)
        if named == DEFAULT:
            self.store = merge_into_default(self.store, entry.context.get("session"))
            effective = self.store
        else:
            effective = read_session(entry.context).session
        lang = self._language(entry, effective)
        text = _first_text(entry.data.get("utterances"))
        if text is None or _is_denied(effective):
            return self._unmatched(entry, lang)
        running = _Running(entry, named, effective.get("output_lang") or lang, now + self._config.timeout_s)
        if len(self._running) >= self._config.max_running:
            return self._apologise(running)
        self._asked += 1
        request = f"r{self._asked}"
        self._running[request] = running
        return [Ask(request, named, text, running.lang)]

    def _stopped(self, session: str) -> list[AssistantEffect]:
        effects: list[AssistantEffect] = []
        for request in [name for name, running in self._running.items() if running.session_id == session]:
            running = self._running.pop(request)
            effects += [Cancel(request), self._emit(running.entry, HANDLED, {})]
        return effects

    def _unmatched(self, entry: Message, lang: str | None) -> list[AssistantEffect]:
        data = {"utterances": entry.data["utterances"]} if "utterances" in entry.data else {}
        if lang:
            data["lang"] = lang
        return [self._emit(entry, UNMATCHED, data), self._emit(entry, HANDLED, {})]

    def _apologise(self, running: _Running) -> list[AssistantEffect]:
        lang, words = self._apology(running.lang)
        data = {"utterance": words, "lang": lang}
        return [self._emit(running.entry, SPEAK, data), self._emit(running.entry, HANDLED, {})]

    def _apology(self, lang: str | None) -> tuple[str, str]:
        apologies = self._config.apologies
        for key in (lang, lang.split("-")[0] if lang else None, "en"):
            if key is not None and key in apologies:
                return key, apologies[key]
        return "en", SORRY

    def _language(self, entry: Message, effective: Session) -> str | None:
        """The language of an utterance (bus §2); observations count only from the message's own session (B-65)."""
        own = read_session(entry.context).session
        observed = [own.get(field) for field in ("stt_lang", "detected_lang", "request_lang")]
        for lang in (entry.data.get("lang"), *observed, effective.get("lang"), self._config.lang):
            if isinstance(lang, str) and lang:
                return lang
        return None

    def _take_back(self, running: _Running, session: Session | None) -> Session | None:
        """A session the runtime handed back, with the deployment's fields as they were (B-64)."""
        if session is None:
            return None
        if running.session_id == DEFAULT:
            self.store = _updated(self.store, session)
            return None
        carried: Session = running.entry.context["session"]
        return _updated(carried, session)

    def _emit(self, entry: Message, topic: str, data: dict[str, Any], session: Session | None = None) -> Emit:
        """A reply to the entry message; the default session travels as it is at this moment (B-61 to B-63)."""
        reply = entry.reply(topic, data)
        context = {**reply.context, "skill_id": SKILL}
        if context_session_id(entry.context) == DEFAULT:
            context["session"] = json_copy(self.store)
        elif session is not None:
            context["session"] = json_copy(session)
        return Emit(Message(topic, reply.data, context))


def _updated(before: Session, handed_back: Session) -> Session:
    replaced = replace_snapshot(before, handed_back)
    return before if replaced is before else reimpose_deployment_fields(before, replaced)


def _first_text(utterances: object) -> str | None:
    members = utterances if isinstance(utterances, list) else []
    return next((text for text in members if isinstance(text, str) and text.strip()), None)


def _is_denied(session: Session) -> bool:
    """Whether the session forbids this assistant; its own pipeline list is not read (B-66)."""
    return (
        PIPELINE in session.get("blacklisted_pipelines", ())
        or SKILL in session.get("blacklisted_skills", ())
        or INTENT in session.get("blacklisted_intents", ())
    )
