"""The operator's door: a listener on loopback where the owner of the state folder reads how the bridge stands.

It is a listener of its own, so that it stays on this machine whatever address the gateway serves. The token is in
`running.json`, which only the owner can read.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import socket
from collections.abc import Callable
from typing import Final

import msgspec

from bridgehead.bus.credentials import bearer_token
from bridgehead.bus.message import Message
from bridgehead.bus.relay import Relay
from bridgehead.bus.running_file import RunningBridge, remove_running, write_running
from bridgehead.bus.sockets.base import Answer, Request, Upgrade
from bridgehead.bus.sockets.listening import Listener, listen
from bridgehead.bus.sockets.origin import own_names, refusal
from bridgehead.bus.state_folder import StateFolder
from bridgehead.bus.status import BusStatus, MessageHead, Rate
from bridgehead.bus.traffic import Rates, Tail
from bridgehead.host.clock import Clock, iso_ms

LOOPBACK: Final = "127.0.0.1"
SAMPLE_S: Final = 1.0
NOT_FOUND: Final = Answer(404, b"not found\n")

Describe = Callable[[tuple[Rate, ...], tuple[MessageHead, ...]], BusStatus]


class OperatorDoor:
    """A site with two answers: how the bridge stands, and what one message carries."""

    def __init__(self, relay: Relay, describe: Describe, clock: Clock) -> None:
        self._relay = relay
        self._describe = describe
        self._clock = clock
        self._token = secrets.token_urlsafe(32)
        self._names = own_names(socket.gethostname())
        self.rates = Rates()
        self._tail = Tail()
        self._listener: Listener
        self._sampling: asyncio.Task[None]
        self._running: RunningBridge

    async def open(self, folder: StateFolder, join_url: str, cert_sha256: str | None) -> None:
        self._listener = await listen(self, LOOPBACK, 0)
        self._sampling = asyncio.get_running_loop().create_task(self._sample())
        self._running = RunningBridge(self._listener.port, self._token, os.getpid(), join_url, cert_sha256)
        write_running(folder.path, self._running)

    async def close(self, folder: StateFolder) -> None:
        remove_running(folder.path, self._running)
        self._sampling.cancel()
        await self._listener.close()

    # -- Site -----------------------------------------------------------------------------------------------------

    def upgrade(self, request: Request) -> Upgrade | Answer:
        return NOT_FOUND

    async def respond(self, request: Request) -> Answer:
        turned_away = refusal(request.headers, names=self._names)
        if turned_away is not None:
            return turned_away
        token = bearer_token(request.headers.get("authorization")) or ""
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return Answer(401, b"the token is in running.json\n")
        if request.method != "GET":
            return Answer(405, b"read only\n", headers=(("Allow", "GET"),))
        if request.path == "/status":
            return _json(self._status(_number(request, "after")))
        if request.path == "/message":
            content = self._tail.content(_number(request, "number"))
            return NOT_FOUND if content is None else _json(content)
        return NOT_FOUND

    def _status(self, after: int) -> BusStatus:
        heads = self._tail.look(after, self._clock.monotonic())
        self._relay.watcher = self._note
        return self._describe(self.rates.recent, heads)

    def _note(self, message: Message) -> None:
        self._tail.note(message, iso_ms(self._clock.now()))

    async def _sample(self) -> None:
        bridge = self._relay.bridge
        while True:
            self.rates.sample(bridge.taken, bridge.offered)
            self._tail.rest(self._clock.monotonic())
            if not self._tail.is_watched:
                self._relay.watcher = None
            await asyncio.sleep(SAMPLE_S)


def _number(request: Request, name: str) -> int:
    given = request.query.get(name, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 16 else 0


def _json(value: msgspec.Struct) -> Answer:
    return Answer(200, msgspec.json.encode(value), "application/json")
