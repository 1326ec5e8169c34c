"""Open a run by its state file: the rules R2–R6 of flows §9 for flows that keep one. A refusal touches nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from bridgehead.flows.checkpoint import SETTINGS, Checkpoint, read_checkpoint
from bridgehead.flows.checkpoint_files import CheckpointFiles, Unsafe
from bridgehead.flows.definition import Flow
from bridgehead.flows.errors import StateCorrupt
from bridgehead.flows.journals.base import Journal, Run
from bridgehead.flows.opening import (
    Opening,
    lasting_settings,
    nothing_paused,
    refuse_contradiction,
    refuse_version,
)
from bridgehead.flows.output_path import refuse_other_project, refuse_unsafe_output
from bridgehead.flows.requests import OPTIONS_KEY, RunRequest

_FLOW_ID = r"flow-[0-9]{8}-[0-9]{6}-[0-9a-f]{4}"
_PROJECT = "project_path"


def open_by_state_file(
    flow: Flow, request: RunRequest, files: CheckpointFiles, journal: Journal, paused: Run | None
) -> Opening:
    """How `request` opens for a flow whose state file, where there is one, says how far it has come."""
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
        opening = nothing_paused(request, journal, root)
        return opening if opening.completed else Opening(discarded=paused)
    _refuse_contradicting_state(root, flow, request, checkpoint)
    journalled = paused if paused is not None and paused.id == checkpoint.flow.get("id") else None
    _refuse_unsafe_paths(root, request, checkpoint, journalled)
    version = journalled.version if journalled else checkpoint.flow.get("version")
    if isinstance(version, str):
        refuse_version(flow, version, request)
    if journalled is not None:
        return Opening(resumed=journalled, checkpoint=checkpoint)
    return Opening(
        checkpoint=checkpoint,
        restored_input=_input_of(checkpoint),
        restored_id=_restored_id(checkpoint, journal),
        discarded=paused,
    )


def _has_ended(checkpoint: Checkpoint, journal: Journal) -> bool:
    run = journal.run(str(checkpoint.flow.get("id", "")))
    return run is not None and run.status.ended


def _refuse_contradicting_state(root: Path, flow: Flow, request: RunRequest, checkpoint: Checkpoint) -> None:
    stored = {**_input_of(checkpoint), OPTIONS_KEY: _input_of(checkpoint).get(OPTIONS_KEY, {})}
    # With --resume a state of another project is unsafe (R5), not merely another run.
    lasting = lasting_settings(flow, request).items()
    given = {key: value for key, value in lasting if key != _PROJECT or not request.resume}
    refuse_contradiction(root, f"template-create {stored.get('template_name', '')}", request, stored, given)


def _refuse_unsafe_paths(
    root: Path, request: RunRequest, checkpoint: Checkpoint, journalled: Run | None
) -> None:
    named = [request.given.get("output_path"), journalled.input.get("output_path") if journalled else None]
    allowed = [*request.output_directories, *(Path(path) for path in named if path is not None)]
    refuse_unsafe_output(checkpoint.document["output_path"], root, allowed)
    if checkpoint.document.get(_PROJECT) is not None:
        refuse_other_project(checkpoint.document[_PROJECT], root)


def _restored_id(checkpoint: Checkpoint, journal: Journal) -> str | None:
    """The id a restored run had, if it is one of ours and free."""
    noted = checkpoint.flow.get("id")
    if not isinstance(noted, str) or not re.fullmatch(_FLOW_ID, noted):
        return None
    return noted if journal.run(noted) is None else None


def _input_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """The settings of a run that is only known from its state; the published members win over our notes."""
    noted = checkpoint.flow.get("input")
    published = {key: checkpoint.document[key] for key in SETTINGS if key in checkpoint.document}
    return {**(noted if isinstance(noted, dict) else {}), **published}
