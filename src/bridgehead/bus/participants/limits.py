"""How much is too much: message rate, nesting, repeated violations (bus §10.5), and the
bounded backlog (B-42, B-43).
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec

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
        """Return whether one more stays within the limits."""
        return len(self._waiting) < count and self.bytes + len(delivery.body) <= size

    def hold(self, delivery: Delivery, *, count: int, size: int) -> list[Delivery]:
        """Keep `delivery`, dropping the oldest for it.

        Returns what was dropped, in order.
        """
        if len(delivery.body) > size or count == 0:
            return [delivery]
        dropped = []
        while self._waiting and not self.fits(delivery, count=count, size=size):
            dropped.append(self._waiting.popleft())
            self.bytes -= len(dropped[-1].body)
        self.append(delivery)
        return dropped

    def take_all(self) -> list[Delivery]:
        """Return everything that waits, oldest first; the queue is empty afterwards."""
        taken = list(self._waiting)
        self._waiting.clear()
        self.bytes = 0
        return taken


OPEN_S: Final = 120.0
"""A question without an end marker counts as open for so long."""
ROUNDING: Final = 0.001
"""Of one message, which adding up many times must not cost."""
KEPT_WITHOUT_ENDS: Final = 64
VIOLATIONS: Final = 10
VIOLATION_WINDOW_S: Final = 60.0


class TokenBucket:
    """`rate` per second sustained, `burst` at once."""

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self._each_s = 1.0 / rate
        self._most_s = (burst + ROUNDING) / rate
        self._full_at = now
        """When the whole burst may be used again."""

    def take(self, now: float, cost: float = 1.0) -> bool:
        """Take one more, or one that counts for several, if that is allowed now."""
        used_s = self._full_at - now
        if used_s < 0.0:
            used_s = 0.0
        used_s += cost * self._each_s
        if used_s > self._most_s:
            return False
        self._full_at = now + used_s
        return True


class OpenQuestion(msgspec.Struct, frozen=True, gc=False):
    """One utterance that waits for its end marker."""

    hub_session: str
    utterance_id: str | None
    at: float


class OpenQuestions:
    """Utterances of one participant that have no end yet, oldest first.

    What never ends is forgotten after a while.
    """

    def __init__(self, limit: int) -> None:
        self._ended: deque[tuple[str, str | None]] = deque(maxlen=16)
        self._open: deque[OpenQuestion] = deque()
        self.allow(limit)

    def allow(self, limit: int) -> None:
        self._limit = limit
        self._open = deque(self._open, maxlen=max(limit, KEPT_WITHOUT_ENDS))

    def begin(
        self, hub_session: str, utterance_id: object, now: float, ends_are_marked: bool
    ) -> str | None:
        """Begin a question, or return why not.

        A `twin` is open or held for a reconnect already.

        Where no hub marks ends, nobody can have too many: the oldest makes room.
        """
        waiting = self._open
        named = None
        while waiting and now - waiting[0].at >= OPEN_S:
            waiting.popleft()
        if isinstance(utterance_id, str) and utterance_id:
            named = utterance_id
            asked = (hub_session, utterance_id)
            if asked in self._ended or any(
                (o.hub_session, o.utterance_id) == asked for o in waiting
            ):
                return "twin"
        if ends_are_marked and len(waiting) >= self._limit:
            return "too_many_questions"
        waiting.append(OpenQuestion(hub_session, named, now))
        return None

    def end(
        self, hub_session: str, utterance_id: object, *, held: bool = False
    ) -> None:
        """Take an end marker; one that names no utterance ends the oldest of its
        session.

        Whoever gets it is sure of the answer only if it is `held` until they are back;
        what was on its way when a connection broke may be asked for again.
        """
        here = [
            question for question in self._open if question.hub_session == hub_session
        ]
        named = [question for question in here if question.utterance_id == utterance_id]
        if here:
            over = (named or here)[0]
            self._open.remove(over)
            if held:
                self._ended.append((hub_session, over.utterance_id))

    def take_all(self) -> list[OpenQuestion]:
        taken = list(self._open)
        self._open.clear()
        return taken


class ViolationCount:
    """Refusals of the last minute; too many of them end the connection."""

    def __init__(self, limit: int = VIOLATIONS) -> None:
        self._recent: deque[float] = deque(maxlen=limit)

    def too_many(self, now: float) -> bool:
        """Count one more, and say whether that was the last one tolerated."""
        self._recent.append(now)
        return (
            len(self._recent) == self._recent.maxlen
            and now - self._recent[0] < VIOLATION_WINDOW_S
        )


def is_deeper_than(value: Any, limit: int) -> bool:
    """Return whether objects and arrays are nested more than `limit` levels.

    Walks without recursion.
    """
    level = [value]
    for _ in range(limit):
        below: list[Any] = []
        for node in level:
            children = node.values() if isinstance(node, dict) else node
            below += [child for child in children if isinstance(child, dict | list)]
        level = below
        if not level:
            return False
    return True
