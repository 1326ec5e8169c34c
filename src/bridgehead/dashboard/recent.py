"""List what is running and what ended lately, over all parts, with links."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final
from urllib.parse import quote

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.bus.views import bus_address
from bridgehead.assembly.council.files import was_left_behind
from bridgehead.assembly.council.live import LiveSeat
from bridgehead.assembly.council.views import council_now
from bridgehead.assembly.rigs.clones import clone_id
from bridgehead.contract.events import Event
from bridgehead.contract.pending import PendingItem
from bridgehead.contract.record_words import Part, RunState
from bridgehead.control_plane.records import FINAL_STATES, EventFilter, Run, RunFilter
from bridgehead.control_plane.stores.base import Store

MOST_RUNNING: Final = 50
MOST_LATELY: Final = 15
MOST_LOOKED_INTO: Final = 5
MOST_DOTS: Final = 5

PLACES: Final = {"council": "/councils/", "flow": "/flows/", "bus": "/bus"}
"""The address a line links to, by its noun; the id is appended."""

_MARKS: Final = {
    "done": "✓",
    "skipped": "–",
    "halted": "!",
    "aborted": "✗",
    "running": "●",
}
_NOUNS: Final = {Part.COUNCIL: "council", Part.FLOWS: "flow", Part.BUS: "bus"}
_RIG_KINDS: Final = {
    f"rig.{word}": word for word in ("sent", "closed", "relayed", "pulled", "refused")
}


@dataclass(frozen=True, slots=True)
class SeatMark:
    """How far a seat of a running council has come, in one sign."""

    bridge: str
    mark: str
    state: str


@dataclass(frozen=True, slots=True)
class RecentLine:
    """One line of the list: what it is, its state, and since when."""

    noun: str
    id: str
    title: str
    state: str
    """A state that the stylesheet may colour, or a verdict."""
    at: str
    seats: tuple[SeatMark, ...] = ()
    project: str = ""

    @property
    def href(self) -> str | None:
        return _page(self.noun, self.id, self.project)


def running(assembly: Assembly, store: Store) -> list[RecentLine]:
    """Return the bus if it is running, and runs that have not ended, newest first."""
    found = store.runs(
        RunFilter(states=(RunState.RUNNING, RunState.WAITING)), limit=MOST_RUNNING
    )
    councils = [run.id for run in found if run.part is Part.COUNCIL]
    lines = []
    address = bus_address(assembly)
    if address is not None:
        lines.append(RecentLine("bus", "", address, "running", at=""))
    for run in found:
        marks: tuple[SeatMark, ...] = ()
        if run.id in councils[:MOST_LOOKED_INTO]:
            seats = council_now(assembly, run.id).live.seats
            marks = tuple(_mark(seat) for seat in seats)
        lines.append(line_of_run(run, _state(assembly, run), marks))
    return lines


def lately(store: Store) -> list[RecentLine]:
    """Return the runs that ended and what rigs did, newest first."""
    ended = store.runs(RunFilter(states=tuple(FINAL_STATES)), limit=MOST_LATELY)
    runs = [
        line_of_run(run, str(run.data.get("verdict") or run.state)) for run in ended
    ]
    rigs = [line_of_rig_event(event) for event in _recent(store, _RIG_KINDS)]
    return sorted([*runs, *rigs], key=lambda line: line.at, reverse=True)[:MOST_LATELY]


def page_of(item: PendingItem) -> str | None:
    """Return the page of the flow, council, thread or bus that asks a question."""
    question = item.question
    thread = question.context.get("thread")
    if thread is not None:
        return _page("thread", str(thread), question.project)
    return _page(_NOUNS.get(question.part, ""), question.run_id or "")


def line_of_run(run: Run, state: str, seats: tuple[SeatMark, ...] = ()) -> RecentLine:
    return RecentLine(
        noun=_NOUNS.get(run.part, str(run.part)),
        id=run.id,
        title=run.title,
        state=state,
        at=run.ended_at or run.started_at,
        seats=seats,
    )


def line_of_rig_event(event: Event) -> RecentLine:
    thread = event.data.get("thread")
    return RecentLine(
        noun="thread" if thread else "rig",
        id=str(thread or ""),
        title="" if thread else PurePath(event.project).name,
        project=event.project,
        state=_RIG_KINDS[event.kind],
        at=event.at,
    )


def _page(noun: str, thing_id: str, project: str = "") -> str | None:
    place = f"/threads/{clone_id(project)}/" if noun == "thread" else PLACES.get(noun)
    if noun == "bus":
        return place
    return f"{place}{quote(thing_id, safe='')}" if place and thing_id else None


def _state(assembly: Assembly, run: Run) -> str:
    is_running_council = run.part is Part.COUNCIL and run.state is RunState.RUNNING
    if is_running_council and was_left_behind(assembly, run.id):
        return "stopped"
    return str(run.state)


def _mark(seat: LiveSeat) -> SeatMark:
    """Return the mark of a seat: a dot for every round, a tick when it is done."""
    mark = _MARKS.get(seat.state, "○")
    if seat.state == "running" and seat.round is not None:
        mark = "●" * min(seat.round.number, MOST_DOTS)
    return SeatMark(seat.bridge, mark, seat.state)


def _recent(store: Store, kinds: Iterable[str]) -> list[Event]:
    """Return the latest events of each of these kinds.

    Each kind is queried separately, so that the record's index can be used.
    """
    events: list[Event] = []
    for kind in kinds:
        of_kind = EventFilter(kinds=(kind,))
        latest = store.events(of_kind, limit=MOST_LATELY, newest_first=True)
        events += [recorded.event for recorded in latest]
    return events
