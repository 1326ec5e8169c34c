"""A request to stop, made in one thread and noticed at once in others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Cancel:
    """A token that can be cancelled once and stays so; one token may stop several runs."""

    def __init__(self) -> None:
        # Re-entrant, because a signal handler may cancel while this very thread is in `waking`.
        self._lock = threading.RLock()
        self._cancelled = False
        self._wakers: list[Callable[[], None]] = []

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> None:
        """Ask everyone who watches this token to stop; safe from any thread and more than once."""
        with self._lock:
            self._cancelled = True
            for wake in self._wakers:
                wake()

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Call `wake` on cancellation while the block runs, and never after it."""
        with self._lock:
            self._wakers.append(wake)
        try:
            yield
        finally:
            with self._lock:
                self._wakers.remove(wake)
