"""A hub's place in the fabric (bus §13): takes what participants anywhere say, and
sends answers where they belong.

Several hubs of one deployment share the work: each message of a participant goes to one
of them.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from bridgehead.bus.hub.hub import Hub
from bridgehead.bus.hub.reconnect import HubLink
from bridgehead.bus.transports.base import Audience
from bridgehead.bus.transports.nats import HUB_BEAT_S
from bridgehead.bus.transports.nats_client import (
    Follower,
    Publisher,
    Subjects,
    close_nats,
    open_nats,
    untoken,
)
from bridgehead.bus.transports.nats_registry import NatsRegistry
from bridgehead.bus.wire.message import (
    Malformed,
    Message,
    destinations,
    encode,
    read_frame,
)
from bridgehead.bus.wire.session import DEFAULT, context_session_id
from bridgehead.bus.wire.topics import HANDLE, HANDLED, SPEAK, UNDELIVERED

if TYPE_CHECKING:
    from nats.aio.client import Client

    from bridgehead.bus.transports.nats_client import NatsAccess

QUEUE: Final = "hubs"
MOST_TURNS: Final = 1000


class Fabric:
    """Carries messages between one embedded hub and the bridges of its deployment."""

    def __init__(
        self,
        hub: Hub,
        access: NatsAccess,
        deployment: str,
        registry: NatsRegistry,
        group_topics: Iterable[str],
    ) -> None:
        self._hub = hub
        self._access = access
        self._name = secrets.token_hex(8)
        self._open: deque[tuple[tuple[str, object], str]] = deque(maxlen=MOST_TURNS)
        """Questions taken from bridges that have no end yet, and where their bridge is
        told what became of them.
        """
        self._ended: deque[str] = deque(maxlen=MOST_TURNS)
        """The same of those that ended: of a lost link nobody knows what the server
        still passed on.
        """
        self._taking: Any = None
        self._beating: asyncio.Task[None] | None = None
        self._subjects = Subjects(deployment)
        self._registry = registry
        self._group_topics = frozenset(group_topics)
        self._client: Client | None = None
        self._publisher: Publisher | None = None
        self._follower: Follower | None = None
        self._audience: Audience | None = None
        self._listener_token: object | None = None

    async def connect(self, listener: HubLink) -> None:
        """Join the fabric; called by the link that keeps it up."""
        unsure = len(self._ended)
        self._client = await open_nats(
            self._access, listener.lost, name="bridgehead hub"
        )
        self._publisher = Publisher(self._client)
        self._follower = Follower(self._client, self._subjects, self._take)
        self._follower.expect(self._audience)
        await self._follower.begin(self._access)
        self._beating = asyncio.get_running_loop().create_task(
            self._beat(self._publisher)
        )
        self._taking = await self._client.subscribe(
            self._subjects.said_by_anybody, queue=QUEUE, cb=self._from_participant
        )
        await self._client.subscribe(self._subjects.reports, cb=self._from_participant)
        await self._client.subscribe(
            self._subjects.taken(self._name, "*"), cb=self._unheard
        )
        await self._client.flush()  # the server knows of us when the link counts as up
        self._registry.reaches_others = True
        for _ in range(unsure):
            # Means nothing to a bridge that has heard the end.
            self._publisher.put(self._ended.popleft(), b"")
        if self._listener_token is None:
            self._listener_token = self._hub.listen(self._received, echo=False)

    async def _beat(self, publisher: Publisher) -> None:
        """Say that this hub is there, so that bridges notice when it is not."""
        while True:
            publisher.put(self._subjects.hubs, self._name.encode())
            await asyncio.sleep(HUB_BEAT_S)

    async def drain(self, wait_s: float = 10.0) -> None:
        """Take nothing more, and answer what was taken.

        Other hubs have the work from now on.
        """
        from nats.errors import Error

        if self._taking is None:
            return
        # Without a link there is nothing to take, and nobody to answer.
        with suppress(Error, OSError, TimeoutError):
            async with asyncio.timeout(wait_s):
                # What the server has sent us already is ours to answer.
                await self._taking.drain()
                while self._open:
                    await asyncio.sleep(0.02)

    async def close(self) -> None:
        self._registry.reaches_others = False
        if self._beating is not None:
            self._beating.cancel()
        for part in (self._publisher, self._follower):
            if part is not None:
                part.stop()
        await close_nats(self._client)

    def expect(self, audience: Audience) -> None:
        """Follow whom the bridge serves.

        What other hubs have for them is put on this one.
        """
        self._audience = audience
        if self._follower is not None:
            self._follower.expect(audience)

    async def _from_participant(self, delivered: Any) -> None:
        """Take what a participant or a bridge said.

        Whoever waits for an answer learns that we have it.
        """
        if delivered.reply and self._publisher is not None:
            self._publisher.put(delivered.reply, self._name.encode())
        self._take(delivered.data, delivered.reply)

    def _take(self, frame: bytes, reply: str = "") -> None:
        read = read_frame(frame)
        if isinstance(read, Malformed):
            return
        if reply and read.message.type == HANDLE:
            self._open.append((_turn(read.message), reply))
        self._hub.publish(read.message, self._listener_token)

    def _received(self, message: Message) -> None:
        """Send what the hub carried to the bridges whose participants it is for."""
        publisher = self._publisher
        follower = self._follower
        if publisher is None or follower is None:
            return
        if message.type == HANDLED:
            self._end_turns(_turn(message))
        for subject in self._addressed(message):
            name = subject.rpartition(".")[2]
            is_elsewhere = (
                self._registry.reaches_others
                and message.type == SPEAK
                and subject not in follower.followed
            )
            reply = self._subjects.taken(self._name, name) if is_elsewhere else ""
            was_sent = publisher.put(subject, encode(message), reply)
            if is_elsewhere and not was_sent:
                # Not before the bridge here has seen it too, which must not report it
                # again.
                asyncio.get_running_loop().call_soon(
                    self._registry.not_there, untoken(name)
                )

    def _end_turns(self, turn: tuple[str, object]) -> None:
        """Close what an end marker ends: without an utterance id the oldest turn."""
        over = [entry for entry in self._open if entry[0] == turn]
        _session, utterance_id = turn
        if not utterance_id:
            over = over[:1]
        for entry in over:
            self._open.remove(entry)
            self._ended.append(entry[1])

    async def _unheard(self, delivered: Any) -> None:
        """Report speech for a participant that no bridge follows."""
        self._registry.not_there(untoken(delivered.subject.rpartition(".")[2]))

    def _addressed(self, message: Message) -> list[str]:
        """Return the subjects of the participants that a message is for."""
        if message.type == UNDELIVERED:
            return [self._subjects.reports]
        named = destinations(message.context)
        if named:
            return [self._subjects.for_source(name) for name in dict.fromkeys(named)]
        subjects = []
        source = self._owner_of_session(context_session_id(message.context))
        if source is not None:
            subjects.append(self._subjects.for_source(source))
        carried = message.context.get("session")
        site = carried.get("site_id") if isinstance(carried, dict) else None
        if isinstance(site, str) and site and message.type in self._group_topics:
            subjects.append(self._subjects.for_site(site))
        return subjects

    def _owner_of_session(self, session: str) -> str | None:
        """Return the source of the participant that a session belongs to."""
        if session == DEFAULT:
            return None
        owner = self._registry.sessions.get(session)
        if owner is None:
            return None
        return self._registry.sources.get(owner.participant)


def _turn(message: Message) -> tuple[str, object]:
    return context_session_id(message.context), message.context.get("utterance_id")
