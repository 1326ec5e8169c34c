"""One call over HTTP: carried out in a thread, its progress and its result as server-sent events."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Final

from bridgehead.host.cancel import Cancel
from bridgehead.mcp_server.calls import MOST_CALLS, ProgressNotifications, answer_of
from bridgehead.mcp_server.client import Client
from bridgehead.mcp_server.jsonrpc import Code, Request, RpcError, error
from bridgehead.mcp_server.server import Server

SECONDS_BETWEEN_SIGNS: Final = 15.0
"""A comment this often keeps proxies and clients from giving up on a quiet stream."""

MOST_WAITING: Final = 1_000

_places = threading.BoundedSemaphore(MOST_CALLS)


class HttpCall:
    """A request that takes time; made inside the server's loop. `cancel` stops it."""

    def __init__(self, server: Server, request: Request, client: Client) -> None:
        self._server = server
        self._request = request
        self._client = client
        self.cancel = Cancel()
        self._loop = asyncio.get_running_loop()
        self._progress: asyncio.Queue[bytes | None] = asyncio.Queue()
        """None ends it: the answer is there, or nobody wants it any more."""
        self._answer = b""

    async def events(self, ended: Callable[[], None]) -> AsyncIterator[bytes]:
        """The stream; a client of 2026-07-28 stops the call by closing it, older ones look for the result later."""
        if not _places.acquire(blocking=False):
            ended()
            busy = RpcError(Code.BUSY, f"{MOST_CALLS} calls are under way; wait for one of them to end")
            yield _event(error(self._request.id, busy))
            return
        threading.Thread(target=self._carry_out, args=(ended,), name="mcp call").start()
        try:
            async for sign in self._signs_of_life():
                yield sign
            if not self.cancel.cancelled:
                yield _event(self._answer)
        finally:
            if self._client.sends_envelopes:
                self.cancel.cancel()

    async def _signs_of_life(self) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(SECONDS_BETWEEN_SIGNS):
                    content = await self._progress.get()
            except TimeoutError:
                yield b": still at it\n\n"
                continue
            if content is None:
                return
            yield _event(content)

    def _carry_out(self, ended: Callable[[], None]) -> None:
        """In its own thread."""
        progress = ProgressNotifications(self._request, self._tell)
        try:
            self._answer = answer_of(self._server, self._request, self._client, self.cancel, progress)
        finally:
            _places.release()
            self._in_loop(ended)
            self._in_loop(lambda: self._progress.put_nowait(None))

    def _tell(self, content: bytes) -> None:
        """Progress for whoever still reads; what a slow reader misses is only progress."""
        if self._progress.qsize() < MOST_WAITING:
            self._in_loop(lambda: self._progress.put_nowait(content))

    def _in_loop(self, action: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(action)
        except RuntimeError:
            return  # the server's loop is closed: nobody is there to hear of it


def _event(content: bytes) -> bytes:
    return b"event: message\ndata: " + content + b"\n\n"
