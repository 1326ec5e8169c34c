"""Judge envelopes by file, history, signature and attestation (rigs §9.4)."""

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from bridgehead.rigs.envelope.envelope import Envelope, parse_envelope
from bridgehead.rigs.envelope.fields import MEMBERS_THREAD, parse_thread_id
from bridgehead.rigs.envelope.frontmatter import ParseFailure
from bridgehead.rigs.envelope.names import envelope_at
from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.operations.identities import Identities
from bridgehead.rigs.repositories.records import (
    UNSIGNED,
    CommitRecord,
    Identity,
    SignatureCheck,
)
from bridgehead.rigs.rig import Reviews, Rig
from bridgehead.rigs.threads.quarantine import (
    HumanVerdict,
    Quarantine,
    QuarantineEntry,
    read_verdicts,
)
from bridgehead.rigs.trust.attestation import (
    Signature,
    Witness,
    is_relay_turn,
    relay_findings,
    signature_findings,
)
from bridgehead.rigs.trust.envelope_problems import check_envelope, file_findings
from bridgehead.rigs.trust.membership import Place
from bridgehead.rigs.trust.verification_kinds import (
    OF_COUNCILS,
    Kind,
    PathFindings,
    Verification,
    VerificationState,
    is_broken,
    quarantines,
    refuses_pull,
    report_on,
    sum_up,
)

if TYPE_CHECKING:
    from bridgehead.rigs.views.results import Verified

_BATCH_SIZE = 5000  # envelopes whose contents are in memory at the same time
_TOO_LARGE = ParseFailure("the file is larger than an envelope may be")


class Subject(NamedTuple):
    """An envelope to be judged.

    It carries what is known against it so far, and the commit that added it.
    """

    path: str
    findings: tuple[Kind, ...]
    sender: str = ""
    body_hash: str = ""
    nonce: str = ""
    relay: Mapping[str, Value] | None = None  # frontmatter of a relay turn
    commit: str | None = None
    author_email: str = ""
    committed_at: int = 0
    signed: bool = False
    position: int = 0  # of the commit in history, where it is known

    @property
    def thread_id(self) -> str:
        return self.path.partition("/")[0]

    @property
    def place(self) -> Place:
        return Place(self.commit or "", self.position, self.committed_at)


class CommittedEnvelope(NamedTuple):
    """An envelope in history, with its latest content and the commit that added it."""

    path: str
    blob: str
    is_symlink: bool
    added_by: CommitRecord
    rewritten: bool  # it had other content before
    position: int = 0  # of the commit that added it, in the history that was given


def committed_envelopes(
    history: Iterable[CommitRecord],
    is_envelope: Callable[[str], object] = envelope_at,
    *,
    first_position: int = 0,
) -> list[CommittedEnvelope]:
    """Return the envelopes that a history, given parents first, ends with.

    `is_envelope` decides by its path whether a file is an envelope; `first_position`
    is the position of the first commit.
    """
    found: dict[str, CommittedEnvelope] = {}
    deleted: set[str] = set()
    for position, commit in enumerate(history, first_position):
        for change in commit.changes:
            path = change.path
            if not is_envelope(path):
                continue
            known = found.get(path)
            if change.status == "D":
                if known is not None:
                    deleted.add(path)
                    del found[path]
            elif known is None:
                found[path] = CommittedEnvelope(
                    path,
                    change.blob,
                    change.is_symlink,
                    added_by=commit._replace(message="", changes=()),
                    rewritten=path in deleted,
                    position=position,
                )
            elif change.blob != known.blob:
                found[path] = known._replace(
                    blob=change.blob, is_symlink=change.is_symlink, rewritten=True
                )
    return list(found.values())


def subjects_of(
    rig: Rig,
    envelopes: Sequence[CommittedEnvelope],
    *,
    require_council: bool | None = None,
) -> list[Subject]:
    """Read envelopes straight from the object store.

    If `require_council` is None, the owner's setting decides whether results must be
    reviewed.
    """
    if require_council is None:
        require_council = rig.reviews.are_required()
    reviews = rig.reviews if require_council else None
    subjects: list[Subject] = []
    for start in range(0, len(envelopes), _BATCH_SIZE):
        batch = envelopes[start : start + _BATCH_SIZE]
        blobs = rig.repository.read_blobs(
            [envelope.blob for envelope in batch if not envelope.is_symlink]
        )
        for envelope in batch:
            subjects.append(_subject(envelope, blobs.get(envelope.blob), reviews))
    return subjects


