"""What waits for this rig: questions put to it that none of its turns has taken in yet (rigs §8 inbox)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from bridgehead.rigs.envelope.fields import StatusClass, status_class
from bridgehead.rigs.operations.catalogue import Catalogue, catalogue
from bridgehead.rigs.operations.thread import is_kept_out, verify_listed
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.crossings import Crossings
from bridgehead.rigs.threads.index_rows import ListedEnvelope
from bridgehead.rigs.threads.thread import Turn
from bridgehead.rigs.trust.verification_kinds import Verification
from bridgehead.rigs.views.listings import Inbox, Notice

ASKING_TYPES = frozenset({"REQUEST", "HANDOFF", "VERIFY", "DECISIONS"})
ANSWERING_TYPES = frozenset({"RESPONSE", "RESULT"})
NEVER_ANSWERS = frozenset({"ACK", "STATE"})  # an ACK takes a question on and keeps it


def inbox(rig: Rig) -> Inbox:
    """Questions put to this rig that none of its turns has taken in yet, newest first."""
    return Inbox([Notice(envelope.turn, verification) for envelope, verification in waiting_envelopes(rig)])


def waiting_envelopes(rig: Rig, known: Catalogue | None = None) -> list[tuple[ListedEnvelope, Verification]]:
    """The same with everything the index knows; a look that was taken already must have findings."""
    own = rig.config.rig_id
    known = known or catalogue(rig, with_findings=True)
    threads = [_open_thread(known, name) for name in known.thread_ids() if not known.is_closed(name)]
    turns = waiting_for(own, threads, Crossings(rig.repository.private_dir).with_turn)
    concerned = dict.fromkeys(turn.thread_id for turn in turns)
    by_path = {envelope.path: envelope for name in concerned for envelope in known.listing(name).envelopes}
    waiting = [by_path[turn.path] for turn in turns]
    judged = zip(waiting, verify_listed(rig, known, waiting), strict=True)
    # What came by a clone or a pull by hand met no gate: it is judged here at the latest.
    return [(envelope, found) for envelope, found in judged if not is_kept_out(known, envelope, found)]


def _open_thread(known: Catalogue, thread_id: str) -> list[Turn]:
    """In no order: what waits is sorted once it is found, which in most threads is nothing."""
    return [envelope.turn for envelope in known.listing(thread_id).envelopes]


def waiting_for(
    rig_id: str,
    threads: Iterable[Sequence[Turn]],
    unseen: Callable[[str], Collection[str]] = lambda _path: (),
) -> list[Turn]:
    """Return the turns of open threads that wait for this rig, newest first.

    `unseen` names, for the path of a turn of ours, what came in while it was on its way.
    """
    waiting = [turn for thread in threads for turn in _waiting_in(rig_id, thread, unseen)]
    waiting.sort(key=lambda turn: turn.thread_id)
    return sorted(waiting, key=Turn.order_key, reverse=True)


def _waiting_in(rig_id: str, thread: Sequence[Turn], unseen: Callable[[str], Collection[str]]) -> list[Turn]:
    waiting = sorted((turn for turn in thread if _asks(turn, rig_id)), key=_place)
    if not waiting:
        return []
    own = [turn for turn in thread if turn.sender == rig_id and turn.commit_sha is not None]
    for answer in sorted(own, key=_place):
        answered = _answered(answer, waiting, unseen)
        waiting = [turn for turn in waiting if turn not in answered]
    return waiting


def _answered(answer: Turn, waiting: Sequence[Turn], unseen: Callable[[str], Collection[str]]) -> list[Turn]:
    """What a turn of ours answers: what it names; if it names nothing, the newest question of a recipient."""
    declines = status_class(answer.status) is StatusClass.CANCELLED
    if answer.type in NEVER_ANSWERS and not declines:
        return []
    if answer.references or answer.in_reply_to:
        return [turn for turn in waiting if _names(answer, turn)]
    if answer.type not in ANSWERING_TYPES and not declines:
        return []
    crossed = unseen(answer.path)
    before = [
        turn
        for turn in waiting
        if turn.sender in answer.recipients and _place(turn) < _place(answer) and turn.path not in crossed
    ]
    return before[-1:]


def _names(answer: Turn, asked: Turn) -> bool:
    commit = asked.commit_sha or ""
    named = any(reference and commit.startswith(reference) for reference in answer.references)
    return named or (bool(asked.body_hash) and answer.in_reply_to == asked.body_hash)


def _place(turn: Turn) -> int:
    return turn.position or 0


def _asks(turn: Turn, rig_id: str) -> bool:
    return (
        turn.type in ASKING_TYPES
        and turn.commit_sha is not None
        and turn.sender != rig_id
        and rig_id in turn.recipients
    )
