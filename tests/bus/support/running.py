"""Running asynchronous tests: a deadline that fails loudly, and things to talk with."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from bridgehead.bus.sockets.base import (
    Answer,
    Conversation,
    Peer,
    Request,
    Site,
    Upgrade,
)
from bridgehead.bus.sockets.event_loop import new_event_loop

Result = TypeVar("Result")
DEADLINE_S = 30


def run(
    main: Coroutine[Any, Any, Result],
    *,
    uvloop: bool = True,
    deadline_s: float = DEADLINE_S,
) -> Result:
    """Run `main`; a test that hangs fails after the deadline instead."""

    async def bounded() -> Result:
        async with asyncio.timeout(deadline_s):
            return await main

    factory = new_event_loop if uvloop else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(bounded())


_WORKER: Final = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_ports: Final = itertools.cycle(range(10_000 + _WORKER * 2000, 12_000 + _WORKER * 2000))
for _ in range(os.getpid() % 2000):
    next(_ports)


def free_port() -> int:
    """A port that stays free until it is used: none that the system gives away, nor that another worker asks for."""
    while True:
        with (
            suppress(OSError),
            socket.create_server(("127.0.0.1", next(_ports))) as free,
        ):
            return int(free.getsockname()[1])


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until `condition` holds; the deadline of `run` bounds it."""
    while not condition():
        await asyncio.sleep(0.001)


class Server(Conversation):
    """One conversation at a server, remembering what it was told."""

    def __init__(self) -> None:
        self.peer: Peer
        self.messages: list[tuple[bytes, bool]] = []
        self.end: tuple[int, str] | None = None
        self.is_open = False
        self.pongs = 0
        self.pauses = 0
        self.resumes = 0
        self.batches = 0
        self.echo = False

    def opened(self, peer: Peer) -> None:
        self.peer, self.is_open = peer, True

    def received(self, payload: bytes, *, text: bool) -> None:
        self.messages.append((payload, text))
        if self.echo:
            self.peer.send(payload)

    def caught_up(self) -> None:
        self.batches += 1

    def ponged(self) -> None:
        self.pongs += 1

    def paused(self) -> None:
        self.pauses += 1

    def resumed(self) -> None:
        self.resumes += 1

    def closed(self, code: int, reason: str) -> None:
        self.end, self.is_open = (code, reason), False


class OneSite(Site):
    """A site that lets every WebSocket into the same conversation and echoes HTTP bodies."""

    def __init__(self, **upgrade: Any) -> None:
        self.server = Server()
        self.requests: list[Request] = []
        self._upgrade = {"max_message_bytes": 1 << 20, **upgrade}

    def upgrade(self, request: Request) -> Upgrade | Answer:
        self.requests.append(request)
        if request.path == "/closed":
            return Answer(403, b"no\n")
        return Upgrade(self.server, **self._upgrade)

    async def respond(self, request: Request) -> Answer:
        self.requests.append(request)
        return Answer(200, request.body)
