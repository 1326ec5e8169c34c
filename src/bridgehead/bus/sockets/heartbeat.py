"""Finding connections that are half open: who is silent is pinged, who stays silent is cut off."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final, Protocol

PING_S: Final = 20.0
SILENCE_S: Final = 60.0


class Pingable(Protocol):
    """A connection whose silence matters."""

    last_received: float
    last_pinged: float

    def ping(self) -> None: ...

    def cut_off(self) -> None: ...


class Heartbeat:
    """Watches all connections of one server with one timer."""

    def __init__(self, *, ping_s: float = PING_S, silence_s: float = SILENCE_S) -> None:
        self._ping_s = ping_s
        self._silence_s = silence_s
        self._watched: dict[Pingable, None] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def watched(self) -> int:
        return len(self._watched)

    def now(self) -> float:
        """The time connections note when something arrives."""
        return monotonic()

    def watch(self, connection: Pingable) -> None:
        connection.last_received = connection.last_pinged = self.now()
        self._watched[connection] = None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._beat())

    def forget(self, connection: Pingable) -> None:
        self._watched.pop(connection, None)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._ping_s / 4)
            now = self.now()
            for connection in list(self._watched):
                if now - connection.last_received >= self._silence_s:
                    self.forget(connection)
                    connection.cut_off()
                elif now - max(connection.last_received, connection.last_pinged) >= self._ping_s:
                    connection.last_pinged = now
                    connection.ping()
