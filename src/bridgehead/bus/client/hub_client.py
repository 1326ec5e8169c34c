"""A member of a hub: receives everything, may send anything.

For tools on the hub's machine, not for participants.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from bridgehead.bus.client.participant import Spoken, waits
from bridgehead.bus.sockets.dial import (
    ClientConversation,
    Closing,
    ConnectionEnded,
    Target,
    Unreachable,
    dial,
)
from bridgehead.bus.wire.message import Malformed, Message, encode, read_frame
from bridgehead.bus.wire.session import Session, context_session_id
from bridgehead.bus.wire.topics import (
    HANDLE,
    HANDLED,
    OPERATOR,
    PROBE,
    SPEAK,
    UNDELIVERED,
)

PROBES = 4
PAUSE_S = 0.05


class HubClient(Closing):
    """One connection to a hub."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._conversation: ClientConversation
        self.report: Callable[[str], None] = lambda _sentence: None
        """Called with a sentence when the connection is lost and when it is back."""
        self.session: Session = {"session_id": f"cli-{secrets.token_hex(4)}"}
        """Our own session, by which we recognise answers to us."""

    @classmethod
    async def connect(cls, url: str, *, token: str | None = None) -> Self:
        headers = (("Authorization", f"Bearer {token}"),) if token else ()
        client = cls(Target(url, headers))
        await client._dial()
        return client

    async def _dial(self) -> None:
        conversation = ClientConversation()
        await dial(self._target, conversation)
        self._conversation = conversation

    async def receive_again(self) -> Message:
        """Return the next message; reconnect if the hub went away."""
        while True:
            try:
                return await self.receive()
            except ConnectionEnded as ended:
                await self._come_back(ended)

    async def _come_back(self, ended: ConnectionEnded) -> None:
        self.report(f"{ended.message}; trying again")
        for wait_s in waits():
            await asyncio.sleep(wait_s)
            with suppress(Unreachable):
                await self._dial()
                break
        self.report("connected again")

    async def send(self, message: Message) -> None:
        await self._conversation.send(encode(message))

    async def receive(self) -> Message:
        """Return the next message; skip frames that are not messages."""
        while True:
            read = read_frame(await self._conversation.receive())
            if not isinstance(read, Malformed):
                return read.message

    async def ask(
        self, text: str, lang: str | None = None, *, wait_s: float = 60.0
    ) -> Spoken:
        """Say something in our own session and return what is spoken until the turn is
        over.
        """
        data: dict[str, Any] = {"utterances": [text]}
        if lang:
            data["lang"] = lang
        question = Message(HANDLE, data, {"source": OPERATOR, "session": self.session})
        try:
            await self.send(question)
        except ConnectionEnded as ended:
            await self._come_back(ended)
            await self.send(question)
        speech: list[dict[str, Any]] = []
        try:
            async with asyncio.timeout(wait_s):
                while True:
                    message = await self.receive_again()
                    session_id = context_session_id(message.context)
                    if session_id != self.session["session_id"]:
                        continue
                    if message.type == SPEAK:
                        speech.append(message.data)
                    elif message.type == HANDLED:
                        self.session = message.context["session"]
                        return Spoken(tuple(speech), handled=True)
        except TimeoutError:
            return Spoken(tuple(speech), handled=False)

    async def undelivered(self, wait_s: float = 5.0) -> str | None:
        """Return why the message that was just sent did not reach its participant.

        Return None if no bridge reports that.
        """
        # The hub keeps the order, so when our probe comes back, a bridge has had its
        # say. The pauses are for NATS.
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                for _ in range(PROBES):
                    await asyncio.sleep(PAUSE_S)
                    reason = await self._reason_before_probe()
                    if reason is not None:
                        return reason
        return None

    async def _reason_before_probe(self) -> str | None:
        """Send a probe; return the reason of a report that comes before its echo."""
        probe = Message(PROBE, {"n": secrets.token_hex(8)}, {"source": OPERATOR})
        await self.send(probe)
        message = await self.receive()
        while message != probe:
            if message.type == UNDELIVERED:
                return str(message.data.get("reason"))
            message = await self.receive()
        return None

    async def close(self) -> None:
        await self._conversation.close()
