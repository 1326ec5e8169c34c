"""Open a WebSocket to a server, and receive from it in order, with a bounded queue."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import socket
import ssl
from abc import ABC, abstractmethod
from collections import deque
from typing import Final, Self
from urllib.parse import urlsplit

import msgspec

from bridgehead.bus.access.certificates import key_fingerprint
from bridgehead.bus.access.join_file import Pin
from bridgehead.bus.sockets.base import Conversation, Peer, shown_certificate
from bridgehead.bus.sockets.picows_peer import call
from bridgehead.errors import BridgeheadError, UserError

DIAL_S: Final = 10.0
MAX_MESSAGE_BYTES: Final = 26 * 1024 * 1024
FULL: Final = 1024
# First probe after 20 s of silence, given up after 60 s.
_KEEP_ALIVE: Final = {
    "TCP_KEEPIDLE": 20,
    "TCP_KEEPINTVL": 10,
    "TCP_KEEPCNT": 4,
    "TCP_USER_TIMEOUT": 60_000,
}


class Target(msgspec.Struct, frozen=True):
    """Where to connect, what to send and which certificate to expect."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    subprotocol: str | None = None
    pin: Pin = Pin()
    client_cert: tuple[str, str] | None = None
    """Files of certificate and key, for mutual TLS."""
    ca_file: str | None = None
    accept_any_certificate: bool = False
    """For pairing only, where a person judges the certificate."""


async def dial(
    target: Target,
    conversation: Conversation,
    *,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
) -> None:
    """Connect and return once the WebSocket is open.

    Raise `DialRefused` or `Unreachable` if it cannot be opened.
    """
    place = _place(target.url)
    headers = list(target.headers)
    if target.subprotocol:
        headers.append(("Sec-WebSocket-Protocol", target.subprotocol))
    transport: asyncio.Transport | None = None
    try:
        async with asyncio.timeout(DIAL_S):
            transport = await _open(target, place)
            await call(
                transport,
                place.authority,
                place.path,
                headers,
                conversation,
                max_message_bytes,
            )
    except BridgeheadError:
        raise
    except Exception as error:
        if transport is not None:
            transport.abort()
        status = _refused_with(error)
        if status is not None:
            raise DialRefused(target.url, status) from error
        cause = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise Unreachable(target.url, cause) from error


class _Place(msgspec.Struct, frozen=True):
    """The parts of a WebSocket URL."""

    host: str
    port: int
    is_secure: bool
    authority: str
    """Host and port as the URL has them, without a password."""
    path: str


def _place(url: str) -> _Place:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadUrl(url) from error
    if parts.scheme not in ("ws", "wss") or parts.hostname is None:
        raise BadUrl(url)
    is_secure = parts.scheme == "wss"
    if not port:
        port = 443 if is_secure else 80
    path = parts.path or "/"
    if parts.query:
        path += f"?{parts.query}"
    authority = parts.netloc.rpartition("@")[2]
    return _Place(parts.hostname, port, is_secure, authority, path)


async def _open(target: Target, place: _Place) -> asyncio.Transport:
    transport, _protocol = await asyncio.get_running_loop().create_connection(
        asyncio.Protocol,
        place.host,
        place.port,
        ssl=_tls(target) if place.is_secure else None,
        server_hostname=place.host if place.is_secure else None,
    )
    keep_alive(transport)
    if target.pin.is_exact and not _is_pinned(transport, target.pin):
        transport.abort()
        raise BridgeheadError(
            f"{_safe(target.url)} presents a different key or certificate than at "
            "enrolment; nothing was sent",
            hint="if the bridge was reinstalled, enrol this participant again",
        )
    return transport


def keep_alive(transport: asyncio.Transport) -> None:
    """Let the operating system find out if the other machine has vanished."""
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _is_pinned(transport: asyncio.Transport, pin: Pin) -> bool:
    shown = shown_certificate(transport)
    if shown is None:
        return False
    if pin.key_sha256 is not None:
        return hmac.compare_digest(key_fingerprint(shown), pin.key_sha256.lower())
    return hmac.compare_digest(
        hashlib.sha256(shown).hexdigest(), str(pin.cert_sha256).lower()
    )


