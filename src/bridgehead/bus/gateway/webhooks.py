"""Webhooks (bus §17): a program posts a text and gets back what was spoken, without knowing anything of a bus."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any, Final

import msgspec

from bridgehead.bus.access.credentials import bearer_token
from bridgehead.bus.actions import CloseCode, Delivery
from bridgehead.bus.gateway.gateway import NOT_FOUND, TOO_MANY, UNAUTHORIZED, Gateway
from bridgehead.bus.participants.participants import TooManyParticipants
from bridgehead.bus.participants.record import ParticipantRecord
from bridgehead.bus.sockets.base import Answer, Request, Upgrade
from bridgehead.bus.wire.topics import HANDLED, SPEAK
from bridgehead.host.clock import Clock, SystemClock

WAIT_S: Final = 30.0
LONGEST_WAIT_S: Final = 300.0
MAX_WAITING: Final = 64
SCHEMA_VERSION: Final = "1.0"


class WebhookEndpoint:
    """`POST /hook/<participant>` with its bearer token."""

    def __init__(self, gateway: Gateway, *, wait_s: float = WAIT_S, clock: Clock | None = None) -> None:
        self._gateway = gateway
        self._wait_s = wait_s
        self._clock = clock or SystemClock()
        self._seats: dict[str, WebhookParticipant] = {}

    def upgrade(self, request: Request) -> Upgrade | Answer:
        return NOT_FOUND

    async def respond(self, request: Request) -> Answer:
        if request.method != "POST":
            return Answer(405, b"post a text here\n", headers=(("Allow", "POST"),))
        record = self._authenticate(request)
        if isinstance(record, Answer):
            return record
        if record.mode != "manage":
            return Answer(403, b"webhooks are for participants in managing mode\n")
        asked = _read_text(request)
        if isinstance(asked, Answer):
            return asked
        wait_s = _wait(request, self._wait_s)
        if wait_s is None:
            return Answer(400, b"wait_s must be a number of seconds up to 300\n")
        return await self._ask(record, asked, wait_s, plain=_wants_plain(request))

    def _authenticate(self, request: Request) -> ParticipantRecord | Answer:
        if self._gateway.is_blocked(request.address):
            return TOO_MANY
        token = bearer_token(request.headers.get("authorization"))
        self._gateway.reload()
        record = self._gateway.directory.by_token(token, self._clock.now()) if token else None
        if record is None or record.id != request.path.removeprefix("/hook/"):
            self._gateway.authentication_failed(request.address)
            return UNAUTHORIZED
        return record

    async def _ask(
        self, record: ParticipantRecord, asked: dict[str, Any], wait_s: float, *, plain: bool
    ) -> Answer:
        seat = self._seats.setdefault(record.id, WebhookParticipant())
        if len(seat.waiting) >= MAX_WAITING:
            return Answer(429, b"too many requests are waiting\n")
        round_ = _Round()
        utterance_id = secrets.token_hex(8)
        seat.waiting[utterance_id] = round_
        try:
            if not seat.joined:
                self._gateway.relay.join(record, seat)
            body = {**asked, "utterance_id": utterance_id}
            self._gateway.relay.take(record.id, msgspec.json.encode(body), value=body)
            async with asyncio.timeout(wait_s):
                await round_.over.wait()
        except TimeoutError:
            pass
        except TooManyParticipants as full:
            return Answer(503, f"{full.message}\n".encode())
        finally:
            del seat.waiting[utterance_id]
            if not seat.waiting:
                self._empty(record.id, seat)
        return _answer(round_, plain=plain)

    def _empty(self, participant_id: str, seat: WebhookParticipant) -> None:
        self._seats.pop(participant_id, None)
        if seat.joined:
            seat.joined = False
            self._gateway.relay.leave(participant_id, seat)


class _Round:
    """One request that waits for its end marker."""

    def __init__(self) -> None:
        self.speak: list[dict[str, Any]] = []
        self.handled = False
        self.refusal: dict[str, Any] | None = None
        self.over = asyncio.Event()


class WebhookParticipant:
    """The connection of one webhook participant: there while at least one request waits."""

    def __init__(self) -> None:
        self.waiting: dict[str, _Round] = {}
        self.joined = False

    def welcome(self, source: str) -> None:
        self.joined = True

    def deliver(self, delivery: Delivery) -> None:
        if delivery.topic not in (SPEAK, HANDLED):
            return
        message = msgspec.json.decode(delivery.body)
        named = message["context"].get("utterance_id")
        # A core that drops the id still answers in order, so its words go to the one who has waited longest.
        is_named = isinstance(named, str) and named != ""
        round_ = self.waiting.get(named) if is_named else next(iter(self.waiting.values()), None)
        if round_ is None:
            return
        if delivery.topic == SPEAK:
            data = message["data"]
            round_.speak.append({"utterance": str(data.get("utterance", "")), "lang": data.get("lang")})
        else:
            round_.handled = True
            round_.over.set()

    def refuse(self, code: str, details: dict[str, Any]) -> None:
        """The newest request was refused; it is the one being taken."""
        round_ = next(reversed(self.waiting.values()))
        round_.refusal = {"code": code, **details}
        round_.over.set()

    def close(self, code: CloseCode) -> None:
        self.joined = False
        for round_ in self.waiting.values():
            round_.refusal = round_.refusal or {"code": code.reason}
            round_.over.set()


def _read_text(request: Request) -> dict[str, Any] | Answer:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == "text/plain":
            asked: Any = {"text": request.body.decode()}
        elif kind == "application/json":
            asked = msgspec.json.decode(request.body)
        else:
            return Answer(415, b"send application/json or text/plain\n")
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return Answer(400, b"the body cannot be read\n")
    text = asked.get("text") if isinstance(asked, dict) else None
    lang = asked.get("lang") if isinstance(asked, dict) else None
    if not isinstance(text, str) or not text.strip():
        return Answer(400, b"the body needs a text\n")
    if lang is not None and not isinstance(lang, str):
        return Answer(400, b"lang must be a language tag\n")
    return {"text": text} | ({"lang": lang} if lang else {})


def _wait(request: Request, default: float) -> float | None:
    given = request.query.get("wait_s")
    if given is None:
        return default
    try:
        seconds = float(given)
    except ValueError:
        return None
    return seconds if 0 <= seconds <= LONGEST_WAIT_S else None


def _wants_plain(request: Request) -> bool:
    return request.headers.get("accept", "").partition(",")[0].partition(";")[0].strip() == "text/plain"


_REFUSED_STATUS: Final = {
    "rate_limited": 429,
    "too_large": 413,
    "policy_denied": 403,
    "revoked": 401,
    "going_away": 503,
}


def _answer(round_: _Round, *, plain: bool) -> Answer:
    if round_.refusal is not None:
        status = _REFUSED_STATUS.get(str(round_.refusal["code"]), 400)
        body = msgspec.json.encode({"schema_version": SCHEMA_VERSION, "error": round_.refusal})
        return Answer(status, body, "application/json")
    if plain:
        lines = "".join(f"{said['utterance']}\n" for said in round_.speak)
        return Answer(200, lines.encode())
    body = msgspec.json.encode(
        {"schema_version": SCHEMA_VERSION, "speak": round_.speak, "handled": round_.handled}
    )
    return Answer(200, body, "application/json")
