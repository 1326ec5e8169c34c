"""Run the dashboard as a process.

A private file tells other commands its address and token.
"""

from __future__ import annotations

import asyncio
import http.client
import ipaddress
import os
import secrets
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import h11
import msgspec
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from bridgehead.bus.sockets.base import WaitingConnections
from bridgehead.config.places import Places
from bridgehead.dashboard.app import Dashboard
from bridgehead.dashboard.live import MOST_READERS
from bridgehead.errors import BridgeheadError, ConfigError, FileError, UserError
from bridgehead.host.file_errors import FileMissing
from bridgehead.host.files import opened_regular, read_bounded, write_private

FILE: Final = "web.json"
MOST_BYTES: Final = 64 * 1024
ANSWER_SECONDS: Final = 2.0
SHORTEST_TOKEN: Final = 16
MOST_TOKEN_BYTES: Final = 4096
STOP_SECONDS: Final = 3
BACKLOG: Final = 256
HEAD_SECONDS: Final = 10.0
"""How long the headers of a request may take to arrive."""
MOST_WAITING: Final = 128
"""The most connections that have not sent the headers of a request."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a dashboard can be reached, and with which token."""

    host: str
    port: int
    token: str
    pid: int

    @property
    def base(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}"

    @property
    def url(self) -> str:
        """Return a link that admits whoever has it."""
        return f"{self.base}/?token={self.token}"


def note_address(places: Places, address: Address) -> Path:
    path = places.data / FILE
    write_private(path, msgspec.json.encode(address) + b"\n")
    return path


def forget_address(places: Places, address: Address) -> None:
    """Delete the file, unless it is about another dashboard by now."""
    if read_address(places) == address:
        (places.data / FILE).unlink(missing_ok=True)


def read_address(places: Places) -> Address | None:
    """Return the address in the file; None if there is no file or it is not valid."""
    try:
        return msgspec.json.decode(
            read_bounded(places.data / FILE, MOST_BYTES), type=Address
        )
    except (FileMissing, msgspec.DecodeError, UnicodeDecodeError):
        return None


class Running(NamedTuple):
    """A dashboard that is running, and a link that opens it once."""

    address: Address
    link: str


def running_dashboard(places: Places) -> Running | None:
    """Return the dashboard that answers at the noted address, if there is one."""
    try:
        address = read_address(places)
    except FileError:
        return None
    if address is None:
        return None
    path = _new_link(address)
    return None if path is None else Running(address, address.base + path)


def _new_link(address: Address) -> str | None:
    connection = http.client.HTTPConnection(
        address.host, address.port, timeout=ANSWER_SECONDS
    )
    try:
        connection.request(
            "POST", "/link", headers={"Authorization": f"Bearer {address.token}"}
        )
        answer = connection.getresponse()
        if answer.status != 200:
            return None
        return answer.read(MOST_BYTES).decode("ascii")
    except (OSError, http.client.HTTPException, UnicodeDecodeError):
        return None
    finally:
        connection.close()


@dataclass(frozen=True, slots=True)
class WebRequest:
    """The options of `bridgehead web`."""

    host: str
    port: int
    token_file: Path | None = None
    hosts: tuple[str, ...] = ()
    """Further names under which the dashboard may be reached."""
    open_browser: bool = False

    def names(self, hostname: str) -> tuple[str, ...]:
        """Return the names under which the dashboard may be reached.

        They include the machine's own names only if other machines can reach it.
        """
        machine = () if self.is_loopback else (self.host, hostname, f"{hostname}.local")
        return tuple(dict.fromkeys(name.lower() for name in (*machine, *self.hosts)))

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class WeakToken(ConfigError):
    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} contains no usable token: {why}",
            hint=f"openssl rand -hex 32 > {path}; chmod 600 {path}",
        )


def choose_token(request: WebRequest) -> str:
    """Return the token in the file, or a random one for a loopback address."""
    if request.token_file is not None:
        return _token_of(request.token_file)
    if not request.is_loopback:
        raise UserError(
            f"--host {request.host} is reachable from other machines, so the "
            "dashboard needs a token file",
            hint=(
                "umask 077; openssl rand -hex 32 > web-token; bridgehead web --host … "
                "--token-file web-token"
            ),
        )
    return secrets.token_urlsafe(32)


def _token_of(path: Path) -> str:
    with opened_regular(path) as handle:
        mode = os.fstat(handle).st_mode
    if mode & 0o077:
        raise WeakToken(path, "other users can read it")
    token = read_bounded(path, MOST_TOKEN_BYTES).decode("utf-8", "replace").strip()
    if len(token) < SHORTEST_TOKEN:
        raise WeakToken(path, f"it is shorter than {SHORTEST_TOKEN} characters")
    if not token.isascii() or not token.replace("-", "").replace("_", "").isalnum():
        raise WeakToken(path, "it may contain only letters, digits, - and _")
    return token


class AddressTaken(UserError):
    def __init__(self, host: str, port: int, why: str) -> None:
        super().__init__(
            f"the dashboard cannot listen on {host}:{port}: {why}",
            hint=(
                "`bridgehead web --port 0` uses any free port; --open opens a running "
                "dashboard"
            ),
        )


def bind(request: WebRequest) -> socket.socket:
    """Return a listening socket, so that the port is known before the server starts."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            request.host, request.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise AddressTaken(
            request.host, request.port, error.strerror or str(error)
        ) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        raise AddressTaken(
            request.host, request.port, getattr(error, "strerror", None) or str(error)
        ) from error
    listening.setblocking(False)
    return listening


class ServerConfig(uvicorn.Config):
    """The configuration that all connections of a server share."""

    waiting: WaitingConnections[WebConnection]


class WebConnection(H11Protocol):
    """A connection with a deadline for the headers of each request.

    If too many connections wait for headers, some are closed.
    """

    config: ServerConfig
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._update_deadline()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._update_deadline()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _update_deadline(self) -> None:
        """Start or stop the deadline, depending on whether headers are expected."""
        if self.transport.is_closing() or self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.abort)
            leaving = self.config.waiting.add(self._address, self)
            if leaving is not None:
                leaving.transport.abort()

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            self.config.waiting.discard(self._address, self)

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""


class Server(uvicorn.Server):
    """The uvicorn server of a dashboard.

    It has no signal handlers of its own, as uvicorn's would raise the signal again
    after a clean end.
    """

    def __init__(
        self, dashboard: Dashboard, on_started: Callable[[], None] = lambda: None
    ) -> None:
        config = ServerConfig(
            dashboard.app,
            http=WebConnection,
            lifespan="on",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            limit_concurrency=MOST_READERS + 200,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
        config.waiting = WaitingConnections(MOST_WAITING)
        super().__init__(config)
        self._dashboard = dashboard
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_started()

    def stop(self) -> None:
        """Start to stop; may be called from any thread."""
        # Pages keep their live streams open, and the server waits for open connections.
        self._dashboard.close_streams()
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(
    dashboard: Dashboard, listening: socket.socket, on_started: Callable[[], None]
) -> signal.Signals | None:
    """Serve on `listening` until SIGINT or SIGTERM; return which signal it was.

    `on_started` is called once the server answers requests.
    """
    return asyncio.run(_serve(Server(dashboard, on_started), listening))


async def _serve(server: Server, listening: socket.socket) -> signal.Signals | None:
    arrived: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        arrived.append(number)
        server.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    await server.serve(sockets=[listening])
    if not server.started and not arrived:
        raise BridgeheadError(
            "the dashboard could not be started", hint="see the message above"
        )
    return arrived[0] if arrived else None
