"""What the events of a run say: the steps that were done, and the request that is open. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bridgehead.flows.calls import Attempt
from bridgehead.flows.moments import utc_text
from bridgehead.flows.paths import parents_of
from bridgehead.flows.session import Session

STEPS_TOLD: Final = 20


def steps_made(session: Session) -> dict[str, Any]:
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
