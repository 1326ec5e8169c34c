"""Listen on an address or a Unix socket, with or without TLS.

A connection reads the head of a request, then upgrades or answers it.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from http import HTTPStatus
from pathlib import Path
from typing import Final, cast
from urllib.parse import parse_qsl, urlsplit

import h11
import msgspec

from bridgehead.bus.sockets.base import (
    BODY_BYTES,
    Answer,
    Ends,
    Request,
    Site,
    WaitingConnections,
    has_two_lengths,
    share_of,
    shown_certificate,
)
from bridgehead.bus.sockets.picows_peer import take_over
from bridgehead.errors import BridgeheadError

_log: Final = logging.getLogger("bridgehead.bus")
BACKLOG: Final = 1024
HEAD_BYTES: Final = 16 * 1024
ARRIVAL_S: Final = 5.0
"""How long a request may take to arrive, including the WebSocket handshake."""
SECURITY_HEADERS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
)


class Listener:
    """One open listener."""

    def __init__(
        self, server: asyncio.AbstractServer, connections: HttpConnections, address: str
    ) -> None:
        self._server = server
        self._connections = connections
        self.address = address

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    async def close(self) -> None:
        """Accept no more connections; the site closes its open WebSockets itself."""
        self._server.close()
        self._connections.close()


async def listen(
    site: Site,
    host: str,
    port: int,
    *,
    tls: ssl.SSLContext | None = None,
    max_pending: int = 512,
) -> Listener:
    """Serve `site` on a TCP address; port 0 takes a free one."""
    connections = HttpConnections(site, limit=max_pending)
    try:
        server = await asyncio.get_running_loop().create_server(
            connections,
            host,
            port,
            ssl=tls,
            backlog=BACKLOG,
            ssl_handshake_timeout=5 if tls else None,
        )
    except OSError as error:
        raise AddressInUse(f"{host}:{port}", error) from error
    bound = server.sockets[0].getsockname()
    return Listener(server, connections, f"{bound[0]}:{bound[1]}")


async def listen_unix(site: Site, path: Path) -> Listener:
    """Serve `site` on a Unix socket that only its owner can reach."""
    connections = HttpConnections(site)
    try:
        server = await asyncio.get_running_loop().create_unix_server(
            connections, str(path)
        )
        path.chmod(0o600)
    except OSError as error:
        raise AddressInUse(str(path), error) from error
    return Listener(server, connections, str(path))


class HttpConnections:
    """All connections of one listener that are not WebSockets yet."""

    def __init__(self, site: Site, *, limit: int = 512) -> None:
        self.site = site
        self._waiting: WaitingConnections[HttpConnection] = WaitingConnections(limit)
        self._open: set[HttpConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self) -> HttpConnection:
        return HttpConnection(self)

    def add(self, connection: HttpConnection) -> None:
        """Note a connection whose request has not arrived."""
        self._open.add(connection)
        leaving = self._waiting.add(share_of(connection.address), connection)
        if leaving is not None:
            leaving.abort()

    def arrived(self, connection: HttpConnection) -> None:
        """Note that the whole request is there, so the client owes us nothing more."""
        self._waiting.discard(share_of(connection.address), connection)

    def discard(self, connection: HttpConnection) -> None:
        self._open.discard(connection)
        self._waiting.discard(share_of(connection.address), connection)

    def run(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self) -> None:
        """End all connections."""
        for connection in list(self._open):
            connection.abort()
        for task in list(self._tasks):
            task.cancel()


class HttpConnection(asyncio.Protocol):
    """One connection from its first byte to the end of its request."""

    def __init__(self, connections: HttpConnections) -> None:
        self._connections = connections
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        self._head = b""
        self._request: Request | None = None
        self._body: list[bytes] = []
        self._body_limit = BODY_BYTES
        self._transport: asyncio.Transport
        self.address = ""
        self._deadline: asyncio.TimerHandle | None = None
        self._responding: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.address = _address(transport.get_extra_info("peername"))
        self._connections.add(self)
        self._deadline = asyncio.get_running_loop().call_later(ARRIVAL_S, self.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        if self._responding is not None:  # nobody is left to read the answer
            self._responding.cancel()

    def abort(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._request is None:
            self._head += data
            if (
                self._head.find(b"\r\n\r\n", 0, HEAD_BYTES) < 0
                and len(self._head) >= HEAD_BYTES
            ):
                self._answer(Answer(431, b"request head too large\n"))
                return
        try:
            self._http.receive_data(data)
            self._advance()
        except h11.RemoteProtocolError as error:
            self._answer(Answer(error.error_status_hint, b"bad request\n"))

    def _advance(self) -> None:
        while not self._transport.is_closing():
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                if not self._take_head(event):
                    return
            elif isinstance(event, h11.Data):
                self._body.append(bytes(event.data))
                if sum(map(len, self._body)) > self._body_limit:
                    self._answer(Answer(413, b"body too large\n"))
                    return
            elif isinstance(event, h11.EndOfMessage):
                self._take_end()
                return
            else:
                return

    def _take_head(self, event: h11.Request) -> bool:
        """Read the head of a request; return whether its body is to be read."""
        if has_two_lengths(name for name, _ in event.headers):
            refusal = b"send Content-Length or Transfer-Encoding, not both\n"
            self._answer(Answer(400, refusal))
            return False
        self._request = _read_request(event, self._transport)
        upgrade = self._request.headers.get("upgrade", "").lower()
        if self._request.method == "GET" and upgrade == "websocket":
            self._decide(self._request)
            return False
        limit = self._connections.site.body_limit(self._request)
        if isinstance(limit, Answer):
            self._answer(limit)
            return False
        self._body_limit = limit
        # The site trusts this request by its head, so it may take its time.
        if limit > BODY_BYTES:
            self._disarm()
        return True

    def _take_end(self) -> None:
        """Answer a request that has arrived as a whole."""
        assert self._request is not None
        self._disarm()
        self._connections.arrived(self)
        body = b"".join(self._body)
        complete = msgspec.structs.replace(self._request, body=body)
        self._responding = self._connections.run(self._respond(complete))

    def _decide(self, request: Request) -> None:
        decision = self._connections.site.upgrade(request)
        if isinstance(decision, Answer):
            self._answer(decision)
            return
        self._leave()
        take_over(self._transport, self._head, decision)

    async def _respond(self, request: Request) -> None:
        try:
            answer = await self._connections.site.respond(request)
        except Exception:  # the listener outlives one bad request
            _log.exception("a request to %s failed", request.path)
            answer = Answer(500, b"internal error\n")
        if answer.stream is not None:
            await self._send_pieces(answer, answer.stream)
        elif not self._transport.is_closing():
            self._answer(answer)

    async def _send_pieces(
        self, answer: Answer, stream: AsyncGenerator[bytes, None]
    ) -> None:
        self._transport.write(_response(answer))
        async with aclosing(stream):
            async for piece in stream:
                if self._transport.is_closing():
                    break
                self._transport.write(piece)
        self._transport.close()

    def _answer(self, answer: Answer) -> None:
        self._transport.write(_response(answer))
        self._transport.close()

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    def _leave(self) -> None:
        self._disarm()
        self._connections.discard(self)


def _read_request(event: h11.Request, transport: asyncio.Transport) -> Request:
    headers: dict[str, str] = {}
    for raw_name, raw_value in event.headers:
        name = raw_name.decode("ascii").lower()
        value = raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    target = urlsplit(event.target.decode("ascii", "replace"))
    is_secure = transport.get_extra_info("ssl_object") is not None
    peername = transport.get_extra_info("peername")
    return Request(
        event.method.decode("ascii"),
        target.path,
        dict(parse_qsl(target.query)),
        headers,
        _address(peername),
        is_secure,
        shown_certificate(transport),
        ends=_ends(peername, transport.get_extra_info("sockname")),
    )


def _address(peername: object) -> str:
    return str(peername[0]) if isinstance(peername, tuple) else "local"


def _ends(far: object, near: object) -> Ends | None:
    if not isinstance(far, tuple) or not isinstance(near, tuple):
        return None
    return Ends((str(far[0]), int(far[1])), (str(near[0]), int(near[1])))


def _response(answer: Answer) -> bytes:
    headers = [("Content-Type", answer.content_type)]
    if answer.stream is None:
        headers.append(("Content-Length", str(len(answer.body))))
    headers.append(("Connection", "close"))
    given = {name for name, _value in answer.headers}
    headers += [pair for pair in SECURITY_HEADERS if pair[0] not in given]
    headers += answer.headers
    lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + answer.body


class AddressInUse(BridgeheadError):
    """A listener could not be opened."""

    def __init__(self, address: str, error: OSError) -> None:
        super().__init__(
            f"cannot listen on {address}: {error.strerror or error}",
            hint=(
                "if a bus already runs there, connect to it with --hub URL; otherwise "
                "choose another address"
            ),
        )
        self.address = address
