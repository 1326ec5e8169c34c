"""Threads of rigs as a page shows them: the list over every known clone, one as a
timeline, findings as sentences (rigs §9.4).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from bridgehead.assembly.rigs.clones import RigClone
from bridgehead.assembly.rigs.inbox import envelope_item_id
from bridgehead.assembly.rigs.rig import make_rig
from bridgehead.assembly.rigs.views_cache import (
    ThreadSnapshot,
    cached_inbox,
    cached_status,
    cached_thread,
)
from bridgehead.contract.pending import PendingItem
from bridgehead.contract.record_words import PendingKind
from bridgehead.errors import BridgeheadError, NotFound, UserError
from bridgehead.rigs.envelope.envelope import Envelope
from bridgehead.rigs.envelope.names import is_rig_id
from bridgehead.rigs.envelope.text import iso_timestamp
from bridgehead.rigs.operations.catalogue import Catalogue, wanted_thread
from bridgehead.rigs.operations.status import standing_freezes
from bridgehead.rigs.operations.thread import verify_listed
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.freeze import Freeze
from bridgehead.rigs.threads.listed_envelope import ListedEnvelope
from bridgehead.rigs.threads.thread import ThreadSummary, Turn
from bridgehead.rigs.trust.verification_kinds import (
    Kind,
    PathFindings,
    Verification,
    VerificationState,
)

SENTENCES: Final = {
    Kind.PARSE_FAILED: "the file is not an envelope, or larger than one may be (50 MiB)",
    Kind.SCHEMA_INVALID: "its fields are not those of an envelope",
    Kind.BODY_HASH_MISMATCH: "the body was changed after it was hashed",
    Kind.RIG_ID_INVALID: "a rig ID is not valid",
    Kind.BODY_HASH_ABSENT: "it has no hash of its body",
    Kind.THREAD_MISMATCH: "it names another thread",
    Kind.SYMLINK: "the file is a link, which is never followed",
    Kind.REWRITTEN: "it was changed after it was committed",
    Kind.RELAY_FIELDS_MISSING: "it speaks for a person but lacks the fields that say who and when",
    Kind.RELAY_FROM_NOT_RELAY: "it claims to speak for a person but comes from a rig that may not",
    Kind.RELAY_UNSIGNED: "it speaks for a person but its commit is not signed",
    Kind.SIGNATURE_BAD: "the signature of its commit is not valid",
    Kind.SIGNER_UNKNOWN: "it is signed by a key that is not trusted here",
    Kind.ATTESTER_MISMATCH: "the key that signed it is not the one it names",
    Kind.PARENT_UNKNOWN: "what it answers is not in this thread",
    Kind.NONCE_REPLAYED: "its nonce was used before: it may be a replay",
    Kind.ATTESTED_TIME_SKEW: "its attested time does not match its commit time",
    Kind.SIGNATURE_MISSING: "it is not signed, though this rig has a key on record",
    Kind.IDENTITY_MISMATCH: "it is signed with a key that does not belong to its sender",
    Kind.KEY_RETIRED: "it is signed with a retired or compromised key",
    Kind.SIGNER_UNBOUND: "it is signed by a person this clone trusts, whose key is not this rig's",
    Kind.RELAY_UNATTESTED: "it speaks for a person without that person's signature",
    Kind.MEMBERSHIP_REFUSED: "it would change the membership without permission",
    Kind.COUNCIL_ABSENT: "it does not say which council reviewed it",
    Kind.COUNCIL_UNREADABLE: "what it says about its review cannot be read",
    Kind.COUNCIL_MISMATCH: "it does not match the review it names",
}
PAGE_LENGTH: Final = 50
MOST_BODY: Final = 20_000
"""Characters of one body that are shown; the file has the rest."""
_HEADER: Final = frozenset(
    {"from", "to", "date", "type", "status", "tldr", "thread", "body_hash"}
)


class ThreadLine(NamedTuple):
    """One line of a list."""

    summary: ThreadSummary
    waiting: int
    """Envelopes of it that wait for this rig."""
    frozen: Freeze | None
    known: Catalogue
    owed: int = 0
    """Questions of ours in it that others have to answer."""
    delivered: int = 0
    """Answers to us that nobody has looked at."""
    overdue: bool = False

    @property
    def heads(self) -> int:
        """How many turns do not know of each other.

        Worked out for those who ask only.
        """
        return len(self.known.causality(self.id).heads())

    @property
    def id(self) -> str:
        return self.summary.thread_id


class CloneView(NamedTuple):
    """A clone and its threads, newest first; with a `problem` it could not be read."""

    clone: RigClone
    rig_id: str = ""
    threads: tuple[ThreadLine, ...] = ()
    uncommitted: int = 0
    unpushed: int = 0
    problem: str | None = None

    @property
    def waiting(self) -> int:
        return sum(line.waiting for line in self.threads)

    @property
    def open(self) -> int:
        return sum(not line.summary.is_closed for line in self.threads)


class EnvelopeView(NamedTuple):
    """One envelope with what speaks for and against it."""

    number: int
    """Its place in the thread, counted from one."""
    turn: Turn
    at: str
    """When it was committed; empty while it is not."""
    fields: tuple[tuple[str, str], ...]
    """Whatever else its front matter says."""
    body: str
    left_out: int
    """Characters of the body that are not shown."""
    verification: Verification
    reasons: Sequence[str]
    is_head: bool
    item_id: str | None
    """Under which it is answered, where it waits for this rig."""


class ThreadView(NamedTuple):
    """One page of a thread, oldest first."""

    clone: RigClone
    rig_id: str
    thread_id: str
    is_closed: bool
    frozen: str | None
    """Who froze it and until when."""
    total: int
    start: int
    envelopes: tuple[EnvelopeView, ...]
    heads: tuple[EnvelopeView, ...]
    """Where it diverged: the turns that do not know of each other. Otherwise empty."""
    rigs: tuple[str, ...]
    """Who wrote in it, in the order of their first words."""
    unreadable: tuple[PathFindings, ...]

    @property
    def latest(self) -> Turn | None:
        return self.envelopes[-1].turn if self.envelopes else None

    @property
    def partners(self) -> tuple[str, ...]:
        """The rigs that a reply may address, the latest writer or recipient first."""
        partners: dict[str, None] = {}
        for envelope in reversed(self.envelopes):
            for rig in (envelope.turn.sender, *envelope.turn.recipients):
                if rig != self.rig_id and is_rig_id(rig):
                    partners.setdefault(rig)
        return tuple(partners)


def view_clone(clone: RigClone, waiting: Sequence[PendingItem]) -> CloneView:
    """Return every thread of a clone.

    `waiting` is what waits for someone, from the waiting list.
    """
    try:
        rig = make_rig(clone.root, lambda _text: None)
        known, found = cached_status(rig)
        freezes = standing_freezes(rig)
        rig_id = str(rig.config.rig_id)
        _, contents = cached_inbox(rig)
    except BridgeheadError as error:
        return CloneView(clone, problem=error.message)
    waiting_by_thread = Counter(
        str(item.question.context["thread"])
        for item in waiting
        if _is_envelope_of(rig, item)
    )
    owed = Counter(debt.asked.turn.thread_id for debt in contents.owed)
    delivered = Counter(notice.turn.thread_id for notice in contents.delivered)
    overdue = {
        debt.asked.turn.thread_id
        for debt in (*contents.owes, *contents.owed)
        if debt.owed.is_overdue(rig.now_ms())
    }
    lines = [
        ThreadLine(
            thread,
            waiting_by_thread[thread.thread_id],
            freezes.get(thread.thread_id),
            known,
            owed[thread.thread_id],
            delivered[thread.thread_id],
            thread.thread_id in overdue,
        )
        for thread in found.threads
    ]
    return CloneView(
        clone,
        rig_id,
        tuple(lines),
        len(found.dirty_files),
        len(found.unpushed_commits),
    )


def _is_envelope_of(rig: Rig, item: PendingItem) -> bool:
    question = item.question
    is_envelope = question.kind is PendingKind.ENVELOPE
    return is_envelope and question.project == rig.repository.root


def view_thread(
    clone: RigClone,
    thread_id: str,
    waiting: Sequence[PendingItem],
    *,
    start: int | None = None,
) -> ThreadView:
    """Return a page of a thread: from `start`, counted from zero, or the last one."""
    rig = make_rig(clone.root, lambda _: None)
    try:
        wanted_thread(rig, thread_id)
    except UserError:
        raise NotFound(f"there is no thread {thread_id!r} in {clone.name}") from None
    thread = cached_thread(rig, thread_id)
    total = len(thread.envelopes)
    if start is None:
        start = max(0, (total - 1) // PAGE_LENGTH * PAGE_LENGTH)
    page = thread.envelopes[start : start + PAGE_LENGTH]
    heads = [thread.envelopes[number] for number in thread.heads]
    item_ids = frozenset(
        item.id for item in waiting if item.question.kind is PendingKind.ENVELOPE
    )
    shown = _shown(rig, thread, list(dict.fromkeys([*page, *heads])), item_ids)
    freeze = standing_freezes(rig).get(thread_id)
    return ThreadView(
        clone=clone,
        rig_id=str(rig.settings.rig_id) if rig.settings else "",
        thread_id=thread_id,
        is_closed=thread.is_closed,
        frozen=f"{freeze.rig} until {freeze.expires}" if freeze else None,
        total=total,
        start=start,
        envelopes=_views_of(page, shown),
        heads=_views_of(heads, shown),
        rigs=tuple(thread.rigs),
        unreadable=thread.unreadable,
    )


def _views_of(
    envelopes: Sequence[ListedEnvelope], shown: Mapping[str, EnvelopeView]
) -> tuple[EnvelopeView, ...]:
    return tuple(
        shown[envelope.path] for envelope in envelopes if envelope.path in shown
    )


def _shown(
    rig: Rig,
    thread: ThreadSnapshot,
    envelopes: Sequence[ListedEnvelope],
    item_ids: frozenset[str],
) -> dict[str, EnvelopeView]:
    """By path; one that went away while we were looking is left out."""
    read = thread.known.read(envelopes)
    verdicts = verify_listed(rig, thread.known, envelopes)
    return {
        listed.path: _envelope(rig, thread, listed, content, verdict, item_ids)
        for listed, content, verdict in zip(envelopes, read, verdicts, strict=True)
        if content is not None
    }


def _envelope(
    rig: Rig,
    thread: ThreadSnapshot,
    listed: ListedEnvelope,
    content: Envelope,
    verdict: Verification,
    item_ids: frozenset[str],
) -> EnvelopeView:
    number = thread.numbers[listed.path]
    committed = listed.committed_at is not None
    item_id = envelope_item_id(rig.repository.root, listed.path)
    return EnvelopeView(
        number=number + 1,
        turn=listed.turn,
        at=iso_timestamp((listed.committed_at or 0) * 1000) if committed else "",
        fields=tuple(
            (
                name,
                value
                if isinstance(value, str)
                else msgspec.json.encode(value).decode(),
            )
            for name, value in content.frontmatter.items()
            if name not in _HEADER and value is not None
        ),
        body=content.body[:MOST_BODY],
        left_out=max(0, len(content.body) - MOST_BODY),
        verification=verdict,
        reasons=reasons_for(verdict, committed=committed, signed=listed.signed),
        is_head=number in thread.heads,
        item_id=item_id if item_id in item_ids else None,
    )


def reasons_for(
    verification: Verification, *, committed: bool, signed: bool
) -> Sequence[str]:
    """Return why an envelope stands as it does, at least one sentence."""
    if verification.state is VerificationState.VERIFIED:
        return (
            "signed by the key of whom it is from; the body is the one that was sealed",
        )
    if verification.kinds:
        return tuple(SENTENCES[kind] for kind in verification.kinds)
    if not committed:
        return ("not committed yet",)
    if not signed:
        return ("its commit is not signed",)
    return ("signed, but this clone keeps no list of allowed signers",)
