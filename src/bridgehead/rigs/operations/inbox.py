"""What waits for this rig: questions put to it that none of its turns has taken in yet (rigs §8 inbox)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from bridgehead.rigs.operations.catalogue import Catalogue, catalogue
from bridgehead.rigs.operations.thread import verify_listed
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.causality import Causality
from bridgehead.rigs.threads.index_rows import ListedEnvelope
from bridgehead.rigs.threads.thread import Turn
from bridgehead.rigs.trust.verification_kinds import Verification
from bridgehead.rigs.views.listings import Inbox, Notice

ASKING_TYPES = frozenset({"REQUEST", "HANDOFF", "VERIFY", "DECISIONS"})


def inbox(rig: Rig) -> Inbox:
    """Questions put to this rig that none of its turns has taken in yet, newest first."""
    return Inbox([Notice(envelope.turn, verification) for envelope, verification in waiting_envelopes(rig)])


def waiting_envelopes(rig: Rig, known: Catalogue | None = None) -> list[tuple[ListedEnvelope, Verification]]:
    """The same with everything the index knows; a look that was taken already must have findings."""
    own = rig.config.rig_id
    known = known or catalogue(rig, with_findings=True)
    threads = [_open_thread(known, name) for name in known.thread_ids() if not known.is_closed(name)]
    turns = waiting_for(own, threads)
    concerned = dict.fromkeys(turn.thread_id for turn in turns)
    by_path = {envelope.path: envelope for name in concerned for envelope in known.listing(name).envelopes}
    waiting = [by_path[turn.path] for turn in turns]
    return list(zip(waiting, verify_listed(rig, known, waiting), strict=True))


def _open_thread(known: Catalogue, thread_id: str) -> OpenThread:
    """In no order: what waits is sorted once it is found, which in most threads is nothing."""
    turns = [envelope.turn for envelope in known.listing(thread_id).envelopes]
    return OpenThread(turns, lambda: known.causality(thread_id))


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
