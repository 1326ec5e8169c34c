"""A WebSocket one can wait on: what arrives is kept in order, and reading stops while too much of it waits."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from bridgehead.bus.sockets.base import Peer
from bridgehead.errors import BridgeheadError

FULL: Final = 1024


class ConnectionEnded(BridgeheadError):
    """The far side closed the connection, or it broke."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"the connection ended ({code}{' ' + reason if reason else ''})")
        self.code = code
        self.reason = reason


class Mailbox:
    """The conversation of a client: `dial` it, then `receive` until it raises `ConnectionEnded`."""

    def __init__(self) -> None:
        self.peer: Peer
        self._waiting: deque[bytes] = deque()
        self._reading = True
        self._ended: ConnectionEnded | None = None
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    @property
    def ended(self) -> ConnectionEnded | None:
        """How it ended, None while it is open."""
        return self._ended

    @property
    def has_room(self) -> bool:
        """Whether the far side keeps up, so that `send` does not wait."""
        return self._room.is_set()

    async def receive(self) -> bytes:
        """The next message; what arrived before the end is still handed out."""
        while not self._waiting:
            if self._ended is not None:
                raise self._ended
            self._news.clear()
            await self._news.wait()
        message = self._waiting.popleft()
        if not self._reading and len(self._waiting) <= FULL // 2:
            self._reading = True
            self.peer.resume_reading()
        return message

    async def send(self, payload: bytes) -> None:
        """Send one message, waiting while the far side does not keep up."""
        await self._room.wait()
        if self._ended is not None:
            raise self._ended
        self.peer.send(payload)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close and wait until that is done."""
        if self._ended is None:
            self.peer.close(code, reason)
        while self._ended is None:
            self._news.clear()
            await self._news.wait()

    # -- Conversation ---------------------------------------------------------------------------------------------

    def opened(self, peer: Peer) -> None:
        self.peer = peer

    def received(self, payload: bytes, *, text: bool) -> None:
        self._waiting.append(payload)
        self._news.set()
        if self._reading and len(self._waiting) >= FULL:
            self._reading = False
            self.peer.pause_reading()

    def caught_up(self) -> None:
        pass

    def ponged(self) -> None:
        pass

    def paused(self) -> None:
        self._room.clear()

    def resumed(self) -> None:
        self._room.set()

    def closed(self, code: int, reason: str) -> None:
        self._ended = ConnectionEnded(code, reason)
        self._room.set()
        self._news.set()
