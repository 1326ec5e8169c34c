"""Run a flow: open it, replay its records, and end or pause with a request.

Only one process at a time works in a root.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from bridgehead.errors import BridgeheadError
from bridgehead.flows.calls import AskFailed, outstanding_calls
from bridgehead.flows.definition import Flow, refuse_incomplete, typed_settings
from bridgehead.flows.engine import endings
from bridgehead.flows.engine.asks import Blocked, Stopped
from bridgehead.flows.engine.context import Context
from bridgehead.flows.engine.mailbox import Mailbox
from bridgehead.flows.engine.opening import Opening, OpenRun, open_run
from bridgehead.flows.engine.replay import Replay
from bridgehead.flows.engine.run_pass import RunPass
from bridgehead.flows.engine.run_request import (
    OPTIONS_KEY,
    RUN_KEY,
    Pause,
    RunInputs,
    RunRequest,
    RunResult,
)
from bridgehead.flows.errors import FlowMistake, FlowRefused
from bridgehead.flows.files.checkpoint_files import CheckpointFiles, RunFiles
from bridgehead.flows.files.documents import Contract
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.journals.base import Run
from bridgehead.flows.journals.sqlite import SqliteJournal
from bridgehead.flows.values.codec import NotRecordable, storable, to_plain
from bridgehead.flows.values.ids import free_flow_id
from bridgehead.flows.values.times import utc_text
from bridgehead.flows.words import AttemptStatus, RunStatus

FIRST_POLL_SECONDS: Final = 0.05
LONGEST_POLL_SECONDS: Final = 1.0


def run_flow(
    flow: Flow, request: RunRequest, inputs: RunInputs | None = None
) -> RunResult:
    """Start or resume `flow`.

    Raise FlowRefused if that is not allowed, FlowFailed if the flow fails.
    """
    inputs = inputs or RunInputs()
    if request.key is None and request.flow_id is None:
        request = request._replace(
            key=flow.key_for({**request.defaults, **request.given})
        )
    root = FlowRoot.open(request.root)
    root.prepare()
    with root.locked(), inputs.open_journal(root) as journal:
        files = CheckpointFiles(
            root, inputs.clock, inputs.response_owners, inputs.size_limits
        )
        files.sweep()
        opening = open_run(flow, request, files, journal)
        if opening.completed is not None:
            return _already_complete(opening.completed)
        run = opening.resumed
        if run is None:
            now = inputs.clock.now()
            flow_id = opening.restored_id or _free_id(journal, now)
            run = _new_run(flow, request, root, opening, flow_id, now)
        opened = OpenRun(flow, request, inputs, files, journal, run, opening)
        _discard(opened)
        if opening.resumed is None:
            journal.begin(run)
        return _Passes(opened).to_pause_or_end()


def _free_id(journal: SqliteJournal, now: datetime) -> str:
    return free_flow_id(now, lambda flow_id: journal.run(flow_id) is not None)


def _already_complete(run: Run) -> RunResult:
    result = None if run.result is None else json.loads(run.result)
    actions = ("already_complete",)
    return RunResult(run.id, run.name, RunStatus.COMPLETED, actions, result)


class _Passes:
    """The passes a command makes over one run."""

    def __init__(self, opened: OpenRun) -> None:
        self._opened = opened
        self._restores = opened.opening.restored_input is not None
        self._actions: list[str] = []
        self._run_files = RunFiles()
        self._context_kind: type[Context] = Context
        if opened.flow.keeps_state_file:
            from bridgehead.flows.engine.context import PhasedContext
            from bridgehead.flows.files.state_file import StateFile

            self._context_kind = PhasedContext
            checkpoint = opened.opening.checkpoint
            self._run_files = StateFile(
                opened.files, opened.run, checkpoint, restoring=self._restores
            )
            # An earlier process may have died after writing the journal, before the
            # state file.
            self._run_files.note_attempts(opened.journal.attempts(opened.run.id))

    def to_pause_or_end(self) -> RunResult:
        """Run until the flow ends or has to pause.

        For up to `wait_seconds`, wait for the answer instead of pausing.
        """
        self._begin()
        opened = self._opened
        wait_until = opened.inputs.clock.monotonic() + opened.request.wait_seconds
        while True:
            run_pass = self._run_pass()
            outcome = self._run_once(run_pass)
            if not isinstance(outcome, Pause):
                return self._complete(run_pass, outcome)
            if not self._answered(outcome, wait_until):
                return self._result(run_pass, RunStatus.WAITING, waiting=outcome)
            self._restores = False

    def _run_once(self, run_pass: RunPass) -> str | Pause:
        """Return what the flow function returned, as JSON, or what it waits for."""
        opened = self._opened
        try:
            settings = typed_settings(opened.flow, opened.settings)
            context = self._context_kind(run_pass)
            returned = run_function(opened.flow, context, settings)
            plain = plain_result(opened.flow, returned)
            return json.dumps(plain, separators=(",", ":"), allow_nan=False)
        except Blocked as blocked:
            return endings.pause(opened, run_pass, blocked)
        except Stopped as stopped:
            raise endings.stop(opened, run_pass, stopped) from None
        except AskFailed as error:
            raise endings.unanswered(opened, run_pass, error) from error
        except FlowMistake as error:
            if not opened.opening.starts:
                self._pause_unchanged()
                raise  # the run stays paused until its flow has been fixed
            raise endings.fail(opened, run_pass, error) from error
        except FlowRefused:
            self._pause_unchanged()
            raise
        except BridgeheadError:
            raise
        except (Exception, SystemExit) as error:
            raise endings.fail(opened, run_pass, error) from error

    def _begin(self) -> None:
        """Announce that the run starts or resumes, and mark it as running."""
        opened = self._opened
        if opened.opening.starts:
            opened.files.archive_orphans()
            self._actions.append("fresh_start")
            opened.announce("flow.started")
            return
        if opened.opening.resumed is not None:
            opened.journal.claim(
                opened.run.id, version=opened.flow.version, at=opened.now()
            )
        opened.announce("flow.resumed", key=opened.now())

    def _pause_unchanged(self) -> None:
        """Pause a resumed run as it was, since nothing was run."""
        if self._opened.opening.resumed is not None:
            self._opened.journal.hold(self._opened.run.id, (), at=self._opened.now())

    def _run_pass(self) -> RunPass:
        opened = self._opened
        run_pass = RunPass(
            replay=Replay(opened.journal, opened.run.id, opened.inputs.clock),
            mailbox=Mailbox(opened.files, opened.flow.contract),
            rules=opened.rules,
            clock=opened.inputs.clock,
            run_files=self._run_files,
            attempts=opened.journal.attempts(opened.run.id),
            actions=self._actions,
            announcer=opened.inputs.announcer,
            invoker=opened.inputs.invoker,
            heuristics_only=bool(opened.options.get("heuristics_only")),
            new_id=opened.inputs.new_id,
            run_function=run_function,
        )
        self._collect(run_pass)
        return run_pass

    def _collect(self, run_pass: RunPass) -> None:
        """Collect the answers to outstanding calls.

        If nothing is outstanding, files that lie there are leftovers (R7).
        """
        opened = self._opened
        outstanding = list(run_pass.calls.values())
        checkpoint = opened.opening.checkpoint
        if self._restores and checkpoint is not None and checkpoint.pending is not None:
            outstanding.append(checkpoint.pending)
        if outstanding:
            foreign = opened.request.accept_foreign_owner
            self._actions += run_pass.mailbox.collect(
                outstanding, accept_foreign_owner=foreign
            )
        elif not self._actions:
            self._actions.append("continue")
            opened.files.archive_orphans()

    def _complete(self, run_pass: RunPass, returned: str) -> RunResult:
        """End the run of a flow that has returned.

        Raise if it has not reached everything recorded, or has swallowed a pause.
        """
        if run_pass.open_blocks:
            swallowed = FlowMistake(
                "the flow caught its own pause; let BaseException pass"
            )
            raise endings.fail(self._opened, run_pass, swallowed)
        run_pass.refuse_unvisited()
        endings.complete(self._opened, run_pass, returned)
        return self._result(run_pass, RunStatus.COMPLETED, result=json.loads(returned))

    def _answered(self, waiting: Pause, wait_until: float) -> bool:
        """Wait for an answer, or until a question's own deadline has passed.

        Return False if `wait_until` comes first.
        """
        clock = self._opened.inputs.clock
        if wait_until > clock.monotonic():
            self._opened.inputs.on_wait(waiting)
        poll = FIRST_POLL_SECONDS
        while not _has_answer(self._opened):
            seconds_left = wait_until - clock.monotonic()
            if seconds_left <= 0:
                return False
            clock.sleep(min(poll, seconds_left))
            poll = min(2 * poll, LONGEST_POLL_SECONDS)
            if _deadline_passed(self._opened):
                return True
        return wait_until > clock.monotonic()

    def _result(
        self,
        run_pass: RunPass,
        status: RunStatus,
        *,
        result: Any = None,
        waiting: Pause | None = None,
    ) -> RunResult:
        run = self._opened.run
        notices = []
        if not self._opened.opening.starts and not self._opened.request.resume:
            notices.append(
                f"resumed the paused run {run.id}; use --fresh to start over"
            )
        return RunResult(
            flow_id=run.id,
            name=run.name,
            status=status,
            actions=tuple(self._actions),
            result=result,
            pause=waiting,
            remarks=tuple(run_pass.remarks),
            notices=tuple(notices),
        )


def _new_settings(flow: Flow, request: RunRequest, root: FlowRoot) -> Mapping[str, Any]:
    """Return the settings of a new run, including those the engine keeps with it."""
    implied: dict[str, Any] = {}
    if flow.keeps_state_file:
        implied["project_path"] = str(root.path)
    settings: dict[str, Any] = to_plain(
        {**implied, **request.defaults, **request.given}
    )
    refuse_incomplete(flow, settings)
    if flow.keeps_state_file and not settings.get("output_path"):
        raise FlowMistake(
            f"flow {flow.name} needs an output_path: its state file names one"
        )
    settings[OPTIONS_KEY] = request.options.settled()
    if request.key is not None:
        settings[RUN_KEY] = request.key
    return settings


def _discard(opened: OpenRun) -> None:
    """Cancel the run that the new one replaces.

    The journal is written first: files without a run are harmless orphans.
    """
    old_run = opened.opening.discarded
    if old_run is not None:
        for call in outstanding_calls(opened.journal.attempts(old_run.id)).values():
            opened.inputs.announcer.settled(
                call.current.request_id, old_run.root, RunStatus.CANCELLED.value
            )
        opened.journal.end(
            old_run.id,
            RunStatus.CANCELLED,
            at=opened.now(),
            error="cancelled for a new run",
        )
        if opened.flow.abandon is not None:
            opened.flow.abandon(old_run.input, old_run.id)
    if opened.opening.clear_files:
        opened.files.move_to_post_mortem(old_run.id if old_run else "unknown")


def _new_run(
    flow: Flow,
    request: RunRequest,
    root: FlowRoot,
    opening: Opening,
    flow_id: str,
    now: datetime,
) -> Run:
    """Return a run with new settings, or with those restored from its state file."""
    settings = opening.restored_input
    if settings is None:
        settings = _new_settings(flow, request, root)
    return Run(
        id=flow_id,
        name=flow.name,
        version=flow.version,
        source=request.source,
        root=storable(str(root.path)),
        status=RunStatus.RUNNING,
        input=settings,
        created=utc_text(now),
        updated=utc_text(now),
    )


def _has_answer(opened: OpenRun) -> bool:
    """Return whether an answer has arrived, in a file or in the journal."""
    if opened.files.response_paths():
        return True
    calls = outstanding_calls(opened.journal.attempts(opened.run.id)).values()
    return any(call.current.response is not None for call in calls)


def _deadline_passed(opened: OpenRun) -> bool:
    calls = outstanding_calls(opened.journal.attempts(opened.run.id)).values()
    attempts = [call.current for call in calls]
    now = opened.inputs.clock.now()
    if opened.flow.contract is Contract.OPEN:
        return any(attempt.is_expired(now) for attempt in attempts)
    return any(
        now > attempt.deadline
        for attempt in attempts
        if attempt.status is AttemptStatus.PENDING
    )


def run_function(flow: Flow, context: Context, settings: Mapping[str, Any]) -> Any:
    """Call a flow's function, in an event loop if it is async; return its result."""
    if not flow.is_async:
        return flow.function(context, **settings)
    from bridgehead.flows.engine.async_context import run_async

    return run_async(flow, context, settings)


def plain_result(flow: Flow, returned: Any) -> Any:
    """Return a flow's result as JSON values; raise NotRecordable if it has none."""
    try:
        return to_plain(returned)
    except NotRecordable as error:
        raise error.named(f"what flow {flow.name} returned") from None
