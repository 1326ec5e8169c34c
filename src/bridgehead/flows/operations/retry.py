"""Retry a run that failed, or fork a second run from one of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bridgehead.errors import NotFound, UserError
from bridgehead.flows.discovery import BUILT_IN
from bridgehead.flows.engine.replay import FAILED
from bridgehead.flows.engine.run_request import RUN_KEY, RunInputs, RunResult
from bridgehead.flows.errors import OtherRun
from bridgehead.flows.journals.base import Record, Run
from bridgehead.flows.journals.sqlite import SqliteJournal
from bridgehead.flows.operations.inspect import run_to_change
from bridgehead.flows.operations.run import CommandLine, resume_paused
from bridgehead.flows.values.ids import free_flow_id
from bridgehead.flows.values.times import utc_text
from bridgehead.flows.words import RunStatus


class RetryRequest(NamedTuple):
    """The run to retry, and the step to begin at; None begins at what failed."""

    line: CommandLine
    directory: Path
    flow_id: str
    from_step: str | None = None


class CannotRetry(UserError):
    def __init__(self, run: Run, reason: str, hint: str) -> None:
        super().__init__(f"{run.id} cannot be retried: {reason}", hint=hint)


def retry(request: RetryRequest, inputs: RunInputs | None = None) -> RunResult:
    """Resume a failed run with its records, from the step named or from what failed."""
    inputs = inputs or RunInputs()
    with run_to_change(request.line.root, request.flow_id, inputs) as (
        root,
        journal,
        run,
    ):
        _refuse_built_in(run)
        if run.status is RunStatus.COMPLETED:
            way = (
                f"bridgehead flow fork {run.id} --from STEP starts a second run from "
                "a step of this one"
            )
            raise CannotRetry(run, "it has completed", way)
        if run.status is RunStatus.CANCELLED and request.from_step is None:
            way = (
                f"name the step to start from: bridgehead flow retry {run.id} --from "
                "STEP"
            )
            raise CannotRetry(run, "it was cancelled", way)
        _refuse_beside_another(journal, run, root.path)
        records = tuple(journal.lookup(run.id).values())
        if request.from_step is not None:
            first = step_meant(records, request.from_step, run.id)
            journal.reopen(
                run.id, at=utc_text(inputs.clock.now()), path=first, drop_open=True
            )
        elif run.status.ended:
            failed = what_failed(records, run.error or "")
            journal.reopen(run.id, at=utc_text(inputs.clock.now()), path=failed)
    return resume_paused(request.line, request.directory, inputs, flow_id=run.id)


def fork(request: RetryRequest, inputs: RunInputs | None = None) -> RunResult:
    """Start a second run with the settings of the first and its earlier records.

    Those are the records made before `from_step`.
    """
    inputs = inputs or RunInputs()
    assert request.from_step is not None
    with run_to_change(request.line.root, request.flow_id, inputs) as (
        root,
        journal,
        run,
    ):
        _refuse_built_in(run)
        _refuse_beside_another(journal, None, root.path)
        records = tuple(journal.lookup(run.id).values())
        first = step_meant(records, request.from_step, run.id)
        now = inputs.clock.now()
        second = run._replace(
            id=free_flow_id(now, lambda flow_id: journal.run(flow_id) is not None),
            status=RunStatus.RUNNING,
            input={name: value for name, value in run.input.items() if name != RUN_KEY},
            created=utc_text(now),
            updated=utc_text(now),
            result=None,
            error=None,
        )
        journal.begin(second)
        for record in records:
            if record.path == first:
                break
            journal.append(second.id, record)
    return resume_paused(request.line, request.directory, inputs, flow_id=second.id)


def what_failed(records: Sequence[Record], error: str) -> str | None:
    """Return the path of the failure that ended the run.

    Return None if the code between the steps failed. A flow may continue after a failed
    step, so an older failure counts only if the run's error names it.
    """
    failed = [record.path for record in records if record.status == FAILED]
    named = [path for path in failed if path in error]
    if named:
        return named[-1]
    return failed[-1] if failed and records[-1].path == failed[-1] else None


def step_meant(records: Sequence[Record], step: str, flow_id: str) -> str:
    """Return the path of the first record of a step.

    The step is given by its path, or by its name if that is unambiguous.
    """
    exact = [
        record.path
        for record in records
        if record.path == step or record.path.startswith(f"{step}/")
    ]
    if exact:
        return exact[0]
    named = [
        record.path
        for record in records
        if record.path.rpartition("/")[2].partition("#")[0] == step
    ]
    if len(named) == 1:
        return named[0]
    if named:
        raise NotFound(
            f"several steps of {flow_id} are called {step!r}: {', '.join(named[:10])}"
        )
    last_paths = ", ".join(record.path for record in records[-10:]) or "none"
    raise NotFound(
        f"{flow_id} has recorded no step {step!r}", hint=f"recorded last: {last_paths}"
    )


def _refuse_built_in(run: Run) -> None:
    if run.name == "template-create" and run.source in BUILT_IN:
        way = (
            "its files are in .bridgehead/flows/post-mortem; start over with: "
            "bridgehead flow run template-create"
        )
        raise CannotRetry(
            run, "template-create keeps its state in files of its own", way
        )
    if not run.source:
        raise CannotRetry(
            run, "the program it belongs to is unknown", "run that program again"
        )


def _refuse_beside_another(journal: SqliteJournal, run: Run | None, root: Path) -> None:
    """Raise OtherRun if the root has another unfinished run (flows §14)."""
    other = journal.unfinished()
    if other is not None and (run is None or other.id != run.id):
        way = (
            "resume it with: bridgehead flow resume, or cancel it with: bridgehead "
            f"flow cancel {other.id}"
        )
        wanted = "a second run" if run is None else run.id
        raise OtherRun(root, f"flow {other.name} ({other.id})", wanted, way)
