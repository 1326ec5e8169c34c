"""Pause a run: hand out the oldest unanswered request, in the order that survives a crash anywhere (flows §5)."""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.flows.announcer import OpenRequest
from bridgehead.flows.calls import Attempt, Call
from bridgehead.flows.moments import utc_text
from bridgehead.flows.pausing import Blocked, OpenCall
from bridgehead.flows.requests import Pause
from bridgehead.flows.session import Session
from bridgehead.flows.settlement import Action
from bridgehead.flows.stage import Stage
from bridgehead.flows.telling import pause_facts, steps_made
from bridgehead.flows.words import AttemptStatus


def pause(stage: Stage, session: Session, blocked: Blocked) -> Pause:
    """Make the outstanding calls durable and put the oldest one into the request file."""
    order = list(session.calls)
    waiting = sorted(blocked.calls, key=lambda open_call: _age(open_call.call.path, order))
    head, *queue = waiting
    is_new = head.call.current.status is AttemptStatus.QUEUED
    if is_new:
        handed_out = head.call.current.handed_out(stage.surroundings.clock.now())
        head = OpenCall(head.call.with_current(handed_out), head.action)
    calls = [head.call, *(open_call.call for open_call in queue)]
    attempts = [attempt for call in calls for attempt in call.attempts]
    stage.journal.hold(stage.run.id, attempts, at=stage.now())
    if is_new:
        session.desk.archive_leftovers(calls)
    session.book.note_attempts(attempts)
    session.book.save()
    for open_call in waiting:
        if open_call.action is Action.RETRY:
            session.desk.clear(open_call.call.path, ())
    if head.action is not Action.WAIT:
        stage.files.write(stage.files.request_path, head.call.current.document)
    _announce(stage, session, calls)
    return _notice(stage, head.call.current, len(calls))


def _age(path: str, order: Sequence[str]) -> int:
    return order.index(path) if path in order else len(order)


def _announce(stage: Stage, session: Session, calls: Sequence[Call]) -> None:
    announcer = stage.surroundings.announcer
    for attempt in (attempt for call in calls for attempt in call.attempts):
        if not attempt.outstanding:
            announcer.settled(attempt.request_id, stage.run.root, attempt.status.value)
            continue
        handed_out = attempt.status is AttemptStatus.PENDING
        deadline = utc_text(attempt.deadline) if handed_out else None
        announcer.asked(
            OpenRequest(stage.run.id, stage.run.name, stage.run.root, dict(attempt.document), deadline)
        )
    facts = pause_facts([call.current for call in calls], calls[0].path)
    stage.announce("flow.paused", key=calls[0].current.request_id, **facts, **steps_made(session))


def _notice(stage: Stage, attempt: Attempt, outstanding: int) -> Pause:
    return Pause(
        request_file=stage.files.request_path,
        response_file=stage.files.response_path,
        request_id=attempt.request_id,
        agent_name=str(attempt.document["agent_name"]),
        timeout_seconds=int(attempt.document["timeout_seconds"]),
        outstanding=outstanding,
    )
