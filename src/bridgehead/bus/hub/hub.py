"""The embedded hub (bus §12): what ovos-messagebus does, with a check on entry and
bounds everywhere.

Unmodified bus clients use it: same path, same greeting, every frame verbatim to
everybody including its sender. Frames that would make those clients fall over are
dropped on the way in. What was published between two turns of the event loop goes out
as one write per member.
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
    """What every member must show.

    None lets in the user the hub runs as, and nobody else of this machine.
    """
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    ping_s: float = 30.0
    silence_s: float = 90.0


class _Published(msgspec.Struct, frozen=True):
    frame: bytes | None
    """As a member sent it.

    None for a message of this process, which is encoded when a member is to get it.
    """
    message: Message
    sender: object


class Hub(Site):
    """Everybody gets everything, in one order."""

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
        """How many are connected; listeners inside this process do not count."""
        self._listeners: dict[object, OnMessage] = {}
        self._everybody: tuple[OnMessage, ...] = ()
        self._others: dict[object, tuple[OnMessage, ...]] = {}
        """By the token of a listener that does not get its own messages: all the rest.
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
        # Bus clients send the address they dialled as their origin, so that one is let
        # in.
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
        """Return the answer to somebody who may not use this hub."""
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
        """Get every message inside this process.

        The returned token names the listener when it publishes.
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
        self._others = {own: self._all_but(own) for own in without_echo}

    def _all_but(self, own: object) -> tuple[OnMessage, ...]:
        return tuple(
            listener for token, listener in self._listeners.items() if token is not own
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

        `frame` is how it came, None for a message of this process.
        """
        if self._members:
            self._unsent.append(_Published(frame, message, sender))
            if not self._flush_due:
                self._flush_due = True
                asyncio.get_running_loop().call_soon(self.flush)
        # A listener may publish while it is being called; that waits its turn, so all
        # see one order.
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
        """Write what was published since the last time."""
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
        """Say goodbye to everybody."""
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
        """From now on only these topics (bus §12)."""
        topics = message.data.get("topics")
        try:
            if not isinstance(topics, list) or not all(
                isinstance(topic, str) for topic in topics
            ):
                raise BadTopicPattern(str(topics))
            self._topics = TopicPatterns.parse(topics)
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
        # The reference bus passes a binary frame on as text, so both kinds are one.
        self._hub.take(payload, self)

    def caught_up(self) -> None:
        super().caught_up()
        self._hub.flush()

    def closed(self, code: int, reason: str) -> None:
        self._hub.left(self)


class MemoryTransport:
    """A place at a hub of this process."""

    def __init__(
        self, hub: Hub, expect: Callable[[Audience], None] = lambda _audience: None
    ) -> None:
        """`expect` is called with whom the bridge serves, for a hub that is part of a
        fabric.
        """
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
