"""End or pause a run, in an order that survives a crash at any point (flows §5).

The journal is written first, then the run's files. A paused run hands out its oldest
unanswered request. The files of a completed run are removed; after an error they are
moved to post-mortem/.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from bridgehead.errors import BridgeheadError
from bridgehead.flows.calls import AskFailed, Attempt, Call, Failed, attempts_of
from bridgehead.flows.engine.asks import Blocked, OpenCall, Stopped
from bridgehead.flows.engine.opening import OpenRun
from bridgehead.flows.engine.run_pass import RunPass
from bridgehead.flows.engine.run_request import Pause
from bridgehead.flows.engine.settlement import Action
from bridgehead.flows.errors import RETRY_IT, FlowFailed
from bridgehead.flows.files.documents import Contract
from bridgehead.flows.interfaces import OpenRequest
from bridgehead.flows.values.codec import storable
from bridgehead.flows.values.ids import parents_of
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

STEPS_SHOWN: Final = 20


def steps_made(run_pass: RunPass) -> dict[str, Any]:
    """Return the outermost steps recorded in this pass, as an event tells them.

    Only the last STEPS_SHOWN are listed.
    """
    records = run_pass.replay.new_records
    paths = {record.path for record in records}
    outermost = [
        record for record in records if not paths & set(parents_of(record.path))
    ]
    names = ("path", "kind", "status", "started", "ended")
    steps = [
        {name: getattr(record, name) for name in names}
        for record in outermost[-STEPS_SHOWN:]
    ]
    return {"steps": steps, "steps_made": len(records)}


def pause_facts(waiting: Sequence[Attempt], path: str) -> dict[str, Any]:
    """Return whom the run waits for, as an event tells it.

    The first attempt is the one whose request is in the request file. Its prompt is
    left out; the pending item has it.
    """
    first = waiting[0]
    return {
        "agent": str(first.document["agent_name"]),
        "request_id": first.request_id,
        "path": path,
        "phase": first.document["phase"],
        "phase_name": first.document["phase_name"],
        "deadline": utc_text(first.deadline),
        "attempt": first.number + 1,
        "waits_for": [str(attempt.document["agent_name"]) for attempt in waiting],
    }


def pause(opened: OpenRun, run_pass: RunPass, blocked: Blocked) -> Pause:
    """Make the outstanding calls durable, and hand out the request of the oldest."""
    head, *queue = _oldest_first(blocked, run_pass)
    is_new = head.call.current.status is AttemptStatus.QUEUED
    if is_new:
        head = _issued(head, opened.inputs.clock.now())
    waiting = [head, *queue]
    calls = [open_call.call for open_call in waiting]
    changed = _changed_calls(head, queue)
    attempts = attempts_of(changed)
    opened.journal.hold(opened.run.id, attempts, at=opened.now())
    opened.files.root.keep_out_of_git()
    if is_new:
        run_pass.mailbox.archive_leftovers(calls)
    run_pass.run_files.note_attempts(attempts)
    run_pass.run_files.save()
    for open_call in waiting:
        if open_call.action is Action.RETRY:
            run_pass.mailbox.clear(open_call.call.path, ())
    request = head.call.current
    if head.action is not Action.WAIT:
        opened.files.write(opened.files.request_path, request.document)
    _announce_pause(opened, run_pass, calls, changed)
    return Pause(
        request_file=opened.files.request_path,
        response_file=opened.files.response_path,
        request_id=request.request_id,
        agent_name=str(request.document["agent_name"]),
        timeout_seconds=int(request.document["timeout_seconds"]),
        outstanding=len(calls),
    )


def _issued(waiting: OpenCall, now: datetime) -> OpenCall:
    issued = waiting.call.current.issued(now)
    return OpenCall(waiting.call.with_current(issued), waiting.action)


def _changed_calls(head: OpenCall, queue: Sequence[OpenCall]) -> list[Call]:
    """Return the calls to be written at this pause.

    Calls that are merely queued have been written before. With a thousand open
    questions, each pause would otherwise write them all.
    """
    changed = [
        open_call.call for open_call in queue if open_call.action is not Action.QUEUED
    ]
    return [head.call, *changed]


def _oldest_first(blocked: Blocked, run_pass: RunPass) -> list[OpenCall]:
    """Return what the flow waits for: known calls in their order, then new ones."""
    order = {path: index for index, path in enumerate(run_pass.calls)}
    return sorted(
        blocked.calls, key=lambda open_call: order.get(open_call.call.path, len(order))
    )


def _announce_pause(
    opened: OpenRun, run_pass: RunPass, calls: Sequence[Call], changed: Sequence[Call]
) -> None:
    root = opened.run.root
    announcer = opened.inputs.announcer
    has_unchanged = len(changed) < len(calls)
    if has_unchanged and not announcer.knows(calls[-1].current.request_id, root):
        changed = calls  # the program that asked them had no announcer
    for attempt in attempts_of(changed):
        if attempt.outstanding:
            _announce_request(opened, attempt)
        else:
            announcer.settled(attempt.request_id, root, attempt.status.value)
    facts = pause_facts([call.current for call in calls], calls[0].path)
    opened.announce(
        "flow.paused", key=calls[0].current.request_id, **facts, **steps_made(run_pass)
    )


def _announce_request(opened: OpenRun, attempt: Attempt) -> None:
    is_issued = attempt.status is AttemptStatus.PENDING
    deadline = utc_text(attempt.deadline) if is_issued else None
    run = opened.run
    request = OpenRequest(run.id, run.name, run.root, dict(attempt.document), deadline)
    opened.inputs.announcer.asked(request)


def complete(opened: OpenRun, run_pass: RunPass, result: str) -> None:
    """End a run whose flow has returned, and record its result."""
    opened.journal.end(
        opened.run.id, RunStatus.COMPLETED, at=opened.now(), result=result
    )
    opened.files.clean_up()
    if opened.inputs.keep_days:
        _forget_old_runs(opened)
    remarks = [f"{remark.path}: {remark.text}" for remark in run_pass.remarks]
    opened.announce("flow.completed", remarks=remarks, **steps_made(run_pass))


def _forget_old_runs(opened: OpenRun) -> None:
    age = timedelta(days=opened.inputs.keep_days)
    before = utc_text(opened.inputs.clock.now() - age)
    outdated = [run.id for run in opened.journal.runs() if run.is_over_since(before)]
    if outdated:
        opened.journal.forget(outdated)


def stop(opened: OpenRun, run_pass: RunPass, stopped: Stopped) -> FlowFailed:
    """End or reopen a run that an answer stopped; return the error to raise."""
    failure = stopped.failure
    cancelled = failure.reason == CANCELLED
    advice = _advice(opened, stopped)
    can_ask_again = opened.flow.contract is Contract.OPEN and stopped.attempts
    if can_ask_again and not cancelled:
        path = stopped.attempts[-1].path
        return _reopen(opened, run_pass, path, failure, stopped.attempts, advice)
    if cancelled:
        status = RunStatus.CANCELLED
        reason = failure.message or "it was cancelled"
    else:
        status = RunStatus.FAILED
        reason = failure.message or "no such agent"
    error = storable(str(failure))
    folder = _end_run(opened, run_pass, status, error, stopped.attempts)
    return FlowFailed(
        opened.flow.name,
        f"{stopped.agent}: {failure.reason}: {reason}",
        actions=run_pass.actions,
        error_type=failure.reason,
        post_mortem=folder,
        hint=advice,
    )


def fail(opened: OpenRun, run_pass: RunPass, error: BaseException) -> FlowFailed:
    """End a run whose flow function raised; return the error to raise.

    The traceback is written to post-mortem/, beside the files.
    """
    message = error_message(error)
    unread = _unread(run_pass) if opened.flow.contract is Contract.OPEN else ()
    folder = _end_run(opened, run_pass, RunStatus.FAILED, message, unread)
    _write_traceback(folder, error)
    hint = None if opened.flow.keeps_state_file else f"{RETRY_IT} {opened.run.id}"
    return FlowFailed(
        opened.flow.name,
        message,
        actions=run_pass.actions,
        post_mortem=folder,
        hint=hint,
    )


def error_message(error: BaseException) -> str:
    """Return the message of an error of ours, or the type and text of any other."""
    if isinstance(error, BridgeheadError):
        return storable(error.message)
    return storable(f"{type(error).__name__}: {error}")


def _write_traceback(folder: Path, error: BaseException) -> None:
    # Imported here because loading it is slow, and most flows end well.
    import traceback

    text = "".join(traceback.format_exception(error))
    write_atomic(
        folder / "traceback.txt", text.encode("utf-8", "backslashreplace"), private=True
    )


def unanswered(opened: OpenRun, run_pass: RunPass, error: AskFailed) -> FlowFailed:
    """Ask again if the flow needs an answer and got none it could use.

    Return the error to raise. The run waits, or has failed if asking again is no use.
    """
    attempts = opened.journal.attempts(opened.run.id)
    was_asked = any(attempt.path == error.path for attempt in attempts)
    is_final = error.failure.reason in (EXPIRED, HEURISTICS_ONLY)
    if opened.flow.contract is not Contract.OPEN or not was_asked or is_final:
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
    """Ask again under a new id; answers to the earlier attempts are still accepted.

    Return the error to raise.
    """
    attempts = opened.journal.attempts(opened.run.id)
    earlier = [attempt for attempt in attempts if attempt.path == path]
    document = {**earlier[0].document, "request_id": opened.inputs.new_id()}
    request = Attempt(path, document, AttemptStatus.PENDING)
    request = request.issued(opened.inputs.clock.now())
    error = storable(f"no usable answer at {path}: {failure}")
    opened.journal.reopen(
        opened.run.id,
        at=opened.now(),
        path=None if ended else path,
        attempts=(*ended, request),
        error=error,
    )
    run_pass.mailbox.clear(path, [attempt.request_id for attempt in earlier])
    opened.files.write(opened.files.request_path, request.document)
    announcer = opened.inputs.announcer
    for attempt in ended:
        announcer.settled(attempt.request_id, opened.run.root, attempt.status.value)
    _announce_request(opened, request)
    opened.announce(
        "flow.paused",
        key=request.request_id,
        error=error,
        **pause_facts([request], path),
        **steps_made(run_pass),
    )
    way = (
        "the question is open again: answer it (bridgehead flow respond), then "
        "bridgehead flow resume"
    )
    return FlowFailed(
        opened.flow.name,
        error,
        actions=run_pass.actions,
        error_type=failure.reason,
        hint="; ".join(filter(None, (advice, way))),
    )


def _unread(run_pass: RunPass) -> tuple[Attempt, ...]:
    """Return the answered calls the flow had not reached, to keep for a retry."""
    answered = []
    for path, answer in run_pass.mailbox.answers.items():
        call = run_pass.calls.get(path)
        if call is None:
            continue
        current = call.current
        if answer.matched.attempt.request_id == current.request_id:
            answered.append(current._replace(response=answer.matched.document))
    return tuple(answered)


def _end_run(
    opened: OpenRun,
    run_pass: RunPass,
    status: RunStatus,
    error: str,
    attempts: tuple[Attempt, ...],
) -> Path:
    opened.journal.end(
        opened.run.id, status, at=opened.now(), error=error, attempts=attempts
    )
    run_pass.run_files.note_attempts(attempts)
    run_pass.run_files.save()
    folder = opened.files.move_to_post_mortem(opened.run.id)
    # Questions of other branches are withdrawn: nobody would read the answers.
    statuses = {
        call.current.request_id: status.value for call in run_pass.calls.values()
    }
    statuses |= {attempt.request_id: attempt.status.value for attempt in attempts}
    for request_id, request_status in statuses.items():
        opened.inputs.announcer.settled(request_id, opened.run.root, request_status)
    kind = "flow.cancelled" if status is RunStatus.CANCELLED else "flow.failed"
    opened.announce(kind, error=error, **steps_made(run_pass))
    return folder


def _advice(opened: OpenRun, stopped: Stopped) -> str | None:
    """Return a hint about a missing agent: similar names, and how to do without it."""
    if stopped.failure.reason != ErrorType.AGENT_NOT_FOUND.value:
        return None
    advice = "use --on-missing-agent=fallback to continue without it"
    if not opened.flow.agents:
        return advice
    from difflib import get_close_matches

    matches = get_close_matches(stopped.agent, opened.flow.agents)
    closest = f", closest: {', '.join(matches)}" if matches else ""
    return f"agents of this flow: {', '.join(opened.flow.agents)}{closest}; {advice}"
