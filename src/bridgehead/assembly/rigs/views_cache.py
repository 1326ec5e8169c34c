"""Views of a clone, kept while nothing in it has changed: pages ask again every few
seconds.
"""

import threading
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from bridgehead.rigs.operations.catalogue import Catalogue, catalogue
from bridgehead.rigs.operations.identities import allowed_signers_file
from bridgehead.rigs.operations.inbox import InboxContents, inbox_contents
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.crossings import seen_state
from bridgehead.rigs.threads.listed_envelope import ListedEnvelope
from bridgehead.rigs.threads.quarantine import quarantine_state
from bridgehead.rigs.trust.verification_kinds import PathFindings
from bridgehead.rigs.views.listings import Status

if TYPE_CHECKING:
    from bridgehead.rigs.repositories.git.survey import GitSurvey

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")
MOST_CLONES: Final = 8
MOST_INBOXES: Final = 100
MOST_THREADS: Final = 16


class Cache(Generic[Key, Answer]):
    """One answer for each key, good while what it was made from, its `state`, is the
    same; those used last are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._answers: dict[Key, tuple[Hashable, Answer]] = {}
        self._lock = threading.Lock()

    def get_or_make(
        self, key: Key, state: Hashable, make: Callable[[], Answer]
    ) -> Answer:
        """Return the answer kept, or a new one.

        It is made outside the lock, at worst twice at the same time.
        """
        with self._lock:
            known = self._answers.pop(key, None)
            if known is not None and known[0] == state:
                self._answers[key] = known  # used last, forgotten last
                return known[1]
        answer = make()
        with self._lock:
            self._answers.pop(key, None)
            self._answers[key] = (state, answer)
            while len(self._answers) > self._most:
                del self._answers[next(iter(self._answers))]
        return answer


class ThreadSnapshot(NamedTuple):
    """A thread as it lies in a clone."""

    known: Catalogue
    envelopes: tuple[ListedEnvelope, ...]
    """Oldest first."""
    numbers: dict[str, int]
    """The place of each path among them."""
    heads: tuple[int, ...]
    """Places of the turns that do not know of each other; empty while the thread is one
    line.
    """
    rigs: tuple[str, ...]
    is_closed: bool
    unreadable: tuple[PathFindings, ...]


_clones: Cache[str, Catalogue] = Cache(MOST_CLONES)
_statuses: Cache[str, Status] = Cache(MOST_CLONES)
_inboxes: Cache[str, InboxContents] = Cache(MOST_INBOXES)
_threads: Cache[tuple[str, str], ThreadSnapshot] = Cache(MOST_THREADS)


def cached_status(rig: Rig) -> tuple[Catalogue, Status]:
    """Return all threads of a clone as they lie now, and how they stand.

    Freezes end by themselves: ask for them anew.
    """
    from bridgehead.rigs.operations.status import status_of

    known, state = _cached_catalogue(rig, rig.repository.survey())
    return known, _statuses.get_or_make(
        rig.repository.root, state, lambda: status_of(rig, known)
    )


def cached_inbox(rig: Rig) -> tuple[Catalogue, InboxContents]:
    """Return everything that concerns a rig.

    What is overdue, and what was looked at, may have changed since.
    """
    known, state = _cached_catalogue(rig)
    verified_with = (
        state,
        _stamp(allowed_signers_file(rig)),
        seen_state(rig.repository.private_dir),
    )
    return known, _inboxes.get_or_make(
        rig.repository.root, verified_with, lambda: inbox_contents(rig, known)
    )


def cached_thread(rig: Rig, thread_id: str) -> ThreadSnapshot:
    """Return everything about a thread that does not need its bodies or signatures."""
    known = catalogue(rig, thread_id, survey=rig.repository.survey(thread_id))
    return _threads.get_or_make(
        (rig.repository.root, thread_id),
        _state(rig, known),
        lambda: _thread_snapshot(known, thread_id),
    )


def _cached_catalogue(
    rig: Rig, survey: "GitSurvey | None" = None
) -> tuple[Catalogue, Hashable]:
    """Return the catalogue and the state it was made from."""
    known = catalogue(rig, survey=survey)
    state = _state(rig, known)
    return _clones.get_or_make(rig.repository.root, state, lambda: known), state


def _state(rig: Rig, known: Catalogue) -> Hashable:
    survey = known.survey
    return (
        survey.head,
        survey.ahead,
        survey.dirty,
        quarantine_state(rig.repository.private_dir),
        *known.marks().items(),
    )


def _thread_snapshot(known: Catalogue, thread_id: str) -> ThreadSnapshot:
    listing = known.listing(thread_id)
    envelopes = tuple(
        sorted(listing.envelopes, key=lambda envelope: envelope.turn.order_key())
    )
    numbers = {envelope.path: place for place, envelope in enumerate(envelopes)}
    divergence = known.causality(thread_id).divergence()
    return ThreadSnapshot(
        known,
        envelopes,
        numbers,
        tuple(sorted(numbers[turn.path] for turn in divergence.heads))
        if divergence
        else (),
        tuple(dict.fromkeys(envelope.turn.sender for envelope in envelopes)),
        known.is_closed(thread_id),
        listing.unreadable,
    )


def _stamp(path: Path | None) -> str:
    if path is None:
        return ""
    found = path.stat()
    return f"{path}\0{found.st_ino}.{found.st_size}.{found.st_mtime_ns}.{found.st_ctime_ns}"
