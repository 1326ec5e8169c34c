"""The embedded hub inside the same process: nothing is encoded, nothing is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from bridgehead.bus.hub import Hub
from bridgehead.bus.message import Message
from bridgehead.bus.transports.base import Audience, Ear


class MemoryTransport:
    """A place at a hub of this process."""

    scheme: ClassVar[str] = "memory"

    def __init__(self, hub: Hub, tell: Callable[[Audience], None] | None = None) -> None:
        """`tell` hears whom the bridge serves, for a hub that is part of a fabric."""
        self._hub = hub
        self._tell = tell
        self._place: object | None = None

    async def connect(self, ear: Ear) -> None:
        self._place = self._hub.listen(ear.heard)

    def send(self, message: Message) -> bool:
        if self._place is None:
            return False
        self._hub.publish(message, self._place)
        return True

    def expect(self, audience: Audience) -> None:
        if self._tell is not None:
            self._tell(audience)

    async def close(self) -> None:
        if self._place is not None:
            self._hub.silence(self._place)
            self._place = None
