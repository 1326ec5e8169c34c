"""Decide how a command opens: go on with a run, start one, or refuse. The rules R1–R6 of flows §9, first match wins.

A refusal leaves everything as it was. Flows with a state file are opened by that file; all others by the journal.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridgehead.flows.checkpoint_files import CheckpointFiles
from bridgehead.flows.definition import Flow
from bridgehead.flows.errors import IncompatibleFlow, NoCheckpoint, OtherRun
from bridgehead.flows.journals.base import Journal, Run
from bridgehead.flows.requests import OPTIONS_KEY, RunRequest
from bridgehead.flows.words import RunStatus

if TYPE_CHECKING:
    from bridgehead.flows.checkpoint import Checkpoint


class Opening:
    """What the command is about."""

    def __init__(
        self,
        resumed: Run | None = None,
        checkpoint: Checkpoint | None = None,
        restored_input: Mapping[str, Any] | None = None,
        restored_id: str | None = None,
        completed: Run | None = None,
        discarded: Run | None = None,
        bury: bool = False,
    ) -> None:
        self.resumed = resumed
        """The run to go on with, as the journal knows it."""
        self.checkpoint = checkpoint
        self.restored_input = restored_input
        """Set when a run is restored from its state file, alone or because its journal knows less."""
        self.restored_id = restored_id
        """The id it had, if that is one of ours and free."""
        self.completed = completed
        """There is nothing to do: this run has reached its end."""
        self.discarded = discarded
        """The run that is given up for a new one."""
        self.bury = bury
        """Move the files of the old run to post-mortem/ first (`--fresh`)."""

    @property
    def starts(self) -> bool:
        return self.resumed is None and self.restored_input is None and self.completed is None


def open_run(flow: Flow, request: RunRequest, files: CheckpointFiles, journal: Journal) -> Opening:
    """How `request` opens for `flow`."""
    root = files.root.path
    paused = journal.unfinished()
    if paused is not None and (paused.name != flow.name or request.flow_id not in (None, paused.id)):
        raise OtherRun(root, _named(paused), request.flow_id or f"flow {flow.name}", _ways_out(paused))
    if flow.keeps_state_file:
        # A flow without a state file, which is most of them, does without what reads one.
        from bridgehead.flows.state_opening import open_by_state_file

        return open_by_state_file(flow, request, files, journal, paused)
    if os.path.lexists(files.state_path):
        way = "go on with: bridgehead flow run template-create --resume, or with --fresh start it over"
        raise OtherRun(root, "template-create", f"flow {flow.name}", way)
    return _open_by_journal(flow, request, journal, root, paused)


def _open_by_journal(
    flow: Flow, request: RunRequest, journal: Journal, root: Path, paused: Run | None
) -> Opening:
    if request.fresh:
        return Opening(discarded=paused, bury=True)
    if paused is None:
        return nothing_paused(flow, request, journal, root)
    refuse_contradiction(root, _named(paused), request, paused.input, lasting_settings(flow, request))
    refuse_version(flow, paused.version, request)
    return Opening(resumed=paused)


def nothing_paused(flow: Flow, request: RunRequest, journal: Journal, root: Path) -> Opening:
    """R1: without a paused run `--resume` finds that the flow's last one was completed, or nothing."""
    if not request.resume:
        return Opening()
    runs = [run for run in journal.runs() if run.name == flow.name]
    wanted = [run for run in runs if run.id == request.flow_id] if request.flow_id else runs[:1]
    if wanted and wanted[0].status is RunStatus.COMPLETED:
        return Opening(completed=wanted[0])
    raise NoCheckpoint(root)


def lasting_settings(flow: Flow, request: RunRequest) -> dict[str, Any]:
    """The settings given now that stay with a run; operational ones hold for one command (flows §9)."""
    return {key: value for key, value in request.given.items() if key not in flow.operational}


def refuse_contradiction(
    root: Path, paused: str, request: RunRequest, stored: Mapping[str, Any], given: Mapping[str, Any]
) -> None:
    """Business settings come from the paused run; one given now that differs means another run (flows §9)."""
    options: Mapping[str, Any] = stored.get(OPTIONS_KEY, {})
    wanted = {**given, **request.options.given()}
    known = {**stored, **options}
    for key, value in wanted.items():
        if known.get(key) is not None and known[key] != value:
            raise OtherRun(
                root,
                f"{paused} with {key} {known[key]!r}",
                f"one with {key} {value!r}",
                "leave that setting out and use --resume, or give the paused run up with --fresh",
            )


def refuse_version(flow: Flow, paused_version: str, request: RunRequest) -> None:
    if not request.force_version and not flow.can_resume(paused_version):
        raise IncompatibleFlow(flow.name, paused_version, flow.version)


def _named(run: Run) -> str:
    return f"flow {run.name} ({run.id})"


def _ways_out(run: Run) -> str:
    return f"go on with: bridgehead flow resume, or give it up with: bridgehead flow cancel {run.id}"
