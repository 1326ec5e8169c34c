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
        """Gets a sentence when the connection is lost and when it is there again."""
        self.session: Session = {"session_id": f"cli-{secrets.token_hex(4)}"}
        """A session of our own, so that answers can be told from everybody else's."""

    @classmethod
    async def connect(cls, url: str, *, token: str | None = None) -> Self:
        client = cls(
            Target(url, (("Authorization", f"Bearer {token}"),) if token else ())
        )
        await client._dial()
        return client

    async def _dial(self) -> None:
        conversation = ClientConversation()
        await dial(self._target, conversation)
        self._conversation = conversation

    async def receive_again(self) -> Message:
        """Return the next message, also after a hub that went away has come back."""
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
        """Return the next message; frames that are none are skipped."""
        while True:
            read = read_frame(await self._conversation.receive())
            if not isinstance(read, Malformed):
                return read.message

    async def ask(
        self, text: str, lang: str | None = None, *, wait_s: float = 60.0
    ) -> Spoken:
        """Say something in our own session and collect what is spoken until the round
        is over.
        """
        data: dict[str, Any] = {"utterances": [text]} | ({"lang": lang} if lang else {})
        asked = Message(HANDLE, data, {"source": OPERATOR, "session": self.session})
        try:
            await self.send(asked)
        except ConnectionEnded as ended:
            await self._come_back(ended)
            await self.send(asked)
        said: list[dict[str, Any]] = []
        try:
            async with asyncio.timeout(wait_s):
                while True:
                    message = await self.receive_again()
                    if (
                        context_session_id(message.context)
                        != self.session["session_id"]
                    ):
                        continue
                    if message.type == SPEAK:
                        said.append(message.data)
                    elif message.type == HANDLED:
                        self.session = message.context["session"]
                        return Spoken(tuple(said), handled=True)
        except TimeoutError:
            return Spoken(tuple(said), handled=False)

    async def undelivered(self, wait_s: float = 5.0) -> str | None:
        """Return why the message that was just sent did not reach its participant.

        None if nobody says so.
        """
        # The hub keeps the order: when words of ours have come back, a bridge has
        # answered. The pauses are for NATS.
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                for _ in range(PROBES):
                    await asyncio.sleep(PAUSE_S)
                    probe = Message(
                        PROBE, {"n": secrets.token_hex(8)}, {"source": OPERATOR}
                    )
                    await self.send(probe)
                    while (message := await self.receive()) != probe:
                        if message.type == UNDELIVERED:
                            return str(message.data.get("reason"))
        return None

    async def close(self) -> None:
        await self._conversation.close()
