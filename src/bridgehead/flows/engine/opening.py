"""Decide whether a command resumes a run, starts one, or is refused.

These are the rules R1–R6 of flows §9; the first match wins.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridgehead.flows.definition import Flow
from bridgehead.flows.engine.run_request import (
    OPTIONS_KEY,
    RUN_KEY,
    RunInputs,
    RunOptions,
    RunRequest,
)
from bridgehead.flows.engine.settlement import Rules
from bridgehead.flows.errors import (
    FlowMistake,
    HasFailed,
    IncompatibleFlow,
    NoCheckpoint,
    OtherRun,
    StateCorrupt,
)
from bridgehead.flows.files.checkpoint_files import CheckpointFiles, Unsafe
from bridgehead.flows.files.root import (
    refuse_other_project,
    refuse_unsafe_output,
    same_place,
)
from bridgehead.flows.interfaces import FlowEvent
from bridgehead.flows.journals.base import Run
from bridgehead.flows.journals.sqlite import SqliteJournal
from bridgehead.flows.values.times import utc_text
from bridgehead.flows.words import DEFAULT_MAX_RETRIES, Profile, RunStatus

if TYPE_CHECKING:
    # Loaded only for flows that keep a state file.
    from bridgehead.flows.files.state_file import Checkpoint

_FLOW_ID = r"flow-[0-9]{8}-[0-9]{6}-[0-9a-f]{4}"
_PROJECT = "project_path"
_PATHS = frozenset({_PROJECT, "output_path"})
NO_REASON = "no reason was recorded"


class OpenRun:
    """A run that has been opened, and everything needed to run its flow."""

    def __init__(
        self,
        flow: Flow,
        request: RunRequest,
        inputs: RunInputs,
        files: CheckpointFiles,
        journal: SqliteJournal,
        run: Run,
        opening: Opening,
    ) -> None:
        self.flow = flow
        self.request = request
        self.inputs = inputs
        self.files = files
        self.journal = journal
        self.run = run
        self.opening = opening

    @property
    def options(self) -> Mapping[str, Any]:
        """Return the options of the run: as stored with it, else as given now."""
        return {**self.request.options.given(), **self.run.input.get(OPTIONS_KEY, {})}

    @property
    def rules(self) -> Rules:
        return Rules(
            contract=self.flow.contract,
            profile=Profile.TOLERANT if self.request.tolerant else Profile.INTEROP,
            max_retries=self.options.get("max_retries", DEFAULT_MAX_RETRIES),
            missing_agent_falls_back=bool(self.options.get("missing_agent_falls_back")),
        )

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings the flow function is called with.

        They are the stored ones, except operational settings given now (flows §9).
        """
        settings = {
            key: value
            for key, value in self.run.input.items()
            if key not in (OPTIONS_KEY, RUN_KEY)
        }
        for key, value in self.request.given.items():
            if key in self.flow.operational:
                settings[key] = value
        return settings

    def now(self) -> str:
        return utc_text(self.inputs.clock.now())

    def announce(self, kind: str, *, key: str = "", **facts: Any) -> None:
        """Announce an event; `key` distinguishes events of one kind in one run."""
        event_id = f"{self.run.id}/{kind}"
        if key:
            event_id += f"/{key}"
        event = FlowEvent(event_id, kind, self.run, self.now(), facts)
        self.inputs.announcer.happened(event)


class Opening:
    """The decision: which run to resume, restore, start or discard."""

    def __init__(
        self,
        resumed: Run | None = None,
        checkpoint: Checkpoint | None = None,
        restored_input: Mapping[str, Any] | None = None,
        restored_id: str | None = None,
        completed: Run | None = None,
        discarded: Run | None = None,
        clear_files: bool = False,
    ) -> None:
        self.resumed = resumed
        """The run to resume, as the journal has it."""
        self.checkpoint = checkpoint
        self.restored_input = restored_input
        """The settings of a run restored from its state file.

        Set if the journal is gone or knows less than the file.
        """
        self.restored_id = restored_id
        """The id the restored run had, if that is one of ours and free."""
        self.completed = completed
        """The run the command is about, if it has completed already."""
        self.discarded = discarded
        """The run to cancel in favour of the new one."""
        self.clear_files = clear_files
        """Whether to move the old run's files to post-mortem/ first (`--fresh`)."""

    @property
    def starts(self) -> bool:
        """Return whether a new run is started."""
        return (
            self.resumed is None
            and self.restored_input is None
            and self.completed is None
        )


