"""The embedded hub (bus §12): does what ovos-messagebus does, but checks what comes in
and has limits.

Bus clients can use it unmodified: same path, same greeting, every frame verbatim to
everybody including its sender. Frames that would crash those clients are dropped on
the way in. What is published in one turn of the event loop goes to each member in one
write.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from bridgehead.bus.sockets.base import (
    NOT_FOUND,
    Answer,
    Heartbeat,
    Peer,
    Request,
    Site,
    Upgrade,
    WatchedConversation,
    text_frame,
)
from bridgehead.bus.sockets.origin import UserOf, own_names, refusal, user_behind, whose
from bridgehead.bus.transports.base import Audience, HubListener
from bridgehead.bus.wire.message import (
    HUB_GREETING,
    HUB_PATH,
    Malformed,
    Message,
    encode,
    has_malformed_carrier,
    read_frame,
    session_rejected,
)
from bridgehead.bus.wire.topics import SUBSCRIBE, BadTopicPattern, TopicPatterns

_log: Final = logging.getLogger("bridgehead.bus.hub")

GOING_AWAY: Final = 1001
MIB: Final = 1024 * 1024

NOT_YOURS: Final = Answer(
    401,
    b"this hub is for the user it runs as; set hub_token in [bus] to let others in by "
    b"token\n",
    headers=(("WWW-Authenticate", "Bearer"),),
)

NO_TOKEN: Final = Answer(
    401, b"a token is needed\n", headers=(("WWW-Authenticate", "Bearer"),)
)

OnMessage = Callable[[Message], None]


class HubSettings(msgspec.Struct, frozen=True):
    """How the embedded hub treats its members."""

    max_frame_bytes: int = 25 * MIB
    max_unsent_bytes: int = 32 * MIB
    token: str | None = None
    """The token every member must send.

    None admits the user the hub runs as, and no other user of this machine.
    """
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    ping_s: float = 30.0
    silence_s: float = 90.0


class _Published(msgspec.Struct, frozen=True):
    frame: bytes | None
    """The frame as a member sent it.

    None for a message of this process, which is encoded only if there are members.
    """
    message: Message
    sender: object


class Hub(Site):
    """Sends every message to everybody, in the same order."""

    def __init__(
        self, settings: HubSettings | None = None, *, user_of: UserOf = user_behind
    ) -> None:
        self.settings = settings or HubSettings()
        self._user_of = user_of
        self.counts: Counter[str] = Counter()
        self.published = 0
        self._names = own_names(socket.gethostname(), self.settings.hosts)
        self._members: dict[HubMember, None] = {}
        self.members: Final = self._members.__len__
        """Returns how many are connected, without listeners inside this process."""
        self._listeners: dict[object, OnMessage] = {}
        self._everybody: tuple[OnMessage, ...] = ()
        self._others: dict[object, tuple[OnMessage, ...]] = {}
        """For each listener that does not get its own messages, by its token: the
        others.
        """
        self._pending: deque[tuple[Message, object]] = deque()
        self._unsent: list[_Published] = []
        self._notifying = False
        self._flush_due = False
        self._heartbeat = Heartbeat(
            ping_s=self.settings.ping_s, silence_s=self.settings.silence_s
        )

    # -- Site -----------------------------------------------------------------

    def upgrade(self, request: Request) -> Upgrade | Answer:
        if request.path != HUB_PATH:
            return NOT_FOUND
        # Bus clients send the address they dialled as their origin, so our own origin
        # is admitted.
        turned_away = refusal(
            request.headers,
            names=self._names,
            listed=self.settings.origins,
            same_origin=True,
            secure=request.secure,
        )
        if turned_away is not None:
            self.counts["refused_origin"] += 1
            return turned_away
        refused = self._refusal(request)
        if refused is not None:
            return refused
        wants_echo = request.headers.get("x-bridgehead-no-echo") != "1"
        return Upgrade(
            HubMember(self, request.address, wants_echo), self.settings.max_frame_bytes
        )

    def _refusal(self, request: Request) -> Answer | None:
        """Return the answer to a client that may not use this hub, else None."""
        token = self.settings.token
        if token is None:
            if whose(request, self._user_of) != "own":
                self.counts["refused_user"] += 1
                return NOT_YOURS
            return None
        shown = request.headers.get("authorization", "")
        if not hmac.compare_digest(shown.encode(), f"Bearer {token}".encode()):
            self.counts["refused_token"] += 1
            return NO_TOKEN
        return None

    async def respond(self, request: Request) -> Answer:
        if request.path == HUB_PATH:
            return Answer(400, b'Can "Upgrade" only to "WebSocket".\n')
        return NOT_FOUND

    # -- members --------------------------------------------------------------

    def joined(self, member: HubMember) -> None:
        self._members[member] = None
        self._heartbeat.watch(member)

    def left(self, member: HubMember) -> None:
        self._members.pop(member, None)
        self._heartbeat.forget(member)

    def listen(self, listener: OnMessage, *, echo: bool = True) -> object:
        """Call a listener in this process with every message.

        The returned token identifies it as the sender when it publishes.
        """
        token = object()
        self._listeners[token] = listener
        self._arrange(self._others if echo else (*self._others, token))
        return token

    def stop_listening(self, token: object) -> None:
        self._listeners.pop(token, None)
        self._arrange(other for other in self._others if other is not token)

    def _arrange(self, without_echo: Iterable[object]) -> None:
        self._everybody = tuple(self._listeners.values())
        self._others = {token: self._all_but(token) for token in without_echo}

    def _all_but(self, excluded: object) -> tuple[OnMessage, ...]:
        return tuple(
            listener
            for token, listener in self._listeners.items()
            if token is not excluded
        )

    def take(self, frame: bytes, sender: HubMember) -> None:
        """Check a member's frame before anybody else sees it (bus §1.1)."""
        read = read_frame(frame)
        if isinstance(read, Malformed):
            self._drop(read.reason, sender)
            return
        if read.warnings:
            _log.info(
                "a frame from %s was accepted with %s",
                sender.address,
                ", ".join(read.warnings),
            )
        message = read.message
        if has_malformed_carrier(message):
            self._drop("malformed_carrier", sender)
            self.publish(session_rejected(message))
        elif message.type == SUBSCRIBE:
            sender.subscribe(message)
        else:
            self.publish(message, sender, frame)

    def publish(
        self, message: Message, sender: object = None, frame: bytes | None = None
    ) -> None:
        """Put a message on the bus.

        `frame` is what a member sent; a message of this process has none.
        """
        if self._members:
            self._unsent.append(_Published(frame, message, sender))
            if not self._flush_due:
                self._flush_due = True
                asyncio.get_running_loop().call_soon(self.flush)
        # A listener may publish while it is being called. Its message waits, so that
        # all listeners see the same order.
        if self._notifying:
            self._pending.append((message, sender))
            return
        self._notifying = True
        try:
            while True:
                for listener in self._others.get(sender, self._everybody):
                    listener(message)
                self.published += 1
                if not self._pending:
                    break
                message, sender = self._pending.popleft()
        finally:
            self._notifying = False

    def flush(self) -> None:
        """Send members what was published since the last flush."""
        self._flush_due = False
        if not self._unsent:
            return
        batch = self._unsent
        self._unsent = []
        frames = [
            text_frame(published.frame or encode(published.message))
            for published in batch
        ]
        everything = frames[0] if len(frames) == 1 else b"".join(frames)
        for member in list(self._members):
            if member.wants_everything:
                member.write(everything)
                continue
            wanted = [
                frame
                for frame, published in zip(frames, batch, strict=True)
                if member.wants(published.message, published.sender)
            ]
            member.write(b"".join(wanted))
        self.counts["delivered"] += len(batch) * len(self._members)

    def _drop(self, reason: str, sender: HubMember) -> None:
        self.counts[f"dropped_{reason}"] += 1
        _log.warning("dropped a frame from %s: %s", sender.address, reason)

    async def close(self) -> None:
        """Dismiss all members and wait until they are gone."""
        self.flush()
        self._heartbeat.stop()
        for member in list(self._members):
            member.dismiss()
        while self._members:
            await asyncio.sleep(0.01)


