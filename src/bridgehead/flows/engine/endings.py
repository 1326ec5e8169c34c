"""How a command leaves a run, in an order that survives a crash anywhere (flows §5): journal first, then its files.

Paused: the oldest unanswered request is handed out. Ended: the files go; after an error they are kept in post-mortem/.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from bridgehead.errors import BridgeheadError
from bridgehead.flows.calls import AskFailed, Attempt, Call, Failed
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
    """The outermost steps recorded since the run was last taken up, with their times; of very many, the last."""
    containers = {record.path for record in run_pass.replay.made}
    made = [
        record
        for record in run_pass.replay.made
        if not containers & set(parents_of(record.path))
    ]
    names = ("path", "kind", "status", "started", "ended")
    steps = [
        {name: getattr(record, name) for name in names}
        for record in made[-STEPS_SHOWN:]
    ]
    return {"steps": steps, "steps_made": len(run_pass.replay.made)}


def pause_facts(waiting: Sequence[Attempt], path: str) -> dict[str, Any]:
    """Whom the run waits for; the first one's request lies in the request file. Its prompt is in its pending item."""
    asked = waiting[0].document
    return {
        "agent": str(asked["agent_name"]),
        "request_id": waiting[0].request_id,
        "path": path,
        "phase": asked["phase"],
        "phase_name": asked["phase_name"],
        "deadline": utc_text(waiting[0].deadline),
        "attempt": waiting[0].number + 1,
        "waits_for": [str(attempt.document["agent_name"]) for attempt in waiting],
    }


def pause(opened: OpenRun, run_pass: RunPass, blocked: Blocked) -> Pause:
    """Make the outstanding calls durable and put the oldest one into the request file."""
    order = {path: place for place, path in enumerate(run_pass.calls)}
    waiting = sorted(
        blocked.calls, key=lambda open_call: order.get(open_call.call.path, len(order))
    )
    head, *queue = waiting
    is_new = head.call.current.status is AttemptStatus.QUEUED
    if is_new:
        issued = head.call.current.issued(opened.inputs.clock.now())
        head = OpenCall(head.call.with_current(issued), head.action)
    calls = [head.call, *(open_call.call for open_call in queue)]
    # What waits its turn as before is not written again: of a thousand open questions each pause would write all.
    changed = [
        head.call,
        *(
            open_call.call
            for open_call in queue
            if open_call.action is not Action.QUEUED
        ),
    ]
    attempts = [attempt for call in changed for attempt in call.attempts]
    opened.journal.hold(opened.run.id, attempts, at=opened.now())
    opened.files.root.keep_out_of_git()
    if is_new:
        run_pass.mailbox.archive_leftovers(calls)
    run_pass.run_files.note_attempts(attempts)
    run_pass.run_files.save()
    for open_call in waiting:
        if open_call.action is Action.RETRY:
            run_pass.mailbox.clear(open_call.call.path, ())
    if head.action is not Action.WAIT:
        opened.files.write(opened.files.request_path, head.call.current.document)
    _announce(opened, run_pass, calls, changed)
    return Pause(
        request_file=opened.files.request_path,
        response_file=opened.files.response_path,
        request_id=head.call.current.request_id,
        agent_name=str(head.call.current.document["agent_name"]),
        timeout_seconds=int(head.call.current.document["timeout_seconds"]),
        outstanding=len(calls),
    )


def _announce(
    opened: OpenRun, run_pass: RunPass, calls: Sequence[Call], changed: Sequence[Call]
) -> None:
    announcer = opened.inputs.announcer
    if len(changed) < len(calls) and not announcer.knows(
        calls[-1].current.request_id, opened.run.root
    ):
        changed = calls  # they were asked by a program that told nobody
    for attempt in (attempt for call in changed for attempt in call.attempts):
        if not attempt.outstanding:
            announcer.settled(attempt.request_id, opened.run.root, attempt.status.value)
            continue
        issued = attempt.status is AttemptStatus.PENDING
        deadline = utc_text(attempt.deadline) if issued else None
        announcer.asked(
            OpenRequest(
                opened.run.id,
                opened.run.name,
                opened.run.root,
                dict(attempt.document),
                deadline,
            )
        )
    facts = pause_facts([call.current for call in calls], calls[0].path)
    opened.announce(
        "flow.paused", key=calls[0].current.request_id, **facts, **steps_made(run_pass)
    )


