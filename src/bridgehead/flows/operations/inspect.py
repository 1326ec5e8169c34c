"""List the runs of a root, show how far each has come, and check paused ones.

A check replays a paused run with the present code, without any effects.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from bridgehead.errors import BridgeheadError, NotFound
from bridgehead.flows.calls import (
    AskFailed,
    Attempt,
    Call,
    StepFailed,
    outstanding_calls,
)
from bridgehead.flows.definition import Flow, typed_settings
from bridgehead.flows.engine.asks import Ask, Blocked, OpenCall
from bridgehead.flows.engine.context import Context, PhasedContext
from bridgehead.flows.engine.engine import run_function
from bridgehead.flows.engine.mailbox import Mailbox
from bridgehead.flows.engine.replay import FAILED, Replay
from bridgehead.flows.engine.run_pass import RunPass
from bridgehead.flows.engine.run_request import (
    OPTIONS_KEY,
    RUN_KEY,
    RunInputs,
    open_sqlite,
)
from bridgehead.flows.engine.settlement import Rules
from bridgehead.flows.errors import NoCheckpoint
from bridgehead.flows.files.checkpoint_files import CheckpointFiles, RunFiles
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.interfaces import Announcer
from bridgehead.flows.journals.base import Record, Run
from bridgehead.flows.journals.sqlite import MemoryJournal, SqliteJournal
from bridgehead.flows.values.ids import parents_of
from bridgehead.flows.words import NOTHING, RunStatus

PART: Final = "part"
"""The kind of a step known only by the steps recorded inside it."""
WAITING: Final = "waiting"


class Step(NamedTuple):
    """One step, ask, phase or nested flow of a run."""

    path: str
    kind: str
    status: str
    """How it ended: `completed`, `fallback` or `failed`.

    An open ask is `pending` or `queued`, and a step that contains one is `waiting`.
    """
    started: str
    ended: str | None = None
    error: str | None = None
    traceback: str | None = None

    @property
    def name(self) -> str:
        """Return the step's own name, without its ordinal and those of its parents."""
        return self.path.rpartition("/")[2].partition("#")[0]

    @property
    def depth(self) -> int:
        return self.path.count("/")


def steps_of(
    records: Iterable[Record], attempts: Sequence[Attempt]
) -> tuple[Step, ...]:
    """Return every recorded step and every open ask, each before those inside it.

    A record only knows when its last pass began. The start of an ask is when it was
    first asked, and that of a container the start of its first step.
    """
    first_asked = {
        attempt.path: str(attempt.document.get("created_at", ""))
        for attempt in reversed(attempts)
    }
    steps = {
        record.path: _recorded(record, first_asked.get(record.path))
        for record in records
    }
    for path, call in outstanding_calls(attempts).items():
        steps[path] = Step(path, "ask", call.current.status.value, first_asked[path])
    _add_containers(steps)
    order = _order_of(steps)
    return tuple(sorted(steps.values(), key=lambda step: order[step.path]))


def _add_containers(steps: dict[str, Step]) -> None:
    """Add containers that have no record yet; each starts with its first step."""
    for path, step in list(steps.items()):
        for parent in parents_of(path):
            container = steps.get(parent) or Step(parent, PART, WAITING, step.started)
            started = min(container.started, step.started)
            steps[parent] = container._replace(started=started)


def _order_of(paths: Iterable[str]) -> dict[str, list[int]]:
    """Return a sort key for each path: containers first, else in the given order."""
    earliest: dict[str, int] = {}
    for index, path in enumerate(paths):
        for parent in (*parents_of(path), path):
            earliest[parent] = min(index, earliest.get(parent, index))
    return {
        path: [earliest[parent] for parent in (*parents_of(path), path)]
        for path in earliest
    }


def _recorded(record: Record, first_asked: str | None) -> Step:
    error = None
    if record.error is not None:
        error = ": ".join(str(part) for part in json.loads(record.error))
    trace = json.loads(record.result or "null") if record.status == FAILED else None
    return Step(
        record.path,
        record.kind,
        record.status,
        first_asked or record.started,
        record.ended,
        error,
        trace,
    )


class ListRequest(NamedTuple):
    root: Path
    limit: int = 50


class ListResult(NamedTuple):
    runs: tuple[Run, ...]
    """Newest first."""
    unfinished: StatusResult | None = None
    """The status of the one run that is running or waiting."""
    waits_for: Mapping[str, tuple[str, ...]] = NOTHING
    """The agents that runs of a fleet wait for, by run id."""


