"""A small memory for answers that are asked for again and again: bounded, and shared by threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


class Remembering(Generic[Key, Answer]):
    """Keeps the answers used last. What an answer depends on is part of its key, so none is ever out of date."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[Key, Answer] = {}
        self._lock = threading.Lock()

    def recall(self, key: Key) -> Answer | None:
        with self._lock:
            if key not in self._kept:
                return None
            answer = self._kept[key] = self._kept.pop(key)  # used last, forgotten last
            return answer

    def keep(self, key: Key, answer: Answer) -> Answer:
        with self._lock:
            self._kept[key] = answer
            while len(self._kept) > self._most:
                del self._kept[next(iter(self._kept))]
        return answer

    def recall_or(self, key: Key, make: Callable[[], Answer]) -> Answer:
        """The answer kept, or a new one; it is made outside the lock, at worst twice at the same time."""
        known = self.recall(key)
        return self.keep(key, make()) if known is None else known
