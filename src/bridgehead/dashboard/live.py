"""Send what is new in the record to every open page, as server-sent events."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from bridgehead.contract.events import RecordedEvent
from bridgehead.control_plane.stores.base import Store
from bridgehead.errors import BridgeheadError

MOST_QUEUED: Final = 1000
MOST_READERS: Final = 1000
RETRY_SECONDS: Final = 1.0
POLL_SECONDS: Final = 0.1
MOST_MISSED: Final = 500
HEARTBEAT_SECONDS: Final = 15.0

RELOAD: Final = b"event: reload\ndata: {}\n\n"
_HEARTBEAT: Final = b": still here\n\n"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LiveFrame:
    """An event as it is sent: its number, and the bytes that all readers share."""

    seq: int
    frame: bytes


class Reader:
    """The queue of one open page. All methods run in the event loop."""

    def __init__(self, most_queued: int = MOST_QUEUED) -> None:
        self._most_queued = most_queued
        self._queue: deque[LiveFrame] = deque()
        self._changed = asyncio.Event()
        self._behind = False
        self._closed = False

    def put(self, batch: Sequence[LiveFrame]) -> None:
        """Queue frames; if there are too many, drop them all and mark it as behind."""
        if self._behind:
            return
        if len(self._queue) + len(batch) > self._most_queued:
            self._queue.clear()
            self._behind = True
        else:
            self._queue.extend(batch)
        self._changed.set()

    def close(self) -> None:
        self._closed = True
        self._changed.set()

    async def take(self) -> list[LiveFrame] | None:
        """Wait for frames and return them.

        Return an empty list if the reader fell behind, and None if it was closed.
        """
        await self._changed.wait()
        self._changed.clear()
        if self._closed:
            return None
        if self._behind:
            self._behind = False
            return []
        frames = list(self._queue)
        self._queue.clear()
        return frames


class Broadcast:
    """Follows the record between `start` and `stop`, and feeds the readers.

    All methods but `close_readers` are called in the event loop.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._readers: set[Reader] = set()
        self._found: deque[LiveFrame] = deque()
        self._stopping = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._delivery_due = False

    @property
    def is_full(self) -> bool:
        return len(self._readers) >= MOST_READERS

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        after = await asyncio.to_thread(self._store.last_seq)
        self._thread = threading.Thread(
            target=self._follow, args=(after,), name="web-live", daemon=True
        )
        self._thread.start()

    def close_readers(self) -> None:
        """End every reader; may be called from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close_all)

    async def stop(self) -> None:
        self.close_readers()
        self._stopping.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def subscribe(self, *, most_queued: int = MOST_QUEUED) -> Reader:
        reader = Reader(most_queued)
        self._readers.add(reader)
        return reader

    def unsubscribe(self, reader: Reader) -> None:
        self._readers.discard(reader)

    def _close_all(self) -> None:
        for reader in self._readers:
            reader.close()

    def _follow(self, after: int) -> None:
        while not self._stopping.is_set():
            try:
                for recorded in self._store.follow(
                    after, stop=self._stopping, poll_seconds=POLL_SECONDS
                ):
                    after = recorded.seq
                    self._found.append(live_frame(recorded))
                    self._schedule_delivery()
            except BridgeheadError as error:
                logger.warning("live updates pause: %s", error.message)
                self._stopping.wait(RETRY_SECONDS)

    def _schedule_delivery(self) -> None:
        if self._delivery_due or self._loop is None or self._loop.is_closed():
            return
        self._delivery_due = True
        self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        # Reset first, so that whatever the thread finds from now on is delivered too.
        self._delivery_due = False
        batch = [self._found.popleft() for _ in range(len(self._found))]
        for reader in self._readers:
            reader.put(batch)


def live_frame(recorded: RecordedEvent) -> LiveFrame:
    """Return the frame of an event: its number, kind, part and run.

    A page that needs more reads it from the record.
    """
    event = recorded.event
    facts = {
        "seq": recorded.seq,
        "kind": event.kind,
        "part": event.part,
        "run": event.run_id,
    }
    return LiveFrame(
        recorded.seq,
        b"id: %d\ndata: %s\n\n" % (recorded.seq, msgspec.json.encode(facts)),
    )


class LiveStream:
    """The endpoint that pages listen to."""

    def __init__(self, store: Store, broadcast: Broadcast) -> None:
        self._store = store
        self._broadcast = broadcast

    async def __call__(self, request: Request) -> Response:
        if self._broadcast.is_full:
            return PlainTextResponse(
                "too many open pages\n", 503, headers={"Retry-After": "30"}
            )
        # A browser that reconnects sends the last id it has seen. A new page sends the
        # number it was rendered with.
        text = request.headers.get("last-event-id")
        if not text:
            text = request.query_params.get("after", "")
        is_number = text.isascii() and text.isdecimal() and len(text) < 19
        last_seen = int(text) if is_number else None
        return StreamingResponse(
            self._frames(last_seen), media_type="text/event-stream"
        )

    def _missed(self, last_seen: int | None) -> tuple[list[LiveFrame] | None, int]:
        """Return the frames recorded since `last_seen`, and the newest number.

        The frames are None if there are too many to send.
        """
        newest = self._store.last_seq()
        if last_seen is None:
            return [], newest
        if last_seen > newest:  # the page was showing another record
            return None, newest
        page = self._store.events(
            after=last_seen, before=newest + 1, limit=MOST_MISSED + 1
        )
        if len(page) > MOST_MISSED:
            return None, newest
        return [live_frame(recorded) for recorded in page], newest

    async def _frames(self, last_seen: int | None) -> AsyncIterator[bytes]:
        # Subscribing before the record is read means that nothing is missed in between.
        # What is in both is sent once.
        reader = self._broadcast.subscribe()
        try:
            missed, newest = await run_in_threadpool(self._missed, last_seen)
            # No number is sent before the missed frames, so that a browser that is cut
            # off in between asks for all of them again.
            number = b"" if missed else b"id: %d\n" % newest
            yield b"retry: 2000\n%sevent: hello\ndata: {}\n\n" % number
            yield RELOAD if missed is None else _joined(missed)
            while True:
                try:
                    async with asyncio.timeout(HEARTBEAT_SECONDS):
                        frames = await reader.take()
                except TimeoutError:
                    yield _HEARTBEAT
                    continue
                if frames is None:
                    return
                if not frames:
                    yield RELOAD
                    continue
                yield _joined([frame for frame in frames if frame.seq > newest])
        finally:
            self._broadcast.unsubscribe(reader)


def _joined(frames: Sequence[LiveFrame]) -> bytes:
    return b"".join(frame.frame for frame in frames)
