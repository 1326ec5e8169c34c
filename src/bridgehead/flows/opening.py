"""Decide how a command opens: go on with a run, start one, or refuse. The rules R1–R6 of flows §9, first match wins.

A refusal leaves everything as it was. Flows with a state file are opened by that file; all others by the journal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bridgehead.flows.checkpoint import SETTINGS, Checkpoint, read_checkpoint
from bridgehead.flows.checkpoint_files import CheckpointFiles, Unsafe
from bridgehead.flows.definition import Flow
from bridgehead.flows.errors import IncompatibleFlow, NoCheckpoint, OtherRun, StateCorrupt
from bridgehead.flows.journals.base import Journal, Run
from bridgehead.flows.output_path import refuse_other_project, refuse_unsafe_output
from bridgehead.flows.requests import OPTIONS_KEY, RunRequest
from bridgehead.flows.words import RunStatus

_FLOW_ID = r"flow-[0-9]{8}-[0-9]{6}-[0-9a-f]{4}"
_PROJECT = "project_path"


class Opening(NamedTuple):
    """What the command is about."""

    resumed: Run | None = None
    """The run to go on with, as the journal knows it."""
    checkpoint: Checkpoint | None = None
    restored_input: Mapping[str, Any] | None = None
    """Set when a run is restored from its state file alone."""
    completed: Run | None = None
    """There is nothing to do: this run has reached its end."""
    discarded: Run | None = None
    """The run that is given up for a new one."""
    bury: bool = False
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
        return _open_by_state_file(flow, request, files, journal, paused)
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
        return _nothing_paused(request, journal, root)
    _refuse_contradiction(root, _named(paused), request, paused.input, _lasting(flow, request))
    _refuse_version(flow, paused.version, request)
    return Opening(resumed=paused)


def _nothing_paused(request: RunRequest, journal: Journal, root: Path) -> Opening:
    """R1: without a paused run `--resume` finds a completed one, or nothing."""
    if not request.resume:
        return Opening()
    runs = journal.runs()
    wanted = [run for run in runs if run.id == request.flow_id] if request.flow_id else runs[:1]
    if wanted and wanted[0].status is RunStatus.COMPLETED:
        return Opening(completed=wanted[0])
    raise NoCheckpoint(root)


def _open_by_state_file(
    flow: Flow, request: RunRequest, files: CheckpointFiles, journal: Journal, paused: Run | None
) -> Opening:
    root = files.root.path
    if request.fresh:
        return Opening(discarded=paused, bury=True)
    content = files.read(files.state_path)
    if isinstance(content, Unsafe):
        raise StateCorrupt(files.state_path, content.reason)
    checkpoint = None if content is None else read_checkpoint(content, files.state_path)
    if checkpoint is not None and _has_ended(checkpoint, journal):
        files.clean_up()  # the process died between ending the run and removing its files
        checkpoint = None
    if checkpoint is None:
        opening = _nothing_paused(request, journal, root)
        return opening if opening.completed else Opening(discarded=paused)
    _refuse_contradicting_state(root, flow, request, checkpoint)
    journalled = paused if paused is not None and paused.id == checkpoint.flow.get("id") else None
    _refuse_unsafe_paths(root, request, checkpoint, journalled)
    version = journalled.version if journalled else checkpoint.flow.get("version")
    if isinstance(version, str):
        _refuse_version(flow, version, request)
    if journalled is not None:
        return Opening(resumed=journalled, checkpoint=checkpoint)
    return Opening(checkpoint=checkpoint, restored_input=_input_of(checkpoint), discarded=paused)


def _has_ended(checkpoint: Checkpoint, journal: Journal) -> bool:
    run = journal.run(str(checkpoint.flow.get("id", "")))
    return run is not None and run.status.ended


def _lasting(flow: Flow, request: RunRequest) -> dict[str, Any]:
    """The settings given now that stay with a run; operational ones hold for one command (flows §9)."""
    return {key: value for key, value in request.given.items() if key not in flow.operational}


def _refuse_contradicting_state(root: Path, flow: Flow, request: RunRequest, checkpoint: Checkpoint) -> None:
    stored = {**_input_of(checkpoint), OPTIONS_KEY: _input_of(checkpoint).get(OPTIONS_KEY, {})}
    # With --resume a state of another project is unsafe (R5), not merely another run.
    lasting = _lasting(flow, request).items()
    given = {key: value for key, value in lasting if key != _PROJECT or not request.resume}
    _refuse_contradiction(root, f"template-create {stored.get('template_name', '')}", request, stored, given)


def _refuse_unsafe_paths(
    root: Path, request: RunRequest, checkpoint: Checkpoint, journalled: Run | None
) -> None:
    named = [request.given.get("output_path"), journalled.input.get("output_path") if journalled else None]
    allowed = [*request.output_directories, *(Path(path) for path in named if path is not None)]
    refuse_unsafe_output(checkpoint.document["output_path"], root, allowed)
    if checkpoint.document.get(_PROJECT) is not None:
        refuse_other_project(checkpoint.document[_PROJECT], root)


def _refuse_contradiction(
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


def _refuse_version(flow: Flow, paused_version: str, request: RunRequest) -> None:
    if not request.force_version and not flow.can_resume(paused_version):
        raise IncompatibleFlow(flow.name, paused_version, flow.version)


def _input_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """The settings of a run that is only known from its state; the published members win over our notes."""
    noted = checkpoint.flow.get("input")
    published = {key: checkpoint.document[key] for key in SETTINGS if key in checkpoint.document}
    return {**(noted if isinstance(noted, dict) else {}), **published}


def restored_id(checkpoint: Checkpoint, journal: Journal) -> str | None:
    """The id a restored run had, if it is one of ours and free."""
    noted = checkpoint.flow.get("id")
    if not isinstance(noted, str) or not re.fullmatch(_FLOW_ID, noted):
        return None
    return noted if journal.run(noted) is None else None


def _named(run: Run) -> str:
    return f"flow {run.name} ({run.id})"


def _ways_out(run: Run) -> str:
    return f"go on with: bridgehead flow resume, or give it up with: bridgehead flow cancel {run.id}"
