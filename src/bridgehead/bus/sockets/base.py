"""What the bus needs of a WebSocket, whichever library speaks it.

A `Conversation` is told what happens on one connection; the `Peer` it is given on
opening is how it talks back. Nothing here waits: sending puts bytes into the transport,
and `paused` says that the far side does not keep up.
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
"""Bytes that may wait for a far side that sends pings.

Beyond, it is not read until it has read.
"""
PING_S: Final = 20.0
SILENCE_S: Final = 60.0
CLOSE_WAIT_S: Final = 2.0
"""How long a closing handshake may take before the connection is cut."""


class Peer(Protocol):
    """The far side of one open WebSocket."""

    @property
    def unsent(self) -> int:
        """Bytes the operating system has not taken yet."""
        ...

    @property
    def certificate(self) -> bytes | None:
        """Return the certificate (DER) the far side showed, None without TLS."""
        ...

    def send(self, payload: bytes) -> None:
        """Send one text message."""
        ...

    def write(self, frames: bytes) -> None:
        """Write ready-made server frames (see `text_frame`).

        Lets one fan-out share its bytes.
        """
        ...

    def ping(self) -> None: ...

    def lift_allowance(self) -> None:
        """Trust the far side; the allowance of its first bytes no longer applies."""
        ...

    def pause_reading(self) -> None:
        """Take nothing more for now; the far side notices in time."""
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
    """One connection as its owner sees it; each notices what it cares for.

    Called on the event loop, in order.
    """

    def opened(self, peer: Peer) -> None: ...

    def received(self, payload: bytes, *, text: bool) -> None: ...

    def caught_up(self) -> None:
        """Note that everything that had arrived was handed over.

        A good moment to pass things on.
        """

    def ponged(self) -> None: ...

    def paused(self) -> None: ...

    def resumed(self) -> None: ...

    def closed(self, code: int, reason: str) -> None: ...


ENDED: Final = Conversation()
"""Takes the place of a conversation that has ended, so that it and its peer do not keep
each other alive.
"""


class Ends(msgspec.Struct, frozen=True):
    """Both ends of a TCP connection, as host and port."""

    far: tuple[str, int]
    near: tuple[str, int]


class Request(msgspec.Struct, frozen=True):
    """The head of an HTTP request, and its body where there is one."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Lower-case names; a repeated header is joined with a comma, so it equals nothing
    that was expected.
    """
    address: str
    secure: bool
    peer_certificate: bytes | None = None
    """DER of the client certificate the listener's authorities vouch for."""
    body: bytes = b""
    ends: Ends | None = None
    """None for a Unix socket."""

    @property
    def share(self) -> str:
        """Return whose share of the places this request counts against."""
        return share_of(self.address)


class Answer(msgspec.Struct, frozen=True):
    """An HTTP response; the connection ends with it."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()
    stream: AsyncGenerator[bytes, None] | None = None
    """What follows the body piece by piece.

    The response then ends with the connection.
    """


def json_answer(value: object, status: int = 200) -> Answer:
    return Answer(status, msgspec.json.encode(value), "application/json")


class Upgrade(msgspec.Struct, frozen=True):
    """The request may become a WebSocket."""

    conversation: Conversation
    max_message_bytes: int
    subprotocol: str | None = None
    first_bytes: float = float("inf")
    """How much is read before `lift_allowance` is called, so that nobody unknown fills
    memory.
    """


NOT_FOUND: Final = Answer(404, b"not found\n")
BODY_BYTES: Final = 256 * 1024


class Site:
    """What is served behind one listener: nothing but what it says."""

    def upgrade(self, request: Request) -> Upgrade | Answer:
        """Decide about a WebSocket before it exists."""
        return NOT_FOUND

    def body_limit(self, request: Request) -> int | Answer:
        """Return how long the body of a request may be, or why it is not even read.

        `request` is its head alone.
        """
        return BODY_BYTES

    async def respond(self, request: Request) -> Answer:
        """Answer an ordinary HTTP request."""
        return NOT_FOUND


def share_of(address: str) -> str:
    """Return what counts as one neighbour: an IPv4 address, or an IPv6 network.

    Everybody there has addresses to spare.
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
    """Connections that have not said yet what they want, by address.

    When there are too many, the oldest of the address that has most of them gives way:
    whoever opens sockets and says nothing pushes out their own, and somebody who asks
    at once is heard.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._by_address: dict[str, dict[Waiter, None]] = {}
        self._total = 0

    def __len__(self) -> int:
        return self._total

    def of(self, address: str) -> int:
        """Return how many of this address wait."""
        return len(self._by_address.get(address, ()))

    def add(self, address: str, connection: Waiter) -> Waiter | None:
        """Add one that waits, and return the one that must leave for it."""
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
        here = self._by_address.get(address)
        if here is None or connection not in here:
            return
        del here[connection]
        self._total -= 1
        if not here:
            del self._by_address[address]


def has_two_lengths(names: Iterable[bytes]) -> bool:
    """Whether a request says in two ways where its body ends: two readers would see two
    different requests.
    """
    lower = {name.lower() for name in names}
    return b"content-length" in lower and b"transfer-encoding" in lower


def shown_certificate(transport: asyncio.BaseTransport) -> bytes | None:
    """Return the certificate (DER) the other end of a connection showed."""
    secured = transport.get_extra_info("ssl_object")
    return secured.getpeercert(binary_form=True) if secured is not None else None


def text_frame(payload: bytes) -> bytes:
    """Return one text message as a server sends it: unmasked, in one frame."""
    size = len(payload)
    if size < 126:
        return b"\x81" + size.to_bytes(1, "big") + payload
    if size < 65536:
        return b"\x81\x7e" + size.to_bytes(2, "big") + payload
    return b"\x81\x7f" + size.to_bytes(8, "big") + payload


class WatchedConversation(Conversation):
    """A conversation whose silence matters."""

    _keeps_up = True
    """Whether the far side reads what it is sent."""
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
    """Watches all connections of one server with one timer: who is silent is pinged,
    who stays silent is cut off.
    """

    def __init__(self, *, ping_s: float = PING_S, silence_s: float = SILENCE_S) -> None:
        self._ping_s = ping_s
        self._silence_s = silence_s
        self._watched: dict[WatchedConversation, None] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def watched(self) -> int:
        return len(self._watched)

    def now(self) -> float:
        """Return the time connections note when something arrives."""
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
                if now - connection.last_received >= self._silence_s:
                    self.forget(connection)
                    connection.cut_off()
                elif (
                    now - max(connection.last_received, connection.last_pinged)
                    >= self._ping_s
                ):
                    connection.last_pinged = now
                    connection.ping()
