"""A stand-in for a hub, through which programs that know only the bus's own protocol
talk to a bridge (bus §10.4).

It listens on loopback like a hub, adds the credential of the join file, and passes
messages on unchanged. It serves one program at a time, because it is one participant.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Final

from bridgehead.bus.access.join_file import JoinFile
from bridgehead.bus.client.participant import Incoming, MessageRefused, Satellite
from bridgehead.bus.sockets.base import (
    NOT_FOUND,
    Answer,
    Conversation,
    Peer,
    Request,
    Site,
    Upgrade,
)
from bridgehead.bus.sockets.dial import ConnectionEnded
from bridgehead.bus.sockets.origin import UserOf, own_names, refusal, user_behind, whose
from bridgehead.bus.wire.message import (
    HUB_GREETING,
    HUB_PATH,
    Malformed,
    encode,
    read_frame,
)
from bridgehead.errors import BridgeheadError

_log: Final = logging.getLogger("bridgehead.bus.sidecar")
MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
MAX_WAITING: Final = 256
TRY_AGAIN: Final = 1013


class LoopbackHub(Site):
    """The site behind the loopback listener."""

    def __init__(self, join: JoinFile, *, user_of: UserOf = user_behind) -> None:
        self._user_of = user_of
        self._join = join
        self._names = own_names(socket.gethostname())
        self.programs: set[LoopbackProgram] = set()

    def upgrade(self, request: Request) -> Upgrade | Answer:
        if request.path != HUB_PATH:
            return NOT_FOUND
        turned_away = refusal(
            request.headers, names=self._names, same_origin=True, secure=request.secure
        )
        if turned_away is None and whose(request, self._user_of) == "other":
            turned_away = Answer(
                403, b"this participant belongs to another user of this machine\n"
            )
        if turned_away is not None:
            return turned_away
        return Upgrade(LoopbackProgram(self, self._join), MAX_FRAME_BYTES)

    async def respond(self, request: Request) -> Answer:
        status = 400 if request.path == HUB_PATH else 404
        return Answer(status, b"this is a WebSocket\n")

    async def close(self) -> None:
        for program in list(self.programs):
            program.peer.close(1001, "going away")
        while self.programs:
            await asyncio.sleep(0.01)


class LoopbackProgram(Conversation):
    """Carries messages between one program and the bridge."""

    def __init__(self, hub: LoopbackHub, join: JoinFile) -> None:
        self._hub = hub
        self._join = join
        self.peer: Peer
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue(MAX_WAITING)
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    def opened(self, peer: Peer) -> None:
        self.peer = peer
        self._hub.programs.add(self)
        peer.send(HUB_GREETING)
        self._task = asyncio.get_running_loop().create_task(self._relay())

    def received(self, payload: bytes, *, text: bool) -> None:
        try:
            self._outgoing.put_nowait(payload)
        except asyncio.QueueFull:
            _log.warning("the bridge is too slow; a message of the program was dropped")

    def paused(self) -> None:
        self._writable.clear()

    def resumed(self) -> None:
        self._writable.set()

    def closed(self, code: int, reason: str) -> None:
        if self._task is not None:
            self._task.cancel()
        self._hub.programs.discard(self)

    async def _relay(self) -> None:
        try:
            satellite = await Satellite.connect(self._join, reconnect=False)
        except BridgeheadError as error:
            _log.error("%s", error)
            self.peer.close(TRY_AGAIN, "the bridge is not running")
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._carry_out(satellite))
                group.create_task(self._carry_in(satellite))
        except* ConnectionEnded as ended:
            _log.info("%s", ended.exceptions[0])
            self.peer.close(TRY_AGAIN, "the bridge closed the connection")
        finally:
            # No goodbye: stock programs disconnect and come back all the time, and the
            # grace period is made for that.
            await satellite.close(goodbye=False)

    async def _carry_out(self, satellite: Satellite) -> None:
        while True:
            read = read_frame(await self._outgoing.get())
            if isinstance(read, Malformed):
                _log.warning("dropped a frame of the program: %s", read.reason)
            else:
                await satellite.send(read.message)

    async def _carry_in(self, satellite: Satellite) -> None:
        while True:
            event = await satellite.receive()
            if isinstance(event, Incoming):
                # What a slow program does not read waits at the bridge, up to a limit.
                await self._writable.wait()
                self.peer.send(encode(event.message))
            elif isinstance(event, MessageRefused):
                _log.warning(
                    "the bridge refused a message of the program: %s %s",
                    event.code,
                    event.details,
                )
