"""Webhooks (bus §17): a program posts a text and gets back what was spoken.

It need not know that there is a bus.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec

from bridgehead.bus.access.credentials import bearer_token
from bridgehead.bus.actions import CloseCode, Delivery
from bridgehead.bus.bridge.admission import is_channel
from bridgehead.bus.gateway.gateway import Gateway
from bridgehead.bus.gateway.http_turns import HttpTurn
from bridgehead.bus.participants.participants import TooManyParticipants
from bridgehead.bus.participants.record import ParticipantRecord
from bridgehead.bus.sockets.base import Answer, Request, Site, json_answer
from bridgehead.bus.wire.session import context_session_id
from bridgehead.bus.wire.topics import HANDLED, PIECE, SPEAK
from bridgehead.errors import BridgeheadError
from bridgehead.host.clock import Clock, SystemClock

WAIT_S: Final = 30.0
LONGEST_WAIT_S: Final = 300.0
MAX_WAITING: Final = 64
SCHEMA_VERSION: Final = "1.0"
_REFUSED_STATUS: Final = {
    "rate_limited": 429,
    "too_large": 413,
    "policy_denied": 403,
    "revoked": 401,
    "going_away": 503,
    "hub_down": 503,
    "turn_lost": 503,
    "shutdown": 503,
    "too_many_questions": 429,
}


class HttpCalls:
    """Puts questions that come over HTTP, as the participant whose token they carry."""

    def __init__(self, gateway: Gateway, *, clock: Clock | None = None) -> None:
        self._gateway = gateway
        self._clock = clock or SystemClock()
        self._participants: dict[str, HttpParticipant] = {}
        self.turns = gateway.http_turns

    def caller(
        self, request: Request, expected: str | None = None
    ) -> ParticipantRecord | Answer:
        """Return the participant that has the token, or a refusal.

        Strangers and unmanaged participants are refused.
        """
        token = bearer_token(request.headers.get("authorization"))
        self._gateway.reload()
        record = None
        if token:
            record = self._gateway.directory.by_token(token, self._clock.now())
        if record is None or (expected is not None and record.id != expected):
            return self._gateway.turn_away(request.address)
        if record.mode != "manage":
            return Answer(403, b"this is for participants in managing mode\n")
        return record

    async def put(
        self,
        record: ParticipantRecord,
        question: dict[str, Any],
        call: HttpCall,
        wait_s: float,
        turn: HttpTurn | None,
    ) -> AsyncGenerator[str, None]:
        """Put a question and yield what is spoken, as it is spoken.

        Afterwards `call` says how it went. Without a `turn` the question counts as
        asked by the person in the record.
        """
        participant = self._participants.setdefault(record.id, HttpParticipant())
        if len(participant.waiting) >= MAX_WAITING:
            call.refusal = {"code": "too_many_questions"}
            return
        utterance_id = secrets.token_hex(8)
        participant.waiting[utterance_id] = call
        if turn is not None:
            self.turns.note(utterance_id, turn)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        try:
            error = await self._enter(record, participant)
            if error is not None:
                call.refusal = {"code": "hub_down", "message": error.message}
                return
            body = {**question, "utterance_id": utterance_id}
            self._gateway.relay.take(record.id, msgspec.json.encode(body), value=body)
            while True:
                left_s = deadline - loop.time()
                text = await asyncio.wait_for(call.heard.get(), left_s)
                if text is None:
                    break
                yield text
        except TimeoutError:
            pass
        except TooManyParticipants as full:
            call.refusal = {"code": "hub_down", "message": full.message}
        finally:
            del participant.waiting[utterance_id]
            if not participant.waiting:
                self._leave(record.id, participant)

    async def _enter(
        self, record: ParticipantRecord, participant: HttpParticipant
    ) -> BridgeheadError | None:
        if not participant.joined and participant.entering is None:
            participant.entering = self._gateway.relay.join(record, participant)
        if participant.entering is None:
            return None
        error = await asyncio.shield(participant.entering)
        participant.entering = None
        return error

    def _leave(self, participant_id: str, participant: HttpParticipant) -> None:
        self._participants.pop(participant_id, None)
        if participant.joined:
            participant.joined = False
            self._gateway.relay.leave(participant_id, participant)


class WebhookEndpoint(Site):
    """Serves `POST /hook/<participant>` with its bearer token."""

    def __init__(self, calls: HttpCalls, *, wait_s: float = WAIT_S) -> None:
        self._calls = calls
        self._wait_s = wait_s

    async def respond(self, request: Request) -> Answer:
        if request.method != "POST":
            return Answer(405, b"post a text here\n", headers=(("Allow", "POST"),))
        record = self._calls.caller(request, request.path.removeprefix("/hook/"))
        if isinstance(record, Answer):
            return record
        question = _read_question(request)
        if isinstance(question, Answer):
            return question
        wait_s = _wait(request, self._wait_s)
        if wait_s is None:
            return Answer(400, b"wait_s must be a number of seconds up to 300\n")
        channel = question.get("channel")
        user = question.pop("user", None)
        if user is not None:
            channel = _channel_of_user(user, channel)
            question["channel"] = channel
        is_from_person_in_record = record.person is not None and user is None
        turn = None if is_from_person_in_record else _turn_in(channel)
        call = HttpCall(channel)
        async for _text in self._calls.put(record, question, call, wait_s, turn):
            pass  # `call` collects it
        return _answer(call, plain=_prefers_plain_text(request))


class HttpParticipant:
    """The connection of a participant that asks over HTTP.

    It exists while at least one request waits.
    """

    listens = False

    def __init__(self) -> None:
        self.waiting: dict[str, HttpCall] = {}
        self.entering: asyncio.Task[BridgeheadError | None] | None = None
        self.joined = False

    def welcome(self, source: str) -> None:
        self.joined = True

    def deliver(self, delivery: Delivery) -> None:
        if delivery.topic not in (PIECE, SPEAK, HANDLED):
            return
        message = msgspec.json.decode(delivery.body)
        call = self._call_for(message["context"])
        if call is None:
            return
        data = message["data"]
        if delivery.topic == PIECE:
            piece = str(data.get("text", ""))
            call.shown += piece
            call.heard.put_nowait(piece)
        elif delivery.topic == SPEAK:
            utterance = str(data.get("utterance", ""))
            call.speak.append({"utterance": utterance, "lang": data.get("lang")})
            call.heard.put_nowait(call.rest_of(utterance))
        else:
            call.handled = True
            call.heard.put_nowait(None)

    def _call_for(self, context: dict[str, Any]) -> HttpCall | None:
        """Return the request that a message answers.

        A core that drops the utterance id still answers in order, so its answer goes to
        the request of this session that has waited longest.
        """
        utterance_id = context.get("utterance_id")
        if isinstance(utterance_id, str) and utterance_id:
            return self.waiting.get(utterance_id)
        # The session of a channel has the name of the channel.
        session = context_session_id(context)
        calls = list(self.waiting.values())
        in_channel = [call for call in calls if call.channel == session]
        without_channel = [call for call in calls if call.channel is None]
        return next(iter(in_channel or without_channel), None)

    def refuse(self, code: str, details: dict[str, Any]) -> None:
        """End the request that was refused.

        If it is not named, it is the newest, which is just being taken.
        """
        newest = next(reversed(self.waiting), "")
        call = self.waiting.get(str(details.get("utterance_id", newest)))
        if call is not None:
            call.refusal = {"code": code, **details}
            call.heard.put_nowait(None)

    def close(self, code: CloseCode) -> None:
        self.joined = False
        for call in self.waiting.values():
            call.refusal = call.refusal or {"code": code.reason}
            call.heard.put_nowait(None)


class HttpCall:
    """One request that waits for its end marker."""

    def __init__(self, channel: str | None = None) -> None:
        self.channel = channel
        self.speak: list[dict[str, Any]] = []
        self.handled = False
        self.refusal: dict[str, Any] | None = None
        self.heard: asyncio.Queue[str | None] = asyncio.Queue()
        """What is spoken, as it comes; None marks the end."""
        self.shown = ""
        """The pieces of an utterance that came before the whole of it."""

    def rest_of(self, spoken: str) -> str:
        """Return the part of an utterance that was not shown in pieces yet.

        Each utterance begins on a new line.
        """
        shown = self.shown
        self.shown = ""
        if shown and spoken.startswith(shown):
            return spoken[len(shown) :]
        return f"\n{spoken}" if shown or len(self.speak) > 1 else spoken

    @property
    def status(self) -> int:
        """Return the HTTP status the request is answered with."""
        if self.refusal is None:
            return 200
        return _REFUSED_STATUS.get(str(self.refusal["code"]), 400)


class _Posted(msgspec.Struct, frozen=True):
    text: str
    lang: str | None = None
    channel: str | None = None
    user: str | None = None
    """Who asks, if several people use one hook; each has separate conversations."""


def _turn_in(channel: str | None) -> HttpTurn:
    return HttpTurn() if channel is None else HttpTurn.named(f"hook {channel}")


def _channel_of_user(user: str, channel: str | None) -> str:
    """Return the name of one user's channel; no other user has it."""
    identity = msgspec.json.encode([user, channel])
    return "hook-" + hashlib.sha256(identity).hexdigest()[:24]


