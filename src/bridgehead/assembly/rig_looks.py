"""Looks at a clone, remembered while nothing in it has changed: pages are asked for again every few seconds.

An answer is good for the state of the work tree it was made from (rigs/work_tree_state.py) and, where a signature was
judged, for the list of allowed signers; nothing remembered outlives either.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bridgehead.assembly.remembering import Remembering
from bridgehead.rigs.index_rows import ListedEnvelope
from bridgehead.rigs.operations.catalogue import Catalogue, catalogue
from bridgehead.rigs.operations.inbox import waiting_envelopes
from bridgehead.rigs.operations.rig import Rig
from bridgehead.rigs.operations.status import status_of
from bridgehead.rigs.operations.thread import verify_listed
from bridgehead.rigs.operations.verification import allowed_signers_file
from bridgehead.rigs.status_view import Status
from bridgehead.rigs.verification_kinds import PathFindings, Verification
from bridgehead.rigs.work_tree_state import state_of

MOST_CLONES: Final = 8
MOST_INBOXES: Final = 100
MOST_LOOKS: Final = 16
MOST_VERDICTS: Final = 10_000


class ThreadLook(NamedTuple):
    """A thread as it lies in a clone."""

    known: Catalogue
    envelopes: tuple[ListedEnvelope, ...]
    """Oldest first."""
    numbers: dict[str, int]
    """The place of each path among them."""
    heads: tuple[int, ...]
    """Places of the turns that do not know of each other; empty while the thread is one line."""
    rigs: tuple[str, ...]
    is_closed: bool
    unreadable: tuple[PathFindings, ...]


Inbox = Sequence[tuple[ListedEnvelope, Verification]]

_clones: Remembering[str, Catalogue] = Remembering(MOST_CLONES)
_statuses: Remembering[str, Status] = Remembering(MOST_CLONES)
_inboxes: Remembering[str, Inbox] = Remembering(MOST_INBOXES)
_looks: Remembering[tuple[str, str], ThreadLook] = Remembering(MOST_LOOKS)
_verdicts: Remembering[tuple[str, str], Verification] = Remembering(MOST_VERDICTS)


def look_around(rig: Rig) -> tuple[Catalogue, Status]:
    """All threads of a clone as they lie now, and how they stand. Freezes end by themselves: ask for them anew."""
    known, state = _look_around(rig)
    if state is None:
        return known, status_of(rig, known)
    shared = (state, known.survey.ahead)
    return known, _statuses.recall_or(rig.repository.root, shared, lambda: status_of(rig, known))


def look_into_inbox(rig: Rig) -> Inbox:
    """What waits for a rig, newest first."""
    known, state = _look_around(rig)
    if state is None:
        return waiting_envelopes(rig, known)
    judged_with = (state, _stamp(allowed_signers_file(rig)))
    return _inboxes.recall_or(rig.repository.root, judged_with, lambda: waiting_envelopes(rig, known))


def _look_around(rig: Rig) -> tuple[Catalogue, str | None]:
    """The look, and the state of which it tells; without one it is not remembered."""
    repository = rig.repository
    survey = repository.survey()
    state = state_of(survey, repository.stamp, time.time_ns())

    def look() -> Catalogue:
        return catalogue(rig, survey=survey, with_findings=True)

    return look() if state is None else _clones.recall_or(repository.root, state, look), state


def look_at(rig: Rig, thread_id: str) -> ThreadLook:
    """Everything about a thread that does not need its bodies or signatures."""
    repository = rig.repository
    survey = repository.survey(thread_id)
    state = state_of(survey, repository.stamp, time.time_ns())

    def look() -> ThreadLook:
        return _look(catalogue(rig, thread_id, survey=survey, with_findings=True), thread_id)

    return look() if state is None else _looks.recall_or((repository.root, thread_id), state, look)


def judged(rig: Rig, look: ThreadLook, envelopes: Sequence[ListedEnvelope]) -> list[Verification]:
    """What speaks for and against envelopes of a thread, in the order given."""
    root, head = rig.repository.root, look.known.survey.head
    signers = _stamp(allowed_signers_file(rig))

    def judged_with(envelope: ListedEnvelope) -> Hashable:
        # A relay turn is judged against the whole repository: its nonce must be new, its parent known.
        return (envelope, signers, head if envelope.is_relay else None)

    found = {one.path: _verdicts.recall((root, one.path), judged_with(one)) for one in envelopes}
    missing = [envelope for envelope in envelopes if found[envelope.path] is None]
    for envelope, fresh in zip(missing, verify_listed(rig, look.known, missing), strict=True):
        found[envelope.path] = _verdicts.keep((root, envelope.path), judged_with(envelope), fresh)
    return [verdict for envelope in envelopes if (verdict := found[envelope.path]) is not None]


def _look(known: Catalogue, thread_id: str) -> ThreadLook:
    listing = known.listing(thread_id)
    envelopes = tuple(sorted(listing.envelopes, key=lambda envelope: envelope.turn.order_key()))
    numbers = {envelope.path: place for place, envelope in enumerate(envelopes)}
    divergence = known.causality(thread_id).divergence()
    return ThreadLook(
        known,
        envelopes,
        numbers,
        tuple(sorted(numbers[turn.path] for turn in divergence.heads)) if divergence else (),
        tuple(dict.fromkeys(envelope.turn.sender for envelope in envelopes)),
        known.is_closed(thread_id),
        listing.unreadable,
    )


def _stamp(path: Path | None) -> str:
    if path is None:
        return ""
    found = path.stat()
    return f"{path}\0{found.st_ino}.{found.st_size}.{found.st_mtime_ns}.{found.st_ctime_ns}"
