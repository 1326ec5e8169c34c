"""Fetch what the remote has, verify it, and pull it if it only appends (rigs §9)."""

from collections.abc import Collection
from typing import NamedTuple

from bridgehead.errors import plural
from bridgehead.rigs.operations import arrivals
from bridgehead.rigs.repositories.errors import FetchFailed
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.trust.incoming_changes import Refusal
from bridgehead.rigs.views.results import Checked, Synced


class SyncRequest(NamedTuple):
    auto: bool = False
    accept_unverified: bool = False
    accept_non_envelope: bool = False
    reported_head: str | None = None  # a remote head whose refusal is known already
    quiet: bool = False  # print nothing as long as nothing comes


def sync(rig: Rig, request: SyncRequest) -> Synced:
    """Fetch, compare and verify; with `auto`, move the branch to what was inspected."""
    rig.repository.refuse_shallow()
    wire = rig.repository.upstream()
    with rig.repository.lock():
        rig.repository.recover()
        rig.ledger.catch_up()
        accepted = arrivals.Acceptance(
            request.accept_unverified, request.accept_non_envelope
        )
        arrival = arrivals.inspect(rig, rig.repository.fetch(wire), accepted)
        if request.auto and arrival.refusal is None and arrival.report.remote_ahead:
            arrivals.hold(rig, arrival)
            arrival = _take_in(rig, arrival)
    pulled = request.auto and arrival.refusal is None
    outcome = Synced(
        arrival.report,
        arrival.refusal,
        pulled,
        arrival.verification,
        arrival.quarantined,
    )
    is_known_refusal = (
        outcome.refusal is not None
        and arrival.report.remote_head == request.reported_head
    )
    if not is_known_refusal:
        arrivals.settle(rig, arrival, moved=outcome.moved)
        if arrival.report.remote_ahead or not request.quiet:
            _narrate(rig, arrival, auto=request.auto)
    if outcome.moved:
        _tell_divergences(rig, {path.partition("/")[0] for path in arrival.taken_in})
    return outcome


def _take_in(rig: Rig, arrival: arrivals.Arrival) -> arrivals.Arrival:
    """Move the branch, and rebuild on top of it what is unpushed here.

    If that cannot be rebuilt, return the arrival as refused.
    """
    tip = arrival.report.remote_head
    if arrival.report.both_ahead:
        arrivals.refuse_to_overwrite(rig, arrival)
        rebuilt = rig.repository.rebuild(tip, inspected=True)
        if rebuilt is None:
            return arrival._replace(refusal=Refusal.BOTH_AHEAD)
        rig.ledger.rewritten(rebuilt)
    elif blocked := rig.repository.fast_forward(tip):
        raise arrivals.FilesInTheWay(blocked.paths)
    return arrival


def check(rig: Rig) -> Checked:
    """Check the state of the clone without changing it, a line each (rigs §14.5)."""
    wire = rig.repository.upstream()
    reachable = True
    try:
        remote_head = rig.repository.fetch(wire)
    except FetchFailed as error:
        reachable = False
        remote_head = wire.tracking_ref  # as the last fetch left it
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
    # One line per check; of one that fails, the cause and the remedy (rigs §14.5).
    checks = (
        (
            "remote",
            checked.remote,
            "it cannot be reached: check the network, then git fetch",
        ),
        ("clean", checked.clean, "the work tree is not clean: git status"),
        (
            "behind",
            not checked.behind,
            f"{plural(checked.behind, 'commit')} to pull: rig-bridge sync --auto",
        ),
        (
            "ahead",
            not checked.ahead,
            f"{plural(checked.ahead, 'commit')} to push: rig-bridge push",
        ),
        ("index", checked.indexed, "the control plane is behind: rig-bridge reconcile"),
    )
    for name, passed, problem in checks:
        rig.tell(f"{name}: {'ok' if passed else problem}")
    return checked


def _narrate(rig: Rig, arrival: arrivals.Arrival, *, auto: bool) -> None:
    report = arrival.report
    rig.tell(
        f"local {report.local_head[:7] or 'none'}, remote {report.remote_head[:7]}"
    )
    arrivals.narrate(rig, arrival)
    if advice := arrivals.remedy(arrival):
        rig.tell(advice)
    elif report.remote_ahead and not auto:
        rig.tell("repeat with --auto to pull")


def _tell_divergences(rig: Rig, thread_ids: Collection[str]) -> None:
    """Name the threads in which rigs wrote past each other (rigs §9.6)."""
    from bridgehead.rigs.operations.catalogue import catalogue

    known = catalogue(rig)
    for thread_id in known.thread_ids():
        if thread_id not in thread_ids:
            continue
        divergence = known.causality(thread_id).divergence()
        if divergence is not None:
            heads = ", ".join(turn.filename for turn in divergence.heads)
            rig.tell(
                f"thread {thread_id} diverged at {divergence.name}; heads: {heads}"
            )
