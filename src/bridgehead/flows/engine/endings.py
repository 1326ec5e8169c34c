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


def complete(stage: OpenRun, session: RunPass, result: str) -> None:
    """The flow has returned, and what it returned is recorded."""
    stage.journal.end(stage.run.id, RunStatus.COMPLETED, at=stage.now(), result=result)
    stage.files.clean_up()
    remarks = [f"{remark.path}: {remark.text}" for remark in session.remarks]
    stage.announce("flow.completed", remarks=remarks, **steps_made(session))


def stop(stage: OpenRun, session: RunPass, stopped: Stopped) -> FlowFailed:
    """An answer ended the flow: the error that says so."""
    failure = stopped.failure
    cancelled = failure.reason == CANCELLED
    status = RunStatus.CANCELLED if cancelled else RunStatus.FAILED
    grave = _bury(stage, session, status, storable(str(failure)), stopped.attempts)
    reason = failure.message or ("it was cancelled" if cancelled else "no such agent")
    return FlowFailed(
        stage.flow.name,
        f"{stopped.agent}: {failure.reason}: {reason}",
        actions=session.actions,
        error_type=failure.reason,
        post_mortem=grave,
        hint=_advice(stage, stopped),
    )


def fail(stage: OpenRun, session: RunPass, error: BaseException) -> FlowFailed:
    """The flow function raised: the error that says so, with the traceback kept beside the files."""
    message = error.message if isinstance(error, BridgeheadError) else f"{type(error).__name__}: {error}"
    message = storable(message)
    grave = _bury(stage, session, RunStatus.FAILED, message, ())
    import traceback

    trace = "".join(traceback.format_exception(error))
    write_atomic(grave / "traceback.txt", trace.encode("utf-8", "backslashreplace"), private=True)
    return FlowFailed(stage.flow.name, message, actions=session.actions, post_mortem=grave)


def _bury(
    stage: OpenRun, session: RunPass, status: RunStatus, error: str, attempts: tuple[Attempt, ...]
) -> Path:
    stage.journal.end(stage.run.id, status, at=stage.now(), error=error, attempts=attempts)
    session.book.note_attempts(attempts)
    session.book.save()
    grave = stage.files.bury(stage.run.id)
    # Questions of other branches are withdrawn with it: nobody would read the answers.
    withdrawn = {call.current.request_id: status.value for call in session.calls.values()}
    settled = {attempt.request_id: attempt.status.value for attempt in attempts}
    for request_id, became in {**withdrawn, **settled}.items():
        stage.surroundings.announcer.settled(request_id, stage.run.root, became)
    kind = "flow.cancelled" if status is RunStatus.CANCELLED else "flow.failed"
    stage.announce(kind, error=error, **steps_made(session))
    return grave


def _advice(stage: OpenRun, stopped: Stopped) -> str | None:
    """For a missing agent: whom the flow may mean, and how to go on without."""
    if stopped.failure.reason != ErrorType.AGENT_NOT_FOUND.value:
        return None
    advice = "--on-missing-agent=fallback goes on without it"
    if not stage.flow.agents:
        return advice
    from difflib import get_close_matches

    close = get_close_matches(stopped.agent, stage.flow.agents)
    near = f", closest: {', '.join(close)}" if close else ""
    return f"agents of this flow: {', '.join(stage.flow.agents)}{near}; {advice}"