def open_run(
    flow: Flow, request: RunRequest, files: CheckpointFiles, journal: SqliteJournal
) -> Opening:
    """Return what `request` does: which run it starts, resumes or finds completed.

    Raise FlowRefused if it may do none of these.
    """
    root = files.root.path
    paused = journal.unfinished()
    _refuse_other_flow(flow, request, root, paused)
    if request.key is not None:
        if flow.keeps_state_file:
            raise FlowMistake(
                f"--id cannot be used with {flow.name}: its state file identifies the "
                "run"
            )
        ended = _ended_under_key(flow, request, journal, root, paused)
        if ended is not None:
            return ended
        request = request._replace(resume=paused is not None)
    if flow.keeps_state_file:
        return _open_by_state_file(flow, request, files, journal, paused)
    if os.path.lexists(files.state_path):
        way = (
            "resume it with: bridgehead flow run template-create --resume, or start "
            "over with --fresh"
        )
        raise OtherRun(root, "template-create", f"flow {flow.name}", way)
    return _open_by_journal(flow, request, journal, root, paused)


def _refuse_other_flow(
    flow: Flow, request: RunRequest, root: Path, paused: Run | None
) -> None:
    """Raise OtherRun if the paused run is not the one the command is about."""
    if paused is None:
        return
    is_meant = request.flow_id in (None, paused.id)
    if paused.name != flow.name or not is_meant:
        wanted = request.flow_id or f"flow {flow.name}"
        raise OtherRun(root, _describe(paused), wanted, _resume_or_cancel(paused))


def _ended_under_key(
    flow: Flow,
    request: RunRequest,
    journal: SqliteJournal,
    root: Path,
    paused: Run | None,
) -> Opening | None:
    """Return the opening if the run started under the key has ended.

    Return None if a run is to be started or resumed under the key.
    """
    if request.fresh:
        return None
    if paused is not None and flow.id is not None and RUN_KEY not in paused.input:
        return None  # the run was paused before its flow declared a key
    keyed = _run_under_key(flow, request, journal)
    if keyed is not None and keyed.status.ended:
        return _open_ended(flow, request, root, keyed)
    if paused is not None and (keyed is None or keyed.id != paused.id):
        wanted = f"the run with the id {request.key!r}"
        raise OtherRun(root, _describe(paused), wanted, _resume_or_cancel(paused))
    return None


def _open_ended(flow: Flow, request: RunRequest, root: Path, run: Run) -> Opening:
    """Return the opening of a command whose run has completed; raise if it failed."""
    settings = _lasting_settings(flow, request)
    _refuse_contradiction(root, _describe(run), request, run.input, settings)
    if run.status is RunStatus.FAILED:
        raise HasFailed(root, run.id, run.error or NO_REASON)
    return Opening(completed=run)


def _run_under_key(
    flow: Flow, request: RunRequest, journal: SqliteJournal
) -> Run | None:
    """Return the newest run of the flow under the key that was not cancelled."""
    for run in journal.runs():
        is_meant = run.name == flow.name and run.input.get(RUN_KEY) == request.key
        if is_meant and run.status is not RunStatus.CANCELLED:
            return run
    return None


def _open_by_journal(
    flow: Flow,
    request: RunRequest,
    journal: SqliteJournal,
    root: Path,
    paused: Run | None,
) -> Opening:
    if request.fresh:
        return Opening(discarded=paused, clear_files=True)
    if paused is None:
        return _open_without_paused(flow, request, journal, root)
    settings = _lasting_settings(flow, request)
    _refuse_contradiction(root, _describe(paused), request, paused.input, settings)
    _refuse_version(flow, paused.version, request)
    return Opening(resumed=paused)


