"""How a run ends: journal first, then its files. After an error they are kept in post-mortem/ (flows §5)."""

from __future__ import annotations

from pathlib import Path

from bridgehead.errors import BridgeheadError
from bridgehead.flows.calls import Attempt
from bridgehead.flows.engine.asks import Stopped
from bridgehead.flows.engine.opening import OpenRun
from bridgehead.flows.engine.pause import steps_made
from bridgehead.flows.engine.run_pass import RunPass
from bridgehead.flows.errors import FlowFailed
from bridgehead.flows.values.codec import storable
from bridgehead.flows.words import CANCELLED, ErrorType, RunStatus
from bridgehead.host.files import write_atomic


def complete(opened: OpenRun, run_pass: RunPass, result: str) -> None:
    """The flow has returned, and what it returned is recorded."""
    opened.journal.end(opened.run.id, RunStatus.COMPLETED, at=opened.now(), result=result)
    opened.files.clean_up()
    remarks = [f"{remark.path}: {remark.text}" for remark in run_pass.remarks]
    opened.announce("flow.completed", remarks=remarks, **steps_made(run_pass))


def stop(opened: OpenRun, run_pass: RunPass, stopped: Stopped) -> FlowFailed:
    """An answer ended the flow: the error that says so."""
    failure = stopped.failure
    cancelled = failure.reason == CANCELLED
    status = RunStatus.CANCELLED if cancelled else RunStatus.FAILED
    folder = _end_run(opened, run_pass, status, storable(str(failure)), stopped.attempts)
    reason = failure.message or ("it was cancelled" if cancelled else "no such agent")
    return FlowFailed(
        opened.flow.name,
        f"{stopped.agent}: {failure.reason}: {reason}",
        actions=run_pass.actions,
        error_type=failure.reason,
        post_mortem=folder,
        hint=_advice(opened, stopped),
    )


def fail(opened: OpenRun, run_pass: RunPass, error: BaseException) -> FlowFailed:
    """The flow function raised: the error that says so, with the traceback kept beside the files."""
    message = error.message if isinstance(error, BridgeheadError) else f"{type(error).__name__}: {error}"
    message = storable(message)
    folder = _end_run(opened, run_pass, RunStatus.FAILED, message, ())
    import traceback

    trace = "".join(traceback.format_exception(error))
    write_atomic(folder / "traceback.txt", trace.encode("utf-8", "backslashreplace"), private=True)
    return FlowFailed(opened.flow.name, message, actions=run_pass.actions, post_mortem=folder)


def _end_run(
    opened: OpenRun, run_pass: RunPass, status: RunStatus, error: str, attempts: tuple[Attempt, ...]
) -> Path:
    opened.journal.end(opened.run.id, status, at=opened.now(), error=error, attempts=attempts)
    run_pass.run_files.note_attempts(attempts)
    run_pass.run_files.save()
    folder = opened.files.move_to_post_mortem(opened.run.id)
    # Questions of other branches are withdrawn with it: nobody would read the answers.
    withdrawn = {call.current.request_id: status.value for call in run_pass.calls.values()}
    settled = {attempt.request_id: attempt.status.value for attempt in attempts}
    for request_id, became in {**withdrawn, **settled}.items():
        opened.inputs.announcer.settled(request_id, opened.run.root, became)
    kind = "flow.cancelled" if status is RunStatus.CANCELLED else "flow.failed"
    opened.announce(kind, error=error, **steps_made(run_pass))
    return folder


def _advice(opened: OpenRun, stopped: Stopped) -> str | None:
    """For a missing agent: whom the flow may mean, and how to go on without."""
    if stopped.failure.reason != ErrorType.AGENT_NOT_FOUND.value:
        return None
    advice = "--on-missing-agent=fallback goes on without it"
    if not opened.flow.agents:
        return advice
    from difflib import get_close_matches

    close = get_close_matches(stopped.agent, opened.flow.agents)
    near = f", closest: {', '.join(close)}" if close else ""
    return f"agents of this flow: {', '.join(opened.flow.agents)}{near}; {advice}"
