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

STEPS_SHOWN: Final = 20


def steps_made(run_pass: RunPass) -> dict[str, Any]:
    """The outermost steps recorded since the run was last taken up, with their times; of very many, the last."""
    containers = {record.path for record in run_pass.replay.made}
    made = [record for record in run_pass.replay.made if not containers & set(parents_of(record.path))]
    steps = [
        {
            "path": record.path,
            "kind": record.kind,
            "status": record.status,
            "started": record.started,
            "ended": record.ended,
        }
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
    waiting = sorted(blocked.calls, key=lambda open_call: order.get(open_call.call.path, len(order)))
    head, *queue = waiting
    is_new = head.call.current.status is AttemptStatus.QUEUED
    if is_new:
        issued = head.call.current.issued(opened.inputs.clock.now())
        head = OpenCall(head.call.with_current(issued), head.action)
    calls = [head.call, *(open_call.call for open_call in queue)]
    # What waits its turn as before is not written again: of a thousand open questions each pause would write all.
    changed = [head.call, *(open_call.call for open_call in queue if open_call.action is not Action.QUEUED)]
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
    return _notice(opened, head.call.current, len(calls))


def _announce(opened: OpenRun, run_pass: RunPass, calls: Sequence[Call], changed: Sequence[Call]) -> None:
    announcer = opened.inputs.announcer
    if len(changed) < len(calls) and not announcer.knows(calls[-1].current.request_id, opened.run.root):
        changed = calls  # they were asked by a program that told nobody
    for attempt in (attempt for call in changed for attempt in call.attempts):
        if not attempt.outstanding:
            announcer.settled(attempt.request_id, opened.run.root, attempt.status.value)
            continue
        issued = attempt.status is AttemptStatus.PENDING
        deadline = utc_text(attempt.deadline) if issued else None
        announcer.asked(
            OpenRequest(opened.run.id, opened.run.name, opened.run.root, dict(attempt.document), deadline)
        )
    facts = pause_facts([call.current for call in calls], calls[0].path)
    opened.announce("flow.paused", key=calls[0].current.request_id, **facts, **steps_made(run_pass))


def _notice(opened: OpenRun, attempt: Attempt, outstanding: int) -> Pause:
    return Pause(
        request_file=opened.files.request_path,
        response_file=opened.files.response_path,
        request_id=attempt.request_id,
        agent_name=str(attempt.document["agent_name"]),
        timeout_seconds=int(attempt.document["timeout_seconds"]),
        outstanding=outstanding,
    )
