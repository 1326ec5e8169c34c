"""How a run ends: journal first, then its files. After an error they are kept in post-mortem/ (flows §5)."""

from __future__ import annotations

from pathlib import Path

from bridgehead.errors import BridgeheadError
from bridgehead.flows.calls import AskFailed, Attempt, Failed
from bridgehead.flows.engine.asks import Stopped
from bridgehead.flows.engine.opening import OpenRun
from bridgehead.flows.engine.pause import pause_facts, steps_made
from bridgehead.flows.engine.run_pass import RunPass
from bridgehead.flows.errors import FlowFailed, way_on_after_failure
from bridgehead.flows.files.documents import Contract
from bridgehead.flows.interfaces import OpenRequest
from bridgehead.flows.values.codec import storable
from bridgehead.flows.values.times import utc_text
from bridgehead.flows.words import (
    CANCELLED,
    EXPIRED,
    HEURISTICS_ONLY,
    AttemptStatus,
    ErrorType,
    RunStatus,
)
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
    if failure.reason != CANCELLED and opened.flow.contract is Contract.OPEN and stopped.attempts:
        path = stopped.attempts[-1].path
        return _reopen(opened, run_pass, path, failure, stopped.attempts, _advice(opened, stopped))
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
    kept = _unread(run_pass) if opened.flow.contract is Contract.OPEN else ()
    folder = _end_run(opened, run_pass, RunStatus.FAILED, message, kept)
    import traceback

    trace = "".join(traceback.format_exception(error))
    write_atomic(folder / "traceback.txt", trace.encode("utf-8", "backslashreplace"), private=True)
    hint = None if opened.flow.keeps_state_file else way_on_after_failure(opened.run.id)
    return FlowFailed(opened.flow.name, message, actions=run_pass.actions, post_mortem=folder, hint=hint)


def unanswered(opened: OpenRun, run_pass: RunPass, error: AskFailed) -> FlowFailed:
    """The flow cannot do without an answer that was not usable: the question is open again, and the run waits."""
    asked = any(attempt.path == error.path for attempt in opened.journal.attempts(opened.run.id))
    final = error.failure.reason in (EXPIRED, HEURISTICS_ONLY)
    if opened.flow.contract is not Contract.OPEN or not asked or final:
        return fail(opened, run_pass, error)
    return _reopen(opened, run_pass, error.path, error.failure, ())


def _reopen(
    opened: OpenRun,
    run_pass: RunPass,
    path: str,
    failure: Failed,
    ended: tuple[Attempt, ...],
    advice: str | None = None,
) -> FlowFailed:
    """Ask again under a new id, in the journal first; answers to the older attempts still count."""
    made = [attempt for attempt in opened.journal.attempts(opened.run.id) if attempt.path == path]
    document = {**made[0].document, "request_id": opened.inputs.new_id()}
    again = Attempt(path, document, AttemptStatus.PENDING).issued(opened.inputs.clock.now())
    recorded = None if ended else path
    error = storable(f"no usable answer at {path}: {failure}")
    opened.journal.reopen(
        opened.run.id, at=opened.now(), path=recorded, attempts=(*ended, again), error=error
    )
    run_pass.mailbox.clear(path, [attempt.request_id for attempt in made])
    opened.files.write(opened.files.request_path, again.document)
    announcer = opened.inputs.announcer
    for attempt in ended:
        announcer.settled(attempt.request_id, opened.run.root, attempt.status.value)
    run = opened.run
    announcer.asked(OpenRequest(run.id, run.name, run.root, dict(document), utc_text(again.deadline)))
    facts = pause_facts([again], path)
    opened.announce("flow.paused", key=again.request_id, error=error, **facts, **steps_made(run_pass))
    way = "the question is open again: answer it with bridgehead flow respond, then bridgehead flow resume"
    return FlowFailed(
        opened.flow.name,
        error,
        actions=run_pass.actions,
        error_type=failure.reason,
        hint="; ".join(filter(None, (advice, way))),
    )


def _unread(run_pass: RunPass) -> tuple[Attempt, ...]:
    """Answers that came for calls the flow had not reached: kept in the journal for a retry."""
    waiting = run_pass.calls
    return tuple(
        waiting[path].current._replace(response=answer.matched.document)
        for path, answer in run_pass.mailbox.answers.items()
        if path in waiting and answer.matched.attempt.request_id == waiting[path].current.request_id
    )


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
