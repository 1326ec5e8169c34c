"""Councils for whoever shows them: the list over all projects, one council as it goes,
its report, dismissing from it.

Everything is read from the record and the project's own files, and handed out as plain
data, the same for dashboard, MCP and command line. Nothing here writes but
`dismiss_finding`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council.files import was_left_behind
from bridgehead.assembly.council.journal import CouncilJournal, MadeCall
from bridgehead.assembly.council.live import LiveCouncil, rebuild
from bridgehead.assembly.council.reports import DismissedNow, DismissRequest, Reports
from bridgehead.contract.events import Event
from bridgehead.contract.record_words import Part, PendingKind, RunState
from bridgehead.control_plane.records import EventFilter, PendingFilter, Run, RunFilter
from bridgehead.control_plane.stores.base import Store
from bridgehead.council.reporting.report import (
    INCOMPLETE,
    AbortedReport,
    CouncilReport,
    DismissedFinding,
    FindingEntry,
)
from bridgehead.errors import BridgeheadError, NotFound
from bridgehead.host.clock import Clock, SystemClock, parse_iso

PAGE: Final = 50
EVENTS_AT_ONCE: Final = 1_000
MOST_HALTED: Final = 1_000


class CouncilStatus(StrEnum):
    """What a person wants to know first.

    A council can be done and still have a halted seat to be retried.
    """

    RUNNING = "running"
    STOPPED = "stopped"
    """Its process is gone; `council resume` goes on."""
    WAITING = "waiting"
    HALTED = "halted"
    """There is a report, and a seat that could not sit waits for somebody."""
    DONE = "done"
    FAILED = "failed"


class CouncilLine(msgspec.Struct, frozen=True, kw_only=True):
    """One council in a list."""

    id: str
    project: str
    title: str
    verb: str
    scope: str
    task_type: str | None
    mode: str | None
    intensity: str | None
    status: CouncilStatus
    verdict: str | None
    counts: dict[str, int]
    """Findings that stand, by severity."""
    seats: tuple[str, ...]
    waiting_for: tuple[str, ...]
    started_at: str
    ended_at: str | None
    seconds: float
    cost_usd: float | None
    abort_reason: str | None = None
    report: dict[str, str] | None = None
    """Files of its last report, from the project's root."""


class CouncilPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of councils, the newest first.

    `before` fetches the next one, None ends the list.
    """

    councils: tuple[CouncilLine, ...]
    before: str | None = None


class CouncilNow(msgspec.Struct, frozen=True, kw_only=True):
    """One council as it stands; `seq` is the last event seen, to follow from."""

    council: CouncilLine
    live: LiveCouncil
    domains: tuple[str, ...]
    files: int | None
    loc: int | None
    calls: int
    tokens: int | None
    cost_usd: float | None
    has_report: bool
    seq: int


class FindingText(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of a report with what was said about it."""

    finding: FindingEntry
    dismissed: DismissedFinding | None = None
    untouched: bool = False
    """On lines that the reviewed change did not touch."""


class ReportText(msgspec.Struct, frozen=True, kw_only=True):
    """A report for showing."""

    council: CouncilLine
    report: dict[str, Any]
    files: dict[str, str]
    findings: tuple[FindingText, ...]
    comparison: dict[str, Any] | None


def list_councils(
    assembly: Assembly,
    *,
    limit: int = PAGE,
    before: str | None = None,
    project: str | None = None,
    clock: Clock | None = None,
) -> CouncilPage:
    """Return the councils of all projects, or of one; the newest first."""
    with assembly.store(read_only=True) as store:
        runs = store.runs(
            RunFilter(parts=(Part.COUNCIL,), project=project),
            limit=limit,
            before=before,
        )
        halted = _halted(store)
    lines = tuple(_line(assembly, run, halted, clock or SystemClock()) for run in runs)
    return CouncilPage(
        councils=lines, before=runs[-1].id if len(runs) == limit else None
    )


def council_calls(assembly: Assembly, reference: str) -> list[MadeCall]:
    """Every call of a council; none where its project's journal is gone."""
    with assembly.store(read_only=True) as store:
        run = _find(store, reference)
    try:
        journal = CouncilJournal(Path(run.project), SystemClock())
    except BridgeheadError:
        return []
    with closing(journal):
        return journal.calls_of(run.id).made() if run.id in journal.ids() else []


