"""Show the envelopes of one thread, oldest first (rigs §8 thread)."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bridgehead.errors import FileError
from bridgehead.rigs.envelope.envelope import Envelope, parse_envelope
from bridgehead.rigs.operations.catalogue import Catalogue, catalogue, wanted_thread
from bridgehead.rigs.operations.identities import Identities
from bridgehead.rigs.operations.verification import Subject, Verifier
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.causality import Divergence
from bridgehead.rigs.threads.listed_envelope import ListedEnvelope
from bridgehead.rigs.threads.thread import Turn
from bridgehead.rigs.trust.membership import Place
from bridgehead.rigs.trust.verification_kinds import Verification, quarantines
from bridgehead.rigs.views.listings import ShownEnvelope, thread_blocks, thread_object
from bridgehead.rigs.views.terminal import PLAIN, Style


class ShownThread(NamedTuple):
    """A thread ready to be shown; envelopes are read as they are asked for."""

    thread_id: str
    total: int
    divergences: tuple[Divergence, ...]
    envelopes: Iterator[ShownEnvelope]

    def json_object(self) -> dict[str, object]:
        return thread_object(self.thread_id, self.envelopes, self.divergences)


def thread(rig: Rig, thread_id: str) -> ShownThread:
    """Return everything in a thread, each envelope with the verdict on it."""
    identities = Identities(rig)
    known = catalogue(rig, thread_id)
    for finding in known.listing(thread_id).unreadable:
        rig.tell(f"warning: {finding.path}: {', '.join(finding.kinds)}; not shown")
    divergence = known.causality(thread_id).divergence()
    if divergence:
        heads = ", ".join(turn.filename for turn in divergence.heads)
        rig.tell(f"warning: the thread diverged at {divergence.name}; heads: {heads}")
    envelopes = sorted(
        known.listing(thread_id).envelopes,
        key=lambda envelope: envelope.turn.order_key(),
    )
    verifier = listed_verifier(rig, known, envelopes, identities)
    verdicts = verifier.judge(subjects_of_listed(rig, envelopes))
    shown: list[tuple[ListedEnvelope, Verification]] = []
    for envelope, verdict in zip(envelopes, verdicts, strict=True):
        if is_kept_out(known, envelope, verdict):
            rig.tell(f"! {envelope.path} ({', '.join(verdict.kinds)}); not shown")
        else:
            shown.append((envelope, verdict))
    _note_seen(rig, [envelope.turn for envelope, _ in shown])
    if not shown:
        rig.tell(f'thread "{thread_id}" has no envelopes yet')
    return ShownThread(
        thread_id,
        len(shown),
        (divergence,) if divergence else (),
        _shown(rig, known, shown),
    )


def thread_text(
    rig: Rig, typed: str | None, *, as_json: bool = False, style: Style = PLAIN
) -> Iterable[str]:
    """Return the whole of a thread, in pieces."""
    thread_id = wanted_thread(rig, typed)
    shown = thread(rig, thread_id)
    if as_json:
        return [_json(shown)]
    return thread_blocks(thread_id, shown.envelopes, shown.total, style=style)


def verify_listed(
    rig: Rig, known: Catalogue, envelopes: Sequence[ListedEnvelope]
) -> Iterator[Verification]:
    """Judge envelopes of the work tree, in the order given."""
    return listed_verifier(rig, known, envelopes).judge(
        subjects_of_listed(rig, envelopes)
    )


def listed_verifier(
    rig: Rig,
    known: Catalogue,
    envelopes: Sequence[ListedEnvelope],
    identities: Identities | None = None,
) -> Verifier:
    return Verifier(rig, lambda: _others(rig, known, envelopes), identities)


def is_kept_out(
    known: Catalogue, envelope: ListedEnvelope, verdict: Verification
) -> bool:
    """Return whether a listed envelope must not be shown to anybody.

    What the gate put into quarantine is not even listed, but a clone or a pull by hand
    brings what never met the gate.
    """
    is_committed = envelope.turn.commit_sha is not None
    if not is_committed or not quarantines(verdict.kinds):
        return False
    return not known.has_accepted(envelope)


def _shown(
    rig: Rig, known: Catalogue, judged: Sequence[tuple[ListedEnvelope, Verification]]
) -> Iterator[ShownEnvelope]:
    contents = known.read([listed for listed, _ in judged])
    for (listed, verification), envelope in zip(judged, contents, strict=True):
        if verification.kinds:
            rig.tell(f"warning: {listed.path}: {', '.join(verification.kinds)}")
        if envelope is not None:
            turn = listed.turn
            yield ShownEnvelope(
                turn.filename,
                envelope.frontmatter,
                envelope.body,
                turn.commit_sha,
                verification,
            )


def subjects_of_listed(rig: Rig, envelopes: Sequence[ListedEnvelope]) -> list[Subject]:
    return [_subject(rig, envelope) for envelope in envelopes]


def _subject(rig: Rig, listed: ListedEnvelope) -> Subject:
    relay = _read(rig, listed.path) if listed.is_relay else None
    return Subject(
        listed.path,
        listed.findings,
        sender=listed.turn.sender,
        body_hash=listed.turn.body_hash,
        nonce=listed.nonce,
        relay=relay.frontmatter if relay else None,
        commit=listed.turn.commit_sha,
        author_email=listed.author_email,
        committed_at=listed.committed_at or 0,
        signed=listed.signed,
        position=_position(listed),
    )


def _others(
    rig: Rig, known: Catalogue, envelopes: Sequence[ListedEnvelope]
) -> list[Subject]:
    """Return the rest of the repository, to look for nonces that were used before."""
    judged = {envelope.path for envelope in envelopes}
    return [
        Subject(
            envelope.path,
            (),
            body_hash=envelope.turn.body_hash,
            nonce=envelope.nonce,
            position=_position(envelope),
        )
        for envelope in catalogue(rig).envelopes()
        if envelope.path not in judged and envelope.turn.commit_sha
    ]


def place_of(envelope: ListedEnvelope) -> Place:
    return Place(
        envelope.turn.commit_sha or "", _position(envelope), envelope.committed_at or 0
    )


def _note_seen(rig: Rig, turns: Sequence[Turn]) -> None:
    """Note that the answers in a thread have been seen."""
    from bridgehead.rigs.threads.crossings import Seen
    from bridgehead.rigs.threads.obligations import deliveries

    if rig.settings is None:
        return
    answers = deliveries(turns, rig.settings.rig_id)
    if answers:
        Seen(rig.repository.private_dir).note(turn.path for turn in answers)


def _position(envelope: ListedEnvelope) -> int:
    """Return the place in history; what is not committed comes last."""
    return sys.maxsize if envelope.turn.position is None else envelope.turn.position


def _read(rig: Rig, path: str) -> Envelope | None:
    """Return the envelope in a file; None if it went away while we were looking."""
    try:
        found = parse_envelope(rig.repository.read_file(path))
    except FileError:
        return None
    return found if isinstance(found, Envelope) else None


def _json(shown: ShownThread) -> str:
    from json import dumps

    return dumps(shown.json_object(), ensure_ascii=False, separators=(",", ":")) + "\n"
