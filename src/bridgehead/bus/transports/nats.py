"""A fabric of many hubs over core NATS (bus §13).

Messages are delivered at most once, in order for each publisher, and not stored. A
bridge publishes what its participants say and subscribes to what is addressed to them,
so the traffic of others never reaches it. It also receives what it publishes itself,
as it would from a hub.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from typing import TYPE_CHECKING, Any, Final

import msgspec

from bridgehead.bus.transports.base import Audience, HubListener
from bridgehead.bus.transports.nats_client import (
    Follower,
    NatsAccess,
    Publisher,
    Subjects,
    close_nats,
    open_nats,
)
from bridgehead.bus.wire.message import Malformed, Message, encode, read_frame
from bridgehead.bus.wire.session import context_session_id
from bridgehead.bus.wire.topics import HANDLE, HANDLED, UNDELIVERED

if TYPE_CHECKING:
    from nats.aio.client import Client


HUB_BEAT_S: Final = 1.0
HUB_SILENT_S: Final = 4.0
"""A hub that is silent for so long is gone, and with it the questions it had taken."""
TURN_S: Final = 120.0


class _Turn(msgspec.Struct):
    message: Message
    at: float
    hub: str | None = None


class OpenTurns:
    """Tracks which hub has taken each question, and which are lost with their hub.

    Does no I/O.
    """

    def __init__(self) -> None:
        self._number = 0
        self._open: dict[int, _Turn] = {}
        self._seen: dict[str, float] = {}

    def asked(self, message: Message, now: float) -> int:
        self._number += 1
        self._open[self._number] = _Turn(message, now)
        return self._number

    def taken(self, number: int, hub: str | None) -> list[Message]:
        """Note which hub took a question; return it as lost if there is no hub."""
        if number not in self._open:
            return []
        if hub is None:
            return [self._open.pop(number).message]
        self._open[number].hub = hub
        return []

    def seen(self, hub: str, now: float, *, leaves: bool = False) -> None:
        self._seen[hub] = -math.inf if leaves else now

    def ended(self, handled: Message) -> None:
        """Close the question an end marker names, else the oldest of its session."""
        session = context_session_id(handled.context)
        utterance_id = handled.context.get("utterance_id")
        in_session = [
            number
            for number, turn in self._open.items()
            if context_session_id(turn.message.context) == session
        ]
        if not in_session:
            return
        for number in in_session:
            if self._open[number].message.context.get("utterance_id") == utterance_id:
                del self._open[number]
                return
        oldest = in_session[0]
        del self._open[oldest]

    def lost(self, now: float) -> list[Message]:
        """Return and drop questions whose hub is gone or that no hub took in time."""
        self._seen = {
            hub: at for hub, at in self._seen.items() if now - at < HUB_SILENT_S
        }
        self._open = {
            number: turn
            for number, turn in self._open.items()
            if now - turn.at < TURN_S
        }
        lost = [
            number
            for number, turn in self._open.items()
            if turn.hub not in self._seen and now - turn.at >= HUB_SILENT_S
        ]
        return [self._open.pop(number).message for number in lost]


class NatsTransport:
    """Connects a bridge to the fabric."""

    def __init__(self, access: NatsAccess, deployment: str) -> None:
        self._access = access
        self._subjects = Subjects(deployment)
        self._turns = OpenTurns()
        self._watching: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._publisher: Publisher | None = None
        self._follower: Follower | None = None
        self._listener: HubListener | None = None
        self._audience: Audience | None = None

    async def connect(self, listener: HubListener) -> None:
        self._client = await open_nats(
            self._access, self._lost, name="bridgehead bridge"
        )
        self._turns = OpenTurns()
        # A new name, so that replies to earlier questions are not taken for these.
        self._name = secrets.token_hex(8)
        await self._client.subscribe(
            self._subjects.taken(self._name, "*"), cb=self._taken
        )
        await self._client.subscribe(self._subjects.hubs, cb=self._hub_is_there)
        self._watching = asyncio.get_running_loop().create_task(self._watch())
        self._listener = listener
        self._publisher = Publisher(self._client)
        self._follower = Follower(self._client, self._subjects, self._received)
        self._follower.expect(self._audience)
        await self._follower.begin(self._access)

    def send(self, message: Message, echo: bool = True) -> bool:
        if self._publisher is None or self._listener is None:
            return False
        source = message.context.get("source")
        subject = self._subjects.said_by(source if isinstance(source, str) else "")
        reply = ""
        if message.type == UNDELIVERED:
            subject = self._subjects.reports  # the speaker may be at any hub
        if message.type == HANDLE:
            number = self._turns.asked(message, asyncio.get_running_loop().time())
            reply = self._subjects.taken(self._name, number)
        if not self._publisher.put(subject, encode(message), reply):
            return False
        if echo:
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
            return
        if read.message.type == HANDLED:
            self._turns.ended(read.message)
        self._listener.received(read.message)

    async def _taken(self, delivered: Any) -> None:
        """Note that a hub has taken our question.

        An empty reply means that the answer is lost: there is no hub, or it had no link
        when it answered.
        """
        number = int(delivered.subject.rpartition(".")[2])
        self._report(self._turns.taken(number, delivered.data.decode() or None))

    async def _hub_is_there(self, delivered: Any) -> None:
        hub, _, leaves = delivered.data.decode().partition(" ")
        self._turns.seen(hub, asyncio.get_running_loop().time(), leaves=bool(leaves))

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(HUB_BEAT_S)
            self._report(self._turns.lost(asyncio.get_running_loop().time()))

    def _report(self, lost: list[Message]) -> None:
        for message in lost:
            if self._listener is not None:
                self._listener.turn_lost(message)

    def _lost(self, reason: str) -> None:
        self._stop()
        if self._listener is not None:
            listener = self._listener
            self._listener = None
            listener.lost(reason)

    def _stop(self) -> None:
        for part in (self._follower, self._publisher):
            if part is not None:
                part.stop()
        if self._watching is not None:
            self._watching.cancel()
        self._follower = self._publisher = None
