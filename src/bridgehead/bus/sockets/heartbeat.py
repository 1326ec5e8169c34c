"""Finding connections that are half open: who is silent is pinged, who stays silent is cut off."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final, Protocol

PING_S: Final = 20.0
SILENCE_S: Final = 60.0


class Pulse(Protocol):
    """A connection whose silence matters."""

    last_heard: float
    last_pinged: float

    def ping(self) -> None: ...

    def cut_off(self) -> None: ...


class Heartbeat:
    """Looks after all connections of one server with one timer."""

    def __init__(self, *, ping_s: float = PING_S, silence_s: float = SILENCE_S) -> None:
        self._ping_s = ping_s
        self._silence_s = silence_s
        self._watched: dict[Pulse, None] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def watched(self) -> int:
        return len(self._watched)

    def now(self) -> float:
        """The time connections note when they hear something."""
        return monotonic()

    def watch(self, pulse: Pulse) -> None:
        pulse.last_heard = pulse.last_pinged = self.now()
        self._watched[pulse] = None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._beat())

    def forget(self, pulse: Pulse) -> None:
        self._watched.pop(pulse, None)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._ping_s / 4)
            now = self.now()
            for pulse in list(self._watched):
                self._look_at(pulse, now)

    def _look_at(self, pulse: Pulse, now: float) -> None:
        if now - pulse.last_heard >= self._silence_s:
            self.forget(pulse)
            pulse.cut_off()
        elif now - max(pulse.last_heard, pulse.last_pinged) >= self._ping_s:
            pulse.last_pinged = now
            pulse.ping()
