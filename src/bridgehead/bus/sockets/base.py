"""What the bus needs of a WebSocket, whichever library implements it.

A `Conversation` is called with what happens on one connection; it talks back through
the `Peer` it is given on opening. Nothing here waits: sending puts bytes into the
transport, and `paused` means that the other side does not keep up.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncGenerator, Iterable, Mapping
from time import monotonic
from typing import Final, Generic, Protocol, TypeVar

import msgspec

PROTOCOL_ERROR: Final = 1002
UNSUPPORTED: Final = 1003
ABNORMAL: Final = 1006
TOO_BIG: Final = 1009
UNREAD_PONGS: Final = 256 * 1024
"""How many unsent bytes there may be before we stop reading from a peer that keeps
sending pings.
"""
PING_S: Final = 20.0
SILENCE_S: Final = 60.0
CLOSE_WAIT_S: Final = 2.0
"""How long a closing handshake may take before the connection is cut."""


class Peer(Protocol):
    """The other side of one open WebSocket."""

    @property
    def unsent(self) -> int:
        """Return how many bytes the operating system has not taken yet."""
        ...

    @property
    def certificate(self) -> bytes | None:
        """Return the certificate (DER) of the other side, or None without TLS."""
        ...

    def send(self, payload: bytes) -> None:
        """Send one text message."""
        ...

    def write(self, frames: bytes) -> None:
        """Write server frames made with `text_frame`, which many peers can share."""
        ...

    def ping(self) -> None: ...

    def lift_allowance(self) -> None:
        """Trust the other side: stop limiting how much it may send."""
        ...

    def pause_reading(self) -> None:
        """Read nothing more for now; in time the other side notices."""
        ...

    def resume_reading(self) -> None: ...

    def close(self, code: int, reason: str = "") -> None:
        """Start the closing handshake.

        Nothing more is sent, and the connection ends soon whatever happens.
        """
        ...

    def abort(self) -> None:
        """End the connection at once."""
        ...


class Conversation:
    """One connection as its owner sees it; a subclass overrides what it needs.

    Methods are called on the event loop, in order.
    """

    def opened(self, peer: Peer) -> None: ...

    def received(self, payload: bytes, *, text: bool) -> None: ...

    def caught_up(self) -> None:
        """Note that everything that has arrived so far was handed over."""

    def ponged(self) -> None: ...

    def paused(self) -> None: ...

    def resumed(self) -> None: ...

    def closed(self, code: int, reason: str) -> None: ...


ENDED: Final = Conversation()
"""Replaces a conversation that has ended, so that it and its peer do not keep each
other alive.
"""


class Ends(msgspec.Struct, frozen=True):
    """Both ends of a TCP connection, as host and port."""

    far: tuple[str, int]
    near: tuple[str, int]


class Request(msgspec.Struct, frozen=True):
    """An HTTP request."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By lower-case name. A repeated header is joined with a comma, so that it equals
    no expected value.
    """
    address: str
    secure: bool
    peer_certificate: bytes | None = None
    """The client certificate (DER), verified by the listener's authorities."""
    body: bytes = b""
    ends: Ends | None = None
    """None for a Unix socket."""

    @property
    def share(self) -> str:
        """Return the neighbour whose limits this request counts against."""
        return share_of(self.address)


class Answer(msgspec.Struct, frozen=True):
    """An HTTP response; the connection ends with it."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()
    stream: AsyncGenerator[bytes, None] | None = None
    """Yields what follows the body; the response then ends with the connection."""


def json_answer(value: object, status: int = 200) -> Answer:
    return Answer(status, msgspec.json.encode(value), "application/json")


class Upgrade(msgspec.Struct, frozen=True):
    """The decision that a request becomes a WebSocket."""

    conversation: Conversation
    max_message_bytes: int
    subprotocol: str | None = None
    first_bytes: float = float("inf")
    """How much is read before `lift_allowance` is called, so that strangers cannot fill
    the memory.
    """


NOT_FOUND: Final = Answer(404, b"not found\n")
BODY_BYTES: Final = 256 * 1024


class Site:
    """What one listener serves; by default nothing."""

    def upgrade(self, request: Request) -> Upgrade | Answer:
        """Return whether a request may become a WebSocket, or the refusal."""
        return NOT_FOUND

    def body_limit(self, request: Request) -> int | Answer:
        """Return how long the body of a request may be, or a refusal to read it.

        `request` has only the head.
        """
        return BODY_BYTES

    async def respond(self, request: Request) -> Answer:
        """Answer an ordinary HTTP request."""
        return NOT_FOUND


def share_of(address: str) -> str:
    """Return what counts as one neighbour: an IPv4 address, or an IPv6 network.

    With IPv6 everybody has a whole network of addresses.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


