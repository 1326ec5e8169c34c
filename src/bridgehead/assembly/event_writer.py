"""Writes events to the record in a thread of its own, so that whoever announces them never waits for a disk."""

from __future__ import annotations

import logging
import queue
import threading
from typing import Final

from bridgehead.assembly.application import Assembly
from bridgehead.contract.events import Event
from bridgehead.errors import BridgeheadError

MOST_WAITING: Final = 10_000
BATCH: Final = 500
CLOSING_SECONDS: Final = 10.0


class EventWriter:
    """Appends in batches what `put` was given; an event too many, or a record that refuses, is a warning."""

    def __init__(self, assembly: Assembly, *, part: str, logger: logging.Logger) -> None:
        self._assembly = assembly
        self._part = part
        self._logger = logger
        self._events: queue.Queue[Event | None] = queue.Queue(MOST_WAITING)
        self._thread = threading.Thread(target=self._write, name=f"{part}-record", daemon=True)
        self._thread.start()

    def put(self, event: Event) -> None:
        try:
            self._events.put_nowait(event)
        except queue.Full:
            self._logger.warning("the record does not keep up; an event of the %s was not kept", self._part)

    def close(self) -> None:
        """Write what is left, and end."""
        self._events.put(None)
        self._thread.join(timeout=CLOSING_SECONDS)

    def _write(self) -> None:
        while (first := self._events.get()) is not None:
            batch = [first]
            while len(batch) < BATCH and not self._events.empty():
                event = self._events.get()
                if event is None:
                    self._events.put(None)
                    break
                batch.append(event)
            try:
                with self._assembly.store() as store:
                    store.append(batch)
            except BridgeheadError as error:
                self._logger.warning("not recorded: %s", error.message)