class HubMember(WatchedConversation):
    """One WebSocket on the hub."""

    def __init__(self, hub: Hub, address: str, wants_echo: bool) -> None:
        self._hub = hub
        self.address = address
        self._wants_echo = wants_echo
        self._topics: TopicPatterns | None = None
        self.wants_everything = wants_echo

    def wants(self, message: Message, sender: object) -> bool:
        if sender is self and not self._wants_echo:
            return False
        return self._topics is None or self._topics.match(message.type)

    def subscribe(self, message: Message) -> None:
        """Send this member only the topics that the message names (bus §12)."""
        try:
            self._topics = _topics_in(message)
        except BadTopicPattern as error:
            _log.warning("ignored a subscription from %s: %s", self.address, error)
            return
        self.wants_everything = self._wants_echo and self._topics.everything

    def write(self, frames: bytes) -> None:
        if not frames:
            return
        self._peer.write(frames)
        if (
            not self._keeps_up
            and self._peer.unsent > self._hub.settings.max_unsent_bytes
        ):
            self._hub.counts["slow_members"] += 1
            _log.warning("cut off %s: it does not read what it is sent", self.address)
            self.cut_off()

    def dismiss(self) -> None:
        self._peer.close(GOING_AWAY, "going away")

    def cut_off(self) -> None:
        self._hub.left(self)
        self._peer.abort()

    # -- Conversation ---------------------------------------------------------

    def opened(self, peer: Peer) -> None:
        self._peer = peer
        peer.send(HUB_GREETING)
        self._hub.joined(self)

    def received(self, payload: bytes, *, text: bool) -> None:
        # The reference bus passes binary frames on as text, so we do not distinguish.
        self._hub.take(payload, self)

    def caught_up(self) -> None:
        super().caught_up()
        self._hub.flush()

    def closed(self, code: int, reason: str) -> None:
        self._hub.left(self)


def _topics_in(message: Message) -> TopicPatterns:
    topics = message.data.get("topics")
    if not isinstance(topics, list):
        raise BadTopicPattern(str(topics))
    if not all(isinstance(topic, str) for topic in topics):
        raise BadTopicPattern(str(topics))
    return TopicPatterns.parse(topics)


class MemoryTransport:
    """Connects a bridge to a hub in the same process."""

    def __init__(
        self, hub: Hub, expect: Callable[[Audience], None] = lambda _audience: None
    ) -> None:
        """`expect` tells the fabric, if the hub is part of one, whom we serve."""
        self._hub = hub
        self.expect: Final = expect
        self._listener_token: object | None = None

    async def connect(self, listener: HubListener) -> None:
        self._listener_token = self._hub.listen(listener.received, echo=False)

    def send(self, message: Message, echo: bool = True) -> bool:
        if self._listener_token is None:
            return False
        self._hub.publish(message, None if echo else self._listener_token)
        return True

    async def close(self) -> None:
        if self._listener_token is not None:
            self._hub.stop_listening(self._listener_token)
            self._listener_token = None
