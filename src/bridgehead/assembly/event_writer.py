"""Writes events to the record in a thread of its own, so that whoever announces them
never waits for a disk.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from datetime import timedelta
from typing import Final

from bridgehead.assembly.application import Assembly
from bridgehead.config.resolve import Settings
from bridgehead.contract.events import Event
from bridgehead.errors import BridgeheadError, ConfigError
from bridgehead.host.clock import SystemClock, iso_ms

KEEP_DAYS: Final = "store.keep_days"
LONGEST_KEPT_DAYS: Final = 36_500
DAY_SECONDS: Final = 86_400.0
MOST_WAITING: Final = 10_000
BATCH: Final = 500
CLOSING_SECONDS: Final = 10.0


def kept_since(settings: Settings, days: float | None = None) -> str | None:
    """Return the moment before which what has ended may be deleted.

    None to keep everything.

    `days` overrides the setting.
    """
    wanted = settings.number(KEEP_DAYS) or 0 if days is None else days
    if not 0 <= wanted <= LONGEST_KEPT_DAYS:
        raise ConfigError(
            f"{KEEP_DAYS if days is None else '--days'} must be a number from 0 to "
            f"{LONGEST_KEPT_DAYS}"
        )
    return (
        iso_ms(SystemClock().now() - timedelta(days=wanted))
        if wanted or days is not None
        else None
    )


def prune_beside(assembly: Assembly, logger: logging.Logger) -> None:
    """Delete from the record what the setting store.keep_days lets go.

    What fails is a warning.
    """
    try:
        if (before := kept_since(assembly.settings)) is not None:
            with assembly.store() as store:
                store.prune(before)
    except BridgeheadError as error:
        logger.warning("the record was not pruned: %s", error.message)


class EventWriter:
    """Appends in batches what `put` was given.

    An event too many, or a record that refuses, is a warning.
    """

    def __init__(
        self, assembly: Assembly, *, part: str, logger: logging.Logger
    ) -> None:
        self._assembly = assembly
        self._part = part
        self._logger = logger
        self._events: queue.Queue[Event | None] = queue.Queue(MOST_WAITING)
        self._thread = threading.Thread(
            target=self._write, name=f"{part}-record", daemon=True
        )
        self._thread.start()

    def put(self, event: Event) -> None:
        try:
            self._events.put_nowait(event)
        except queue.Full:
            self._logger.warning(
                "the record is too slow; an event of the %s was dropped", self._part
            )

    def close(self) -> None:
        """Write what is left, and end."""
        self._events.put(None)
        self._thread.join(timeout=CLOSING_SECONDS)

    def _write(self) -> None:
        prune_at = time.monotonic()
        while (first := self._events.get()) is not None:
            if time.monotonic() >= prune_at:
                prune_beside(self._assembly, self._logger)
                prune_at = time.monotonic() + DAY_SECONDS
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
