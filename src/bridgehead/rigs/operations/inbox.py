"""What waits for this rig (rigs §8 inbox)."""

from __future__ import annotations

from bridgehead.rigs.inbox import OpenThread, waiting_for
from bridgehead.rigs.inbox_view import Inbox, Notice
from bridgehead.rigs.index_rows import ListedEnvelope
from bridgehead.rigs.operations.catalogue import Catalogue, catalogue
from bridgehead.rigs.operations.rig import Rig
from bridgehead.rigs.operations.thread import verify_listed
from bridgehead.rigs.verification_kinds import Verification


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
