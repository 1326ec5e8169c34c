"""Judge envelopes by file, history, signature and attestation; the command `verify` (rigs §9.4)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    KeptApart,
    Quarantine,
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

_AT_ONCE = 5000  # envelopes whose contents are held in memory
_TOO_LARGE = ParseFailure("the file is larger than an envelope may be")


class Subject(NamedTuple):
    """An envelope to be judged: what is known against it so far, and the commit that added it."""

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
    position: int = 0
    """Of the commit in history, where it is known; otherwise the order in which they are given counts."""

    @property
    def thread_id(self) -> str:
        return self.path.partition("/")[0]

    @property
    def place(self) -> Place:
        return Place(self.commit or "", self.position, self.committed_at)


class Committed(NamedTuple):
    """An envelope in history: its last content, the commit that added it, whether it had other content before."""

    path: str
    blob: str
    is_symlink: bool
    added_by: CommitRecord
    rewritten: bool
    position: int = 0  # of the commit that added it, in the history that was given


def committed_envelopes(
    history: Iterable[CommitRecord],
    counts: Callable[[str], object] = envelope_at,
    *,
    first_position: int = 0,
) -> list[Committed]:
    """Follow every envelope through a history, given parents first; what was deleted again is left out.

    `counts` tells from its path whether a file is one; `first_position` is that of the first commit.
    """
    found: dict[str, Committed] = {}
    gone: set[str] = set()
    for position, commit in enumerate(history, first_position):
        for change in commit.changes:
            if not counts(change.path):
                continue
            known = found.get(change.path)
            if change.status == "D":
                gone.update([change.path] if found.pop(change.path, None) else ())
            elif known is None:
                again = change.path in gone
                by = commit._replace(message="", changes=())
                found[change.path] = Committed(
                    change.path, change.blob, change.is_symlink, by, again, position
                )
            elif change.blob != known.blob:
                found[change.path] = known._replace(
                    blob=change.blob, is_symlink=change.is_symlink, rewritten=True
                )
    return list(found.values())


def subjects_of(
    rig: Rig, envelopes: Sequence[Committed], *, require_council: bool | None = None
) -> list[Subject]:
    """Read envelopes straight from the object store; whether results must be reviewed is the owner's choice."""
    required = (
        rig.reviews.are_required() if require_council is None else require_council
    )
    reviews = rig.reviews if required else None
    subjects: list[Subject] = []
    for start in range(0, len(envelopes), _AT_ONCE):
        some = envelopes[start : start + _AT_ONCE]
        blobs = rig.repository.read_blobs(
            [found.blob for found in some if not found.is_symlink]
        )
        subjects += [_subject(found, blobs.get(found.blob), reviews) for found in some]
    return subjects


def _subject(found: Committed, raw: bytes | None, reviews: Reviews | None) -> Subject:
    commit = found.added_by
    origin = Subject(
        found.path,
        (Kind.SYMLINK,),
        commit=commit.commit,
        author_email=commit.author.email,
        committed_at=commit.committed_at,
        signed=commit.signed,
        position=found.position,
    )
    if found.is_symlink:
        return origin
    parsed = _TOO_LARGE if raw is None else parse_envelope(raw)
    kinds = file_findings(parsed, check_envelope(parsed), origin.thread_id)
    frontmatter: Mapping[str, Value] = {}
    if isinstance(parsed, Envelope):
        frontmatter = parsed.frontmatter
        if reviews is not None:
            from bridgehead.rigs.trust.council_mark import council_findings

            kinds += tuple(
                council_findings(
                    _text(frontmatter, "type"), parsed.body, reviews.known_mark
                )
            )
    return origin._replace(
        findings=(*kinds, Kind.REWRITTEN) if found.rewritten else kinds,
        sender=_text(frontmatter, "from"),
        body_hash=_text(frontmatter, "body_hash"),
        nonce=_text(frontmatter, "nonce"),
        relay=frontmatter if is_relay_turn(frontmatter) else None,
    )


def _text(frontmatter: Mapping[str, Value], name: str) -> str:
    value = frontmatter.get(name)
    return value if isinstance(value, str) else ""


class Verifier:
    """Judges envelopes of one repository. `earlier` gives those that were there before the ones to be judged."""

    def __init__(
        self,
        rig: Rig,
        earlier: Callable[[], Sequence[Subject]] = tuple,
        identities: Identities | None = None,
    ) -> None:
        self._read_earlier = earlier
        self.identities = identities or Identities(rig)

    def judge(self, subjects: Sequence[Subject]) -> Iterator[Verification]:
        """Judge envelopes, given oldest first; one verdict each, in the same order."""
        who = self.identities
        checks = who.check(s.commit for s in subjects if s.commit and s.signed)
        nothing_found = sum_up((), known_signer=False)
        for subject in subjects:
            unsigned = (
                not subject.signed
                and subject.relay is None
                and subject.thread_id != MEMBERS_THREAD
            )
            if unsigned and not subject.findings and not who.judges_unsigned:
                yield nothing_found
                continue
            witness = self._witness(
                subject, checks.get(subject.commit or "", UNSIGNED), subjects
            )
            kinds = tuple(dict.fromkeys(self._findings(subject, witness)))
            is_act = (
                subject.thread_id == MEMBERS_THREAD
                and subject.path in who.membership.carried_out
            )
            yield sum_up(
                kinds,
                known_signer=is_act
                or (who.signers_known and witness.is_signed_by_sender),
            )

    def _findings(self, subject: Subject, witness: Witness) -> Iterator[Kind]:
        # Whom this machine trusts may vouch for a council that was held elsewhere.
        vouched = {Kind.COUNCIL_UNCONFIRMED} if witness.is_signed_by_sender else set()
        yield from (kind for kind in subject.findings if kind not in vouched)
        if Kind.SYMLINK in subject.findings:
            return
        who = self.identities
        if subject.thread_id == MEMBERS_THREAD:
            if subject.path in who.membership.refused:
                yield Kind.MEMBERSHIP_REFUSED
            elif subject.path not in who.membership.carried_out:
                yield Kind.SIGNER_UNKNOWN  # somebody asks to be let in
        elif subject.relay is None:
            if subject.commit is None:
                return  # it is being written
            yield from signature_findings(
                witness,
                relay=False,
                signers_known=who.signers_known,
                must_sign=who.must_sign,
            )
        else:
            yield from relay_findings(
                subject.relay,
                witness,
                signers_known=who.signers_known,
                must_sign=who.must_sign,
            )

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


