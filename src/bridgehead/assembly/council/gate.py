"""`council gate`: which council is asked about, and which states of the project may be
the one that it saw.
"""

from __future__ import annotations

from dataclasses import replace

from bridgehead.assembly.application import Assembly, append_event
from bridgehead.assembly.council.before_change import (
    before_change,
    required,
    unread_passes,
)
from bridgehead.assembly.council.events import FAILURE
from bridgehead.assembly.council.reports import MOST_LISTED, NoVerdict, Reports
from bridgehead.contract.record_words import RunState
from bridgehead.contract.words import Mode, TaskType
from bridgehead.control_plane.questions import AmbiguousReference
from bridgehead.control_plane.records import Run
from bridgehead.council.reporting.gate import (
    BegunCouncil,
    GateDecision,
    GateDemands,
    GatedState,
    decide_gate,
    refuse_unconfirmed,
    refuse_unfinished,
)
from bridgehead.council.reporting.not_looked_at import lines_of
from bridgehead.council.reporting.report import CouncilReport
from bridgehead.council.request.plan import is_judged
from bridgehead.council.scope.git import Git, NoSuchRevision, repository_at
from bridgehead.council.scope.resolve import Change, Contents, Extent, on_disk
from bridgehead.errors import NotFound

EVERYTHING = "."


def check_gate(
    assembly: Assembly,
    reference: str | None,
    demands: GateDemands,
    commit: str | None = None,
) -> GateDecision:
    """Decide about one council: the one whose id begins like `reference`, else the one
    that was begun last.
    """
    reports = Reports(assembly)
    run = _chosen(reports.runs(limit=MOST_LISTED), reference)
    git = repository_at(assembly.places.project, assembly.environ)
    if (unfinished := unfinished_council(run)) is not None:
        here = _place(git, commit)
        scope = str(run.data.get("scope") or "")
        return refuse_unfinished(unfinished, demands.level, here, scope)
    stored = reports.stored(run)
    if stored.doubt is not None:
        here = _place(git, commit)
        return refuse_unconfirmed(stored.report, stored.doubt, demands.level, here)
    if not isinstance(stored.report, CouncilReport):
        raise NoVerdict(stored.review_id)
    states = gated_states(assembly, git, commit, stored.report)
    decision = decide_gate(
        stored.report, _with_settings(assembly, stored.report, demands), states
    )
    has_verdict = decision.verdict is not None or stored.report.incomplete
    if decision.passed and decision.allowed_incomplete:
        record_allowed(assembly, stored.report, demands.allow_incomplete)
    elif decision.passed and not has_verdict:
        raise NoVerdict(stored.review_id)
    return decision


def _with_settings(
    assembly: Assembly, report: CouncilReport, demands: GateDemands
) -> GateDemands:
    """Return the demands with those of the settings, as they were before a change."""
    base = None if report.scope_paths else report.base_commit
    settings = before_change(assembly, base).settings
    return replace(
        demands,
        required=required(settings, demands.required),
        unread_passes=unread_passes(settings),
    )


def record_allowed(assembly: Assembly, report: CouncilReport, reason: str) -> None:
    """Record that somebody answers for what was not looked at."""
    facts = {"reason": reason, "not_looked_at": lines_of(report)}
    append_event(
        assembly.project,
        "council.allowed_incomplete",
        facts,
        run_id=report.review_id,
        assembly=assembly,
    )


def unfinished_council(run: Run) -> BegunCouncil | None:
    """Return what a run lacks to be judged; None when it ended with a report."""
    data = run.data
    if run.state is RunState.RUNNING:
        return BegunCouncil(run.id)
    if data.get(FAILURE):
        return BegunCouncil(run.id, failure=str(data[FAILURE]))
    if isinstance(data.get("report"), dict):
        return None
    return BegunCouncil(run.id, waiting_for=tuple(data.get("waiting_for") or ()))


def _chosen(runs: list[Run], reference: str | None) -> Run:
    """Return the run that is meant.

    One that gives no verdict is passed over until it has a report.
    """
    if reference is not None:
        exact = [run for run in runs if run.id == reference]
        found = exact or [run for run in runs if run.id.startswith(reference)]
        if len(found) > 1:
            raise AmbiguousReference(reference, [run.id for run in found])
        if not found:
            raise NotFound(
                f"no report of council {reference!r} in this project",
                hint="bridgehead council list",
            )
        return found[0]
    for run in runs:
        if _is_judged(run) or unfinished_council(run) is None:
            return run
    raise NotFound(
        "no report in this project yet",
        hint="run `bridgehead council review` first",
    )


def _is_judged(run: Run) -> bool:
    """Return whether a council was to give a verdict.

    One that broke off before this was settled was.
    """
    kind = run.data.get("task_type")
    if kind is None:
        return True
    mode = run.data.get("mode")
    return is_judged(TaskType(kind), Mode(mode) if mode else None)


def gated_states(
    assembly: Assembly, git: Git | None, commit: str | None, report: CouncilReport
) -> list[GatedState]:
    """Return what a gate is asked about: a commit, or what is in the working tree or
    the index now.
    """
    compared = frozenset(path for path, digest in report.reviewed.items() if digest)
    if git is None:
        extent = Extent(report.scope_paths, compared=compared)
        contents = on_disk(assembly.places.project, extent)
        return [GatedState("the project", contents.digests, contents.required)]
    change = Change(git)
    pushed = change.pushed_base(commit)
    start = report.base_commit or report.commit
    problem = ""
    folders = report.scope_paths
    if start is None:
        folders = (EVERYTHING,)
    elif not _has_commit(git, start):
        problem = (
            f"commit {start[:12]}, on which it was held, is not in this repository"
        )
        start = None
    bases = tuple(dict.fromkeys(base for base in (start, pushed) if base))
    extent = Extent(folders, bases, compared)
    if commit is not None:
        found = git.commit(commit)
        contents = change.in_commit(found, extent)
        return [_state(f"commit {commit}", found, contents, problem)]
    head = git.head()
    return [
        _state("the working tree", head, change.in_working_tree(extent), problem),
        _state("the index", head, change.in_index(extent), problem),
    ]


def _state(
    name: str, commit: str | None, contents: Contents, problem: str
) -> GatedState:
    return GatedState(name, contents.digests, contents.required, commit, problem)


def _has_commit(git: Git, commit: str) -> bool:
    try:
        git.commit(commit)
    except NoSuchRevision:
        return False
    return True


def _place(git: Git | None, commit: str | None) -> GatedState:
    """Return what is asked about, by name, without looking at its files."""
    if git is None:
        return GatedState("the project", {})
    if commit is not None:
        return GatedState(f"commit {commit}", {}, commit=git.commit(commit))
    return GatedState("the working tree", {}, commit=git.head())