def _subject(
    envelope: CommittedEnvelope, content: bytes | None, reviews: Reviews | None
) -> Subject:
    commit = envelope.added_by
    origin = Subject(
        envelope.path,
        (Kind.SYMLINK,),
        commit=commit.commit,
        author_email=commit.author.email,
        committed_at=commit.committed_at,
        signed=commit.signed,
        position=envelope.position,
    )
    if envelope.is_symlink:
        return origin
    parsed = _TOO_LARGE if content is None else parse_envelope(content)
    kinds = file_findings(parsed, check_envelope(parsed), origin.thread_id)
    frontmatter: Mapping[str, Value] = {}
    if isinstance(parsed, Envelope):
        frontmatter = parsed.frontmatter
        if reviews is not None:
            kinds += _review_findings(parsed, reviews)
    if envelope.rewritten:
        kinds += (Kind.REWRITTEN,)
    return origin._replace(
        findings=kinds,
        sender=_text(frontmatter, "from"),
        body_hash=_text(frontmatter, "body_hash"),
        nonce=_text(frontmatter, "nonce"),
        relay=frontmatter if is_relay_turn(frontmatter) else None,
    )


def _review_findings(envelope: Envelope, reviews: Reviews) -> tuple[Kind, ...]:
    from bridgehead.rigs.trust.council_mark import council_findings

    message_type = _text(envelope.frontmatter, "type")
    return tuple(council_findings(message_type, envelope.body, reviews.known_mark))


def _text(frontmatter: Mapping[str, Value], name: str) -> str:
    value = frontmatter.get(name)
    return value if isinstance(value, str) else ""


class Verifier:
    """Judges envelopes of one repository.

    `earlier` returns the envelopes that were there before those to be judged.
    """

    def __init__(
        self,
        rig: Rig,
        earlier: Callable[[], Sequence[Subject]] = tuple,
        identities: Identities | None = None,
    ) -> None:
        self._read_earlier = earlier
        self.identities = identities or Identities(rig)

    def judge(self, subjects: Sequence[Subject]) -> Iterator[Verification]:
        """Yield the verdict on each envelope; they are given oldest first."""
        signed = [subject for subject in subjects if subject.signed]
        checks = self.identities.check(
            subject.commit for subject in signed if subject.commit
        )
        nothing_found = sum_up((), known_signer=False)
        for subject in subjects:
            if self._is_beyond_doubt(subject):
                yield nothing_found
                continue
            check = checks.get(subject.commit or "", UNSIGNED)
            witness = self._witness(subject, check, subjects)
            kinds = dict.fromkeys(self._findings(subject, witness))
            yield sum_up(kinds, known_signer=self._has_known_signer(subject, witness))

    def _is_beyond_doubt(self, subject: Subject) -> bool:
        """Return whether nothing can speak against an envelope: it claims nothing."""
        claims_something = (
            subject.signed
            or subject.relay is not None
            or subject.thread_id == MEMBERS_THREAD
        )
        if claims_something or subject.findings:
            return False
        return not self.identities.judges_unsigned

    def _has_known_signer(self, subject: Subject, witness: Witness) -> bool:
        identities = self.identities
        is_membership_act = (
            subject.thread_id == MEMBERS_THREAD
            and subject.path in identities.membership.carried_out
        )
        if is_membership_act:
            return True
        return identities.signers_known and witness.is_signed_by_sender

    def _findings(self, subject: Subject, witness: Witness) -> Iterator[Kind]:
        for kind in subject.findings:
            # A trusted sender may vouch for a council that was held elsewhere.
            is_vouched_for = (
                kind is Kind.COUNCIL_UNCONFIRMED and witness.is_signed_by_sender
            )
            if not is_vouched_for:
                yield kind
        if Kind.SYMLINK in subject.findings:
            return
        identities = self.identities
        if subject.thread_id == MEMBERS_THREAD:
            yield from self._membership_findings(subject)
        elif subject.relay is not None:
            yield from relay_findings(
                subject.relay,
                witness,
                signers_known=identities.signers_known,
                must_sign=identities.must_sign,
            )
        elif subject.commit is not None:  # otherwise it is being written
            yield from signature_findings(
                witness,
                relay=False,
                signers_known=identities.signers_known,
                must_sign=identities.must_sign,
            )

    def _membership_findings(self, subject: Subject) -> Iterator[Kind]:
        membership = self.identities.membership
        if subject.path in membership.refused:
            yield Kind.MEMBERSHIP_REFUSED
        elif subject.path not in membership.carried_out:
            yield Kind.SIGNER_UNKNOWN  # somebody asks to be let in

    def _witness(
        self, subject: Subject, check: SignatureCheck, together: Sequence[Subject]
    ) -> Witness:
        keys = check.key_names if check.holds else ()
        person = check.principal if check.signature is Signature.KNOWN else None
        standing = self.identities.keyring.standing(
            subject.sender, subject.place, keys, person, subject.author_email
        )
        known = check.holds and standing.is_known
        witness = Witness(Signature.KNOWN if known else check.signature, keys, standing)
        if subject.relay is None:
            return witness
        parent = _text(subject.relay, "in_reply_to")
        return witness._replace(
            committed_at_ms=subject.committed_at * 1000,
            parent_known=bool(parent) and self._has_turn(subject, parent, together),
            nonce_seen_before=bool(subject.nonce)
            and self._first_with_nonce(subject, together) != subject.path,
        )

    @cached_property
    def _earlier(self) -> Sequence[Subject]:
        return self._read_earlier()

    def _has_turn(
        self, subject: Subject, body_hash: str, together: Sequence[Subject]
    ) -> bool:
        return any(
            other.thread_id == subject.thread_id
            and other.body_hash == body_hash
            and other.path != subject.path
            for other in (*together, *self._earlier)
        )

    def _first_with_nonce(self, subject: Subject, together: Sequence[Subject]) -> str:
        everyone = (*self._earlier, *together)
        same = (other for other in everyone if other.nonce == subject.nonce)
        return min(same, key=lambda other: other.position).path


