"""Recent traffic for somebody who looks: messages per second, and heads of messages while they are watched. Pure."""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from bridgehead.bus.message import Message
from bridgehead.bus.status import MessageContent, MessageHead, Rate
from bridgehead.bus.tailing import described

RATE_SECONDS: Final = 120
MAX_HEADS: Final = 300
MAX_KEPT_BYTES: Final = 64 * 1024
"""A larger message is shown by its head only, so that watching never fills memory."""
WATCHED_S: Final = 20.0
"""How long after the last look messages are still noted."""


class Rates:
    """Messages per second, from counters that only grow."""

    def __init__(self) -> None:
        self._samples: deque[Rate] = deque(maxlen=RATE_SECONDS)
        self._last = (0, 0)

    def sample(self, taken: int, offered: int) -> None:
        """One second has passed; these are the counters now."""
        before_taken, before_offered = self._last
        self._samples.append(Rate(taken - before_taken, offered - before_offered))
        self._last = (taken, offered)

    @property
    def recent(self) -> tuple[Rate, ...]:
        return tuple(self._samples)


class _Noted(msgspec.Struct, frozen=True):
    head: MessageHead
    message: Message | None


class Tail:
    """The last messages on the hub, noted only while somebody looks."""

    def __init__(self) -> None:
        self._noted: deque[_Noted] = deque(maxlen=MAX_HEADS)
        self._number = 0
        self._looked_at: float | None = None

    @property
    def is_watched(self) -> bool:
        return self._looked_at is not None

    def look(self, after: int, now: float) -> tuple[MessageHead, ...]:
        """Heads with a number above `after`, oldest first; from now on messages are noted."""
        self._looked_at = now
        return tuple(noted.head for noted in self._noted if noted.head.number > after)

    def note(self, message: Message, at: str) -> None:
        self._number += 1
        facts = described(message, at, with_data=False)
        head = MessageHead(**{**facts, "destination": tuple(facts["destination"])}, number=self._number)
        self._noted.append(_Noted(head, message if head.bytes <= MAX_KEPT_BYTES else None))

    def content(self, number: int) -> MessageContent | None:
        """What a message carries; None when it is gone, or too large to be kept."""
        for noted in self._noted:
            if noted.head.number == number and noted.message is not None:
                return MessageContent(number, noted.message.data, noted.message.context)
        return None

    def rest(self, now: float) -> None:
        """Forget everything once nobody has looked for a while."""
        if self._looked_at is not None and now - self._looked_at >= WATCHED_S:
            self._looked_at = None
            self._noted.clear()
