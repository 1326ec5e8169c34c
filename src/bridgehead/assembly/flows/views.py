"""Flows as a page shows them: which there are over all known projects, and one with its
steps and open requests.

Reads only. The record knows the projects and what was announced; the journal of a
project knows what really happened, so it wins where it can be read. Plain frozen data;
the one way to answer is `PendingList.answer(request.item_id, …)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.flows.recording import item_of
from bridgehead.contract.record_words import Part, RunState
from bridgehead.control_plane import records
from bridgehead.control_plane.stores.base import Store
from bridgehead.errors import BridgeheadError, NotFound
from bridgehead.flows.calls import Call
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.journals.base import Run
from bridgehead.flows.operations.inspect import (
    ListRequest,
    StatusResult,
    Step,
    list_runs,
    status,
)
from bridgehead.flows.values.times import utc_text
from bridgehead.flows.words import ANSWER_SCHEMA, FLEET, AttemptStatus, RunStatus
from bridgehead.host.files import read_bounded

MOST_LOOKED_AT: Final = 1000
MOST_TRACEBACK_BYTES: Final = 1 << 20


class FlowSummary(NamedTuple):
    """One line of a list."""

    id: str
    name: str
    state: RunState
    project: str
    started_at: str
    updated_at: str
    version: str = ""
    error: str | None = None
    waits_for: tuple[str, ...] = ()
    """The agents whose answers are outstanding, the one in the request file first."""


class OpenFlowRequest(NamedTuple):
    """A question that waits for its answer."""

    request_id: str
    item_id: str | None
    """Its pending item (`q-12`); None when the flow was run by a program that tells the
    record nothing.
    """
    path: str
    agent: str
    phase: int
    phase_name: str
    prompt: str
    schema: Mapping[str, Any] | None
    """A JSON Schema of the answer, where the flow gave one."""
    asked_at: str
    deadline: str | None
    """None for a request that is still queued behind another: its time has not begun.
    """
    attempt: int
    queued: bool


class FlowView(NamedTuple):
    """One run, looked at closely."""

    summary: FlowSummary
    settings: Mapping[str, Any]
    steps: tuple[Step, ...] = ()
    requests: tuple[OpenFlowRequest, ...] = ()
    journal_missing: bool = False
    """The project's journal could not be read, so only what the record was told is
    shown.
    """
    traceback: str = ""
    """Of a run that failed, where its files are still there."""


def list_flows(
    assembly: Assembly, store: Store, *, limit: int = 50
) -> tuple[FlowSummary, ...]:
    """Return the flows of every project the record knows and of the present one, the
    latest started first.
    """
    recorded = store.runs(records.RunFilter(parts=(Part.FLOWS,)), limit=limit)
    found = {run.id: _recorded(run) for run in recorded}
    for project in {assembly.project, *(run.project for run in recorded)}:
        found.update(
            {summary.id: summary for summary in _journalled_in(project, limit)}
        )
    return tuple(
        sorted(found.values(), key=lambda flow: flow.started_at, reverse=True)[:limit]
    )


def fleet_load(assembly: Assembly) -> dict[tuple[str, str], int]:
    """Return what the fleet of this record has under way.

    Nothing where there is none, or it cannot be reached.
    """
    from bridgehead.assembly.flows.fleet import has_begun, open_fleet

    with suppress(BridgeheadError, ImportError):
        if has_begun(assembly.record_url):
            with open_fleet(assembly.record_url) as fleet:
                return fleet.load()
    return {}


def view_flow(assembly: Assembly, store: Store, reference: str) -> FlowView:
    """Return the flow with this id, or the only one whose id ends in it.

    NotFound when there is none.
    """
    try:
        recorded = store.find_run(reference)
    except NotFound:
        # A flow of this project that nobody told the record about.
        return _view(store, status(Path(assembly.project), reference))
    if recorded.part is not Part.FLOWS:
        raise NotFound(f"{recorded.id} is not a flow")
    try:
        if recorded.project.startswith(FLEET):
            from bridgehead.assembly.flows.fleet import open_fleet

            with open_fleet(assembly.record_url) as fleet:
                return _view(store, fleet.status(recorded.id))
        return _view(store, status(Path(recorded.project), recorded.id))
    except BridgeheadError:
        return FlowView(
            _recorded(recorded), recorded.data.get("input", {}), journal_missing=True
        )


def paused_projects(
    store: Store, name: str | None = None
) -> dict[Path, frozenset[str]]:
    """Return where the record knows flows that have not ended, of that name: their ids
    by project that is still there.
    """
    where = records.RunFilter(
        parts=(Part.FLOWS,), states=(RunState.WAITING, RunState.RUNNING)
    )
    found: dict[Path, frozenset[str]] = {}
    for run in store.runs(where, limit=MOST_LOOKED_AT):
        path = Path(run.project)
        if name in (None, run.kind) and path.is_dir():
            found[path] = found.get(path, frozenset()) | {run.id}
    return found


def why_unfit(flow_name: str, request: OpenFlowRequest, answer: str) -> str | None:
    """Return why the flow would not use this answer, judged as the flow itself will.

    None when it would.

    A shape that only the flow's own program knows is not checked: such an answer is
    judged when the flow resumes.
    """
    from bridgehead.flows.calls import Failed
    from bridgehead.flows.engine.answers import judge_for

    if flow_name == "template-create":
        from bridgehead.flows.template_create.answers.judge import THRESHOLDS, judge_of

        if request.phase not in THRESHOLDS:
            return None
        verdict = judge_of(request.phase)(answer)
    else:
        verdict = judge_for(None, request.schema)(answer)
    return str(verdict) if isinstance(verdict, Failed) else None


def _journalled_in(project: str, limit: int) -> Iterable[FlowSummary]:
    try:
        listed = list_runs(ListRequest(Path(project), limit))
    except BridgeheadError:
        # the project is gone, or its journal cannot be read: the record's word stands
        return
    for run in listed.runs:
        unfinished = listed.unfinished
        waiting = (
            unfinished.outstanding if unfinished and unfinished.run.id == run.id else ()
        )
        yield _journalled(run, waiting)


def _journalled(run: Run, waiting: Iterable[Call]) -> FlowSummary:
    return FlowSummary(
        id=run.id,
        name=run.name,
        # The record has no word for them: an interrupted run waits for a resume, a
        # queued one for a worker.
        state=RunState.WAITING
        if run.status in (RunStatus.INTERRUPTED, RunStatus.QUEUED)
        else RunState(run.status.value),
        project=run.root,
        started_at=run.created,
        updated_at=run.updated,
        version=run.version,
        error=run.error,
        waits_for=tuple(str(call.current.document["agent_name"]) for call in waiting),
    )


def _recorded(run: records.Run) -> FlowSummary:
    return FlowSummary(
        id=run.id,
        name=run.kind,
        state=run.state,
        project=run.project,
        started_at=run.started_at,
        updated_at=run.updated_at,
        version=str(run.data.get("version", "")),
        error=run.data.get("error"),
        waits_for=tuple(run.data.get("waits_for", ())),
    )


def _view(store: Store, found: StatusResult) -> FlowView:
    given = {
        key: value for key, value in found.run.input.items() if not key.startswith("_")
    }
    requests = tuple(
        _open_request(store, found.run.root, call) for call in found.outstanding
    )
    trace = _traceback(found.run) if found.run.status is RunStatus.FAILED else ""
    return FlowView(
        _journalled(found.run, found.outstanding),
        given,
        found.steps,
        requests,
        traceback=trace,
    )


def _traceback(run: Run) -> str:
    with suppress(BridgeheadError, OSError, IndexError):
        kept = sorted(
            one
            for one in FlowRoot(Path(run.root)).post_mortem.iterdir()
            if one.name.endswith(f"-{run.id}")
        )
        return read_bounded(kept[-1] / "traceback.txt", MOST_TRACEBACK_BYTES).decode(
            "utf-8", "replace"
        )
    return ""


def _open_request(store: Store, root: str, call: Call) -> OpenFlowRequest:
    current = call.current
    asked = current.document
    queued = current.status is AttemptStatus.QUEUED
    item = item_of(store, current.request_id, root)
    return OpenFlowRequest(
        request_id=current.request_id,
        item_id=item.id if item else None,
        path=call.path,
        agent=str(asked["agent_name"]),
        phase=int(asked["phase"]),
        phase_name=str(asked["phase_name"]),
        prompt=str(asked["prompt"]),
        schema=asked.get("context", {}).get(ANSWER_SCHEMA),
        asked_at=str(asked["created_at"]),
        deadline=None if queued else utc_text(current.deadline),
        attempt=current.number + 1,
        queued=queued,
    )