def _open_without_paused(
    flow: Flow, request: RunRequest, journal: SqliteJournal, root: Path
) -> Opening:
    """Return the opening of a command when nothing is paused (R1).

    Without `--resume` that is a new run. With it, the last run must have completed.
    """
    if not request.resume:
        return Opening()
    runs = [run for run in journal.runs() if run.name == flow.name]
    if request.flow_id:
        runs = [run for run in runs if run.id == request.flow_id]
    if not runs:
        raise NoCheckpoint(root)
    last = runs[0]
    if last.status is RunStatus.COMPLETED:
        return Opening(completed=last)
    if last.status is RunStatus.FAILED and not flow.keeps_state_file:
        raise HasFailed(root, last.id, last.error or NO_REASON)
    raise NoCheckpoint(root)


def _lasting_settings(flow: Flow, request: RunRequest) -> dict[str, Any]:
    """Return the settings given now that are stored with a run.

    Operational settings are left out: they apply to one command only (flows §9).
    """
    return {
        key: value
        for key, value in request.given.items()
        if key not in flow.operational
    }


def _refuse_contradiction(
    root: Path,
    paused: str,
    request: RunRequest,
    stored: Mapping[str, Any],
    given: Mapping[str, Any],
) -> None:
    """Raise OtherRun if a setting given now differs from the stored one (flows §9)."""
    options: Mapping[str, Any] = stored.get(OPTIONS_KEY, {})
    wanted = {**given, **request.options.given()}
    settings = {**stored, **options}
    for key, value in wanted.items():
        if settings.get(key) is not None and settings[key] != value:
            raise OtherRun(
                root,
                f"{paused} with {key} {settings[key]!r}",
                f"a run with {key} {value!r}",
                "omit that setting to continue that run, or start another one with "
                "--fresh",
            )


def _refuse_version(flow: Flow, paused_version: str, request: RunRequest) -> None:
    if not request.force_version and not flow.can_resume(paused_version):
        raise IncompatibleFlow(flow.name, paused_version, flow.version)


def _describe(run: Run) -> str:
    return f"flow {run.name} ({run.id})"


def _resume_or_cancel(run: Run) -> str:
    return (
        "resume it with: bridgehead flow resume, or cancel it with: bridgehead "
        f"flow cancel {run.id}"
    )


def _open_by_state_file(
    flow: Flow,
    request: RunRequest,
    files: CheckpointFiles,
    journal: SqliteJournal,
    paused: Run | None,
) -> Opening:
    """Return the opening for a flow that keeps a state file."""
    root = files.root.path
    if request.fresh:
        return Opening(discarded=paused, clear_files=True)
    checkpoint = _live_checkpoint(files, journal)
    if checkpoint is None and paused is not None:
        # The file was removed or never written. The journal has everything needed to
        # write it again.
        return _open_by_journal(flow, request, journal, root, paused)
    if checkpoint is None:
        return _open_without_paused(flow, request, journal, root)
    _refuse_contradicting_state(root, flow, request, checkpoint)
    is_journalled = paused is not None and paused.id == checkpoint.flow.get("id")
    journalled = paused if is_journalled else None
    _refuse_unsafe_paths(root, request, checkpoint, journalled)
    version = journalled.version if journalled else checkpoint.flow.get("version")
    if isinstance(version, str):
        _refuse_version(flow, version, request)
    if journalled is None:
        return Opening(
            checkpoint=checkpoint,
            restored_input=_input_of(checkpoint),
            restored_id=_restored_id(checkpoint, journal),
            discarded=paused,
        )
    if _is_in_journal(checkpoint, journalled, journal):
        return Opening(resumed=journalled, checkpoint=checkpoint)
    return Opening(
        resumed=journalled,
        checkpoint=checkpoint,
        restored_input=_input_of(checkpoint),
    )


