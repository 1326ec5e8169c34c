"""Run a flow: open it, play it over its records, and pause with a request or end. One process per root at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from bridgehead.errors import BridgeheadError
from bridgehead.flows.calls import outstanding_calls
from bridgehead.flows.definition import Flow, refuse_incomplete, typed_settings
from bridgehead.flows.engine import endings
from bridgehead.flows.engine.asks import Blocked, Stopped
from bridgehead.flows.engine.context import Context
from bridgehead.flows.engine.mailbox import Mailbox
from bridgehead.flows.engine.opening import Opening, OpenRun, open_run
from bridgehead.flows.engine.pause import pause
from bridgehead.flows.engine.replay import Replay
from bridgehead.flows.engine.run_pass import RunPass
from bridgehead.flows.engine.run_request import OPTIONS_KEY, Pause, RunInputs, RunRequest, RunResult
from bridgehead.flows.errors import FlowMistake
from bridgehead.flows.files.checkpoint_files import CheckpointFiles
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.files.run_files import RunFiles
from bridgehead.flows.journals.base import Run
from bridgehead.flows.values.codec import encode, storable, to_plain
from bridgehead.flows.values.ids import new_flow_id
from bridgehead.flows.values.times import utc_text
from bridgehead.flows.words import AttemptStatus, RunStatus

FIRST_POLL_SECONDS: Final = 0.05
LONGEST_POLL_SECONDS: Final = 1.0


def run_flow(flow: Flow, request: RunRequest, surroundings: RunInputs | None = None) -> RunResult:
    """Start or resume `flow`; FlowRefused when that may not be, FlowFailed when it does not reach its end."""
    around = surroundings or RunInputs()
    root = FlowRoot.open(request.root)
    root.prepare()
    with root.locked(), around.open_journal(root) as journal:
        files = CheckpointFiles(root, around.clock, around.response_owners, around.size_limits)
        files.sweep()
        opening = open_run(flow, request, files, journal)
        if opening.completed is not None:
            return _already_complete(opening.completed)
        run = opening.resumed or _new_run(flow, request, root, opening, around.clock.now())
        stage = OpenRun(flow, request, around, files, journal, run, opening)
        _discard(stage)
        if opening.resumed is None:
            journal.begin(run)
        return _Play(stage).to_pause_or_end()


class _Play:
    """The passes one command makes over a flow."""

    def __init__(self, stage: OpenRun) -> None:
        self._stage = stage
        self._restores = stage.opening.restored_input is not None
        self._actions: list[str] = []
        self._book = RunFiles()
        self._context_kind: type[Context] = Context
        if stage.flow.keeps_state_file:
            from bridgehead.flows.engine.context import PhasedContext
            from bridgehead.flows.files.state_file import StateFile

            self._context_kind = PhasedContext
            found = stage.opening.checkpoint
            self._book = StateFile(stage.files, stage.run, found, restoring=self._restores)
            # A crash may have come between the journal and the state file; the journal was first.
            self._book.note_attempts(stage.journal.attempts(stage.run.id))

    def to_pause_or_end(self) -> RunResult:
        """Play until the flow ends or waits; while `wait_seconds` last, the answer is awaited here."""
        self._take_up()
        stage = self._stage
        wait_until = stage.surroundings.clock.monotonic() + stage.request.wait_seconds
        while True:
            session = self._session()
            try:
                settings = typed_settings(stage.flow, stage.settings)
                returned = encode(stage.flow.function(self._context_kind(session), **settings))
            except Blocked as blocked:
                waiting = pause(stage, session, blocked)
            except Stopped as stopped:
                raise endings.stop(stage, session, stopped) from None
            except FlowMistake as error:
                if not stage.opening.starts:
                    raise  # what is paused stays so until the flow has been mended
                raise endings.fail(stage, session, error) from error
            except BridgeheadError:
                raise
            except (Exception, SystemExit) as error:
                raise endings.fail(stage, session, error) from error
            else:
                return self._complete(session, returned)
            if not self._answered(waiting, wait_until):
                return self._result(session, RunStatus.WAITING, waiting=waiting)
            self._restores = False

    def _take_up(self) -> None:
        stage = self._stage
        if stage.opening.starts:
            stage.files.archive_orphans()
            self._actions.append("fresh_start")
            stage.announce("flow.started")
            return
        if stage.opening.resumed is not None:
            stage.journal.claim(stage.run.id, version=stage.flow.version, at=stage.now())
        stage.announce("flow.resumed", key=stage.now())

    def _session(self) -> RunPass:
        stage = self._stage
        session = RunPass(
            replay=Replay(stage.journal, stage.run.id, stage.surroundings.clock),
            desk=Mailbox(stage.files, stage.flow.contract),
            rules=stage.rules,
            clock=stage.surroundings.clock,
            book=self._book,
            attempts=stage.journal.attempts(stage.run.id),
            actions=self._actions,
            announcer=stage.surroundings.announcer,
            invoker=stage.surroundings.invoker,
            heuristics_only=bool(stage.options.get("heuristics_only")),
            new_id=stage.surroundings.new_id,
        )
        self._collect(session)
        return session

    def _collect(self, session: RunPass) -> None:
        """Look for answers before anything is asked; with nothing outstanding, what lies there is left over (R7)."""
        stage = self._stage
        restored = stage.opening.checkpoint.pending if self._restores and stage.opening.checkpoint else None
        outstanding = [*session.calls.values(), *([restored] if restored else [])]
        if outstanding:
            foreign = stage.request.accept_foreign_owner
            self._actions += session.desk.collect(outstanding, accept_foreign_owner=foreign)
        elif not self._actions:
            self._actions.append("continue")
            stage.files.archive_orphans()

    def _complete(self, session: RunPass, returned: str) -> RunResult:
        """The flow function has returned, after everything that was recorded and with no pause swallowed."""
        if session.open_blocks:
            swallowed = FlowMistake("the flow caught its own pause; let BaseException pass")
            raise endings.fail(self._stage, session, swallowed)
        session.refuse_unvisited()
        endings.complete(self._stage, session, returned)
        return self._result(session, RunStatus.COMPLETED, result=json.loads(returned))

    def _answered(self, waiting: Pause, wait_until: float) -> bool:
        """Wait for an answer, or for the deadline that would end the wait for it; False when the time is up."""
        clock = self._stage.surroundings.clock
        if wait_until > clock.monotonic():
            self._stage.surroundings.on_wait(waiting)
        poll = FIRST_POLL_SECONDS
        while not self._stage.files.response_paths():
            left = wait_until - clock.monotonic()
            if left <= 0:
                return False
            clock.sleep(min(poll, left))
            poll = min(2 * poll, LONGEST_POLL_SECONDS)
            if _deadline_passed(self._stage):
                return True
        return wait_until > clock.monotonic()

    def _result(
        self, session: RunPass, status: RunStatus, *, result: Any = None, waiting: Pause | None = None
    ) -> RunResult:
        run = self._stage.run
        notices = []
        if not self._stage.opening.starts and not self._stage.request.resume:
            notices.append(f"went on with the paused run {run.id}; --fresh would have started over")
        return RunResult(
            flow_id=run.id,
            name=run.name,
            status=status,
            actions=tuple(self._actions),
            result=result,
            pause=waiting,
            remarks=tuple(session.remarks),
            notices=tuple(notices),
        )


def _new_settings(flow: Flow, request: RunRequest, root: FlowRoot) -> Mapping[str, Any]:
    project = {"project_path": str(root.path)} if flow.keeps_state_file else {}
    settings: dict[str, Any] = to_plain({**project, **request.defaults, **request.given})
    refuse_incomplete(flow, settings)
    if flow.keeps_state_file and not settings.get("output_path"):
        raise FlowMistake(f"flow {flow.name} needs an output_path: its state file names one")
    return {**settings, OPTIONS_KEY: request.options.settled()}


def _discard(stage: OpenRun) -> None:
    """Give up the run that is in the way. The journal first: files without a run are mere orphans."""
    old = stage.opening.discarded
    if old is not None:
        for call in outstanding_calls(stage.journal.attempts(old.id)).values():
            stage.surroundings.announcer.settled(call.current.request_id, old.root, RunStatus.CANCELLED.value)
        stage.journal.end(old.id, RunStatus.CANCELLED, at=stage.now(), error="given up for a new run")
        if stage.flow.abandon is not None:
            stage.flow.abandon(old.input, old.id)
    if stage.opening.bury:
        stage.files.bury(old.id if old else "unknown")


def _new_run(flow: Flow, request: RunRequest, root: FlowRoot, opening: Opening, now: datetime) -> Run:
    """The run to be begun: a new one, or one that is restored from its state file."""
    settings = opening.restored_input
    return Run(
        id=opening.restored_id or new_flow_id(now),
        name=flow.name,
        version=flow.version,
        source=request.source,
        root=storable(str(root.path)),
        status=RunStatus.RUNNING,
        input=_new_settings(flow, request, root) if settings is None else settings,
        created=utc_text(now),
        updated=utc_text(now),
    )


def _deadline_passed(stage: OpenRun) -> bool:
    calls = outstanding_calls(stage.journal.attempts(stage.run.id)).values()
    now = stage.surroundings.clock.now()
    handed_out = [call.current for call in calls if call.current.status is AttemptStatus.PENDING]
    return any(now > attempt.deadline for attempt in handed_out)


def _already_complete(run: Run) -> RunResult:
    result = None if run.result is None else json.loads(run.result)
    return RunResult(run.id, run.name, RunStatus.COMPLETED, ("already_complete",), result)
