"""See what the remote has, verify it, and take it in if it is a pure append (rigs §9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from bridgehead.errors import UserError
from bridgehead.rigs.envelope.names import arrives_as_envelope
from bridgehead.rigs.repositories.errors import FetchFailed
from bridgehead.rigs.repositories.records import Incoming
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.trust.incoming_changes import Change, Refusal, SyncReport, report_changes
from bridgehead.rigs.trust.verification_kinds import VerificationReport, report_on
from bridgehead.rigs.views.results import Checked, Synced

if TYPE_CHECKING:
    from bridgehead.rigs.operations.verification import Subject

_REMEDY = {
    Refusal.NON_APPEND: "the remote did not only append; look at the changes before you merge anything by hand",
    Refusal.BOTH_AHEAD: "both sides have new commits; git pull --rebase, then git push",
    Refusal.VERIFICATION: "nothing was pulled; --accept-unverified pulls all the same",
    Refusal.NOT_ELIGIBLE: "the remote has commits without envelopes; --accept-non-envelope pulls them",
}


class SyncRequest(NamedTuple):
    auto: bool = False
    accept_unverified: bool = False
    accept_non_envelope: bool = False


class FilesInTheWay(UserError):
    """A pull would overwrite files that git does not know."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(
            f"local files are in the way of the pull: {', '.join(paths)}; nothing was moved",
            hint="move them away and sync again",
        )


def sync(rig: Rig, request: SyncRequest) -> Synced:
    """Fetch, compare, verify; with `auto` move the branch to exactly what was inspected."""
    wire = rig.repository.upstream()
    with rig.repository.lock():
        rig.repository.recover()
        rig.ledger.catch_up()
        incoming = rig.repository.compare(rig.repository.fetch(wire))
        report = _report(incoming)
        verification = _verify(rig, incoming, report)
        refusal = report.refusal(
            verification_failed=bool(verification.failed) and not request.accept_unverified,
            accept_non_envelope=request.accept_non_envelope,
        )
        outcome = Synced(report, refusal, request.auto and refusal is None, verification)
        if outcome.moved and (blocked := rig.repository.fast_forward(incoming.remote_head)):
            raise FilesInTheWay(blocked.paths)
    _settle(rig, report, refusal, moved=outcome.moved)
    _narrate(rig, report, refusal, auto=request.auto)
    if outcome.moved:
        _tell_divergences(rig, sorted({envelope.thread_id for envelope in report.new_envelopes}))
    return outcome


def check(rig: Rig) -> Checked:
    """The read-only gate of rigs §14.5: one line per check, nothing moves."""
    wire = rig.repository.upstream()
    reachable = True
    try:
        remote_head = rig.repository.fetch(wire)
    except FetchFailed as error:
        reachable, remote_head = False, wire.tracking_ref  # as the last fetch left it
        rig.tell(error.message)
    incoming = rig.repository.compare(remote_head)
    clean = not rig.repository.survey().dirty
    checked = Checked(
        remote=reachable,
        clean=clean,
        behind=incoming.behind,
        ahead=incoming.ahead,
        indexed=rig.ledger.is_current(),
    )
    _tell_checks(rig, checked)
    return checked


def _report(incoming: Incoming) -> SyncReport:
    changes = [Change(change.status, change.path, change.old_path) for change in incoming.changes]
    return report_changes(
        changes,
        local_head=incoming.local_head,
        remote_head=incoming.remote_head,
        local_ahead=incoming.ahead,
        remote_ahead=incoming.behind,
    )


def _verify(rig: Rig, incoming: Incoming, report: SyncReport) -> VerificationReport:
    """Judge what would arrive, straight from the object store, before anything moves."""
    if not report.remote_ahead:
        return report_on(())
    from bridgehead.rigs.operations.verification import (
        Verifier,
        committed_envelopes,
        findings_of,
        subjects_of,
        tell_finding,
    )

    history = rig.repository.commits_between(incoming.base, incoming.remote_head)
    arriving = committed_envelopes(history, counts=arrives_as_envelope)
    before = rig.repository.committed_files(incoming.base) if incoming.base else {}
    known = {path: entry.blob for path, entry in before.items()}
    marked = [
        found._replace(rewritten=found.rewritten or known.get(found.path, found.blob) != found.blob)
        for found in arriving
    ]
    subjects = subjects_of(rig, marked)
    findings = findings_of(subjects, Verifier(rig, earlier=lambda: _committed_here(rig)).judge(subjects))
    for finding in findings:
        tell_finding(rig, finding)
    return report_on(findings)


def _committed_here(rig: Rig) -> list[Subject]:
    from bridgehead.rigs.operations.verification import committed_envelopes, subjects_of

    history = rig.repository.history(rig.repository.head().commit).commits
    return subjects_of(rig, committed_envelopes(history), require_council=False)


def _settle(rig: Rig, report: SyncReport, refusal: Refusal | None, *, moved: bool) -> None:
    """Tell the record and the ledger what came of it."""
    paths = [envelope.path for envelope in report.new_envelopes]
    if moved:
        rig.ledger.received(paths)
        rig.announce("rig.pulled", commit=report.remote_head, outcome="pulled", envelopes=len(paths))
    elif refusal is not None:
        rig.ledger.refused(str(refusal))
        rig.announce("rig.refused", commit=report.remote_head, outcome=str(refusal))


def _narrate(rig: Rig, report: SyncReport, refusal: Refusal | None, *, auto: bool) -> None:
    rig.tell(f"local {report.local_head[:7] or 'none'}, remote {report.remote_head[:7]}")
    for envelope in report.new_envelopes:
        rig.tell(f"+ {envelope.path}")
    for change in report.changed:
        rig.tell(f"! {change.path} ({change.reason})")
    if refusal is not None:
        rig.tell(_REMEDY[refusal])
    elif report.remote_ahead and not auto:
        rig.tell("repeat with --auto to pull")


def _tell_divergences(rig: Rig, thread_ids: Sequence[str]) -> None:
    """Name the threads in which rigs wrote past each other (rigs §9.6)."""
    from bridgehead.rigs.operations.catalogue import catalogue

    known = catalogue(rig)
    for thread_id in known.thread_ids():
        divergence = known.causality(thread_id).divergence() if thread_id in thread_ids else None
        if divergence is not None:
            heads = ", ".join(turn.filename for turn in divergence.heads)
            rig.tell(f"thread {thread_id} diverged at {divergence.name}; heads: {heads}")


def _tell_checks(rig: Rig, checked: Checked) -> None:
    """One line per check; of one that fails, the cause and the remedy (rigs §14.5)."""
    checks = (
        ("remote", checked.remote, "it cannot be reached: check the network, then git fetch"),
        ("clean", checked.clean, "the work tree is not clean: git status"),
        ("behind", not checked.behind, f"{checked.behind} commits to pull: rig-bridge sync --auto"),
        ("ahead", not checked.ahead, f"{checked.ahead} commits to push: git push"),
        ("index", checked.indexed, "the control plane is behind: rig-bridge reconcile"),
    )
    for name, passed, problem in checks:
        rig.tell(f"{name}: {'ok' if passed else problem}")
