"""A bus that runs beside a synchronous test, in a thread with a loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.sockets.event_loop import new_event_loop
from bus.support.serving import Served, served_bus

Result = TypeVar("Result")
PATIENCE_S = 20


class LiveBus:
    """The server, and a way to let its loop do something."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loop = new_event_loop()
        self._up = threading.Event()
        self._over: asyncio.Event
        self.server: Served

    def do(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._over = asyncio.Event()
        async with served_bus(self._folder, agent=ScriptedAgent()) as self.server:
            self._up.set()
            await self._over.wait()

    def wait_until_up(self) -> None:
        assert self._up.wait(PATIENCE_S), "the bus did not start"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)


@contextmanager
def live_bus(folder: Path) -> Iterator[LiveBus]:
    bus = LiveBus(folder)
    thread = threading.Thread(target=bus.run, name="test-bus")
    thread.start()
    bus.wait_until_up()
    try:
        yield bus
    finally:
        bus.stop()
        thread.join(PATIENCE_S)