class JudgedEnvelope(NamedTuple):
    """A committed envelope, what was read from it, and the verdict on it."""

    envelope: CommittedEnvelope
    subject: Subject
    verification: Verification

    @property
    def findings(self) -> PathFindings:
        return PathFindings(self.envelope.path, self.verification.kinds)

    @property
    def is_human_decision(self) -> bool:
        """Whether it is a DECISIONS turn that was signed by a trusted human."""
        relay = self.subject.relay
        if relay is None or relay.get("type") != "DECISIONS":
            return False
        return self.verification.state is VerificationState.VERIFIED

    def quarantine_entry(self, *, accepted: bool = False) -> QuarantineEntry:
        """Return what the quarantine records about it."""
        return QuarantineEntry(
            self.envelope.path,
            self.envelope.blob,
            self.verification.kinds,
            self.envelope.added_by.commit,
            accepted=accepted,
        )


def judge_committed(
    rig: Rig,
    envelopes: Sequence[CommittedEnvelope],
    verifier: Verifier,
    *,
    require_council: bool | None = None,
) -> list[JudgedEnvelope]:
    """Read committed envelopes, given oldest first, and judge each of them."""
    subjects = subjects_of(rig, envelopes, require_council=require_council)
    verdicts = verifier.judge(subjects)
    return [
        JudgedEnvelope(envelope, subject, verdict)
        for envelope, subject, verdict in zip(
            envelopes, subjects, verdicts, strict=True
        )
    ]


def human_verdicts(rig: Rig, judged: Iterable[JudgedEnvelope]) -> list[HumanVerdict]:
    """Return what trusted humans decided about quarantined envelopes."""
    decisions = [item.envelope for item in judged if item.is_human_decision]
    if not decisions:
        return []
    blobs = rig.repository.read_blobs([decision.blob for decision in decisions])
    verdicts: list[HumanVerdict] = []
    for decision in decisions:
        parsed = parse_envelope(blobs.get(decision.blob) or b"")
        if isinstance(parsed, Envelope):
            verdicts += read_verdicts(parsed.body, decision.path)
    return verdicts


def verify(
    rig: Rig,
    typed: str | None = None,
    *,
    require_council: bool = False,
    quiet: bool = False,
) -> "Verified":
    """Check every committed envelope, or those of the thread that is named.

    The quarantine is brought up to date with what was found. Unless `require_council`
    is set, the owner's setting decides whether results must be reviewed.
    """
    from bridgehead.rigs.views.results import Verified

    thread_id = parse_thread_id(typed) if typed else None
    judged = _judge_history(rig, thread_id, require_council=require_council or None)
    quarantine = Quarantine(rig.repository.private_dir)
    already_known = {entry.path for entry in quarantine.entries}
    update = _quarantine_update(quarantine, judged, human_verdicts(rig, judged))
    if update.changes_something:
        quarantine = _apply(rig, update)
    kept_apart = {entry.path for entry in quarantine.kept_apart}
    findings = [item.findings for item in judged]
    if not quiet:
        _tell_findings(rig, findings, kept_apart)
    return Verified(
        report_on(findings, already_known),
        tuple(finding for finding in findings if finding.path in kept_apart),
    )