def _live_checkpoint(
    files: CheckpointFiles, journal: SqliteJournal
) -> Checkpoint | None:
    """Return the checkpoint in the state file; None without one, or if its run ended.

    The files of a run that has ended are put away.
    """
    from bridgehead.flows.files.state_file import read_checkpoint

    content = files.read(files.state_path)
    if content is None:
        return None
    if isinstance(content, Unsafe):
        raise StateCorrupt(files.state_path, content.reason)
    checkpoint = read_checkpoint(content, files.state_path)
    run = journal.run(_noted_id(checkpoint) or "")
    if run is None or not run.status.ended:
        return checkpoint
    # The process died after ending the run, before putting its files away. The files
    # of a run that failed are kept (flows §5).
    if run.status is RunStatus.COMPLETED:
        files.clean_up()
    else:
        files.move_to_post_mortem(run.id)
    return None


def _is_in_journal(checkpoint: Checkpoint, run: Run, journal: SqliteJournal) -> bool:
    """Return whether the journal has everything the state file says.

    The journal is written first, so it has, unless a restored run ended early.
    """
    if checkpoint.pending is not None:
        pending = checkpoint.pending.current.request_id.lower()
        return any(
            attempt.request_id.lower() == pending
            for attempt in journal.attempts(run.id)
        )
    records = journal.lookup(run.id)
    done = checkpoint.document.get("completed_phases", [])
    return all(f"{phase.get('phase_name')}#0" in records for phase in done)


def _refuse_contradicting_state(
    root: Path, flow: Flow, request: RunRequest, checkpoint: Checkpoint
) -> None:
    stored = _input_of(checkpoint)
    given = _lasting_settings(flow, request)
    if request.resume:
        # With --resume, the state of another project is refused as unsafe (R5), not
        # as another run.
        given.pop(_PROJECT, None)
    for key in given.keys() & stored.keys() & _PATHS:
        if same_place(str(given[key]), str(stored[key])):
            del given[key]
    paused = f"template-create {stored.get('template_name', '')}"
    _refuse_contradiction(root, paused, request, stored, given)


def _refuse_unsafe_paths(
    root: Path, request: RunRequest, checkpoint: Checkpoint, journalled: Run | None
) -> None:
    named = [request.given.get("output_path")]
    if journalled is not None:
        named.append(journalled.input.get("output_path"))
    allowed = list(request.output_directories)
    allowed += [Path(path) for path in named if path is not None]
    refuse_unsafe_output(checkpoint.document["output_path"], root, allowed)
    if checkpoint.document.get(_PROJECT) is not None:
        refuse_other_project(checkpoint.document[_PROJECT], root)


def _restored_id(checkpoint: Checkpoint, journal: SqliteJournal) -> str | None:
    """Return the id the restored run had, if it is one of ours and not in use."""
    flow_id = _noted_id(checkpoint)
    if flow_id is None or journal.run(flow_id) is not None:
        return None
    return flow_id


def _noted_id(checkpoint: Checkpoint) -> str | None:
    """Return the run's id as the state file notes it; None if it is not one of ours."""
    flow_id = checkpoint.flow.get("id")
    is_ours = isinstance(flow_id, str) and re.fullmatch(_FLOW_ID, flow_id)
    return flow_id if is_ours else None


def _input_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the settings of a run that is known only from its state file.

    The published members take precedence over our own notes.
    """
    from bridgehead.flows.files.state_file import SETTINGS

    found = checkpoint.flow.get("input")
    noted: dict[str, Any] = found if isinstance(found, dict) else {}
    published = {
        key: checkpoint.document[key] for key in SETTINGS if key in checkpoint.document
    }
    return {**noted, **published, OPTIONS_KEY: _valid_options(noted.get(OPTIONS_KEY))}


def _valid_options(options: object) -> dict[str, Any]:
    """Return those options in a state file that have the right types.

    The file is not trusted: anybody may have written it.
    """
    found: dict[str, Any] = options if isinstance(options, dict) else {}
    kinds = {name: type(value) for name, value in RunOptions().settled().items()}
    return {
        name: found[name]
        for name, kind in kinds.items()
        if type(found.get(name)) is kind
    }
