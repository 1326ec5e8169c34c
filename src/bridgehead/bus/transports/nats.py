"""A fabric of many hubs over core NATS (bus §13): at most once, in order for each publisher, nothing kept.

A bridge publishes what its participants say and subscribes to what is addressed to them, so the traffic of others
never reaches it. What it publishes it also receives itself, as it would from a hub.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from bridgehead.bus.transports.base import Audience, HubListener
from bridgehead.bus.transports.nats_client import Follower, Publisher, Subjects, close_nats, open_nats
from bridgehead.bus.wire.message import Malformed, Message, encode, read_frame

if TYPE_CHECKING:
    from nats.aio.client import Client


class NatsTransport:
    """A bridge's place in the fabric."""

    scheme: ClassVar[str] = "nats"

    def __init__(self, url: str, deployment: str) -> None:
        self._url = url
        self._subjects = Subjects(deployment)
        self._client: Client | None = None
        self._publisher: Publisher | None = None
        self._follower: Follower | None = None
        self._listener: HubListener | None = None
        self._audience: Audience | None = None

    async def connect(self, listener: HubListener) -> None:
        self._client = await open_nats(self._url, self._lost, name="bridgehead bridge")
        self._listener = listener
        self._publisher = Publisher(self._client)
        self._follower = Follower(self._client, self._subjects, self._received)
        self._follower.expect(self._audience)
        await self._follower.begin(self._url)

    def send(self, message: Message) -> bool:
        if self._publisher is None or self._listener is None:
            return False
        source = message.context.get("source")
        subject = self._subjects.said_by(source if isinstance(source, str) else "")
        if not self._publisher.put(subject, encode(message)):
            return False
        asyncio.get_running_loop().call_soon(self._listener.received, message)
        return True

    def expect(self, audience: Audience) -> None:
        self._audience = audience
        if self._follower is not None:
            self._follower.expect(audience)

    async def close(self) -> None:
        self._listener = None
        self._stop()
        await close_nats(self._client)

    def _received(self, frame: bytes) -> None:
        if self._listener is None:
            return
        read = read_frame(frame)
        if isinstance(read, Malformed):
            self._listener.ignored("malformed")
        else:
            self._listener.received(read.message)

    def _lost(self, reason: str) -> None:
        self._stop()
        if self._listener is not None:
            listener, self._listener = self._listener, None
            listener.lost(reason)

    def _stop(self) -> None:
        for part in (self._follower, self._publisher):
            if part is not None:
                part.stop()
        self._follower = self._publisher = None
