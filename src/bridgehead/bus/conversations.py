"""What the assistant remembers of its conversations (B-69): the last few turns, for a while, not too many. Pure."""

from __future__ import annotations

from collections import deque
from typing import Final

TURNS: Final = 6
SESSIONS: Final = 1000
IDLE_S: Final = 600.0


class Conversations:
    """Turns by session id; never part of the session itself."""

    def __init__(self, *, turns: int = TURNS, sessions: int = SESSIONS, idle_s: float = IDLE_S) -> None:
        self._turns = turns
        self._sessions = sessions
        self._idle_s = idle_s
        self._kept: dict[str, tuple[float, deque[tuple[str, str]]]] = {}

    def earlier(self, session_id: str, now: float) -> tuple[tuple[str, str], ...]:
        """The turns of a conversation that has not gone cold."""
        self._forget_idle(now)
        kept = self._kept.get(session_id)
        return tuple(kept[1]) if kept is not None else ()

    def note(self, session_id: str, said: str, answered: str, now: float) -> None:
        """Remember one more turn."""
        if self._turns == 0:
            return
        _at, turns = self._kept.pop(session_id, (now, deque(maxlen=self._turns)))
        turns.append((said, answered))
        self._kept[session_id] = (now, turns)
        while len(self._kept) > self._sessions:
            del self._kept[next(iter(self._kept))]

    def _forget_idle(self, now: float) -> None:
        # In order of last use, so the first that is fresh ends the search.
        while self._kept:
            oldest = next(iter(self._kept))
            if now - self._kept[oldest][0] < self._idle_s:
                return
            del self._kept[oldest]