Waiter = TypeVar("Waiter")


class WaitingConnections(Generic[Waiter]):
    """Connections that have not sent their request yet, by address.

    When there are too many, the oldest of the address with the most has to go. So
    whoever opens connections and says nothing loses their own, and everybody else is
    served.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._by_address: dict[str, dict[Waiter, None]] = {}
        self._total = 0

    def __len__(self) -> int:
        return self._total

    def of(self, address: str) -> int:
        """Return how many connections of an address wait."""
        return len(self._by_address.get(address, ()))

    def add(self, address: str, connection: Waiter) -> Waiter | None:
        """Add a connection, and return the one that must go for it, if any."""
        leaving = None
        if self._total >= self._limit:
            crowded = max(
                self._by_address, key=lambda known: len(self._by_address[known])
            )
            leaving = next(iter(self._by_address[crowded]))
            self.discard(crowded, leaving)
        self._by_address.setdefault(address, {})[connection] = None
        self._total += 1
        return leaving

    def discard(self, address: str, connection: Waiter) -> None:
        connections = self._by_address.get(address)
        if connections is None or connection not in connections:
            return
        del connections[connection]
        self._total -= 1
        if not connections:
            del self._by_address[address]


def has_two_lengths(names: Iterable[bytes]) -> bool:
    """Return whether a request says in two ways where its body ends.

    Two readers could take it for two different requests.
    """
    lower = {name.lower() for name in names}
    return b"content-length" in lower and b"transfer-encoding" in lower


def shown_certificate(transport: asyncio.BaseTransport) -> bytes | None:
    """Return the certificate (DER) of the other end, or None without TLS."""
    ssl_object = transport.get_extra_info("ssl_object")
    if ssl_object is None:
        return None
    certificate: bytes | None = ssl_object.getpeercert(binary_form=True)
    return certificate


def text_frame(payload: bytes) -> bytes:
    """Return one text message as a server sends it: unmasked, in one frame."""
    size = len(payload)
    if size < 126:
        return b"\x81" + size.to_bytes(1, "big") + payload
    if size < 65536:
        return b"\x81\x7e" + size.to_bytes(2, "big") + payload
    return b"\x81\x7f" + size.to_bytes(8, "big") + payload


class WatchedConversation(Conversation):
    """A conversation that a `Heartbeat` watches."""

    _keeps_up = True
    """Whether the other side reads what it is sent."""
    last_received = 0.0
    last_pinged = 0.0
    _peer: Peer

    def caught_up(self) -> None:
        self.last_received = monotonic()

    def ponged(self) -> None:
        self.last_received = monotonic()

    def paused(self) -> None:
        self._keeps_up = False

    def resumed(self) -> None:
        self._keeps_up = True

    def ping(self) -> None:
        self._peer.ping()

    def cut_off(self) -> None:
        self._peer.abort()


class Heartbeat:
    """Pings silent connections of one server, and cuts off those that stay silent."""

    def __init__(self, *, ping_s: float = PING_S, silence_s: float = SILENCE_S) -> None:
        self._ping_s = ping_s
        self._silence_s = silence_s
        self._watched: dict[WatchedConversation, None] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def watched(self) -> int:
        return len(self._watched)

    def now(self) -> float:
        """Return the time on the clock that connections use."""
        return monotonic()

    def watch(self, connection: WatchedConversation) -> None:
        connection.last_received = connection.last_pinged = self.now()
        self._watched[connection] = None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._beat())

    def forget(self, connection: WatchedConversation) -> None:
        self._watched.pop(connection, None)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._ping_s / 4)
            now = self.now()
            for connection in list(self._watched):
                self._check(connection, now)

    def _check(self, connection: WatchedConversation, now: float) -> None:
        if now - connection.last_received >= self._silence_s:
            self.forget(connection)
            connection.cut_off()
            return
        last_sign = max(connection.last_received, connection.last_pinged)
        if now - last_sign >= self._ping_s:
            connection.last_pinged = now
            connection.ping()
