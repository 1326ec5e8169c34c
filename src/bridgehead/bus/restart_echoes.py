"""Echoes of what an earlier process of this bridge wrote (hazard: delivered back after a restart). Pure.

Digests do not survive a restart, so for a few seconds a broadcast under a participant's own source that the
participant itself could have published is taken for its echo and not sent back to it.
"""

from __future__ import annotations

from typing import Final

from bridgehead.bus.message import Message, destinations
from bridgehead.bus.participants import Participant

WINDOW_S: Final = 5.0


class RestartEchoes:
    """Knows when the process began; `began` is None where there was none before it."""

    def __init__(self, began: float | None) -> None:
        self._until = 0.0 if began is None else began + WINDOW_S
        self.lasts = began is not None
        """Whether the first seconds may not be over yet."""

    def obstacle(self, participant: Participant, message: Message, now: float) -> str | None:
        """`echo` if the participant's own words of before the restart may be coming back."""
        if now >= self._until:
            self.lasts = False
            return None
        is_own = (
            message.context.get("source") == participant.source
            and not destinations(message.context)
            and participant.record.may_publish(message.type)
        )
        return "echo" if is_own else None
