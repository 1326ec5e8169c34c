"""A hub's place in the fabric (bus §13): takes what participants anywhere say, and sends answers where they belong.

Several hubs of one deployment share the work: each message of a participant goes to one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from bridgehead.bus.hub.hub import Hub
from bridgehead.bus.hub.reconnect import HubLink, LinkListener
from bridgehead.bus.transports.base import Audience
from bridgehead.bus.transports.nats_client import Follower, Publisher, Subjects, close_nats, open_nats
from bridgehead.bus.transports.nats_registry import NatsRegistry
from bridgehead.bus.wire.message import Malformed, Message, destinations, encode, read_frame
from bridgehead.bus.wire.session import DEFAULT, context_session_id

if TYPE_CHECKING:
    from nats.aio.client import Client

QUEUE: Final = "hubs"


class Fabric:
    """Carries messages between one embedded hub and the bridges of its deployment."""

    def __init__(
        self, hub: Hub, url: str, deployment: str, registry: NatsRegistry, group_topics: Iterable[str]
    ) -> None:
        self._hub = hub
        self._url = url
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
        self._client = await open_nats(self._url, listener.lost, name="bridgehead hub")
        self._publisher = Publisher(self._client)
        self._follower = Follower(self._client, self._subjects, self._take)
        self._follower.expect(self._audience)
        await self._follower.begin(self._url)
        await self._client.subscribe(self._subjects.said_by_anybody, queue=QUEUE, cb=self._from_participant)
        if self._listener_token is None:
            self._listener_token = self._hub.listen(self._received, echo=False)

    async def close(self) -> None:
        if self._listener_token is not None:
            self._hub.stop_listening(self._listener_token)
            self._listener_token = None
        for part in (self._publisher, self._follower):
            if part is not None:
                part.stop()
        await close_nats(self._client)

    def expect(self, audience: Audience) -> None:
        """Whom the bridge on this hub serves; what other hubs have for them is put on this one."""
        self._audience = audience
        if self._follower is not None:
            self._follower.expect(audience)

    async def _from_participant(self, delivered: Any) -> None:
        """A participant somewhere said something."""
        self._take(delivered.data)

    def _take(self, frame: bytes) -> None:
        read = read_frame(frame)
        if not isinstance(read, Malformed):
            self._hub.publish(read.message, self._listener_token)

    def _received(self, message: Message) -> None:
        """The hub carried something; send it to the bridges whose participants it is for."""
        publisher = self._publisher
        if publisher is None:
            return
        for subject in self._addressed(message):
            publisher.put(subject, encode(message))

    def _addressed(self, message: Message) -> list[str]:
        named = destinations(message.context)
        if named:
            return [self._subjects.for_source(name) for name in dict.fromkeys(named)]
        subjects = []
        session = context_session_id(message.context)
        owner = self._registry.sessions.get(session) if session != DEFAULT else None
        if owner is not None and (source := self._registry.sources.get(owner.participant)) is not None:
            subjects.append(self._subjects.for_source(source))
        carried = message.context.get("session")
        site = carried.get("site_id") if isinstance(carried, dict) else None
        if isinstance(site, str) and site and message.type in self._group_topics:
            subjects.append(self._subjects.for_site(site))
        return subjects


class _NoListener:
    """The fabric passes messages to the hub itself, so its link needs no listener."""

    def received(self, message: Message) -> None:
        pass

    def ignored(self, reason: str) -> None:
        pass

    def opened(self) -> None:
        pass

    def lost(self, reason: str) -> None:
        pass


def keep_up(fabric: Fabric, announce: Any) -> HubLink:
    """The link that keeps a fabric connected."""
    nobody: LinkListener = _NoListener()
    return HubLink(fabric, nobody, announce)
