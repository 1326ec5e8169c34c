"""The embedded assistant (bus §15): a small orchestrator with one handler, as a state
machine without I/O.

Messages, answers and the time go in; messages, questions and cancellations come out.
Every `ovos.utterance.handle` ends in exactly one `ovos.utterance.handled`, the last
message of its round, on every path (B-60). Speakers take turns: each has a share of the
requests that run, what is more waits, and a free place goes to the next speaker in
turn.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
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
from bridgehead.bus.wire.topics import HANDLE, HANDLED, PIECE, SPEAK, STOP, UNMATCHED

TURNS: Final = 6
SKILL: Final = "bridgehead.assistant"
INTENT: Final = "bridgehead.assistant:ask"
PIPELINE: Final = "bridgehead-assistant"
SORRY: Final = "Sorry, I could not get an answer."
LATER: Final = "That takes a while. I will tell you when I have the answer."
TOO_LONG: Final = "Sorry, that was too long for me."
TOO_MANY: Final = "Too many questions wait for an answer; wait for one of them."


class AssistantConfig(msgspec.Struct, frozen=True):
    """How the assistant speaks and how long it waits."""

    lang: str | None = None
    timeout_s: float = 30
    later_s: float = 0
    """How long an answer may go on being made after that, to be told later.

    0: then it is given up.
    """
    task: str | None = None
    """What the agent is told to be; None for the usual words."""
    memory: int = TURNS
    """Turns of a conversation that the agent is reminded of."""
    apologies: dict[str, str] = {}
    """Language to text; English is always there."""
    max_running: int = 16
    running_each: int = 4
    """Requests of one speaker that run at once; its others wait."""
    waiting_each: int = 8
    max_waiting: int = 256
    max_text: int = 16_000
    """Characters of one utterance."""


class Emit(msgspec.Struct, frozen=True):
    """Put this message on the bus."""

    message: Message


class Ask(msgspec.Struct, frozen=True):
    """Ask the runtime; its answer comes back under `request`."""

    request: str
    session_id: str
    text: str
    lang: str | None = None
    in_pieces: bool = False
    """Whether whoever asked can show an answer that is still being made."""
    speaker: str = ""


class Cancel(msgspec.Struct, frozen=True):
    """The answer to this request is no longer wanted."""

    request: str


class Defer(msgspec.Struct, frozen=True):
    """This request, asked by `entry`, is answered later, when whoever asked no longer
    waits.
    """

    request: str
    entry: Message


class Late(msgspec.Struct, frozen=True):
    """The answer to a deferred request; empty where there is none."""

    request: str
    text: str


AssistantEffect = Emit | Ask | Cancel | Defer | Late


class _Asked(msgspec.Struct, frozen=True):
    entry: Message
    """Without its text, which may be long."""
    session_id: str
    speaker: str
    lang: str | None
    deadline: float
    deferred: bool = False


class Assistant:
    """Conversations in progress and the default session."""

    def __init__(
        self, config: AssistantConfig | None = None, store: Session | None = None
    ) -> None:
        self._config = config or AssistantConfig()
        self.store: Session = {**(store or {}), "session_id": DEFAULT}
        self._running: dict[str, _Asked] = {}
        self._waiting: dict[str, deque[tuple[_Asked, str]]] = {}
        """By speaker, each with its text; the speaker whose turn it is comes first."""
        self._asked = 0

    def received(self, message: Message, now: float) -> list[AssistantEffect]:
        """Take an utterance or a stop; everything else is ignored (B-59)."""
        if has_malformed_carrier(message):
            return []
        if message.type == HANDLE:
            return self._utterance(message, now)
        if message.type == STOP:
            return self._stopped(context_session_id(message.context), now)
        return []

    def answered(
        self, request: str, text: str, session: Session | None = None, now: float = 0.0
    ) -> list[AssistantEffect]:
        """Take an answer of the runtime; one that nobody waits for is discarded."""
        running = self._running.pop(request, None)
        if running is None:
            return []
        if running.deferred:
            return [Late(request, text), *self._next(now)]
        if not text.strip():
            return self._apologise(running) + self._next(now)
        handed_back = self._take_back(running, session)
        data: dict[str, Any] = {"utterance": text} | (
            {"lang": running.lang} if running.lang else {}
        )
        return [
            self._emit(running.entry, SPEAK, data, handed_back),
            self._emit(running.entry, HANDLED, {}, handed_back),
            *self._next(now),
        ]

    def piece(self, request: str, text: str) -> list[AssistantEffect]:
        """Take one more piece of the runtime's answer."""
        running = self._running.get(request)
        is_shown = running is not None and not running.deferred and text
        if running is not None and is_shown:
            return [self._emit(running.entry, PIECE, {"text": text})]
        return []

    def failed(self, request: str, now: float = 0.0) -> list[AssistantEffect]:
        """Apologise for a runtime that could not answer.

        The cause is never spoken (B-67).
        """
        running = self._running.pop(request, None)
        if running is None:
            return []
        return [
            *([Late(request, "")] if running.deferred else self._apologise(running)),
            *self._next(now),
        ]

    def tick(self, now: float) -> list[AssistantEffect]:
        """Let the time be `now`: requests that took too long are given up, whether they
        ran or waited.
        """
        effects: list[AssistantEffect] = []
        for request in [
            name for name, running in self._running.items() if running.deadline <= now
        ]:
            running = self._running.pop(request)
            if self._may_wait(running):
                later = now + self._config.later_s
                self._running[request] = msgspec.structs.replace(
                    running, deadline=later, deferred=True
                )
                effects += [
                    *self._apologise(running, LATER),
                    Defer(request, running.entry),
                ]
            else:
                given_up = (
                    [Late(request, "")]
                    if running.deferred
                    else self._apologise(running)
                )
                effects += [Cancel(request), *given_up]
        for late in self._take_waiting(lambda waiting: waiting.deadline <= now):
            effects += self._apologise(late)
        return effects + self._next(now)

    def _may_wait(self, running: _Asked) -> bool:
        """Half of the places are for those who wait in front of their device."""
        deferred = len([other for other in self._running.values() if other.deferred])
        return (
            self._config.later_s > 0
            and not running.deferred
            and 2 * (deferred + 1) <= self._config.max_running
        )

    def next_deadline(self) -> float | None:
        waiting = (queue[0][0].deadline for queue in self._waiting.values() if queue)
        return min(
            (*(running.deadline for running in self._running.values()), *waiting),
            default=None,
        )

    def _utterance(self, entry: Message, now: float) -> list[AssistantEffect]:
        session_id = context_session_id(entry.context)
        speaker = _speaker(entry, session_id)
        if self._is_open(speaker, session_id, entry.context.get("utterance_id")):
            # Repeated by way of another bridge, to which the device has moved; one
            # answer is enough.
            return []
        if session_id == DEFAULT:
            self.store = merge_into_default(self.store, entry.context.get("session"))
            session = self.store
        else:
            session = read_session(entry.context).session
        lang = self._language(entry, session)
        text = _first_text(entry.data.get("utterances"))
        if text is None or _is_denied(session):
            return self._unmatched(entry, lang)
        request = _Asked(
            Message(entry.type, {}, entry.context),
            session_id,
            speaker,
            session.get("output_lang") or lang,
            now + self._config.timeout_s,
        )
        if len(text) > self._config.max_text:
            return self._apologise(request, TOO_LONG)
        self._waiting.setdefault(speaker, deque()).append((request, text))
        effects: list[AssistantEffect] = []
        crowded_out = self._crowded_out(speaker)
        if crowded_out is not None:
            effects += self._apologise(crowded_out, TOO_MANY)
        return effects + self._next(now)

    def _is_open(self, speaker: str, session_id: str, utterance_id: object) -> bool:
        """Return whether this utterance still waits for its answer."""
        if not utterance_id:
            return False
        waiting = (request for request, _text in self._waiting.get(speaker, ()))
        return any(
            request.speaker == speaker
            and request.session_id == session_id
            and request.entry.context.get("utterance_id") == utterance_id
            for request in (*self._running.values(), *waiting)
            if not request.deferred
        )

    def _crowded_out(self, speaker: str) -> _Asked | None:
        """Return the question that must go if too many wait.

        The newest of whoever has most of them waiting.
        """
        if len(self._waiting[speaker]) > self._config.waiting_each:
            return self._waiting[speaker].pop()[0]
        if sum(map(len, self._waiting.values())) <= self._config.max_waiting:
            return None
        return max(self._waiting.values(), key=len).pop()[0]

    def _next(self, now: float) -> list[AssistantEffect]:
        """Ask for those whose turn it is, as long as places are free."""
        asks: list[AssistantEffect] = []
        running = Counter(request.speaker for request in self._running.values())
        while len(self._running) < self._config.max_running:
            each = self._config.running_each
            speaker = next(
                (name for name in self._waiting if running[name] < each), None
            )
            if speaker is None:
                break
            queue = self._waiting.pop(speaker)
            if queue:
                request, text = queue.popleft()
                running[speaker] += 1
                asks.append(self._start(request, text, now))
            if queue:
                self._waiting[speaker] = queue  # behind everybody else
        return asks

    def _start(self, request: _Asked, text: str, now: float) -> Ask:
        """Give a question a place among those that are being answered."""
        self._asked += 1
        name = f"r{self._asked}"
        deadline = now + self._config.timeout_s
        self._running[name] = msgspec.structs.replace(request, deadline=deadline)
        in_pieces = request.entry.context.get("pieces") is True
        return Ask(
            name, request.session_id, text, request.lang, in_pieces, request.speaker
        )

    def _take_waiting(self, is_over: Callable[[_Asked], bool]) -> list[_Asked]:
        """Take out the waiting questions that are over."""
        over: list[_Asked] = []
        left: dict[str, deque[tuple[_Asked, str]]] = {}
        for speaker, queue in self._waiting.items():
            over += [request for request, _text in queue if is_over(request)]
            still_waiting = deque(pair for pair in queue if not is_over(pair[0]))
            if still_waiting:
                left[speaker] = still_waiting
        if over:
            self._waiting = left
        return over

    def _stopped(self, session: str, now: float) -> list[AssistantEffect]:
        effects: list[AssistantEffect] = []
        # A deferred one has had its end marker.
        open_here = [
            name
            for name, request in self._running.items()
            if request.session_id == session and not request.deferred
        ]
        for name in open_here:
            request = self._running.pop(name)
            effects += [Cancel(name), self._emit(request.entry, HANDLED, {})]
        for request in self._take_waiting(lambda asked: asked.session_id == session):
            effects.append(self._emit(request.entry, HANDLED, {}))
        return effects + self._next(now)

    def _unmatched(self, entry: Message, lang: str | None) -> list[AssistantEffect]:
        data: dict[str, Any] = {}
        if "utterances" in entry.data:
            data["utterances"] = entry.data["utterances"]
        if lang:
            data["lang"] = lang
        return [self._emit(entry, UNMATCHED, data), self._emit(entry, HANDLED, {})]

    def _apologise(
        self, running: _Asked, because: str | None = None
    ) -> list[AssistantEffect]:
        lang, words = (
            self._apology(running.lang) if because is None else ("en", because)
        )
        data = {"utterance": words, "lang": lang}
        return [
            self._emit(running.entry, SPEAK, data),
            self._emit(running.entry, HANDLED, {}),
        ]

    def _apology(self, lang: str | None) -> tuple[str, str]:
        apologies = self._config.apologies
        for key in (lang, lang.split("-")[0] if lang else None, "en"):
            if key is not None and key in apologies:
                return key, apologies[key]
        return "en", SORRY

    def _language(self, entry: Message, effective: Session) -> str | None:
        """Return the language of an utterance (bus §2).

        Observations count only from the message's own session (B-65).
        """
        own = read_session(entry.context).session
        observed = [
            own.get(field) for field in ("stt_lang", "detected_lang", "request_lang")
        ]
        candidates = (
            entry.data.get("lang"),
            *observed,
            effective.get("lang"),
            self._config.lang,
        )
        return next(
            (lang for lang in candidates if isinstance(lang, str) and lang), None
        )

    def _take_back(self, running: _Asked, session: Session | None) -> Session | None:
        """Return a session the runtime handed back, with the deployment's fields as
        they were (B-64).
        """
        if session is None:
            return None
        if running.session_id == DEFAULT:
            self.store = _updated(self.store, session)
            return None
        carried: Session = running.entry.context["session"]
        return _updated(carried, session)

    def _emit(
        self,
        entry: Message,
        topic: str,
        data: dict[str, Any],
        session: Session | None = None,
    ) -> Emit:
        """Return a reply to the entry message.

        The default session travels as it is at this moment (B-61 to B-63).
        """
        reply = entry.reply(topic, data)
        context = {**reply.context, "skill_id": SKILL}
        if context_session_id(entry.context) == DEFAULT:
            context["session"] = json_copy(self.store)
        elif session is not None:
            context["session"] = json_copy(session)
        return Emit(Message(topic, reply.data, context))


def _updated(before: Session, handed_back: Session) -> Session:
    replaced = replace_snapshot(before, handed_back)
    if replaced is before:
        return before
    return reimpose_deployment_fields(before, replaced)


def _speaker(entry: Message, session: str) -> str:
    """Return whose question it is: the source, which a bridge has stamped, else whoever
    uses the session.
    """
    source = entry.context.get("source")
    return source if isinstance(source, str) and source else session


def _first_text(utterances: object) -> str | None:
    members = utterances if isinstance(utterances, list) else []
    return next(
        (text for text in members if isinstance(text, str) and text.strip()), None
    )


def _is_denied(session: Session) -> bool:
    """Return whether the session forbids this assistant.

    Its own pipeline list is not read (B-66).
    """
    named = (("pipelines", PIPELINE), ("skills", SKILL), ("intents", INTENT))
    return any(name in session.get(f"blacklisted_{kind}", ()) for kind, name in named)