def complete(opened: OpenRun, run_pass: RunPass, result: str) -> None:
    """The flow has returned, and what it returned is recorded."""
    opened.journal.end(
        opened.run.id, RunStatus.COMPLETED, at=opened.now(), result=result
    )
    opened.files.clean_up()
    if opened.inputs.keep_days:
        before = utc_text(
            opened.inputs.clock.now() - timedelta(days=opened.inputs.keep_days)
        )
        old = [run.id for run in opened.journal.runs() if run.is_over_since(before)]
        if old:
            opened.journal.forget(old)
    remarks = [f"{remark.path}: {remark.text}" for remark in run_pass.remarks]
    opened.announce("flow.completed", remarks=remarks, **steps_made(run_pass))


def stop(opened: OpenRun, run_pass: RunPass, stopped: Stopped) -> FlowFailed:
    """An answer ended the flow: the error that says so."""
    failure = stopped.failure
    if (
        failure.reason != CANCELLED
        and opened.flow.contract is Contract.OPEN
        and stopped.attempts
    ):
        path = stopped.attempts[-1].path
        return _reopen(
            opened, run_pass, path, failure, stopped.attempts, _advice(opened, stopped)
        )
    cancelled = failure.reason == CANCELLED
    status = RunStatus.CANCELLED if cancelled else RunStatus.FAILED
    folder = _end_run(
        opened, run_pass, status, storable(str(failure)), stopped.attempts
    )
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
    message = (
        error.message
        if isinstance(error, BridgeheadError)
        else f"{type(error).__name__}: {error}"
    )
    message = storable(message)
    kept = _unread(run_pass) if opened.flow.contract is Contract.OPEN else ()
    folder = _end_run(opened, run_pass, RunStatus.FAILED, message, kept)
    import traceback

    trace = "".join(traceback.format_exception(error))
    write_atomic(
        folder / "traceback.txt",
        trace.encode("utf-8", "backslashreplace"),
        private=True,
    )
    hint = None if opened.flow.keeps_state_file else f"{RETRY_IT} {opened.run.id}"
    return FlowFailed(
        opened.flow.name,
        message,
        actions=run_pass.actions,
        post_mortem=folder,
        hint=hint,
    )


def unanswered(opened: OpenRun, run_pass: RunPass, error: AskFailed) -> FlowFailed:
    """The flow cannot do without an answer that was not usable: the question is open again, and the run waits."""
    asked = any(
        attempt.path == error.path for attempt in opened.journal.attempts(opened.run.id)
    )
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
    made = [
        attempt
        for attempt in opened.journal.attempts(opened.run.id)
        if attempt.path == path
    ]
    document = {**made[0].document, "request_id": opened.inputs.new_id()}
    again = Attempt(path, document, AttemptStatus.PENDING).issued(
        opened.inputs.clock.now()
    )
    recorded = None if ended else path
    error = storable(f"no usable answer at {path}: {failure}")
    opened.journal.reopen(
        opened.run.id,
        at=opened.now(),
        path=recorded,
        attempts=(*ended, again),
        error=error,
    )
    run_pass.mailbox.clear(path, [attempt.request_id for attempt in made])
    opened.files.write(opened.files.request_path, again.document)
    announcer = opened.inputs.announcer
    for attempt in ended:
        announcer.settled(attempt.request_id, opened.run.root, attempt.status.value)
    run = opened.run
    announcer.asked(
        OpenRequest(
            run.id, run.name, run.root, dict(document), utc_text(again.deadline)
        )
    )
    facts = pause_facts([again], path)
    opened.announce(
        "flow.paused",
        key=again.request_id,
        error=error,
        **facts,
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
    """Answers that came for calls the flow had not reached: kept in the journal for a retry."""
    waiting = run_pass.calls
    return tuple(
        waiting[path].current._replace(response=answer.matched.document)
        for path, answer in run_pass.mailbox.answers.items()
        if path in waiting
        and answer.matched.attempt.request_id == waiting[path].current.request_id
    )


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
    # Questions of other branches are withdrawn with it: nobody would read the answers.
    withdrawn = {
        call.current.request_id: status.value for call in run_pass.calls.values()
    }
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
    advice = "use --on-missing-agent=fallback to continue without it"
    if not opened.flow.agents:
        return advice
    from difflib import get_close_matches

    close = get_close_matches(stopped.agent, opened.flow.agents)
    near = f", closest: {', '.join(close)}" if close else ""
    return f"agents of this flow: {', '.join(opened.flow.agents)}{near}; {advice}"