def findings_of(
    subjects: Sequence[Subject], verdicts: Iterable[Verification]
) -> list[PathFindings]:
    return [
        PathFindings(subject.path, found.kinds)
        for subject, found in zip(subjects, verdicts, strict=True)
    ]


def human_verdicts(
    rig: Rig,
    envelopes: Sequence[Committed],
    subjects: Sequence[Subject],
    judged: Sequence[Verification],
) -> list[HumanVerdict]:
    """What trusted humans decided about quarantined envelopes: only in signed DECISIONS with nothing against them."""
    believed = [
        found
        for found, subject, verdict in zip(envelopes, subjects, judged, strict=True)
        if subject.relay is not None
        and subject.relay.get("type") == "DECISIONS"
        and verdict.state is VerificationState.VERIFIED
    ]
    if not believed:
        return []
    blobs = rig.repository.read_blobs([found.blob for found in believed])
    parsed = [
        (found.path, parse_envelope(blobs.get(found.blob) or b"")) for found in believed
    ]
    bodies = [
        (path, envelope.body)
        for path, envelope in parsed
        if isinstance(envelope, Envelope)
    ]
    return [verdict for path, body in bodies for verdict in read_verdicts(body, path)]


def verify(
    rig: Rig,
    typed: str | None = None,
    *,
    require_council: bool = False,
    quiet: bool = False,
) -> "Verified":
    """Check every committed envelope, of one thread if one is named; only that one is read then.

    Nonces of relay turns are compared over the whole repository. Unless `require_council` says so, the owner's setting
    decides whether results must be reviewed.
    """
    from bridgehead.rigs.views.results import Verified

    thread_id = parse_thread_id(typed) if typed else None
    envelopes = _committed_in(rig, thread_id) if thread_id else _committed_anywhere(rig)
    subjects = subjects_of(rig, envelopes, require_council=require_council or None)

    def others() -> list[Subject]:
        elsewhere = [
            found
            for found in _committed_anywhere(rig)
            if found.path.partition("/")[0] != thread_id
        ]
        return subjects_of(rig, elsewhere, require_council=False)

    judged = list(Verifier(rig, others if thread_id else tuple).judge(subjects))
    findings = findings_of(subjects, judged)
    quarantine = Quarantine(rig.repository.private_dir)
    known = {entry.path for entry in quarantine.entries}
    fresh = [
        KeptApart(found.path, found.blob, verdict.kinds, found.added_by.commit)
        for found, verdict in zip(envelopes, findings, strict=True)
        if verdict.path not in known and _belongs_apart(verdict.kinds)
    ]
    verdicts = human_verdicts(rig, envelopes, subjects, judged)
    # Keys or settings may have changed.
    clean = {one.path for one in findings if not is_broken(one.kinds)}
    released = [
        entry.path
        for entry in quarantine.entries
        if entry.path in clean and not entry.verdict
    ]
    if fresh or verdicts or released:
        with rig.repository.lock():
            quarantine = Quarantine(rig.repository.private_dir)
            quarantine.change(fresh, cleared=released)
            quarantine.change(quarantine.decided(verdicts))
    apart = {entry.path for entry in quarantine.kept_apart}
    for finding in () if quiet else findings:
        if finding.path in apart:
            rig.tell(f"! {finding.path} (quarantined: {', '.join(finding.kinds)})")
        elif finding.kinds:
            rig.tell(f"{finding.path}: {', '.join(finding.kinds)}")
    return Verified(
        report_on(findings, known),
        tuple(found for found in findings if found.path in apart),
    )


def _committed_anywhere(rig: Rig) -> list[Committed]:
    return committed_envelopes(
        rig.repository.history(rig.repository.head().commit).commits
    )


def _committed_in(rig: Rig, thread_id: str) -> list[Committed]:
    """The committed envelopes of one thread, oldest first, as the index knows them."""
    from bridgehead.rigs.operations.catalogue import catalogue

    known = catalogue(rig, thread_id)
    links = {path for path, file in known.survey.tracked().items() if file.is_symlink}
    rows = sorted(known.committed(thread_id).values(), key=lambda row: row.position)
    return [
        Committed(
            f"{thread_id}/{row.filename}",
            row.blob,
            f"{thread_id}/{row.filename}" in links,
            CommitRecord(
                row.commit,
                (),
                Identity("", row.author_email),
                row.committed_at,
                row.signed,
                "",
                (),
            ),
            row.rewritten,
            row.position,
        )
        for row in rows
        if row.commit
    ]


def _belongs_apart(kinds: Sequence[Kind]) -> bool:
    """Tell whether `verify` puts an envelope into quarantine: what came by a clone or a pull by hand met no gate.

    A missing review is the owner's wish of the moment, and a changed history nothing that goes away by not looking.
    """
    return quarantines(set(kinds) - OF_COUNCILS) and not refuses_pull(kinds)
