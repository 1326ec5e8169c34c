"""The one gate for commits that come in: what a fetched history brings, judged before anything moves (rigs §9.3, §9.4).

`sync`, `watch` and the push retry of `send`, `close` and `relay` all call `inspect`, then `hold`, move the branch in
their own way, and `settle`. What stops a pull, what is kept apart and what is announced is decided here for all.
"""

from typing import TYPE_CHECKING, NamedTuple

from bridgehead.errors import UserError, plural
from bridgehead.rigs.envelope.fields import MEMBERS_THREAD
from bridgehead.rigs.envelope.names import arrives_as_envelope
from bridgehead.rigs.repositories.records import CommitRecord, Incoming
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.quarantine import HumanVerdict, KeptApart, Quarantine
from bridgehead.rigs.trust.incoming_changes import (
    DELETED_ON_THE_WAY,
    REWRITTEN_ON_THE_WAY,
    Change,
    Refusal,
    SyncReport,
    report_changes,
)
from bridgehead.rigs.trust.membership import ARRIVING, Place
from bridgehead.rigs.trust.verification_kinds import (
    Kind,
    PathFindings,
    VerificationReport,
    quarantines,
    refuses_pull,
    report_on,
)

if TYPE_CHECKING:
    from bridgehead.rigs.operations.identities import Identities
    from bridgehead.rigs.operations.verification import Committed, Subject

REMEDIES = {
    Refusal.BOTH_AHEAD: (
        "both sides have new commits; rig-bridge push pulls theirs and rebases yours "
        "on top"
    ),
    Refusal.NOT_ELIGIBLE: "the remote has commits without envelopes; --accept-non-envelope pulls them",
}
TAKE_NON_ENVELOPES = (
    "files that are not envelopes: rig-bridge sync --auto --accept-non-envelope pulls "
    "them"
)


