"""Look at the flows of a root.

Tell which there are, where each stands, and whether its paused run goes on with other
code.
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
    traceback: str | None = None

    @property
    def name(self) -> str:
        """Return its own name, without its number and the names it stands in."""
        return self.path.rpartition("/")[2].partition("#")[0]

    @property
    def depth(self) -> int:
        return self.path.count("/")


def steps_of(
    records: Iterable[Record], attempts: Sequence[Attempt]
) -> tuple[Step, ...]:
    """Return every recorded step and every open ask, each before what it contains.

    A record knows when its last pass began. What contains other steps began with the
    first of them, an ask when it was first handed out, however often the run was
    resumed since.
    """
    asked = {
        attempt.path: str(attempt.document.get("created_at", ""))
        for attempt in reversed(attempts)
    }
    steps = {
        record.path: _recorded(record, asked.get(record.path)) for record in records
    }
    for path, call in outstanding_calls(attempts).items():
        steps[path] = Step(path, "ask", call.current.status.value, asked[path])
    for path, step in list(steps.items()):
        for parent in parents_of(path):
            whole = steps.get(parent) or Step(parent, PART, WAITING, step.started)
            steps[parent] = whole._replace(started=min(whole.started, step.started))
    places = _places(steps)
    return tuple(sorted(steps.values(), key=lambda step: places[step.path]))


def _places(paths: Iterable[str]) -> dict[str, list[int]]:
    """Return where each path stands: before what it contains, else as it was made."""
    earliest: dict[str, int] = {}
    for place, path in enumerate(paths):
        for parent in (*parents_of(path), path):
            earliest[parent] = min(place, earliest.get(parent, place))
    return {
        path: [earliest[parent] for parent in (*parents_of(path), path)]
        for path in earliest
    }


def _recorded(record: Record, asked: str | None) -> Step:
    error = None
    if record.error is not None:
        error = ": ".join(str(part) for part in json.loads(record.error))
    trace = json.loads(record.result or "null") if record.status == FAILED else None
    return Step(
        record.path,
        record.kind,
        record.status,
        asked or record.started,
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
    """The one run that is running or waiting, looked at more closely."""
    waits_for: Mapping[str, tuple[str, ...]] = NOTHING
    """The agents that runs of a fleet wait for, by run."""


class StatusResult(NamedTuple):
    run: Run
    records: tuple[Record, ...] = ()
    attempts: tuple[Attempt, ...] = ()

    @property
    def outstanding(self) -> tuple[Call, ...]:
        """Return what waits for an answer, oldest first.

        A run that has ended waits for nothing.
        """
        if self.run.status.ended:
            return ()
        return tuple(outstanding_calls(self.attempts).values())

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return the steps in order, with times.

        A request that an ended run left open is none of its steps.
        """
        attempts: Sequence[Attempt] = self.attempts
        if self.run.status.ended:
            attempts = [attempt for attempt in attempts if not attempt.outstanding]
        return steps_of(self.records, attempts)


def list_runs(request: ListRequest) -> ListResult:
    """Return every run the journal of a root knows."""
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
    """Return the run with that id, or one that ends in it; without one, the newest.

    With it come its records and what it waits for.
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
    """Return the run as people are told of it.

    One whose process is gone is not running.
    """
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
    """Where it goes on, or why it does not."""


def check(flow: Flow, roots: Iterable[Path]) -> tuple[CheckedRun, ...]:
    """Replay every paused run of the flow in `roots` without effects.

    Nothing is run, written or announced.
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
    with MemoryJournal() as kept:
        kept.begin(run)
        for record in found.records:
            kept.append(run.id, record)
        return _replayed(flow, found, files, inputs, kept)


def _replayed(
    flow: Flow,
    found: StatusResult,
    files: CheckpointFiles,
    inputs: RunInputs,
    kept: MemoryJournal,
) -> CheckedRun:
    """Return how far the flow comes with what was recorded; nothing is called and nothing written."""
    run = found.run
    replay = DryReplay(kept, run.id, inputs.clock)
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
        waits = (
            f"waits at {first.path}"
            if first.attempts
            else f"would continue with {first.path}"
        )
        return CheckedRun(run, True, waits)
    except (StepFailed, AskFailed) as failure:
        return CheckedRun(
            run, True, f"would repeat the recorded failure of {failure.path}"
        )
    except BridgeheadError as error:
        return CheckedRun(run, False, error.message)
    except Exception as error:
        # The guest's code may fail in any way; that is what the check is for.
        return CheckedRun(run, False, f"{type(error).__name__}: {error}")
    return CheckedRun(run, True, "would run to its end")


class DryReplay(Replay):
    """Comes by what is recorded; where something new would run, the way ends."""

    def perform(self, path: str, *_how: Any) -> NoReturn:
        raise Blocked([OpenCall(Call(path, ()), None)])


class DryPass(RunPass):
    """Asks nobody and takes no answer."""

    def _settle(self, call: Call, ask: Ask, input_sha: str) -> NoReturn:
        raise Blocked([OpenCall(call, None)])

    def sleep_until(self, end: datetime) -> None:
        """A check does not wait."""


def find_run(runs: list[Run], flow_id: str | None, root: Path | str) -> Run:
    """Return the run a person means by an id or its unambiguous ending.

    Return the newest if none is named.
    """
    if flow_id is None and runs:
        return runs[0]
    found = [run for run in runs if flow_id and run.id.endswith(flow_id)]
    exact = [run for run in found if run.id == flow_id]
    meant = exact or found
    if len(meant) == 1:
        return meant[0]
    problem = f"{root} has no run {flow_id or ''}".rstrip()
    if found:
        ids = ", ".join(run.id for run in found)
        problem = f"several runs in {root} match {flow_id!r}: {ids}"
    raise NotFound(problem, hint="bridgehead flow list")


@contextmanager
def run_to_change(
    directory: Path, flow_id: str, inputs: RunInputs
) -> Iterator[tuple[FlowRoot, SqliteJournal, Run]]:
    """Yield the run a person means, its root and its journal.

    Nobody else changes them meanwhile.
    """
    root = FlowRoot.open(directory)
    if not root.journal.exists():
        raise NoCheckpoint(root.path)
    with root.locked(), inputs.open_journal(root) as journal:
        yield root, journal, find_run(journal.runs(), flow_id, root.path)