def _read_question(request: Request) -> dict[str, Any] | Answer:
    """Return the fields of the question that are set, or a refusal."""
    header = request.headers.get("content-type", "")
    content_type = header.partition(";")[0].strip().lower()
    if content_type not in ("text/plain", "application/json"):
        return Answer(415, b"send application/json or text/plain\n")
    try:
        if content_type == "text/plain":
            question = _Posted(request.body.decode())
        else:
            question = msgspec.json.decode(request.body, type=_Posted)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        return Answer(400, f"the body cannot be read: {error}\n".encode())
    if not question.text.strip():
        return Answer(400, b"the body needs a text\n")
    if question.channel is not None and not is_channel(question.channel):
        return Answer(
            400, b"channel must be a name of up to 128 printable characters\n"
        )
    fields = msgspec.structs.asdict(question)
    return {name: value for name, value in fields.items() if value}


def _prefers_plain_text(request: Request) -> bool:
    preferred = request.headers.get("accept", "").partition(",")[0]
    return preferred.partition(";")[0].strip() == "text/plain"


def _wait(request: Request, default: float) -> float | None:
    """Return how long the request wants to wait; None if that is not possible."""
    text = request.query.get("wait_s")
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds <= LONGEST_WAIT_S else None


def _answer(call: HttpCall, *, plain: bool) -> Answer:
    if call.refusal is not None:
        return json_answer(
            {"schema_version": SCHEMA_VERSION, "error": call.refusal}, call.status
        )
    if plain:
        lines = [f"{spoken['utterance']}\n" for spoken in call.speak]
        return Answer(200, "".join(lines).encode())
    return json_answer(
        {"schema_version": SCHEMA_VERSION, "speak": call.speak, "handled": call.handled}
    )
