"""Give operations the threads of a bridge, on top of the envelope index (rigs §8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from bridgehead.errors import UserError
from bridgehead.rigs.envelope.fields import parse_thread_id
from bridgehead.rigs.envelope.names import is_closed, is_thread_directory
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.causality import Causality
from bridgehead.rigs.threads.index import EnvelopeIndex, ThreadListing
from bridgehead.rigs.threads.listed_envelope import ListedEnvelope
from bridgehead.rigs.threads.thread import Turn, in_order
from bridgehead.rigs.trust.verification_kinds import Kind

if TYPE_CHECKING:
    from bridgehead.rigs.repositories.git.survey import GitSurvey

# What makes an envelope count as unverified in a listing, which does not check
# signatures (rigs §7).
_DAMAGED = frozenset(
    {
        Kind.SCHEMA_INVALID,
        Kind.BODY_HASH_MISMATCH,
        Kind.RIG_ID_INVALID,
        Kind.THREAD_MISMATCH,
        Kind.SYMLINK,
    }
)
_MOST_NAMED = 5


class Catalogue(EnvelopeIndex):
    """The index of a rig's clone, of all threads or of one."""

    def __init__(
        self,
        rig: Rig,
        thread_id: str | None = None,
        *,
        survey: GitSurvey | None = None,
    ) -> None:
        rig.repository.refuse_shallow()  # before an index of half a history is kept
        super().__init__(rig.repository, thread_id, survey=survey, tell=rig.tell_once)
        self._thread_id = thread_id
        self._listings: dict[str, ThreadListing] = {}

    def let_go(self, thread: str) -> None:
        """Free the memory that a thread takes; it can be read again."""
        self._listings.pop(thread, None)

    def thread_ids(self, *, naming: Iterable[str] | None = None) -> list[str]:
        """Return the threads, or only those in which one of these rigs is named."""
        if self._thread_id is not None:
            return [self._thread_id]
        if naming is None:
            return self.thread_names()
        return self.names_naming(naming)

    def listing(self, thread_id: str) -> ThreadListing:
        if thread_id not in self._listings:
            self._listings[thread_id] = self.thread(thread_id)
        return self._listings[thread_id]

    def envelopes(self) -> list[ListedEnvelope]:
        """Return every envelope, thread by thread."""
        envelopes: list[ListedEnvelope] = []
        for thread_id in self.thread_ids():
            envelopes += self.listing(thread_id).envelopes
        return envelopes

    def parents(self) -> Mapping[str, tuple[str, ...]] | None:
        """Return the parents of every commit; None if history is linear."""
        return None if self.is_linear else self._repository.ancestry()

    def turns(self, thread_id: str | None = None) -> list[Turn]:
        """Return the turns of a thread, oldest first, or those of all threads."""
        if thread_id is None:
            return [envelope.turn for envelope in self.envelopes()]
        return in_order(envelope.turn for envelope in self.listing(thread_id).envelopes)

    def is_closed(self, thread_id: str) -> bool:
        return is_closed(self.listing(thread_id).filenames)

    def modified_ms(self, envelope: ListedEnvelope) -> int:
        """Return when an envelope was committed, or last written if it was not."""
        if envelope.committed_at is not None:
            return envelope.committed_at * 1000
        stamp = self._repository.stamp(envelope.path)
        return stamp.modified_ns // 1_000_000 if stamp else 0

    def unverified(self, thread_id: str) -> int:
        """Return how many files of a thread are damaged, or links."""
        listing = self.listing(thread_id)
        damaged = [
            envelope
            for envelope in listing.envelopes
            if not _DAMAGED.isdisjoint(envelope.findings)
        ]
        links = [file for file in listing.unreadable if Kind.SYMLINK in file.kinds]
        return len(damaged) + len(links)

    def has_accepted(self, envelope: ListedEnvelope) -> bool:
        """Return whether an envelope was accepted in spite of what was found."""
        return self.quarantine.has_accepted(envelope.path, envelope.content)

    def causality(self, thread_id: str) -> Causality:
        """Return who knew what in a thread."""
        return Causality(
            (envelope.turn for envelope in self.listing(thread_id).envelopes),
            self.parents(),
        )


catalogue = Catalogue


def tell_left_out(rig: Rig, survey: GitSurvey) -> None:
    """Name the threads a sparse clone does not show: a question there goes unseen."""
    if not rig.repository.is_sparse():
        return
    tracked = {path.partition("/")[0] for path in survey.tracked()}
    absent = sorted(filter(is_thread_directory, tracked - survey.names().keys()))
    if not absent:
        return
    names = absent[:_MOST_NAMED]
    if len(absent) > _MOST_NAMED:
        names.append(f"{len(absent) - _MOST_NAMED} more")
    rig.tell_once(
        f"warning: not checked out here, so not shown: {', '.join(names)}; git "
        "sparse-checkout add <thread>"
    )


def wanted_thread(rig: Rig, typed: str | None) -> str:
    """Return the thread somebody asked for; raise UserError if it is not here."""
    if not typed:
        raise UserError("thread: <thread-id> is required")
    thread_id = parse_thread_id(typed)
    if not rig.repository.has_directory(thread_id):
        message = f'thread "{thread_id}" not found in bridge root {rig.repository.root}'
        raise UserError(message, hint="rig-bridge status lists the threads")
    return thread_id
