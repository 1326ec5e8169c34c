"""One follower of the record, handed on to every open page.

A thread follows the record; the event loop hands what it found to bounded queues, one for each reader. A reader that
does not keep up loses its queue and is told so: it has to load its page again, nothing is lost silently.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from bridgehead.contract.events import RecordedEvent
from bridgehead.control_plane.stores.base import Store
from bridgehead.errors import BridgeheadError

MOST_QUEUED: Final = 1000
MOST_READERS: Final = 1000
RETRY_SECONDS: Final = 1.0
POLL_SECONDS: Final = 0.1

logger = logging.getLogger(__name__)


class Told(msgspec.Struct, frozen=True):
    """An event as readers are told of it: its number, and the frame that all of them share."""

    seq: int
    frame: bytes


class Reader:
    """One open page. All methods run in the event loop."""

    def __init__(self, most_queued: int = MOST_QUEUED) -> None:
        self._most_queued = most_queued
        self._queue: deque[Told] = deque()
        self._something = asyncio.Event()
        self._behind = False
        self._closed = False

    def put(self, batch: Sequence[Told]) -> None:
        if self._behind:
            return
        if len(self._queue) + len(batch) > self._most_queued:
            self._queue.clear()
            self._behind = True
        else:
            self._queue.extend(batch)
        self._something.set()

    def close(self) -> None:
        self._closed = True
        self._something.set()

    async def take(self) -> list[Told] | None:
        """What is there, waiting until there is something; empty for a reader that fell behind, None at the end."""
        await self._something.wait()
        self._something.clear()
        if self._closed:
            return None
        if self._behind:
            self._behind = False
            return []
        taken = list(self._queue)
        self._queue.clear()
        return taken


class Broadcast:
    """Follows the record between `start` and `stop`; all but `let_go` is called in the event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._readers: set[Reader] = set()
        self._found: deque[Told] = deque()
        self._stopping = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._handing_on = False

    @property
    def is_full(self) -> bool:
        return len(self._readers) >= MOST_READERS

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        after = await asyncio.to_thread(self._store.last_seq)
        self._thread = threading.Thread(target=self._follow, args=(after,), name="web-live", daemon=True)
        self._thread.start()

    def let_go(self) -> None:
        """End every reader; may be called from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close_all)

    async def stop(self) -> None:
        self.let_go()
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
                for recorded in self._store.follow(after, stop=self._stopping, poll_seconds=POLL_SECONDS):
                    after = recorded.seq
                    self._found.append(told(recorded))
                    self._wake()
            except BridgeheadError as error:
                logger.warning("live updates pause: %s", error.message)
                self._stopping.wait(RETRY_SECONDS)

    def _wake(self) -> None:
        if not self._handing_on and self._loop is not None and not self._loop.is_closed():
            self._handing_on = True
            self._loop.call_soon_threadsafe(self._hand_on)

    def _hand_on(self) -> None:
        # Lowered first: what the thread finds from now on wakes the loop again.
        self._handing_on = False
        batch = [self._found.popleft() for _ in range(len(self._found))]
        for reader in self._readers:
            reader.put(batch)


def told(recorded: RecordedEvent) -> Told:
    """The frame of an event: which kind, of which run. What it says is read from the record by those who want it."""
    event = recorded.event
    facts = {"seq": recorded.seq, "kind": event.kind, "part": event.part, "run": event.run_id}
    return Told(recorded.seq, b"id: %d\ndata: %s\n\n" % (recorded.seq, msgspec.json.encode(facts)))
