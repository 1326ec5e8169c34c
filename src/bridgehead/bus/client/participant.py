"""A participant in a few lines: connect with a join file, say something, hear what comes back.

    async with await Satellite.connect(read_join_file(path)) as satellite:
        answer = await satellite.ask("what time is it")
        print(answer.text)

The satellite owns its session (bus §3): it adopts the one every answer brings and sends it with the next utterance.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from bridgehead.bus.access.credentials import NONCE_BYTES, Challenge, certificate_binding
from bridgehead.bus.access.join_file import JoinFile
from bridgehead.bus.sockets.dial import ClientConversation, ConnectionEnded, DialRefused, Target, dial
from bridgehead.bus.wire import frames
from bridgehead.bus.wire.frames import from_base64
from bridgehead.bus.wire.message import Accepted, Message, decode_json, encode, read_value
from bridgehead.bus.wire.session import Session
from bridgehead.bus.wire.topics import HANDLE, HANDLED, SPEAK
from bridgehead.errors import BridgeheadError, ProtocolError

CLAIM_HEADER: Final = "X-Bridgehead-Claimed-Id"


class Incoming(msgspec.Struct, frozen=True):
    """A message the bridge handed over."""

    message: Message
    hops: int = 1


class MessageRefused(msgspec.Struct, frozen=True):
    """The bridge did not take a message of ours."""

    code: str
    details: dict[str, Any]


class ItemAnswered(msgspec.Struct, frozen=True):
    """What became of our answer to a pending item."""

    id: str
    ok: bool
    sentence: str


class Ponged(msgspec.Struct, frozen=True):
    """The bridge has read everything up to a ping of ours."""


Event = Incoming | MessageRefused | ItemAnswered | Ponged


class Spoken(msgspec.Struct, frozen=True):
    """What was said in answer to one utterance."""

    speak: tuple[dict[str, Any], ...]
    handled: bool

    @property
    def text(self) -> str:
        return "\n".join(str(said.get("utterance", "")) for said in self.speak)


class Satellite:
    """One connection to a bridge."""

    def __init__(self, conversation: ClientConversation, participant: str, source: str) -> None:
        self._conversation = conversation
        self.participant = participant
        self.source = source
        self.session: Session = {}
        """The session of the last answer; sent with the next utterance."""
        self.aside: Callable[[Message], None] = _disregard
        """Gets what arrives during `ask` and is no part of the answer, such as a notice."""

    @classmethod
    async def connect(
        cls,
        join: JoinFile,
        *,
        claimed_id: str | None = None,
        ca_file: str | None = None,
        client_cert: tuple[str, str] | None = None,
    ) -> Self:
        """Connect and prove who we are; both sides are sure of each other when this returns."""
        headers = [("Authorization", f"Bearer {join.token}")] if join.token else []
        if claimed_id is not None:
            headers.append((CLAIM_HEADER, claimed_id))
        target = Target(join.url, tuple(headers), frames.SUBPROTOCOL, join.pin, client_cert, ca_file)
        conversation = ClientConversation()
        try:
            await dial(target, conversation)
        except DialRefused as refused:
            if refused.status in (401, 403):
                raise NotAdmitted(join.participant, f"HTTP {refused.status}") from refused
            raise
        try:
            source = await _shake_hands(conversation, join, claimed_id)
        except BaseException:
            conversation.peer.abort()
            raise
        return cls(conversation, join.participant, source)

    async def send(self, message: Message, *, hops: int = 0) -> None:
        """Send one message; a refusal comes back as an event."""
        await self._conversation.send(frames.outgoing(encode(message), hops))

    async def settled(self, wait_s: float = 5.0) -> None:
        """Return once the bridge has read what was sent; raises `Refused` where it did not take a message."""
        await self._conversation.send(frames.ping(0))
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while not isinstance(event := await self.receive(), Ponged):
                    if isinstance(event, MessageRefused):
                        raise SendRefused(event)

    async def say(self, text: str, lang: str | None = None) -> None:
        """Send an utterance with the session as we know it."""
        data: dict[str, Any] = {"utterances": [text]} | ({"lang": lang} if lang else {})
        await self.send(Message(HANDLE, data, {"session": self.session} if self.session else {}))

    async def ask(self, text: str, lang: str | None = None, *, wait_s: float = 30.0) -> Spoken:
        """Say something and collect what is spoken until the round is over or `wait_s` have passed."""
        await self.say(text, lang)
        said: list[dict[str, Any]] = []
        try:
            async with asyncio.timeout(wait_s):
                while True:
                    event = await self.receive()
                    if isinstance(event, MessageRefused):
                        raise SendRefused(event)
                    if isinstance(event, Incoming) and event.message.type == SPEAK:
                        said.append(event.message.data)
                    elif isinstance(event, Incoming) and event.message.type == HANDLED:
                        return Spoken(tuple(said), handled=True)
                    elif isinstance(event, Incoming):
                        self.aside(event.message)
        except TimeoutError:
            return Spoken(tuple(said), handled=False)

    async def answer(self, item_id: str, text: str) -> None:
        """Answer a pending item; needs the grant `approve`."""
        await self._conversation.send(frames.answer(item_id, text))

    async def receive(self) -> Event:
        """The next thing the bridge sent; raises `ConnectionEnded` when there is nothing more."""
        while True:
            frame = decode_json(await self._conversation.receive())
            kind = frame.get("l2") if isinstance(frame, dict) else None
            if kind == "msg":
                read = read_value(frame.get("m"))
                if isinstance(read, Accepted):
                    self._adopt(read.message)
                    hops = frame.get("hops")
                    return Incoming(read.message, hops if isinstance(hops, int) else 1)
            elif kind == "err":
                details = {key: value for key, value in frame.items() if key not in ("l2", "code")}
                return MessageRefused(str(frame.get("code")), details)
            elif kind == "answered":
                return ItemAnswered(str(frame.get("id")), frame.get("ok") is True, str(frame.get("message")))
            elif kind == "pong":
                return Ponged()
            elif kind == "ping":
                await self._conversation.send(frames.pong(frame.get("t")))

    def _adopt(self, message: Message) -> None:
        session = message.context.get("session")
        if message.type == HANDLED and isinstance(session, dict):
            self.session = session

    async def close(self, *, goodbye: bool = True) -> None:
        """Leave; with a goodbye the bridge does not wait for us to come back."""
        if goodbye and self._conversation.ended is None and self._conversation.is_writable:
            await self._conversation.send(frames.bye("leaving"))
        await self._conversation.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _disregard(message: Message) -> None:
    pass


async def _shake_hands(conversation: ClientConversation, join: JoinFile, claimed_id: str | None) -> str:
    """Answer the challenge if there is one, and check the server's own proof; the source we were given."""
    try:
        frame = _frame(await conversation.receive())
        challenge: Challenge | None = None
        key = from_base64(join.key) if join.key is not None else None
        if frame.get("l2") == "challenge":
            if key is None:
                raise NotAdmitted(join.participant, "it asks for a key, and the join file has a token")
            challenge = _challenge(conversation, join, frame)
            mac = challenge.client_mac(key)
            await conversation.send(frames.auth(join.participant, challenge.client_nonce, mac, claimed_id))
            frame = _frame(await conversation.receive())
    except ConnectionEnded as ended:
        raise NotAdmitted(join.participant, ended.reason or str(ended.code)) from ended
    if frame.get("l2") != "welcome" or not isinstance(frame.get("source"), str):
        raise NotAdmitted(join.participant, str(frame.get("code", "no welcome")))
    if key is not None:
        _check_server(challenge, key, frame.get("mac"))
    return str(frame["source"])


