"""Cancel a paused run (flows §14), and delete old runs.

Cancelling withdraws the run's requests and moves its files to post-mortem/.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from bridgehead.errors import UserError
from bridgehead.flows.calls import Attempt, outstanding_calls
from bridgehead.flows.engine.run_request import RunInputs
from bridgehead.flows.errors import FlowRefused
from bridgehead.flows.files.checkpoint_files import CheckpointFiles
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.files.state_file import StateFile, read_checkpoint
from bridgehead.flows.interfaces import FlowEvent
from bridgehead.flows.journals.base import Run
from bridgehead.flows.operations.inspect import run_to_change
from bridgehead.flows.values.times import utc_text
from bridgehead.flows.words import CANCELLED, AttemptStatus, RunStatus

MOST_DAYS: Final = 36_500


class CancelResult(NamedTuple):
    run: Run
    post_mortem: Path


def cancel(
    directory: Path, flow_id: str, inputs: RunInputs | None = None
) -> CancelResult:
    """Cancel a run that is paused, or whose process died."""
    inputs = inputs or RunInputs()
    with run_to_change(directory, flow_id, inputs) as (root, journal, run):
        if run.status.ended:
            raise UserError(
                f"{run.id} has already ended ({run.status}); there is nothing to cancel"
            )
        calls = outstanding_calls(journal.attempts(run.id)).values()
        withdrawn = [
            call.current.ended(AttemptStatus.CANCELLED, CANCELLED) for call in calls
        ]
        now = utc_text(inputs.clock.now())
        journal.end(
            run.id, RunStatus.CANCELLED, at=now, error="cancelled", attempts=withdrawn
        )
        files = CheckpointFiles(root, inputs.clock, size_limits=inputs.size_limits)
        _note_in_state(files, run, withdrawn)
        _abandon(run)
        post_mortem = files.move_to_post_mortem(run.id)
    for attempt in withdrawn:
        inputs.announcer.settled(attempt.request_id, run.root, attempt.status.value)
    inputs.announcer.happened(
        FlowEvent(f"{run.id}/flow.cancelled", "flow.cancelled", run, now)
    )
    return CancelResult(run, post_mortem)


def prune(
    directory: Path,
    days: float,
    inputs: RunInputs | None = None,
    *,
    failed: bool = False,
    dry_run: bool = False,
) -> tuple[Run, ...]:
    """Delete runs that ended more than `days` ago, and rejected answers of that age.

    Return the runs that are deleted, or would be with `dry_run`. Failed runs, which
    could be retried, are deleted only with `failed`.
    """
    inputs = inputs or RunInputs()
    if not days >= 0:
        raise UserError("--days cannot be negative")
    root = FlowRoot.open(directory)
    if not root.journal.exists():
        return ()
    before = inputs.clock.now() - timedelta(days=min(days, MOST_DAYS))
    with root.locked(), inputs.open_journal(root) as journal:
        outdated = tuple(
            run
            for run in journal.runs()
            if run.is_over_since(utc_text(before), failed=failed)
        )
        if outdated and not dry_run:
            journal.forget([run.id for run in outdated])
    if not dry_run:
        _remove_rejected(root, before)
    return outdated


def _remove_rejected(root: FlowRoot, before: datetime) -> None:
    if not root.rejected.is_dir():
        return
    for path in root.rejected.iterdir():
        if path.is_file() and path.lstat().st_mtime < before.timestamp():
            path.unlink(missing_ok=True)


def _abandon(run: Run) -> None:
    """Let a built-in flow clean up after itself.

    Other flows are not loaded, so that a run can be cancelled even if its program is
    broken.
    """
    from bridgehead.flows.discovery import BUILT_IN, find_flow

    if run.source not in BUILT_IN:
        return
    flow, _ = find_flow(run.source, Path(run.root))
    if flow.abandon is not None:
        flow.abandon(run.input, run.id)


def _note_in_state(files: CheckpointFiles, run: Run, withdrawn: list[Attempt]) -> None:
    """Note the withdrawal in the state file that is about to be moved.

    A file that cannot be read is moved as it is.
    """
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