def _judge_history(
    rig: Rig, thread_id: str | None, *, require_council: bool | None
) -> list[JudgedEnvelope]:
    """Judge what is committed, reading only the named thread if there is one.

    Nonces of relay turns are compared over the whole repository all the same.
    """
    if thread_id is None:
        envelopes = _committed_anywhere(rig)
        verifier = Verifier(rig)
    else:
        envelopes = _committed_in(rig, thread_id)
        verifier = Verifier(rig, lambda: _subjects_outside(rig, thread_id))
    return judge_committed(rig, envelopes, verifier, require_council=require_council)


class _QuarantineUpdate(NamedTuple):
    """What a verification changes in the quarantine."""

    added: Sequence[QuarantineEntry]
    released: Sequence[str]
    verdicts: Sequence[HumanVerdict]

    @property
    def changes_something(self) -> bool:
        return bool(self.added or self.released or self.verdicts)


def _quarantine_update(
    quarantine: Quarantine,
    judged: Sequence[JudgedEnvelope],
    verdicts: Sequence[HumanVerdict],
) -> _QuarantineUpdate:
    known = {entry.path for entry in quarantine.entries}
    added = [
        item.quarantine_entry()
        for item in judged
        if item.envelope.path not in known
        and _belongs_in_quarantine(item.verification.kinds)
    ]
    # Keys or settings may have changed since an envelope was put there.
    clean = {
        item.envelope.path for item in judged if not is_broken(item.verification.kinds)
    }
    released = [
        entry.path
        for entry in quarantine.entries
        if entry.path in clean and not entry.verdict
    ]
    return _QuarantineUpdate(added, released, verdicts)


def _apply(rig: Rig, update: _QuarantineUpdate) -> Quarantine:
    """Write an update to the quarantine as it is now, and return that."""
    with rig.repository.lock():
        quarantine = Quarantine(rig.repository.private_dir)
        quarantine.change(update.added, cleared=update.released)
        quarantine.change(quarantine.decided(update.verdicts))
    return quarantine


def _tell_findings(
    rig: Rig, findings: Iterable[PathFindings], kept_apart: Collection[str]
) -> None:
    for finding in findings:
        kinds = ", ".join(finding.kinds)
        if finding.path in kept_apart:
            rig.tell(f"! {finding.path} (quarantined: {kinds})")
        elif kinds:
            rig.tell(f"{finding.path}: {kinds}")


def _subjects_outside(rig: Rig, thread_id: str) -> list[Subject]:
    """Return the committed envelopes of all other threads."""
    elsewhere = [
        envelope
        for envelope in _committed_anywhere(rig)
        if envelope.path.partition("/")[0] != thread_id
    ]
    return subjects_of(rig, elsewhere, require_council=False)


def _committed_anywhere(rig: Rig) -> list[CommittedEnvelope]:
    head = rig.repository.head().commit
    return committed_envelopes(rig.repository.history(head).commits)


def _committed_in(rig: Rig, thread_id: str) -> list[CommittedEnvelope]:
    """Return the committed envelopes of one thread, oldest first, from the index."""
    from bridgehead.rigs.operations.catalogue import catalogue

    known = catalogue(rig, thread_id)
    tracked = known.survey.tracked()
    rows = sorted(known.committed(thread_id).values(), key=lambda row: row.position)
    envelopes: list[CommittedEnvelope] = []
    for row in rows:
        if not row.commit:
            continue
        path = f"{thread_id}/{row.filename}"
        commit = CommitRecord(
            row.commit,
            parents=(),
            author=Identity("", row.author_email),
            committed_at=row.committed_at,
            signed=row.signed,
            message="",
            changes=(),
        )
        envelopes.append(
            CommittedEnvelope(
                path,
                row.blob,
                is_symlink=path in tracked and tracked[path].is_symlink,
                added_by=commit,
                rewritten=row.rewritten,
                position=row.position,
            )
        )
    return envelopes


def _belongs_in_quarantine(kinds: Sequence[Kind]) -> bool:
    """Return whether `verify` puts an envelope with these findings into quarantine.

    What came by a clone, or by a pull by hand, met no gate. A missing review depends on
    the owner's setting of the moment, and a changed history does not go away by not
    looking at it: neither counts here.
    """
    return quarantines(set(kinds) - OF_COUNCILS) and not refuses_pull(kinds)
