"""Messages that wait for a participant, bounded in count and bytes (B-42, B-43). Pure."""

from __future__ import annotations

from collections import deque

from bridgehead.bus.actions import Delivery


class Backlog:
    """A first-in, first-out queue that knows its own weight."""

    def __init__(self) -> None:
        self._waiting: deque[Delivery] = deque()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def append(self, delivery: Delivery) -> None:
        self._waiting.append(delivery)
        self.bytes += len(delivery.body)

    def fits(self, delivery: Delivery, *, count: int, size: int) -> bool:
        """Whether one more stays within the bounds."""
        return len(self._waiting) < count and self.bytes + len(delivery.body) <= size

    def hold(self, delivery: Delivery, *, count: int, size: int) -> list[Delivery]:
        """Keep `delivery`, dropping the oldest for it; returns what was dropped, in order."""
        if len(delivery.body) > size or count == 0:
            return [delivery]
        dropped = []
        while self._waiting and not self.fits(delivery, count=count, size=size):
            dropped.append(self._pop())
        self.append(delivery)
        return dropped

    def take_all(self) -> list[Delivery]:
        """Everything that waits, oldest first; the queue is empty afterwards."""
        taken = list(self._waiting)
        self._waiting.clear()
        self.bytes = 0
        return taken

    def _pop(self) -> Delivery:
        oldest = self._waiting.popleft()
        self.bytes -= len(oldest.body)
        return oldest
