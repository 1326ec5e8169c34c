"""Look at the flows of a root: which there are, where each stands, its steps in order, what it waits for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bridgehead.errors import NotFound
from bridgehead.flows.calls import Attempt, Call, outstanding_calls
from bridgehead.flows.engine.run_request import RunInputs
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.journals.base import Journal, Record, Run
from bridgehead.flows.values.ids import parents_of
from bridgehead.flows.words import RunStatus

PART: Final = "part"
"""The kind of a step that has not ended and of which only what is inside has been recorded."""
WAITING: Final = "waiting"


class Step(NamedTuple):
    """One step, ask, phase or nested flow of a run."""

    path: str
    kind: str
    status: str
    """`completed`, `fallback`, `failed`; `pending` or `queued` for an open ask; `waiting` for what contains one."""
    started: str
    ended: str | None = None
    error: str | None = None

    @property
    def name(self) -> str:
        """Its own name, without the names it stands in and its number among equals."""
        return self.path.rpartition("/")[2].partition("#")[0]

    @property
    def depth(self) -> int:
        return self.path.count("/")


def steps_of(records: Iterable[Record], attempts: Sequence[Attempt]) -> tuple[Step, ...]:
    """Every recorded step and every open ask, each before what it contains.

    A record knows when its last pass began. What contains other steps began with the first of them, an ask when it was
    first handed out, however often the run was resumed since.
    """
    asked = _first_asked(attempts)
    steps = {record.path: _recorded(record, asked.get(record.path)) for record in records}
    for path, call in outstanding_calls(attempts).items():
        steps[path] = Step(path, "ask", call.current.status.value, asked[path])
    for path, step in list(steps.items()):
        for parent in parents_of(path):
            steps[parent] = _containing(steps.get(parent), parent, step)
    places = _places(steps)
    return tuple(sorted(steps.values(), key=lambda step: places[step.path]))


def _first_asked(attempts: Iterable[Attempt]) -> dict[str, str]:
    asked: dict[str, str] = {}
    for attempt in attempts:
        asked.setdefault(attempt.path, str(attempt.document.get("created_at", "")))
    return asked


def _recorded(record: Record, asked: str | None) -> Step:
    error = None if record.error is None else ": ".join(str(part) for part in json.loads(record.error))
    return Step(record.path, record.kind, record.status, asked or record.started, record.ended, error)


def _containing(parent: Step | None, path: str, inside: Step) -> Step:
    if parent is None:
        parent = Step(path, PART, WAITING, inside.started)
    return parent._replace(started=min(parent.started, inside.started))


def _places(steps: Iterable[str]) -> dict[str, list[int]]:
    """Where each path stands: before what it contains; paths of one level as they were made."""
    earliest: dict[str, int] = {}
    for place, path in enumerate(steps):
        for parent in (*parents_of(path), path):
            earliest[parent] = min(place, earliest.get(parent, place))
    return {path: [earliest[parent] for parent in (*parents_of(path), path)] for path in earliest}


class ListRequest(NamedTuple):
    root: Path
    limit: int = 50


class ListResult(NamedTuple):
    runs: tuple[Run, ...]
    """Newest first."""
    unfinished: StatusResult | None = None
    """The one run that is running or waiting, looked at more closely."""


class StatusRequest(NamedTuple):
    """The run with that id, or one that ends in it; the newest without one."""

    root: Path
    flow_id: str | None = None


class StatusResult(NamedTuple):
    run: Run
    records: tuple[Record, ...] = ()
    attempts: tuple[Attempt, ...] = ()

    @property
    def outstanding(self) -> tuple[Call, ...]:
        """What waits for an answer, oldest first; a run that has ended waits for nothing."""
        return () if self.run.status.ended else tuple(outstanding_calls(self.attempts).values())

    @property
    def steps(self) -> tuple[Step, ...]:
        """In order, with times; a request that an ended run left open is none of its steps."""
        over = self.run.status.ended
        return steps_of(self.records, [made for made in self.attempts if not (over and made.outstanding)])


def list_runs(request: ListRequest, inputs: RunInputs | None = None) -> ListResult:
    """Every run the journal of a root knows."""
    inputs = inputs or RunInputs()
    root = FlowRoot.open(request.root)
    if not root.journal.exists():
        return ListResult(())
    with inputs.open_journal(root) as journal:
        unfinished = journal.unfinished()
        return ListResult(
            tuple(as_shown(run, root) for run in journal.runs()[: request.limit]),
            _status_of(journal, as_shown(unfinished, root)) if unfinished else None,
        )


def status(request: StatusRequest, inputs: RunInputs | None = None) -> StatusResult:
    """One run: its records and what it waits for."""
    inputs = inputs or RunInputs()
    root = FlowRoot.open(request.root)
    if not root.journal.exists():
        raise NotFound(f"no flow has run in {root.path}", hint="start one with: bridgehead flow run NAME")
    with inputs.open_journal(root) as journal:
        run = find_run(journal.runs(), request.flow_id, root.path)
        return _status_of(journal, as_shown(run, root))


def as_shown(run: Run, root: FlowRoot) -> Run:
    """The run as people are told of it: one whose process is gone is not running."""
    if run.status is RunStatus.RUNNING and not root.is_held():
        return run._replace(status=RunStatus.INTERRUPTED)
    return run


def _status_of(journal: Journal, run: Run) -> StatusResult:
    return StatusResult(run, tuple(journal.lookup(run.id).values()), tuple(journal.attempts(run.id)))


def find_run(runs: list[Run], flow_id: str | None, root: Path) -> Run:
    """The run a person means by an id or its unambiguous ending; the newest when none is named."""
    if flow_id is None and runs:
        return runs[0]
    found = [run for run in runs if flow_id and run.id.endswith(flow_id)]
    exact = [run for run in found if run.id == flow_id]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if found:
        raise NotFound(f"several flows in {root} end in {flow_id!r}: {', '.join(run.id for run in found)}")
    raise NotFound(f"there is no flow {flow_id or ''} in {root}".replace("  ", " "))
