"""Which library speaks WebSocket: picows where it is installed, else websockets. Both pass the same suite."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Literal, Protocol

import msgspec

from bridgehead.bus.sockets.base import Conversation, Upgrade

LibraryName = Literal["picows", "websockets"]


class TakeOver(Protocol):
    """Go on with a connection whose request head has been read and found acceptable."""

    def __call__(self, transport: asyncio.Transport, head: bytes, upgrade: Upgrade) -> None: ...


class Call(Protocol):
    """Ask the server at the other end of an open connection for a WebSocket."""

    def __call__(
        self,
        transport: asyncio.Transport,
        host: str,
        path: str,
        headers: list[tuple[str, str]],
        conversation: Conversation,
        max_message_bytes: int,
    ) -> Awaitable[None]: ...


class Library(msgspec.Struct, frozen=True):
    """The two things a WebSocket library does for us."""

    take_over: TakeOver
    call: Call


def library(name: LibraryName | None = None) -> Library:
    """The library named, or the best one there is."""
    if name != "websockets":
        try:
            from bridgehead.bus.sockets import picows_peer
        except ImportError:  # no wheel for this interpreter
            if name == "picows":
                raise
        else:
            return Library(picows_peer.take_over, picows_peer.call)
    from bridgehead.bus.sockets import websockets_peer

    return Library(websockets_peer.take_over, websockets_peer.call)