class StatusResult(NamedTuple):
    run: Run
    records: tuple[Record, ...] = ()
    attempts: tuple[Attempt, ...] = ()

    @property
    def outstanding(self) -> tuple[Call, ...]:
        """Return the calls that wait for an answer, oldest first.

        A run that has ended waits for none.
        """
        if self.run.status.ended:
            return ()
        return tuple(outstanding_calls(self.attempts).values())

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return the steps in order.

        If the run has ended, requests it left open are not included.
        """
        attempts: Sequence[Attempt] = self.attempts
        if self.run.status.ended:
            attempts = [attempt for attempt in attempts if not attempt.outstanding]
        return steps_of(self.records, attempts)


def list_runs(request: ListRequest) -> ListResult:
    """Return the newest runs in the journal of a root."""
    root = FlowRoot.open(request.root)
    if not root.journal.exists():
        return ListResult(())
    with open_sqlite(root) as journal:
        unfinished = journal.unfinished()
        return ListResult(
            tuple(as_shown(run, root) for run in journal.runs()[: request.limit]),
            _status_of(journal, as_shown(unfinished, root)) if unfinished else None,
        )


def status(directory: Path, flow_id: str | None = None) -> StatusResult:
    """Return a run with its records and what it waits for.

    It is named by its id or the end of it; without an id, it is the newest.
    """
    root = FlowRoot.open(directory)
    if not root.journal.exists():
        raise NotFound(
            f"no flow has run in {root.path}",
            hint="start one with: bridgehead flow run NAME",
        )
    with open_sqlite(root) as journal:
        run = find_run(journal.runs(), flow_id, root.path)
        return _status_of(journal, as_shown(run, root))


def as_shown(run: Run, root: FlowRoot) -> Run:
    """Return the run as it is shown: one whose process is gone as interrupted."""
    if run.status is RunStatus.RUNNING and not root.is_held():
        return run._replace(status=RunStatus.INTERRUPTED)
    return run


def _status_of(journal: SqliteJournal, run: Run) -> StatusResult:
    return StatusResult(
        run, tuple(journal.lookup(run.id).values()), tuple(journal.attempts(run.id))
    )


class CheckedRun(NamedTuple):
    run: Run
    goes_on: bool
    detail: str
    """Where the run would continue, or why it would not."""


def check(flow: Flow, roots: Iterable[Path]) -> tuple[CheckedRun, ...]:
    """Replay every paused run of the flow in `roots`; return what would happen.

    No step is run, and nothing is written or announced.
    """
    inputs = RunInputs()
    checked = []
    for path in roots:
        root = FlowRoot.open(path)
        if not root.journal.exists():
            continue
        with inputs.open_journal(root) as journal:
            run = journal.unfinished()
            if run is None or run.name != flow.name:
                continue
            found = _status_of(journal, as_shown(run, root))
        files = CheckpointFiles(root, inputs.clock, size_limits=inputs.size_limits)
        checked.append(_checked(flow, found, files, inputs))
    return tuple(checked)


def _checked(
    flow: Flow, found: StatusResult, files: CheckpointFiles, inputs: RunInputs
) -> CheckedRun:
    run = found.run
    if not flow.can_resume(run.version):
        versions = f"it was paused by version {run.version}, this is {flow.version}"
        return CheckedRun(
            run,
            False,
            f"{versions}; if it is safe, declare compatible_with=({run.version!r},)",
        )
    with MemoryJournal() as journal:
        journal.begin(run)
        for record in found.records:
            journal.append(run.id, record)
        return _replayed(flow, found, files, inputs, journal)


def _replayed(
    flow: Flow,
    found: StatusResult,
    files: CheckpointFiles,
    inputs: RunInputs,
    journal: MemoryJournal,
) -> CheckedRun:
    """Replay the recorded steps, and return how far the flow comes."""
    run = found.run
    replay = DryReplay(journal, run.id, inputs.clock)
    dry = DryPass(
        replay=replay,
        mailbox=Mailbox(files, flow.contract),
        rules=Rules(contract=flow.contract),
        clock=inputs.clock,
        run_files=RunFiles(),
        attempts=found.attempts,
        actions=[],
        announcer=Announcer(),
        run_function=run_function,
    )
    settings = {
        name: value
        for name, value in run.input.items()
        if name not in (OPTIONS_KEY, RUN_KEY)
    }
    try:
        context = PhasedContext(dry) if flow.keeps_state_file else Context(dry)
        run_function(flow, context, typed_settings(flow, settings))
        dry.refuse_unvisited()
    except Blocked as blocked:
        first = blocked.calls[0].call
        if first.attempts:
            return CheckedRun(run, True, f"waits at {first.path}")
        return CheckedRun(run, True, f"would continue with {first.path}")
    except (StepFailed, AskFailed) as failure:
        return CheckedRun(
            run, True, f"would repeat the recorded failure of {failure.path}"
        )
    except BridgeheadError as error:
        return CheckedRun(run, False, error.message)
    except Exception as error:
        # The flow's code may raise anything; the check is there to find out.
        return CheckedRun(run, False, f"{type(error).__name__}: {error}")
    return CheckedRun(run, True, "would run to its end")


class DryReplay(Replay):
    """Returns what is recorded, and blocks where something new would run."""

    def perform(self, path: str, *_how: Any) -> NoReturn:
        raise Blocked([OpenCall(Call(path, ()), None)])


class DryPass(RunPass):
    """Asks nobody and takes no answer."""

    def _settle(self, call: Call, ask: Ask, input_sha: str) -> NoReturn:
        raise Blocked([OpenCall(call, None)])

    def sleep_until(self, end: datetime) -> None:
        """Do nothing: a check does not wait."""


def find_run(runs: list[Run], flow_id: str | None, root: Path | str) -> Run:
    """Return the run with this id or an unambiguous ending of it.

    Without an id, return the newest run. Raise NotFound if no run, or more than one,
    matches.
    """
    if flow_id is None and runs:
        return runs[0]
    matches = [run for run in runs if flow_id and run.id.endswith(flow_id)]
    exact = [run for run in matches if run.id == flow_id]
    candidates = exact or matches
    if len(candidates) == 1:
        return candidates[0]
    problem = f"{root} has no run {flow_id or ''}".rstrip()
    if matches:
        ids = ", ".join(run.id for run in matches)
        problem = f"several runs in {root} match {flow_id!r}: {ids}"
    raise NotFound(problem, hint="bridgehead flow list")


@contextmanager
def run_to_change(
    directory: Path, flow_id: str, inputs: RunInputs
) -> Iterator[tuple[FlowRoot, SqliteJournal, Run]]:
    """Yield a run, its root and its journal, with the root locked for a change."""
    root = FlowRoot.open(directory)
    if not root.journal.exists():
        raise NoCheckpoint(root.path)
    with root.locked(), inputs.open_journal(root) as journal:
        yield root, journal, find_run(journal.runs(), flow_id, root.path)
