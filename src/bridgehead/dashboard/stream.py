"""`/live`: server-sent events. A browser names the last event it saw, or its page did, and gets what it missed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from bridgehead.control_plane.stores.base import Store
from bridgehead.dashboard.live import Broadcast, Told, told

MOST_MISSED: Final = 500
HEARTBEAT_SECONDS: Final = 15.0
RELOAD: Final = b"event: reload\ndata: {}\n\n"
_HEARTBEAT: Final = b": still here\n\n"


class LiveStream:
    """The endpoint."""

    def __init__(self, store: Store, broadcast: Broadcast) -> None:
        self._store = store
        self._broadcast = broadcast

    async def __call__(self, request: Request) -> Response:
        if self._broadcast.is_full:
            return PlainTextResponse("too many open pages\n", 503, headers={"Retry-After": "30"})
        return StreamingResponse(self._frames(_last_seen(request)), media_type="text/event-stream")

    def _missed(self, last_seen: int | None) -> tuple[list[Told] | None, int]:
        """What was recorded since, None when that is too much to tell; and the newest number there is."""
        newest = self._store.last_seq()
        if last_seen is None:
            return [], newest
        if last_seen > newest:  # another record than the one it had seen
            return None, newest
        page = self._store.events(after=last_seen, before=newest + 1, limit=MOST_MISSED + 1)
        return (None if len(page) > MOST_MISSED else [told(one) for one in page]), newest

    async def _frames(self, last_seen: int | None) -> AsyncIterator[bytes]:
        # Subscribed before the record is read: what happens in between is then in both, and told once.
        reader = self._broadcast.subscribe()
        try:
            missed, newest = await run_in_threadpool(self._missed, last_seen)
            # Before what was missed stands no number: a browser cut off in between asks for all of it again.
            number = b"" if missed else b"id: %d\n" % newest
            yield b"retry: 2000\n%sevent: hello\ndata: {}\n\n" % number
            yield RELOAD if missed is None else b"".join(one.frame for one in missed)
            while True:
                try:
                    async with asyncio.timeout(HEARTBEAT_SECONDS):
                        taken = await reader.take()
                except TimeoutError:
                    yield _HEARTBEAT
                    continue
                if taken is None:
                    return
                yield b"".join(one.frame for one in taken if one.seq > newest) if taken else RELOAD
        finally:
            self._broadcast.unsubscribe(reader)


def _last_seen(request: Request) -> int | None:
    """What a browser says that comes back, else what its page was made with."""
    given = request.headers.get("last-event-id") or request.query_params.get("after", "")
    return int(given) if given.isascii() and given.isdecimal() and len(given) < 19 else None
