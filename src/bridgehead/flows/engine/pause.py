"""Pause a run: hand out the oldest unanswered request, in an order that survives a crash anywhere (flows §5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bridgehead.flows.calls import Attempt, Call
from bridgehead.flows.engine.asks import Blocked, OpenCall
from bridgehead.flows.engine.opening import OpenRun
from bridgehead.flows.engine.run_pass import RunPass
from bridgehead.flows.engine.run_request import Pause
from bridgehead.flows.engine.settlement import Action
from bridgehead.flows.interfaces import OpenRequest
from bridgehead.flows.values.ids import parents_of
from bridgehead.flows.values.times import utc_text
from bridgehead.flows.words import AttemptStatus

STEPS_TOLD: Final = 20


def steps_made(session: RunPass) -> dict[str, Any]:
    """The outermost steps recorded since the run was last taken up, with their times; of very many, the last."""
    containers = {record.path for record in session.replay.made}
    made = [record for record in session.replay.made if not containers & set(parents_of(record.path))]
    steps = [
        {
            "path": record.path,
            "kind": record.kind,
            "status": record.status,
            "started": record.started,
            "ended": record.ended,
        }
        for record in made[-STEPS_TOLD:]
    ]
    return {"steps": steps, "steps_made": len(session.replay.made)}


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


def pause(stage: OpenRun, session: RunPass, blocked: Blocked) -> Pause:
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


def _announce(stage: OpenRun, session: RunPass, calls: Sequence[Call]) -> None:
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


def _notice(stage: OpenRun, attempt: Attempt, outstanding: int) -> Pause:
    return Pause(
        request_file=stage.files.request_path,
        response_file=stage.files.response_path,
        request_id=attempt.request_id,
        agent_name=str(attempt.document["agent_name"]),
        timeout_seconds=int(attempt.document["timeout_seconds"]),
        outstanding=outstanding,
    )
