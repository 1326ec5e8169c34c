"""How much is too much: message rate, nesting depth, repeated violations (bus §10.5). Pure, time passed in."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

VIOLATIONS: Final = 10
VIOLATION_WINDOW_S: Final = 60.0
_OPENING: Final = b"{["


class TokenBucket:
    """`rate` per second sustained, `burst` at once."""

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self.rate = rate
        self.burst = burst
        self._tokens = float(burst)
        self._at = now

    def take(self, now: float) -> bool:
        """Whether one more is allowed at this moment."""
        tokens = self._tokens
        # A clock that stands still or steps back adds nothing and takes nothing away.
        if now > self._at:
            tokens += (now - self._at) * self.rate
            self._at = now
            if tokens > self.burst:
                tokens = self.burst
        allowed = tokens >= 1.0
        self._tokens = tokens - allowed
        return allowed


class ViolationCount:
    """Refusals of the last minute; too many of them end the connection."""

    def __init__(self, *, limit: int = VIOLATIONS, window_s: float = VIOLATION_WINDOW_S) -> None:
        self._window_s = window_s
        self._recent: deque[float] = deque(maxlen=limit)

    def too_many(self, now: float) -> bool:
        """Count one more, and say whether that was the last one tolerated."""
        self._recent.append(now)
        return len(self._recent) == self._recent.maxlen and now - self._recent[0] < self._window_s


def frame_may_be_deep(frame: bytes, limit: int) -> bool:
    """A cheap look at the bytes: without that many brackets nothing can be nested too deeply."""
    return len(frame) - len(frame.translate(None, _OPENING)) > limit


def is_deeper_than(value: Any, limit: int) -> bool:
    """Whether objects and arrays are nested more than `limit` levels; walks without recursion."""
    level = [value]
    for _ in range(limit):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True
