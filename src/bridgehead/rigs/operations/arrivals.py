"""Judge what a fetched history brings before anything moves (rigs §9.3, §9.4).

This is the one gate for incoming commits. `sync`, `watch` and the push retry of `send`,
`close` and `relay` all call `inspect`, then `hold`, move the branch in their own way,
and `settle`. What stops a pull, what is quarantined and what is announced is decided
here for all of them.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from bridgehead.errors import UserError, plural
from bridgehead.rigs.envelope.fields import MEMBERS_THREAD
from bridgehead.rigs.envelope.names import arrives_as_envelope
from bridgehead.rigs.repositories.records import CommitRecord, Incoming
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.quarantine import HumanVerdict, Quarantine, QuarantineEntry
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
    from bridgehead.rigs.operations.verification import CommittedEnvelope, Subject

REMEDIES = {
    Refusal.BOTH_AHEAD: (
        "both sides have new commits; rig-bridge push pulls theirs and rebases yours "
        "on top"
    ),
    Refusal.NOT_ELIGIBLE: (
        "the remote has commits without envelopes; --accept-non-envelope pulls them"
    ),
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
    """What the operator accepts although the gate would refuse it."""

    unverified: bool = False
    non_envelope: bool = False


class Arrival(NamedTuple):
    """What a fetched commit would bring, and what is to become of it."""

    report: SyncReport
    verification: VerificationReport
    refusal: Refusal | None
    bad: tuple[QuarantineEntry, ...] = ()  # what belongs in quarantine
    clean: tuple[str, ...] = ()  # the paths of all others
    # What trusted humans decided about quarantined envelopes.
    verdicts: tuple[HumanVerdict, ...] = ()

    @property
    def quarantined(self) -> tuple[PathFindings, ...]:
        return tuple(entry.findings for entry in self.bad if not entry.accepted)

    @property
    def quarantined_paths(self) -> frozenset[str]:
        return frozenset(found.path for found in self.quarantined)

    @property
    def taken_in(self) -> list[str]:
        """The paths of the new envelopes that take part in their threads."""
        quarantined = self.quarantined_paths
        new_paths = [envelope.path for envelope in self.report.new_envelopes]
        return [path for path in new_paths if path not in quarantined]


def inspect(
    rig: Rig, remote_head: str, accepted: Acceptance, *, rebuilds: bool = False
) -> Arrival:
    """Judge what a fetched commit would bring, straight from the object store.

    `rebuilds` means that the caller rebuilds our unpushed turns on top of it.
    """
    incoming = rig.repository.compare(remote_head)
    report = _report(incoming)
    if report.local_ahead:
        gone = rig.repository.gone_from_remote(remote_head)
        report = report._replace(gone=tuple(gone))
    if not report.remote_ahead:
        return Arrival(report, report_on(()), None)
    from bridgehead.rigs.operations.verification import (
        Verifier,
        human_verdicts,
        judge_committed,
    )

    history = rig.repository.commits_between(incoming.base, incoming.remote_head)
    arriving = _arriving(rig, incoming, history)
    identities = _identities(rig, arriving, history)
    verifier = Verifier(rig, lambda: _committed_here(rig), identities)
    judged = judge_committed(rig, arriving, verifier)
    findings = [item.findings for item in judged]
    report = _with_hidden_changes(report, findings, history)
    bad = tuple(
        item.quarantine_entry(accepted=accepted.unverified)
        for item in judged
        if quarantines(item.verification.kinds)
    )
    clean = tuple(
        finding.path for finding in findings if not quarantines(finding.kinds)
    )
    return Arrival(
        report,
        report_on(findings),
        report.refusal(accept_non_envelope=accepted.non_envelope, rebuilds=rebuilds),
        bad,
        clean,
        tuple(human_verdicts(rig, judged)),
    )


def hold(rig: Rig, arrival: Arrival) -> None:
    """Put what is bad into quarantine.

    This comes before the branch moves: a crash in between must not let anything in.
    """
    quarantine = Quarantine(rig.repository.private_dir)
    quarantine.change(arrival.bad, cleared=arrival.clean)
    quarantine.change(quarantine.decided(arrival.verdicts))


def refuse_to_overwrite(rig: Rig, arrival: Arrival) -> None:
    """Raise FilesInTheWay if an untracked file lies where a file would arrive."""
    arriving = [envelope.path for envelope in arrival.report.new_envelopes]
    arriving += [change.path for change in arrival.report.changed]
    blocked = [
        path
        for path in arriving
        if rig.repository.has_file(path) and not rig.repository.is_tracked(path)
    ]
    if blocked:
        raise FilesInTheWay(tuple(sorted(blocked)))


def settle(rig: Rig, arrival: Arrival, *, moved: bool) -> None:
    """Record and announce what came of an arrival."""
    if moved:
        rig.ledger.catch_up()
        _announce_pull(rig, arrival)
        _tell_what_waits(rig, frozenset(arrival.taken_in))
    elif arrival.refusal is not None:
        refusal = str(arrival.refusal)
        rig.ledger.refused(refusal)
        rig.announce("rig.refused", commit=arrival.report.remote_head, outcome=refusal)


def _announce_pull(rig: Rig, arrival: Arrival) -> None:
    facts: dict[str, object] = {
        "commit": arrival.report.remote_head,
        "outcome": "pulled",
        "envelopes": len(arrival.taken_in),
    }
    if arrival.quarantined:
        facts["quarantined"] = len(arrival.quarantined)
    rig.announce("rig.pulled", **facts)


def _tell_what_waits(rig: Rig, arrived: frozenset[str]) -> None:
    """Tell, and announce, which of the arrived envelopes concern this rig."""
    if rig.settings is None or not arrived:
        return
    from bridgehead.rigs.operations.inbox import inbox_contents
    from bridgehead.rigs.views.listings import closed_again

    inbox = inbox_contents(rig)
    for ends in inbox.conflicts:
        if not arrived.isdisjoint(turn.path for turn in ends):
            rig.tell(closed_again(ends))
    debts = [debt for debt in inbox.owes if debt.asked.turn.path in arrived]
    answers = [notice for notice in inbox.delivered if notice.turn.path in arrived]
    if not debts and not answers:
        return
    counts = f"{plural(len(debts), 'question')}, {plural(len(answers), 'answer')}"
    rig.tell(f"for this rig: {counts}; rig-bridge inbox shows them")
    first = debts[0].asked if debts else answers[0]
    rig.announce(
        "rig.waiting",
        thread=first.turn.thread_id,
        questions=len(debts),
        answers=len(answers),
    )


def narrate(rig: Rig, arrival: Arrival) -> None:
    """Describe to the user what came, and what is wrong with it."""
    is_refused = arrival.refusal is not None
    quarantined = arrival.quarantined_paths
    for finding in arrival.verification.items:
        if _asks_to_join(finding):
            rig.tell(
                f"{finding.path}: a key that is not a member's asks to join; "
                "rig-bridge member list shows it"
            )
        elif finding.path not in quarantined:
            rig.tell(f"{finding.path}: {', '.join(finding.kinds)}")
    for path in arrival.taken_in:
        rig.tell(f"+ {path}")
    for change in arrival.report.changed:
        sign = "!" if is_refused else "+"
        rig.tell(f"{sign} {change.path} ({change.reason})")
    for finding in arrival.quarantined:
        # A pull that is refused puts nothing into quarantine.
        label = "" if is_refused else "quarantined: "
        rig.tell(f"! {finding.path} ({label}{', '.join(finding.kinds)})")
    if is_refused:
        return
    for verdict in arrival.verdicts:
        rig.tell(str(verdict))
    if quarantined:
        rig.tell("rig-bridge quarantine show <path> says what is known about it")


def _asks_to_join(finding: PathFindings) -> bool:
    is_membership_act = finding.path.startswith(f"{MEMBERS_THREAD}/")
    return is_membership_act and finding.kinds == (Kind.SIGNER_UNKNOWN,)


def remedy(arrival: Arrival) -> str | None:
    """Return what to do about a refusal, or about a remote that lost commits."""
    report = arrival.report
    if report.gone:
        return _remedy_for_lost_commits(report)
    if arrival.refusal is None:
        return None
    if arrival.refusal is not Refusal.NON_APPEND:
        return REMEDIES[arrival.refusal]
    if not any(change.touches_thread for change in report.changed):
        return f"the remote has {TAKE_NON_ENVELOPES}"
    remote = report.remote_head[:7]
    return (
        f"the remote did not only append (git diff HEAD...{remote} shows what was "
        f"changed); ask who did it, then accept it with git merge {remote}"
    )


def _remedy_for_lost_commits(report: SyncReport) -> str:
    remote = report.remote_head[:7]
    newest = report.gone[0][:7]
    if len(report.gone) == 1:
        commits = "a commit it had is"
        them = "it"
    else:
        commits = f"{plural(len(report.gone), 'commit')} it had are"
        them = "them"
    return (
        f"the remote's history was rewritten: {commits} gone (git log "
        f"{remote}..{newest} shows {them}); ask who did it, then accept it "
        f"(git rebase --onto {remote} {newest}) or restore {them} "
        "(git push --force-with-lease)"
    )


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
) -> "list[CommittedEnvelope]":
    """Return the envelopes a history brings.

    One that was here with other content is marked as rewritten.
    """
    from bridgehead.rigs.operations.verification import committed_envelopes

    before = rig.repository.committed_files(incoming.base) if incoming.base else {}
    arriving: list[CommittedEnvelope] = []
    for envelope in committed_envelopes(
        history, arrives_as_envelope, first_position=ARRIVING
    ):
        known = before.get(envelope.path)
        if known is not None and known.blob != envelope.blob:
            envelope = envelope._replace(rewritten=True)
        arriving.append(envelope)
    return arriving


def _identities(
    rig: Rig, arriving: "list[CommittedEnvelope]", history: list[CommitRecord]
) -> "Identities":
    """Return who is who for what arrives, given the membership that comes with it."""
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
    has_merge = any(len(commit.parents) > 1 for commit in history)
    if not has_merge:
        return Identities(rig, entries)
    parents = {commit.commit: commit.parents for commit in history}
    return Identities(rig, entries, parents)


def _with_hidden_changes(
    report: SyncReport, findings: list[PathFindings], history: list[CommitRecord]
) -> SyncReport:
    """Add what comparing the ends of the range does not show.

    Inside it an envelope may have been changed, or added and deleted.
    """
    if not report.changed:
        deleted = _deleted_envelopes(history)
        report = report.with_hidden(deleted, DELETED_ON_THE_WAY)
    rewritten = (found.path for found in findings if refuses_pull(found.kinds))
    return report.with_hidden(rewritten, REWRITTEN_ON_THE_WAY)


def _deleted_envelopes(history: list[CommitRecord]) -> Iterator[str]:
    for commit in history:
        for change in commit.changes:
            if change.status == "D" and arrives_as_envelope(change.path):
                yield change.path


def _committed_here(rig: Rig) -> "list[Subject]":
    """Return what is here already, to look up nonces and parents in.

    What is in quarantine uses up no nonce and is nobody's parent.
    """
    from bridgehead.rigs.operations.verification import committed_envelopes, subjects_of

    history = rig.repository.history(rig.repository.head().commit).commits
    quarantine = Quarantine(rig.repository.private_dir)
    here = [
        found
        for found in committed_envelopes(history)
        if not quarantine.holds(found.path, found.blob)
    ]
    return subjects_of(rig, here, require_council=False)
