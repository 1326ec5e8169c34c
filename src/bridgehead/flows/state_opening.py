"""Open a run by its state file: the rules R2–R6 of flows §9 for flows that keep one. A refusal touches nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
from bridgehead.flows.output_path import refuse_other_project, refuse_unsafe_output, same_place
from bridgehead.flows.requests import OPTIONS_KEY, RunOptions, RunRequest
from bridgehead.flows.words import RunStatus

_FLOW_ID = r"flow-[0-9]{8}-[0-9]{6}-[0-9a-f]{4}"
_PROJECT = "project_path"
_PATHS = (_PROJECT, "output_path")


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
    ended = _ended_run(checkpoint, journal) if checkpoint else None
    if ended is not None:
        _put_away(files, ended)
        checkpoint = None
    if checkpoint is None:
        opening = nothing_paused(flow, request, journal, root)
        return opening if opening.completed else Opening(discarded=paused)
    _refuse_contradicting_state(root, flow, request, checkpoint)
    journalled = paused if paused is not None and paused.id == checkpoint.flow.get("id") else None
    _refuse_unsafe_paths(root, request, checkpoint, journalled)
    version = journalled.version if journalled else checkpoint.flow.get("version")
    if isinstance(version, str):
        refuse_version(flow, version, request)
    if journalled is not None:
        known = _is_known(checkpoint, journalled, journal)
        restored = None if known else _input_of(checkpoint)
        return Opening(resumed=journalled, checkpoint=checkpoint, restored_input=restored)
    return Opening(
        checkpoint=checkpoint,
        restored_input=_input_of(checkpoint),
        restored_id=_restored_id(checkpoint, journal),
        discarded=paused,
    )


def _ended_run(checkpoint: Checkpoint, journal: Journal) -> Run | None:
    run = journal.run(_noted_id(checkpoint) or "")
    return run if run is not None and run.status.ended else None


def _put_away(files: CheckpointFiles, ended: Run) -> None:
    """Its process died between ending the run and doing this: after an error nothing is lost (flows §5)."""
    if ended.status is RunStatus.COMPLETED:
        files.clean_up()
    else:
        files.bury(ended.id)


def _is_known(checkpoint: Checkpoint, run: Run, journal: Journal) -> bool:
    """Whether the journal has what the state says. It comes first, unless a restored run was refused or died early."""
    if checkpoint.pending is not None:
        pending = checkpoint.pending.current.request_id.lower()
        return any(attempt.request_id.lower() == pending for attempt in journal.attempts(run.id))
    records = journal.lookup(run.id)
    done = checkpoint.document.get("completed_phases", [])
    return all(f"{phase.get('phase_name')}#0" in records for phase in done)


def _refuse_contradicting_state(root: Path, flow: Flow, request: RunRequest, checkpoint: Checkpoint) -> None:
    stored = _input_of(checkpoint)
    given = {
        key: value
        for key, value in lasting_settings(flow, request).items()
        # With --resume a state of another project is unsafe (R5), not merely another run.
        if not (key == _PROJECT and request.resume) and not _is_same_path(key, value, stored)
    }
    refuse_contradiction(root, f"template-create {stored.get('template_name', '')}", request, stored, given)


def _is_same_path(key: str, value: object, stored: Mapping[str, Any]) -> bool:
    return key in _PATHS and key in stored and same_place(str(value), str(stored[key]))


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
    noted = _noted_id(checkpoint)
    return noted if noted is not None and journal.run(noted) is None else None


def _noted_id(checkpoint: Checkpoint) -> str | None:
    noted = checkpoint.flow.get("id")
    return noted if isinstance(noted, str) and re.fullmatch(_FLOW_ID, noted) else None


def _input_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """The settings of a run that is only known from its state; the published members win over our notes."""
    found = checkpoint.flow.get("input")
    noted: dict[str, Any] = found if isinstance(found, dict) else {}
    published = {key: checkpoint.document[key] for key in SETTINGS if key in checkpoint.document}
    return {**noted, **published, OPTIONS_KEY: _believable(noted.get(OPTIONS_KEY))}


def _believable(options: object) -> dict[str, Any]:
    """The options in a file that anybody may have written, as far as they are what they should be."""
    found: dict[str, Any] = options if isinstance(options, dict) else {}
    kinds = {name: type(value) for name, value in RunOptions().settled().items()}
    return {name: found[name] for name, kind in kinds.items() if type(found.get(name)) is kind}