def _tls(target: Target) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=target.ca_file, cadata=target.pin.ca)
    if target.pin.is_exact or target.accept_any_certificate:
        # Exactly one key or certificate is accepted, and `_open` compares it before
        # anything is sent.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if target.client_cert is not None:
        context.load_cert_chain(*target.client_cert)
    return context


def _refused_with(error: Exception) -> int | None:
    response = getattr(error, "response", None)
    status = getattr(response, "status", None) or getattr(response, "status_code", None)
    return int(status) if status is not None else None


class Closing(ABC):
    """Something that `async with` closes."""

    @abstractmethod
    async def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_how: object) -> None:
        await self.close()


class ClientConversation(Conversation):
    """A client's conversation: `dial`, then `receive` until `ConnectionEnded`."""

    def __init__(self) -> None:
        self.peer: Peer
        self._waiting: deque[bytes] = deque()
        self._reading = True
        self._ended: ConnectionEnded | None = None
        self._changed = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def ended(self) -> ConnectionEnded | None:
        """Return how the conversation ended, or None while it is open."""
        return self._ended

    @property
    def is_writable(self) -> bool:
        """Return whether the other side keeps up, so that `send` does not wait."""
        return self._writable.is_set()

    async def receive(self) -> bytes:
        """Return the next message, also one that arrived before the end."""
        while not self._waiting:
            if self._ended is not None:
                raise self._ended
            self._changed.clear()
            await self._changed.wait()
        message = self._waiting.popleft()
        if not self._reading and len(self._waiting) <= FULL // 2:
            self._reading = True
            self.peer.resume_reading()
        return message

    async def send(self, payload: bytes) -> None:
        """Send one message, waiting while the other side does not keep up."""
        await self._writable.wait()
        if self._ended is not None:
            raise self._ended
        self.peer.send(payload)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close, and wait until the connection has ended."""
        if self._ended is None:
            self.peer.close(code, reason)
        while self._ended is None:
            self._changed.clear()
            await self._changed.wait()

    # -- Conversation ---------------------------------------------------------

    def opened(self, peer: Peer) -> None:
        self.peer = peer

    def received(self, payload: bytes, *, text: bool) -> None:
        self._waiting.append(payload)
        self._changed.set()
        if self._reading and len(self._waiting) >= FULL:
            self._reading = False
            self.peer.pause_reading()

    def paused(self) -> None:
        self._writable.clear()

    def resumed(self) -> None:
        self._writable.set()

    def closed(self, code: int, reason: str) -> None:
        self._ended = ConnectionEnded(code, reason)
        self._writable.set()
        self._changed.set()


class BadUrl(UserError):
    """An address that is not a WebSocket URL."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"{url!r} is not a WebSocket URL",
            hint="write ws://host:port/path or wss://host:port/path",
        )


class Unreachable(BridgeheadError):
    """Nobody answered, or something that is not a WebSocket server did."""

    def __init__(self, url: str, cause: str) -> None:
        super().__init__(
            f"{_safe(url)} cannot be reached: {cause}",
            hint="check the address and that the server is running",
        )


class DialRefused(BridgeheadError):
    """The server answered the upgrade with a refusal."""

    def __init__(self, url: str, status: int) -> None:
        super().__init__(
            f"{_safe(url)} refused the connection (HTTP {status})",
            hint=(
                "check the join file (`bridgehead bus participant add` makes a new "
                "one), or --hub-token for a hub"
            ),
        )
        self.status = status


class ConnectionEnded(BridgeheadError):
    """The other side closed the connection, or it broke."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(
            f"the connection ended ({code}{' ' + reason if reason else ''})"
        )
        self.code = code
        self.reason = reason


def _safe(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
