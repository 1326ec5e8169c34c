"""What waits for this rig: questions put to it that none of its turns has taken in yet (rigs §8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from bridgehead.rigs.causality import Causality
from bridgehead.rigs.thread import Turn

ASKING_TYPES = frozenset({"REQUEST", "HANDOFF", "VERIFY", "DECISIONS"})


class OpenThread(NamedTuple):
    """The turns of a thread that is not closed, and how to learn who knew what in it."""

    turns: Sequence[Turn]
    causality: Callable[[], Causality]  # asked only where something is addressed to us


def waiting_for(rig_id: str, threads: Iterable[OpenThread]) -> list[Turn]:
    """Return the turns that wait for this rig, newest first."""
    waiting = [turn for thread in threads for turn in _waiting_in(rig_id, thread)]
    waiting.sort(key=lambda turn: turn.thread_id)
    return sorted(waiting, key=Turn.order_key, reverse=True)


def _waiting_in(rig_id: str, thread: OpenThread) -> list[Turn]:
    asked = [turn for turn in thread.turns if _asks(turn, rig_id)]
    if not asked:
        return []
    taken_in = thread.causality().known_to_rig(rig_id)
    return [turn for turn in asked if turn.filename not in taken_in]


def _asks(turn: Turn, rig_id: str) -> bool:
    return (
        turn.type in ASKING_TYPES
        and turn.commit_sha is not None
        and turn.sender != rig_id
        and rig_id in turn.recipients
    )
