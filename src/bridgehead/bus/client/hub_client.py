"""A member of a hub: receives everything, may send anything. For tools on the hub's machine, not for participants."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from bridgehead.bus.client.participant import Spoken
from bridgehead.bus.sockets.dial import ClientConversation, Target, dial
from bridgehead.bus.wire.message import Malformed, Message, encode, read_frame
from bridgehead.bus.wire.session import Session, context_session_id
from bridgehead.bus.wire.topics import HANDLE, HANDLED, PROBE, SPEAK, UNDELIVERED


class HubClient:
    """One connection to a hub."""

    def __init__(self, conversation: ClientConversation) -> None:
        self._conversation = conversation
        self.session: Session = {"session_id": f"cli-{secrets.token_hex(4)}"}
        """A session of our own, so that answers can be told from everybody else's."""

    @classmethod
    async def connect(cls, url: str, *, token: str | None = None) -> Self:
        conversation = ClientConversation()
        headers = (("Authorization", f"Bearer {token}"),) if token else ()
        await dial(Target(url, headers), conversation)
        return cls(conversation)

    async def send(self, message: Message) -> None:
        await self._conversation.send(encode(message))

    async def receive(self) -> Message:
        """The next message; frames that are none are skipped."""
        while True:
            read = read_frame(await self._conversation.receive())
            if not isinstance(read, Malformed):
                return read.message

    async def ask(self, text: str, lang: str | None = None, *, wait_s: float = 30.0) -> Spoken:
        """Say something in our own session and collect what is spoken until the round is over."""
        data: dict[str, Any] = {"utterances": [text]} | ({"lang": lang} if lang else {})
        await self.send(Message(HANDLE, data, {"source": "bridgehead-cli", "session": self.session}))
        said: list[dict[str, Any]] = []
        try:
            async with asyncio.timeout(wait_s):
                while True:
                    message = await self.receive()
                    if context_session_id(message.context) != self.session["session_id"]:
                        continue
                    if message.type == SPEAK:
                        said.append(message.data)
                    elif message.type == HANDLED:
                        self.session = message.context["session"]
                        return Spoken(tuple(said), handled=True)
        except TimeoutError:
            return Spoken(tuple(said), handled=False)

    async def undelivered(self, wait_s: float = 5.0) -> str | None:
        """Why the message that was just sent did not reach its participant; None if nobody says so.

        The hub keeps the order: what a bridge on it has to say about the message comes before a word sent after it.
        """
        probe = Message(PROBE, {"n": secrets.token_hex(8)}, {"source": "bridgehead-cli"})
        await self.send(probe)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while (message := await self.receive()) != probe:
                    if message.type == UNDELIVERED:
                        return str(message.data.get("reason"))
        return None

    async def close(self) -> None:
        await self._conversation.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
