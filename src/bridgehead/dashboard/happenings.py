"""What is going on and what ended lately, over all parts, as lines that lead to their pages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from bridgehead.contract.events import Event
from bridgehead.contract.words import Part, RunState
from bridgehead.control_plane.records import EventFilter, Run, RunFilter
from bridgehead.control_plane.stores.base import Store

MOST_RUNNING: Final = 50
MOST_LATELY: Final = 15
_LOOKED_THROUGH: Final = 60

_FLOW_ENDS: Final = {"flow.completed": "completed", "flow.failed": "failed", "flow.cancelled": "cancelled"}
_FLOW_GOES_ON: Final = {"flow.started": "running", "flow.resumed": "running", "flow.paused": "waiting"}
_RIG_KINDS: Final = {
    "rig.sent": "sent",
    "rig.closed": "closed",
    "rig.relayed": "relayed",
    "rig.pulled": "pulled",
    "rig.refused": "refused",
}


@dataclass(frozen=True, slots=True)
class Happening:
    """One line: what it is, how it stands, since when."""

    part: str
    id: str
    title: str
    state: str
    """One of the words the stylesheet colours: running waiting completed failed cancelled, or a verdict."""
    at: str
    href: str | None = None
    details: tuple[str, ...] = ()


def running(store: Store) -> list[Happening]:
    """Councils and flows that have not ended, the latest first."""
    where = RunFilter(states=(RunState.RUNNING, RunState.WAITING))
    councils = [of_run(run) for run in store.runs(where, limit=MOST_RUNNING)]
    return _newest([*councils, *_flows(store, ended=False)])[:MOST_RUNNING]


def lately(store: Store) -> list[Happening]:
    """What came to an end, and what rigs did."""
    where = RunFilter(states=(RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED))
    councils = [of_run(run) for run in store.runs(where, limit=MOST_LATELY)]
    rigs = [of_rig_event(event) for event in _recent(store, _RIG_KINDS)]
    return _newest([*councils, *_flows(store, ended=True), *rigs])[:MOST_LATELY]


def of_run(run: Run) -> Happening:
    verdict = run.data.get("verdict")
    over = run.state not in (RunState.RUNNING, RunState.WAITING)
    bridges = run.data.get("bridges")
    return Happening(
        part=run.part,
        id=run.id,
        title=run.title,
        state=str(verdict) if over and verdict else str(run.state),
        at=run.ended_at or run.started_at,
        href=f"/councils/{quote(run.id, safe='')}" if run.part is Part.COUNCIL else None,
        details=tuple(map(str, bridges)) if isinstance(bridges, list) else (),
    )


def of_flow_event(event: Event) -> Happening:
    return Happening(
        part="flow",
        id=event.run_id or "",
        title=str(event.data.get("name", "")),
        state=(_FLOW_ENDS | _FLOW_GOES_ON)[event.kind],
        at=event.at,
        href=f"/flows/{quote(event.run_id, safe='')}" if event.run_id else None,
    )


def of_rig_event(event: Event) -> Happening:
    thread = event.data.get("thread")
    return Happening(
        part="thread" if thread else "rig",
        id=str(thread or ""),
        title="" if thread else event.project,
        state="failed" if event.kind == "rig.refused" else _RIG_KINDS[event.kind],
        at=event.at,
        href=f"/threads/{quote(str(thread), safe='')}" if thread else None,
    )


def _flows(store: Store, *, ended: bool) -> list[Happening]:
    """The last word about each flow, of those that ended or of those that did not."""
    latest: dict[str, Event] = {}
    for event in _recent(store, _FLOW_ENDS | _FLOW_GOES_ON):
        latest.setdefault(event.run_id or event.id, event)
    wanted = [event for event in latest.values() if (event.kind in _FLOW_ENDS) is ended]
    return [of_flow_event(event) for event in wanted]


def _recent(store: Store, kinds: Iterable[str]) -> list[Event]:
    """The latest events of these kinds. Asked kind by kind: the record's index then gives them without sorting."""
    found = [
        recorded
        for kind in kinds
        for recorded in store.events(EventFilter(kinds=(kind,)), limit=_LOOKED_THROUGH, newest_first=True)
    ]
    return [recorded.event for recorded in sorted(found, key=lambda one: one.seq, reverse=True)]


def _newest(happenings: list[Happening]) -> list[Happening]:
    return sorted(happenings, key=lambda one: one.at, reverse=True)
