"""The threads of a bridge as operations ask for them, on top of the envelope index (rigs §8)."""

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

# What makes an envelope count as unverified in a listing, which does not look at signatures (rigs §7).
_SPOILT = frozenset(
    {
        Kind.SCHEMA_INVALID,
        Kind.BODY_HASH_MISMATCH,
        Kind.RIG_ID_INVALID,
        Kind.THREAD_MISMATCH,
        Kind.SYMLINK,
    }
)


class Catalogue(EnvelopeIndex):
    """The index of a rig's clone, of all threads or of one, with what operations ask of it."""

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
        """Keep nothing of a thread in memory; it can be read again."""
        self._listings.pop(thread, None)

    def thread_ids(self, *, naming: Iterable[str] | None = None) -> list[str]:
        """The threads, or those alone in which one of these rigs is named."""
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
        """Every envelope, thread by thread."""
        return [
            envelope
            for name in self.thread_ids()
            for envelope in self.listing(name).envelopes
        ]

    def parents(self) -> Mapping[str, tuple[str, ...]] | None:
        """The parents of every commit; None while history is one line."""
        return None if self.is_linear else self._repository.ancestry()

    def turns(self, thread_id: str | None = None) -> list[Turn]:
        """The turns of a thread, oldest first; without a name those of all threads."""
        if thread_id is None:
            return [envelope.turn for envelope in self.envelopes()]
        return in_order(envelope.turn for envelope in self.listing(thread_id).envelopes)

    def is_closed(self, thread_id: str) -> bool:
        return is_closed(self.listing(thread_id).filenames)

    def modified_ms(self, envelope: ListedEnvelope) -> int:
        """When an envelope was committed, or last written while it is not."""
        if envelope.committed_at is not None:
            return envelope.committed_at * 1000
        stamp = self._repository.stamp(envelope.path)
        return stamp.modified_ns // 1_000_000 if stamp else 0

    def unverified(self, thread_id: str) -> int:
        """How many envelopes are spoilt as files."""
        listing = self.listing(thread_id)
        readable = sum(
            not _SPOILT.isdisjoint(envelope.findings) for envelope in listing.envelopes
        )
        return readable + sum(
            Kind.SYMLINK in found.kinds for found in listing.unreadable
        )

    def has_accepted(self, envelope: ListedEnvelope) -> bool:
        """Tell whether the operator, or a human's verdict, took it in although something speaks against it."""
        return self.quarantine.has_accepted(envelope.path, envelope.content)

    def causality(self, thread_id: str) -> Causality:
        """Who knew what in a thread."""
        return Causality(
            (envelope.turn for envelope in self.listing(thread_id).envelopes),
            self.parents(),
        )


catalogue = Catalogue


def tell_left_out(rig: Rig, survey: GitSurvey) -> None:
    """Name the threads a sparse clone does not show: a question there would go unseen."""
    if rig.repository.is_sparse():
        tracked = {path.partition("/")[0] for path in survey.tracked()}
        if absent := sorted(
            filter(is_thread_directory, tracked - survey.names().keys())
        ):
            shown = ", ".join(
                [*absent[:5], *([f"{len(absent) - 5} more"] if len(absent) > 5 else [])]
            )
            rig.tell_once(
                f"warning: not checked out here, so not shown: {shown}; git "
                "sparse-checkout add <thread>"
            )


def wanted_thread(rig: Rig, typed: str | None) -> str:
    """The thread somebody asked for, if this clone has it."""
    if not typed:
        raise UserError("thread: <thread-id> is required")
    thread_id = parse_thread_id(typed)
    if not rig.repository.has_directory(thread_id):
        message = f'thread "{thread_id}" not found in bridge root {rig.repository.root}'
        raise UserError(message, hint="rig-bridge status lists the threads")
    return thread_id