def council_now(
    assembly: Assembly, reference: str, *, clock: Clock | None = None
) -> CouncilNow:
    """Return one council, live or over.

    `reference`: its id, or the beginning or end of it.
    """
    with assembly.store(read_only=True) as store:
        run = _find(store, reference)
        halted = _halted(store)
        recorded = list(_events(store, run.id))
    live = rebuild(run.data.get("bridges") or (), (event for _, event in recorded))
    line = _line(assembly, run, halted, clock or SystemClock())
    has_report = isinstance(run.data.get("report"), dict)
    return CouncilNow(
        council=line,
        live=live,
        domains=tuple(run.data.get("domains") or ()),
        files=run.data.get("files"),
        loc=run.data.get("loc"),
        calls=live.calls,
        tokens=live.tokens,
        cost_usd=line.cost_usd if has_report else live.cost_usd,
        has_report=has_report,
        seq=recorded[-1][0] if recorded else 0,
    )


def council_report(
    assembly: Assembly, reference: str, *, clock: Clock | None = None
) -> ReportText:
    """Return the report of a council of any project."""
    with assembly.store(read_only=True) as store:
        run = _find(store, reference)
        halted = _halted(store)
    stored = Reports(_in_its_project(assembly, run)).find(run.id)
    report = stored.report
    return ReportText(
        council=_line(assembly, run, halted, clock or SystemClock()),
        report=msgspec.to_builtins(report),
        files=stored.files.files,
        findings=()
        if isinstance(report, AbortedReport)
        else tuple(_finding_texts(report)),
        comparison=None
        if isinstance(report, AbortedReport)
        else msgspec.to_builtins(report.comparison),
    )


def dismiss_finding(
    assembly: Assembly, reference: str, request: DismissRequest
) -> DismissedNow:
    """Live with a finding of a council of any project (council §25.4)."""
    with assembly.store(read_only=True) as store:
        run = _find(store, reference)
    return Reports(_in_its_project(assembly, run)).dismiss(run.id, request)


def _find(store: Store, reference: str) -> Run:
    run = store.find_run(reference)
    if run.part is not Part.COUNCIL:
        raise NotFound(
            f"{run.id} is not a council", hint="bridgehead council list --everywhere"
        )
    return run


def _in_its_project(assembly: Assembly, run: Run) -> Assembly:
    """Return the assembly of the project the council was held in."""
    return Assembly(Path(run.project), assembly.environ, assembly.flags)


def _halted(store: Store) -> frozenset[str]:
    """Councils with a seat that waits for somebody."""
    items = store.pending(
        PendingFilter(kinds=(PendingKind.HALTED_RUNTIME,)), limit=MOST_HALTED
    )
    return frozenset(item.question.run_id for item in items if item.question.run_id)


def _events(store: Store, run_id: str) -> Iterator[tuple[int, Event]]:
    seen = 0
    while page := store.events(
        EventFilter(run_id=run_id), after=seen, limit=EVENTS_AT_ONCE
    ):
        for recorded in page:
            yield recorded.seq, recorded.event
        seen = page[-1].seq


def _line(
    assembly: Assembly, run: Run, halted: frozenset[str], clock: Clock
) -> CouncilLine:
    data = run.data
    verdict = data.get("verdict")
    if not verdict and data.get("incomplete"):
        verdict = INCOMPLETE
    until = parse_iso(run.ended_at) if run.ended_at else clock.now()
    return CouncilLine(
        id=run.id,
        project=run.project,
        title=run.title,
        verb=run.kind,
        scope=str(data.get("scope") or ""),
        task_type=data.get("task_type"),
        mode=data.get("mode"),
        intensity=data.get("intensity"),
        status=_status(assembly, run, halted),
        verdict=verdict or None,
        counts=dict(data.get("findings") or {}),
        seats=tuple(data.get("seats") or data.get("bridges") or ()),
        waiting_for=tuple(data.get("waiting_for") or data.get("pending") or ()),
        started_at=run.started_at,
        ended_at=run.ended_at,
        seconds=max(0.0, (until - parse_iso(run.started_at)).total_seconds()),
        cost_usd=(data.get("usage") or {}).get("cost_usd"),
        abort_reason=data.get("abort_reason"),
        report=data.get("report"),
    )


def _status(assembly: Assembly, run: Run, halted: frozenset[str]) -> CouncilStatus:
    match run.state:
        case RunState.RUNNING:
            return (
                CouncilStatus.STOPPED
                if was_left_behind(assembly, run.id)
                else CouncilStatus.RUNNING
            )
        case RunState.WAITING:
            return CouncilStatus.WAITING
        case RunState.COMPLETED:
            return CouncilStatus.HALTED if run.id in halted else CouncilStatus.DONE
        case _:
            return CouncilStatus.HALTED if run.id in halted else CouncilStatus.FAILED


def _finding_texts(report: CouncilReport) -> Iterator[FindingText]:
    for finding in report.findings():
        yield FindingText(finding=finding)
    for finding in report.untouched_findings:
        yield FindingText(finding=finding, untouched=True)
    for entry in report.dismissed_findings:
        yield FindingText(finding=entry.finding, dismissed=entry)
