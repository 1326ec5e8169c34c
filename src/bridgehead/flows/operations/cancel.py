"""Give a paused run up: its requests are withdrawn and its files go to post-mortem/ (flows §14)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from bridgehead.errors import UserError
from bridgehead.flows.calls import Attempt, outstanding_calls
from bridgehead.flows.engine.run_request import RunInputs
from bridgehead.flows.errors import FlowRefused, NoCheckpoint
from bridgehead.flows.files.checkpoint_files import CheckpointFiles
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.files.state_file import StateFile, read_checkpoint
from bridgehead.flows.interfaces import FlowEvent
from bridgehead.flows.journals.base import Run
from bridgehead.flows.operations.inspect import find_run
from bridgehead.flows.values.times import utc_text
from bridgehead.flows.words import CANCELLED, AttemptStatus, RunStatus


class CancelRequest(NamedTuple):
    root: Path
    flow_id: str


class CancelResult(NamedTuple):
    run: Run
    post_mortem: Path


class HasEnded(UserError):
    def __init__(self, run: Run) -> None:
        super().__init__(f"{run.id} has ended already ({run.status}); there is nothing to cancel")


def cancel(request: CancelRequest, inputs: RunInputs | None = None) -> CancelResult:
    """End a run that is paused, or that a dead process left behind."""
    inputs = inputs or RunInputs()
    root = FlowRoot.open(request.root)
    if not root.journal.exists():
        raise NoCheckpoint(root.path)
    with root.locked(), inputs.open_journal(root) as journal:
        run = find_run(journal.runs(), request.flow_id, root.path)
        if run.status.ended:
            raise HasEnded(run)
        calls = outstanding_calls(journal.attempts(run.id)).values()
        withdrawn = [call.current.ended(AttemptStatus.CANCELLED, CANCELLED) for call in calls]
        now = utc_text(inputs.clock.now())
        journal.end(run.id, RunStatus.CANCELLED, at=now, error="cancelled", attempts=withdrawn)
        files = CheckpointFiles(root, inputs.clock, size_limits=inputs.size_limits)
        _note_in_state(files, run, withdrawn)
        _abandon(run)
        post_mortem = files.move_to_post_mortem(run.id)
    for attempt in withdrawn:
        inputs.announcer.settled(attempt.request_id, run.root, attempt.status.value)
    inputs.announcer.happened(FlowEvent(f"{run.id}/flow.cancelled", "flow.cancelled", run, now))
    return CancelResult(run, post_mortem)


def _abandon(run: Run) -> None:
    """Let a built-in flow clean up. Other flows are not loaded: one whose program is broken must be cancellable."""
    from bridgehead.flows.discovery import BUILT_IN, find_flow

    if run.source not in BUILT_IN:
        return
    flow, _ = find_flow(run.source, Path(run.root))
    if flow.abandon is not None:
        flow.abandon(run.input, run.id)


def _note_in_state(files: CheckpointFiles, run: Run, withdrawn: list[Attempt]) -> None:
    """Say so in the state file that is about to be moved; one that cannot be read is moved as it is."""
    content = files.read(files.state_path)
    if not isinstance(content, bytes):
        return
    try:
        checkpoint = read_checkpoint(content, files.state_path)
    except FlowRefused:
        return
    state_file = StateFile(files, run, checkpoint, restoring=False)
    state_file.note_attempts(withdrawn)
    state_file.save()