class FilesInTheWay(UserError):
    """A pull would overwrite files that git does not know."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(
            f"local files would be overwritten by the pull: {', '.join(paths)}; "
            "nothing was moved",
            hint="move them away, then sync again",
        )


class Acceptance(NamedTuple):
    """What the operator takes in although the gate would not."""

    unverified: bool = False
    non_envelope: bool = False


class Arrival(NamedTuple):
    """What a fetched commit would bring, and what is to become of it."""

    report: SyncReport
    verification: VerificationReport
    refusal: Refusal | None
    bad: tuple[
        KeptApart, ...
    ] = ()  # with something against them that keeps envelopes apart
    clean: tuple[str, ...] = ()  # paths of those with nothing of that kind
    verdicts: tuple[
        HumanVerdict, ...
    ] = ()  # about quarantined envelopes, by trusted humans

    @property
    def quarantined(self) -> tuple[PathFindings, ...]:
        return tuple(entry.findings for entry in self.bad if not entry.accepted)

    @property
    def taken_in(self) -> list[str]:
        """The paths of the new envelopes that take part in their threads."""
        apart = {found.path for found in self.quarantined}
        return [
            envelope.path
            for envelope in self.report.new_envelopes
            if envelope.path not in apart
        ]


def inspect(
    rig: Rig, remote_head: str, accepted: Acceptance, *, rebuilds: bool = False
) -> Arrival:
    """Judge what a fetched commit would bring, straight from the object store.

    `rebuilds`: the caller makes our unpushed turns again on top of it.
    """
    incoming = rig.repository.compare(remote_head)
    report = _report(incoming)
    if report.local_ahead:
        report = report._replace(
            gone=tuple(rig.repository.gone_from_remote(remote_head))
        )
    if not report.remote_ahead:
        return Arrival(report, report_on(()), None)
    from bridgehead.rigs.operations.verification import (
        Verifier,
        findings_of,
        human_verdicts,
        subjects_of,
    )

    history = rig.repository.commits_between(incoming.base, incoming.remote_head)
    arriving = _arriving(rig, incoming, history)
    subjects = subjects_of(rig, arriving)
    identities = _identities(rig, arriving, history)
    judged = list(
        Verifier(rig, lambda: _committed_here(rig), identities).judge(subjects)
    )
    findings = findings_of(subjects, judged)
    report = _with_hidden_changes(report, findings, history)
    refusal = report.refusal(
        accept_non_envelope=accepted.non_envelope, rebuilds=rebuilds
    )
    bad = tuple(
        KeptApart(
            found.path,
            found.blob,
            verdict.kinds,
            found.added_by.commit,
            accepted=accepted.unverified,
        )
        for found, verdict in zip(arriving, findings, strict=True)
        if quarantines(verdict.kinds)
    )
    clean = tuple(
        verdict.path for verdict in findings if not quarantines(verdict.kinds)
    )
    verdicts = tuple(human_verdicts(rig, arriving, subjects, judged))
    return Arrival(report, report_on(findings), refusal, bad, clean, verdicts)


def hold(rig: Rig, arrival: Arrival) -> None:
    """Put what is bad into quarantine. Before the branch moves: an end in between must not let anything in."""
    quarantine = Quarantine(rig.repository.private_dir)
    quarantine.change(arrival.bad, cleared=arrival.clean)
    quarantine.change(quarantine.decided(arrival.verdicts))


def refuse_to_overwrite(rig: Rig, arrival: Arrival) -> None:
    """Raise FilesInTheWay if something git does not know lies where a file would arrive."""
    report = arrival.report
    arriving = [
        *(one.path for one in report.new_envelopes),
        *(change.path for change in report.changed),
    ]
    blocked = [
        path
        for path in arriving
        if rig.repository.has_file(path) and not rig.repository.is_tracked(path)
    ]
    if blocked:
        raise FilesInTheWay(tuple(sorted(blocked)))


def settle(rig: Rig, arrival: Arrival, *, moved: bool) -> None:
    """Tell the record and the ledger what came of it."""
    head = arrival.report.remote_head
    if moved:
        rig.ledger.catch_up()
        apart = {"quarantined": len(arrival.quarantined)} if arrival.quarantined else {}
        rig.announce(
            "rig.pulled",
            commit=head,
            outcome="pulled",
            envelopes=len(arrival.taken_in),
            **apart,
        )
        _say_what_waits(rig, frozenset(arrival.taken_in))
    elif arrival.refusal is not None:
        rig.ledger.refused(str(arrival.refusal))
        rig.announce("rig.refused", commit=head, outcome=str(arrival.refusal))


def _say_what_waits(rig: Rig, arrived: frozenset[str]) -> None:
    """Say, and announce, what of it concerns this rig."""
    if rig.settings is None or not arrived:
        return
    from bridgehead.rigs.operations.inbox import inbox_contents
    from bridgehead.rigs.views.listings import closed_again

    found = inbox_contents(rig)
    asked = [debt.asked.turn for debt in found.owes if debt.asked.turn.path in arrived]
    answers = [notice.turn for notice in found.delivered if notice.turn.path in arrived]
    for ends in found.conflicts:
        if not arrived.isdisjoint(turn.path for turn in ends):
            rig.tell(closed_again(ends))
    if asked or answers:
        counts = f"{plural(len(asked), 'question')}, {plural(len(answers), 'answer')}"
        rig.tell(f"for this rig: {counts}; rig-bridge inbox shows them")
        first = (*asked, *answers)[0]
        rig.announce(
            "rig.waiting",
            thread=first.thread_id,
            questions=len(asked),
            answers=len(answers),
        )


def narrate(rig: Rig, arrival: Arrival) -> None:
    """Say what came, and what is wrong with it."""
    apart = {found.path for found in arrival.quarantined}
    for finding in arrival.verification.items:
        if finding.path.startswith(f"{MEMBERS_THREAD}/") and finding.kinds == (
            Kind.SIGNER_UNKNOWN,
        ):
            rig.tell(
                f"{finding.path}: a key that is not a member's asks to join; "
                "rig-bridge member list shows it"
            )
        elif finding.path not in apart:
            rig.tell(f"{finding.path}: {', '.join(finding.kinds)}")
    for path in arrival.taken_in:
        rig.tell(f"+ {path}")
    for change in arrival.report.changed:
        rig.tell(
            f"{'+' if arrival.refusal is None else '!'} {change.path} ({change.reason})"
        )
    for found in arrival.quarantined:
        # a pull that is refused puts nothing apart.
        apart_as = "" if arrival.refusal else "quarantined: "
        rig.tell(f"! {found.path} ({apart_as}{', '.join(found.kinds)})")
    if arrival.refusal is None:
        for verdict in arrival.verdicts:
            rig.tell(str(verdict))
        if apart:
            rig.tell("rig-bridge quarantine show <path> says what is known about it")


def remedy(arrival: Arrival) -> str | None:
    """What to do about a refusal, or about a remote that has lost something."""
    changed = arrival.report.changed
    remote = arrival.report.remote_head[:7]
    if gone := arrival.report.gone:
        several = f"{plural(len(gone), 'commit')} it had are"
        commits, them = (several, "them") if gone[1:] else ("a commit it had is", "it")
        return (
            f"the remote's history was rewritten: {commits} gone (git log "
            f"{remote}..{gone[0][:7]} shows {them}); ask "
            f"who did it, then accept it (git rebase --onto {remote} {gone[0][:7]}) "
            f"or restore {them} "
            "(git push --force-with-lease)"
        )
    if arrival.refusal is None:
        return None
    if arrival.refusal is Refusal.NON_APPEND and not any(
        change.touches_thread for change in changed
    ):
        return f"the remote has {TAKE_NON_ENVELOPES}"
    if arrival.refusal is Refusal.NON_APPEND:
        return (
            f"the remote did not only append (git diff HEAD...{remote} shows what was "
            "changed); "
            f"ask who did it, then accept it with git merge {remote}"
        )
    return REMEDIES[arrival.refusal]


def _report(incoming: Incoming) -> SyncReport:
    changes = [
        Change(change.status, change.path, change.old_path)
        for change in incoming.changes
    ]
    return report_changes(
        changes,
        local_head=incoming.local_head,
        remote_head=incoming.remote_head,
        local_ahead=incoming.ahead,
        remote_ahead=incoming.behind,
    )


def _arriving(
    rig: Rig, incoming: Incoming, history: list[CommitRecord]
) -> "list[Committed]":
    """The envelopes a history brings; one that was here with other content is marked."""
    from bridgehead.rigs.operations.verification import committed_envelopes

    before = rig.repository.committed_files(incoming.base) if incoming.base else {}
    known = {path: entry.blob for path, entry in before.items()}
    return [
        found._replace(
            rewritten=found.rewritten or known.get(found.path, found.blob) != found.blob
        )
        for found in committed_envelopes(
            history, arrives_as_envelope, first_position=ARRIVING
        )
    ]


def _identities(
    rig: Rig, arriving: "list[Committed]", history: list[CommitRecord]
) -> "Identities":
    """Who is who for what arrives: the membership here, and then what comes with it, each at its own place."""
    from bridgehead.rigs.operations.identities import Identities, RawEntry

    entries = [
        RawEntry(
            found.path,
            found.blob,
            Place(found.added_by.commit, found.position, found.added_by.committed_at),
            found.added_by.signed,
        )
        for found in arriving
        if found.path.startswith(f"{MEMBERS_THREAD}/") and not found.is_symlink
    ]
    is_graph = any(len(commit.parents) > 1 for commit in history)
    return Identities(
        rig,
        entries,
        {commit.commit: commit.parents for commit in history} if is_graph else None,
    )


def _with_hidden_changes(
    report: SyncReport, findings: list[PathFindings], history: list[CommitRecord]
) -> SyncReport:
    """Add what the ends of the range do not show: an envelope changed, or added and deleted, inside it."""
    if not report.changed:
        deleted = (
            change.path
            for commit in history
            for change in commit.changes
            if change.status == "D" and arrives_as_envelope(change.path)
        )
        report = report.with_hidden(deleted, DELETED_ON_THE_WAY)
    rewritten = (found.path for found in findings if refuses_pull(found.kinds))
    return report.with_hidden(rewritten, REWRITTEN_ON_THE_WAY)


def _committed_here(rig: Rig) -> "list[Subject]":
    """What is here already, for nonces and parents; what is kept apart uses up neither."""
    from bridgehead.rigs.operations.verification import committed_envelopes, subjects_of

    history = rig.repository.history(rig.repository.head().commit).commits
    quarantine = Quarantine(rig.repository.private_dir)
    here = [
        found
        for found in committed_envelopes(history)
        if not quarantine.holds(found.path, found.blob)
    ]
    return subjects_of(rig, here, require_council=False)
