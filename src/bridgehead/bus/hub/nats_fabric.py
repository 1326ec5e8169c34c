"""Connect a hub to the fabric (bus §13).

The hub takes what participants at any bridge say, and sends the answers back to them.
Several hubs of one deployment share the work: each message of a participant goes to
one of them.
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
        """Turns taken from bridges that have not ended, each with the subject on which
        its bridge hears of it.
        """
        self._ended: deque[str] = deque(maxlen=MOST_TURNS)
        """The subjects of turns that ended. When a link is lost, nobody knows which of
        the answers the server still passed on.
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
        """Join the fabric."""
        unconfirmed = len(self._ended)
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
        # The link counts as up only when the server knows of our subscriptions.
        await self._client.flush()
        self._registry.reaches_others = True
        for _ in range(unconfirmed):
            # A bridge that has received the end of the turn ignores this.
            self._publisher.put(self._ended.popleft(), b"")
        if self._listener_token is None:
            self._listener_token = self._hub.listen(self._received, echo=False)

    async def _beat(self, publisher: Publisher) -> None:
        """Keep announcing this hub, so that bridges notice when it is gone."""
        while True:
            publisher.put(self._subjects.hubs, self._name.encode())
            await asyncio.sleep(HUB_BEAT_S)

    async def drain(self, wait_s: float = 10.0) -> None:
        """Take no more questions and wait until those taken are answered.

        Other hubs take the work from now on.
        """
        from nats.errors import Error

        if self._taking is None:
            return
        # Errors do not matter: without a link there is nobody to answer.
        with suppress(Error, OSError, TimeoutError):
            async with asyncio.timeout(wait_s):
                # Draining takes what the server has already sent us.
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
        """Subscribe for those the bridge serves.

        What other hubs have for them is put on this one.
        """
        self._audience = audience
        if self._follower is not None:
            self._follower.expect(audience)

    async def _from_participant(self, delivered: Any) -> None:
        """Take a message of a participant or a bridge.

        If it asks for a reply, say that we have it.
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
                # Later, because our own bridge must see the message first; otherwise
                # it would report it, too.
                asyncio.get_running_loop().call_soon(
                    self._registry.not_there, untoken(name)
                )

    def _end_turns(self, turn: tuple[str, object]) -> None:
        """Close the turns an end marker ends; without an utterance id, the oldest."""
        ended = [entry for entry in self._open if entry[0] == turn]
        _session, utterance_id = turn
        if not utterance_id:
            ended = ended[:1]
        for entry in ended:
            self._open.remove(entry)
            _turn_ended, reply = entry
            self._ended.append(reply)

    async def _unheard(self, delivered: Any) -> None:
        """Report speech for a participant that no bridge follows."""
        self._registry.not_there(untoken(delivered.subject.rpartition(".")[2]))

    def _addressed(self, message: Message) -> list[str]:
        """Return the subjects of the participants that a message is for."""
        if message.type == UNDELIVERED:
            return [self._subjects.reports]
        names = destinations(message.context)
        if names:
            return [self._subjects.for_source(name) for name in dict.fromkeys(names)]
        subjects = []
        source = self._owner_of_session(context_session_id(message.context))
        if source is not None:
            subjects.append(self._subjects.for_source(source))
        session = message.context.get("session")
        site = session.get("site_id") if isinstance(session, dict) else None
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
