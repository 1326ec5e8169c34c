"""Serves the dashboard until it is told to stop: the socket, signals, a clean end."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn

from bridgehead.dashboard.app import Dashboard
from bridgehead.dashboard.live import MOST_READERS
from bridgehead.dashboard.web_request import WebRequest
from bridgehead.errors import BridgeheadError, UserError

STOP_SECONDS: Final = 3
BACKLOG: Final = 256


class AddressTaken(UserError):
    def __init__(self, host: str, port: int, why: str) -> None:
        super().__init__(
            f"the dashboard cannot listen on {host}:{port}: {why}",
            hint="bridgehead web --port 0 takes any free port; --open shows a dashboard that runs already",
        )


class NotStarted(BridgeheadError):
    """The server ended before it answered anything."""

    def __init__(self) -> None:
        super().__init__("the dashboard could not be started", hint="what stopped it stands above")


def bind(request: WebRequest) -> socket.socket:
    """The listening socket, so that its port is known before anything is served."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            request.host, request.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise AddressTaken(request.host, request.port, error.strerror or str(error)) from error
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


class Server(uvicorn.Server):
    """uvicorn for a dashboard, without its signal handlers: it would raise the signal again after a clean end."""

    def __init__(self, dashboard: Dashboard, on_started: Callable[[], None] = lambda: None) -> None:
        super().__init__(
            uvicorn.Config(
                dashboard.app,
                lifespan="on",
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                limit_concurrency=MOST_READERS + 200,
                timeout_graceful_shutdown=STOP_SECONDS,
            )
        )
        self._dashboard = dashboard
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_started()

    def stop(self) -> None:
        """Begin to stop; may be called from any thread."""
        # Pages keep their live stream open for ever; they are let go before the server waits for them.
        self._dashboard.let_go()
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(
    dashboard: Dashboard, listening: socket.socket, on_started: Callable[[], None]
) -> signal.Signals | None:
    """Serve on `listening` until SIGINT or SIGTERM, and say which; `on_started` is called once pages are answered."""
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
        raise NotStarted
    return arrived[0] if arrived else None
