"""A small memory for answers that are asked for again and again: bounded, and shared by threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


class Remembering(Generic[Key, Answer]):
    """One answer for each key, good while what it was made from, its `state`, is the same; those used last are kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[Key, tuple[Hashable, Answer]] = {}
        self._lock = threading.Lock()

    def recall(self, key: Key, state: Hashable) -> Answer | None:
        with self._lock:
            known = self._kept.pop(key, None)
            if known is None or known[0] != state:
                return None
            self._kept[key] = known  # used last, forgotten last
            return known[1]

    def keep(self, key: Key, state: Hashable, answer: Answer) -> Answer:
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = (state, answer)
            while len(self._kept) > self._most:
                del self._kept[next(iter(self._kept))]
        return answer

    def recall_or(self, key: Key, state: Hashable, make: Callable[[], Answer]) -> Answer:
        """The answer kept, or a new one; it is made outside the lock, at worst twice at the same time."""
        known = self.recall(key, state)
        return self.keep(key, state, make()) if known is None else known