def _challenge(conversation: ClientConversation, join: JoinFile, frame: dict[str, Any]) -> Challenge:
    nonce = from_base64(frame.get("nonce"), NONCE_BYTES)
    if nonce is None:
        raise NotOurBridge("its challenge has no nonce")
    binding = certificate_binding(conversation.peer.certificate)
    return Challenge(join.participant, nonce, secrets.token_bytes(NONCE_BYTES), binding)


def _check_server(challenge: Challenge | None, key: bytes, mac: object) -> None:
    shown = from_base64(mac)
    if challenge is None or shown is None or not hmac.compare_digest(challenge.server_mac(key), shown):
        raise NotOurBridge("it could not prove that it knows our key")


def _frame(payload: bytes) -> dict[str, Any]:
    frame = decode_json(payload)
    if not isinstance(frame, dict):
        raise NotOurBridge("it does not speak bridgehead.v1")
    return frame


class NotAdmitted(BridgeheadError):
    """The bridge does not let this participant in."""

    def __init__(self, participant: str, cause: str) -> None:
        super().__init__(
            f"the bridge did not admit {participant!r}: {cause}",
            hint="the credential may be revoked or expired; `bridgehead bus participant add` makes a new one",
        )


class NotOurBridge(ProtocolError):
    """Whoever answered is not the bridge we were enrolled at."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"the other side is not our bridge: {cause}", hint="check the url in the join file")


class SendRefused(BridgeheadError):
    """The bridge refused what we sent."""

    def __init__(self, refusal: MessageRefused) -> None:
        facts = ", ".join(f"{key} {value}" for key, value in refusal.details.items())
        super().__init__(
            f"the bridge refused the message: {refusal.code}" + (f" ({facts})" if facts else ""),
            hint="bridgehead bus policy show ID on the machine of the bridge says what is allowed",
        )
        self.refusal = refusal
