"""A participant in a few lines: connect with a join file, say something, and get the
answer.

    async with await Satellite.connect(read_join_file(path)) as satellite:
        answer = await satellite.ask("what time is it")
        print(answer.text)

The satellite owns its session (bus §3): it adopts the one every answer brings and sends
it with the next utterance. After a lost connection it connects to whichever address of
the join file answers and sends an open question again; a bridge that already has the
question recognises it.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal, Self

import msgspec

from bridgehead.bus.access.credentials import (
    NONCE_BYTES,
    Challenge,
    certificate_binding,
)
from bridgehead.bus.access.join_file import JoinFile
from bridgehead.bus.actions import CloseCode
from bridgehead.bus.interfaces import ItemAnswered, Notice, ShownQuestions
from bridgehead.bus.sockets.dial import (
    ClientConversation,
    Closing,
    ConnectionEnded,
    DialRefused,
    Target,
    dial,
)
from bridgehead.bus.wire import frames
from bridgehead.bus.wire.frames import from_base64
from bridgehead.bus.wire.message import (
    Accepted,
    Message,
    decode_json,
    encode,
    read_value,
)
from bridgehead.bus.wire.session import Session
from bridgehead.bus.wire.topics import HANDLE, HANDLED, NOTICE, SPEAK, UNMATCHED
from bridgehead.errors import BridgeheadError, ProtocolError

CLAIM_HEADER: Final = "X-Bridgehead-Claimed-Id"
FIRST_WAIT_S: Final = 0.25
LONGEST_WAIT_S: Final = 15.0
SECOND_ANSWER_S: Final = 3.0
"""How long to wait for words after a repeated question ended without any."""
SENT_AWAY: Final = frozenset(
    {1000, 1002, 1003, 1009, *CloseCode}
    - {CloseCode.GOING_AWAY, CloseCode.SLOW_CONSUMER}
)
"""Close codes after which we do not reconnect, such as for a revoked credential."""
REFUSED: Final = {
    "rate_limited": "That was too fast; wait a moment.",
    "too_large": "That was too long.",
    "too_many_questions": "Too many questions wait for an answer; wait for one of them.",
    "hub_down": "The assistant cannot be reached right now; say it again in a moment.",
    "turn_lost": "The answer to an earlier question got lost; ask it again.",
}
Dial = Callable[[], Awaitable[tuple[ClientConversation, str]]]
"""Connects, and returns the conversation and our source."""
Outcome = Literal["", "answer", "unmatched"]


class Incoming(msgspec.Struct, frozen=True):
    """A message the bridge handed over."""

    message: Message
    hops: int = 1


class MessageRefused(msgspec.Struct, frozen=True):
    """The bridge did not take a message of ours."""

    code: str
    details: dict[str, Any]


class Ponged(msgspec.Struct, frozen=True):
    """The bridge has read everything up to a ping of ours."""


Event = Incoming | MessageRefused | ItemAnswered | Ponged


class Spoken(msgspec.Struct, frozen=True):
    """What was said in answer to one utterance."""

    speak: tuple[dict[str, Any], ...]
    handled: bool
    outcome: Outcome = ""
    """`answer` if the utterance answered a question (`bus ask`), so that the assistant
    did not get it.
    """

    @property
    def text(self) -> str:
        return "\n".join(str(speech.get("utterance", "")) for speech in self.speak)


class _CollectedAnswer:
    """What has come in answer to one utterance."""

    def __init__(self, utterance_id: str) -> None:
        self._utterance_id = utterance_id
        self.speech: list[dict[str, Any]] = []
        self.outcome: Outcome = ""
        self.has_ended = False

    def owns(self, fields: dict[str, Any]) -> bool:
        """Return whether a context or a refusal with these fields is about us."""
        utterance_id = fields.get("utterance_id", self._utterance_id)
        return bool(utterance_id == self._utterance_id)

    def add_speech(self, data: dict[str, Any], *, was_repeated: bool) -> None:
        """Add what was spoken, unless it was heard before the question was repeated."""
        if not was_repeated or data not in self.speech:
            self.speech.append(data)

    def end(self, data: dict[str, Any], *, was_repeated: bool) -> bool:
        """Take an end marker; return whether the answer is complete."""
        had_ended = self.has_ended
        self.has_ended = True
        if data.get("is_answer") is True:
            self.outcome = "answer"
        if had_ended or not was_repeated:
            return True
        return bool(self.speech or self.outcome)


class Satellite(Closing):
    """One participant, connected to a bridge."""

    def __init__(
        self,
        dial_again: Dial,
        conversation: ClientConversation,
        join: JoinFile,
        source: str,
    ) -> None:
        self._dial = dial_again
        self._conversation = conversation
        self._reconnects = True
        self._turn = asyncio.Lock()
        self._open: Message | None = None
        """The question that is being answered; repeated after a lost connection."""
        self._was_repeated = False
        self.participant = join.participant
        self.source = source
        self.session: Session = {}
        """The session of the last answer; sent with the next utterance."""
        self.aside: Callable[[Message], None] = _disregard
        """Called with what arrives during `ask` but is not part of the answer, such as
        a notice.
        """
        self.shown = ShownQuestions()
        """The questions that arrived and after which nothing else was said."""
        self.report: Callable[[str], None] = _disregard
        """Called with a sentence when the connection is lost and when it is back."""

    @classmethod
    async def connect(
        cls,
        join: JoinFile,
        *,
        claimed_id: str | None = None,
        ca_file: str | None = None,
        client_cert: tuple[str, str] | None = None,
        reconnect: bool = True,
    ) -> Self:
        """Connect, and authenticate both sides."""
        headers = [("Authorization", f"Bearer {join.token}")] if join.token else []
        if claimed_id is not None:
            headers.append((CLAIM_HEADER, claimed_id))
        targets = [
            Target(
                url,
                tuple(headers),
                frames.SUBPROTOCOL,
                join.pin,
                client_cert,
                ca_file,
            )
            for url in join.urls
        ]
        dial_any = partial(_enter_any, targets, join, claimed_id)
        conversation, source = await dial_any()
        satellite = cls(dial_any, conversation, join, source)
        satellite._reconnects = reconnect
        return satellite

    async def _come_back(self, ended: ConnectionEnded) -> None:
        """Reconnect; raise if the bridge sent us away or does not admit us any more."""
        if not self._reconnects or ended.code in SENT_AWAY:
            raise ended
        async with self._turn:
            if self._conversation.ended is None:
                return
            self.report(f"{ended.message}; trying again")
            for wait_s in waits():
                await asyncio.sleep(wait_s)
                try:
                    self._conversation, self.source = await self._dial()
                    break
                except BridgeheadError as error:
                    if isinstance(error, NotAdmitted) and error.is_final:
                        raise
            if self._open is not None:
                await self._conversation.send(frames.outgoing(encode(self._open), 0))
                self._was_repeated = True
            self.report("connected again")

    async def send(self, message: Message, *, hops: int = 0) -> None:
        """Send one message; a refusal comes back as an event."""
        await self._send(frames.outgoing(encode(message), hops))

    async def _send(self, frame: bytes) -> None:
        try:
            await self._conversation.send(frame)
        except ConnectionEnded as ended:
            await self._come_back(ended)
            await self._conversation.send(frame)

    async def settled(self, wait_s: float = 5.0) -> None:
        """Return once the bridge has read what was sent.

        Raise `SendRefused` if it refused a message.
        """
        await self._send(frames.ping(0))
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                event = await self.receive()
                while not isinstance(event, Ponged):
                    if isinstance(event, MessageRefused):
                        raise SendRefused(event, self.participant)
                    event = await self.receive()

    async def say(self, text: str, lang: str | None = None) -> None:
        """Send an utterance with the session as we know it."""
        await self.send(self._utterance(text, lang, {}))

    def _utterance(
        self, text: str, lang: str | None, context: dict[str, Any]
    ) -> Message:
        data: dict[str, Any] = {"utterances": [text]}
        if lang:
            data["lang"] = lang
        if self.session:
            context = {**context, "session": self.session}
        return Message(HANDLE, data, context)

    async def ask(
        self, text: str, lang: str | None = None, *, wait_s: float = 60.0
    ) -> Spoken:
        """Say something and return what is spoken until the turn is over.

        After `wait_s` seconds, return what has been spoken so far.
        """
        utterance_id = secrets.token_hex(8)
        self._open = self._utterance(text, lang, {"utterance_id": utterance_id})
        self._was_repeated = False
        collected = _CollectedAnswer(utterance_id)
        try:
            async with asyncio.timeout(wait_s) as limit:
                await self.send(self._open)
                while True:
                    message = await self._next_message(collected)
                    if not collected.owns(message.context):
                        self._put_aside(message)
                    elif message.type != HANDLED:
                        self._collect(message, collected)
                    elif collected.end(message.data, was_repeated=self._was_repeated):
                        break
                    else:
                        # The words may have gone to the lost connection. In that case
                        # a second answer is on its way.
                        now = asyncio.get_running_loop().time()
                        limit.reschedule(now + SECOND_ANSWER_S)
            return Spoken(
                tuple(collected.speech), handled=True, outcome=collected.outcome
            )
        except TimeoutError:
            return Spoken(tuple(collected.speech), collected.has_ended)
        finally:
            self._open = None

    async def _next_message(self, collected: _CollectedAnswer) -> Message:
        """Return the next message; raise `SendRefused` if our question is refused."""
        while True:
            event = await self.receive()
            if isinstance(event, Incoming):
                return event.message
            if isinstance(event, MessageRefused) and collected.owns(event.details):
                raise SendRefused(event, self.participant)

    def _collect(self, message: Message, collected: _CollectedAnswer) -> None:
        if message.type == SPEAK:
            collected.add_speech(message.data, was_repeated=self._was_repeated)
        elif message.type == UNMATCHED:
            collected.outcome = "unmatched"
        else:
            self._put_aside(message)

    def _put_aside(self, message: Message) -> None:
        """Pass on a message that is not part of the answer.

        Answers to an earlier question are dropped, because two bridges may answer the
        same one; answers that come later on purpose are passed on.
        """
        is_answer = message.type in (SPEAK, HANDLED)
        if not is_answer or message.context.get("late") is True:
            self.aside(message)

    async def answer(self, item_id: str, text: str, shown: str | None = None) -> None:
        """Answer a pending item; needs the grant `approve`.

        `shown` is the digest of the question as the person saw it, by default of the
        notice that arrived last.
        """
        digest = self.shown.digest_of(item_id) if shown is None else shown
        await self._send(frames.answer(item_id, text, digest))

    async def receive(self) -> Event:
        """Return the next thing the bridge sent.

        Raise `ConnectionEnded` when there will be nothing more.
        """
        while True:
            try:
                frame = decode_json(await self._conversation.receive())
            except ConnectionEnded as ended:
                await self._come_back(ended)
                continue
            if not isinstance(frame, dict):
                continue
            if frame.get("l2") == "ping":
                await self._send(frames.pong(frame.get("t")))
                continue
            event = self._event(frame)
            if event is not None:
                return event

    def _event(self, frame: dict[str, Any]) -> Event | None:
        """Return what a frame says, None if we cannot read it."""
        kind = frame.get("l2")
        if kind == "msg":
            read = read_value(frame.get("m"))
            if not isinstance(read, Accepted):
                return None
            self._adopt(read.message)
            return Incoming(read.message, frames.bridges_crossed(frame.get("hops")))
        if kind == "err":
            details = {
                key: value for key, value in frame.items() if key not in ("l2", "code")
            }
            return MessageRefused(str(frame.get("code")), details)
        if kind == "answered":
            return ItemAnswered(
                str(frame.get("id")),
                frame.get("ok") is True,
                str(frame.get("message")),
                self._noticed(frame.get("notice")),
            )
        return Ponged() if kind == "pong" else None

    def _noticed(self, data: object) -> Notice | None:
        """Return a notice and remember that its question was shown."""
        try:
            notice = msgspec.convert(data, Notice)
        except msgspec.ValidationError:
            return None
        self.shown.show(notice)
        return notice

    def _adopt(self, message: Message) -> None:
        if message.type == NOTICE:
            self._noticed(message.data)
        elif message.type == SPEAK:
            self.shown.speak()
        session = message.context.get("session")
        if message.type == HANDLED and isinstance(session, dict):
            self.session = session

    async def close(self, *, goodbye: bool = True) -> None:
        """Disconnect; after a goodbye the bridge does not wait for us to come back."""
        self._reconnects = False
        is_open = self._conversation.ended is None and self._conversation.is_writable
        if goodbye and is_open:
            await self._conversation.send(frames.bye("leaving"))
        await self._conversation.close()


def waits() -> Iterator[float]:
    """Yield how long to wait before each attempt to reconnect.

    Waits grow, and are random, so that not everybody returns at the same moment.
    """
    wait_s = FIRST_WAIT_S
    while True:
        yield wait_s * (0.5 + secrets.randbelow(1000) / 1000)
        wait_s = min(2 * wait_s, LONGEST_WAIT_S)


def _disregard(_what: object) -> None:
    pass


async def _enter_any(
    targets: list[Target], join: JoinFile, claimed_id: str | None
) -> tuple[ClientConversation, str]:
    """Return what `_enter` returns for the first address that admits us.

    If none does, raise the first refusal, or else the last problem.
    """
    problem: BridgeheadError | None = None
    for target in targets:
        try:
            return await _enter(target, join, claimed_id)
        except BridgeheadError as error:
            if not isinstance(problem, NotAdmitted):
                problem = error
    assert problem is not None
    raise problem


async def _enter(
    target: Target, join: JoinFile, claimed_id: str | None
) -> tuple[ClientConversation, str]:
    """Return a conversation with the bridge at this address, and our source there."""
    conversation = ClientConversation()
    try:
        await dial(target, conversation)
    except DialRefused as refused:
        if refused.status in (401, 403):
            raise NotAdmitted(join.participant, f"HTTP {refused.status}") from refused
        raise
    try:
        return conversation, await _shake_hands(conversation, join, claimed_id)
    except BaseException:
        conversation.peer.abort()
        raise


async def _shake_hands(
    conversation: ClientConversation, join: JoinFile, claimed_id: str | None
) -> str:
    """Answer the challenge if there is one, and return the source we were given.

    Raise if a bridge that should have our key does not prove it.
    """
    key = from_base64(join.key) if join.key is not None else None
    challenge: Challenge | None = None
    try:
        frame = _frame(await conversation.receive())
        if frame.get("l2") == "challenge":
            if key is None:
                raise NotAdmitted(
                    join.participant, "it asks for a key, and the join file has a token"
                )
            challenge = _challenge(conversation, join, frame)
            mac = challenge.client_mac(key)
            await conversation.send(
                frames.auth(join.participant, challenge.client_nonce, mac, claimed_id)
            )
            frame = _frame(await conversation.receive())
    except ConnectionEnded as ended:
        is_final = ended.code in SENT_AWAY
        raise NotAdmitted(
            join.participant, ended.reason or str(ended.code), is_final=is_final
        ) from ended
    source = frame.get("source")
    if frame.get("l2") != "welcome" or not isinstance(source, str):
        raise NotAdmitted(join.participant, str(frame.get("code", "no welcome")))
    if key is not None and not _is_proof(from_base64(frame.get("mac")), challenge, key):
        raise NotOurBridge("it did not prove that it has our key")
    return source


def _challenge(
    conversation: ClientConversation, join: JoinFile, frame: dict[str, Any]
) -> Challenge:
    nonce = from_base64(frame.get("nonce"), NONCE_BYTES)
    if nonce is None:
        raise NotOurBridge("its challenge has no nonce")
    binding = certificate_binding(conversation.peer.certificate)
    return Challenge(join.participant, nonce, secrets.token_bytes(NONCE_BYTES), binding)


def _is_proof(mac: bytes | None, challenge: Challenge | None, key: bytes) -> bool:
    """Return whether this answer to the challenge was made with our key."""
    if challenge is None or not mac:
        return False
    return hmac.compare_digest(challenge.server_mac(key), mac)


def _frame(payload: bytes) -> dict[str, Any]:
    frame = decode_json(payload)
    if not isinstance(frame, dict):
        raise NotOurBridge("it does not support bridgehead.v1")
    return frame


class NotAdmitted(BridgeheadError):
    """The bridge does not let this participant in."""

    def __init__(self, participant: str, cause: str, *, is_final: bool = True) -> None:
        self.is_final = is_final
        renew = (
            "the credential may be revoked or expired; create a new one with "
            "`bridgehead bus participant add`"
        )
        rename = (
            "enrol the device under another name with `bridgehead bus participant add`"
        )
        hint = rename if "in this deployment" in cause else renew
        super().__init__(f"the bridge refused {participant!r}: {cause}", hint=hint)


class NotOurBridge(ProtocolError):
    """The server that answered is not the bridge we were enrolled at."""

    def __init__(self, cause: str) -> None:
        super().__init__(
            f"the server is not the enrolled bridge: {cause}",
            hint="check the url in the join file",
        )


class SendRefused(BridgeheadError):
    """The bridge refused what we sent."""

    def __init__(self, refusal: MessageRefused, participant: str) -> None:
        facts = ", ".join(
            f"{key} {value}"
            for key, value in refusal.details.items()
            if key != "utterance_id"
        )
        allowed = (
            f"`bridgehead bus policy show {participant}` on the bridge's machine "
            "shows what is allowed"
        )
        sentence = f"the bridge refused the message: {refusal.code}"
        if facts:
            sentence += f" ({facts})"
        super().__init__(sentence, hint=REFUSED.get(refusal.code, allowed))
        self.refusal = refusal
