"""Draw a council's debate: a lane per seat, a dot per finding, lines to its outcome."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from markupsafe import Markup

from bridgehead.assembly.council.live import (
    JoinedFinding,
    LiveChallenge,
    LiveCouncil,
    LiveOutput,
    LiveSeat,
)
from bridgehead.contract.words import Severity
from bridgehead.council.reporting.render.html import element
from bridgehead.council.reporting.render.sentences import reason_in_words
from bridgehead.errors import shortened

WIDTH: Final = 1000
LABELS: Final = 150
COUNCIL_X: Final = 880
TOP: Final = 28
HEAD: Final = 26
ROW: Final = 20
GAP: Final = 10
MOST_DOTS: Final = 30
NODE_HEIGHT: Final = 18
MOST_NODES: Final = 40
MOST_NAME: Final = 20

RANKS: Final = {severity.value: severity.rank for severity in Severity}
_OUTCOMES: Final = {
    "confirmed": "held",
    "discovered": "held",
    "downgraded": "revised",
    "revised": "revised",
    "disputed": "disputed",
    "withdrawn": "gone",
    "merged": "gone",
}
LEGEND: Final = (
    ("held", "finding held"),
    ("revised", "revised"),
    ("disputed", "disputed"),
    ("gone", "withdrawn"),
    ("open", "not answered yet"),
)


def draw_lanes(council: LiveCouncil) -> Markup | None:
    """Return the picture; None while there is no seat."""
    lanes = list(lay_out(council.seats))
    if not lanes:
        return None
    rounds = last_round(council.seats)
    dots = {}
    for lane in lanes:
        for dot in place_dots(lane, rounds):
            dots[lane.seat.bridge, dot.output.id] = dot
    # Only as many as can be read, the gravest first.
    gravest_first = sorted(
        council.joined,
        key=lambda found: (-RANKS.get(found.severity or "", 0), -len(found.sources)),
    )
    shown = gravest_first[:MOST_NODES]
    end_of_lanes = lanes[-1].y + lanes[-1].height
    bottom = max(end_of_lanes + GAP, TOP + NODE_HEIGHT * len(shown) + GAP)
    room = bottom - TOP - GAP
    nodes = {
        found.id: round(TOP + room * (index + 0.5) / len(shown), 1)
        for index, found in enumerate(shown)
    }
    second = bottom if council.notes or council.second_look else None
    height = bottom + (HEAD + ROW if second is not None else 0)
    band = COUNCIL_X - 40 if shown else WIDTH - 1
    parts = [
        *chain.from_iterable(_drawn_lane(lane, band) for lane in lanes),
        *_columns(rounds, end_of_lanes, bool(shown)),
        *chain.from_iterable(_joins(found, nodes[found.id], dots) for found in shown),
        *chain.from_iterable(_challenges(lane, dots, rounds) for lane in lanes),
        *(_drawn_dot(dot) for dot in dots.values()),
        *chain.from_iterable(_left_out(lane, rounds) for lane in lanes),
        *(_node(found, nodes[found.id]) for found in shown),
        *(_second_look(council, second, nodes) if second is not None else ()),
    ]
    title = element(
        "title", "Seats, what they raised in which round, and who challenged what"
    )
    picture = element(
        "svg",
        title,
        *parts,
        viewBox=f"0 0 {WIDTH} {height:g}",
        role="group",
        class_="lanes",
    )
    return Markup(picture)


@dataclass(frozen=True, slots=True)
class Dot:
    """A finding of a seat, and where it is drawn."""

    x: float
    y: float
    output: LiveOutput


@dataclass(frozen=True, slots=True)
class Lane:
    """Where a seat is drawn: its top, and a row for each of its agents."""

    seat: LiveSeat
    y: float
    agents: tuple[str, ...]

    @property
    def height(self) -> float:
        rows = len(self.agents)
        if self.seat.state != "skipped":
            rows = max(1, rows)
        return HEAD + ROW * rows

    def row(self, agent: str) -> float:
        place = self.agents.index(agent) if agent in self.agents else 0
        return self.y + HEAD + ROW * place + ROW / 2 - 3


def lay_out(seats: Sequence[LiveSeat]) -> Iterator[Lane]:
    """Yield the lanes, one below the other."""
    y = float(TOP)
    for seat in seats:
        lane = Lane(seat, y, _agents(seat))
        yield lane
        y += lane.height + GAP


def _agents(seat: LiveSeat) -> tuple[str, ...]:
    """Return the agents that raised a finding, or made or received a challenge."""
    names = [output.agent for output in seat.outputs]
    for challenge in seat.challenges:
        names += [challenge.by, challenge.to]
    return tuple(dict.fromkeys(filter(None, names)))


def last_round(seats: Sequence[LiveSeat]) -> int:
    numbers = [1]
    for seat in seats:
        numbers += [output.round for output in seat.outputs]
        numbers += [challenge.round for challenge in seat.challenges]
        numbers += [step.number for step in seat.rounds]
    return max(numbers)


def column(number: int, rounds: int) -> tuple[float, float]:
    """Return the left edge and the width of a round."""
    width = (COUNCIL_X - 40 - LABELS) / rounds
    return LABELS + width * (min(max(number, 1), rounds) - 1), width


def _cells(lane: Lane) -> dict[tuple[str, int], list[LiveOutput]]:
    """Return what each agent raised in each round."""
    cells: dict[tuple[str, int], list[LiveOutput]] = {}
    for output in lane.seat.outputs:
        cells.setdefault((output.agent, output.round), []).append(output)
    return cells


def place_dots(lane: Lane, rounds: int) -> Iterator[Dot]:
    """Yield the dots of each cell from left to right; of many, only the gravest."""
    for (agent, number), outputs in _cells(lane).items():
        x, width = column(number, rounds)
        shown = outputs
        if len(outputs) > MOST_DOTS:
            shown = sorted(
                outputs, key=lambda output: -RANKS.get(output.severity or "", 0)
            )[:MOST_DOTS]
        step = min(15.0, (width * 0.7 - 16) / len(shown))
        for place, output in enumerate(shown):
            yield Dot(round(x + 14 + step * place, 1), lane.row(agent), output)


def _left_out(lane: Lane, rounds: int) -> Iterator[str]:
    """Yield the number of findings that are not drawn, for each cell."""
    for (agent, number), outputs in _cells(lane).items():
        if len(outputs) > MOST_DOTS:
            x, width = column(number, rounds)
            label = f"+{len(outputs) - MOST_DOTS}"
            x = round(x + 6 + width * 0.7, 1)
            yield element("text", label, x=x, y=lane.row(agent) + 4, class_="agent")


def _columns(rounds: int, bottom: float, has_nodes: bool) -> Iterator[str]:
    for number in range(1, rounds + 1):
        x, _ = column(number, rounds)
        yield element(
            "text", f"round {number}", x=round(x + 8, 1), y=16, class_="heading"
        )
        if number > 1:
            yield element(
                "line", x1=round(x, 1), x2=round(x, 1), y1=TOP, y2=bottom, class_="grid"
            )
    if has_nodes:
        yield element("text", "council", x=COUNCIL_X - 8, y=16, class_="heading")


def _drawn_lane(lane: Lane, band: float) -> Iterator[str]:
    seat = lane.seat
    yield element(
        "rect", x=0.5, y=lane.y, width=band, height=lane.height, rx=6, class_="lane"
    )
    yield element(
        "text", shortened(seat.bridge, MOST_NAME), x=10, y=lane.y + 17, class_="seat"
    )
    label = seat.state
    if seat.reason:
        label += f": {reason_in_words(seat.reason)}"
    yield element(
        "text",
        label,
        x=LABELS + 8,
        y=lane.y + 17,
        class_=f"seat-state {_state_class(seat.state)}",
    )
    for agent in lane.agents:
        yield element(
            "text",
            shortened(agent, MOST_NAME),
            x=18,
            y=lane.row(agent) + 4,
            class_="agent",
        )


def _drawn_dot(dot: Dot) -> str:
    output = dot.output
    label = f"{output.id} {output.severity or 'unrated'}: {output.title}"
    if output.state:
        label += f" ({output.state})"
    css_class = _severity(output.severity)
    if output.state in ("withdrawn", "merged"):
        css_class += " left"
    circle = element("circle", cx=dot.x, cy=dot.y, r=5, class_=css_class)
    return element("g", element("title", label), circle)


def _challenges(
    lane: Lane, dots: dict[tuple[str, str], Dot], rounds: int
) -> Iterator[str]:
    for place, challenge in enumerate(lane.seat.challenges):
        dot = dots.get((lane.seat.bridge, challenge.finding_id))
        if dot is not None:
            yield _challenge(challenge, dot, lane.row(challenge.by), place, rounds)


def _challenge(
    challenge: LiveChallenge, dot: Dot, y: float, place: int, rounds: int
) -> str:
    left, width = column(challenge.round, rounds)
    x = round(left + width * (0.78 + 0.03 * (place % 6)), 1)
    # A challenge has the colour of its finding's outcome, unless it is unanswered.
    outcome = _OUTCOMES.get(dot.output.state or "confirmed", "held")
    if challenge.outcome == "open":
        outcome = "open"
    bend = round((x + dot.x) / 2, 1)
    path = f"M {x} {y} C {bend} {y}, {bend} {dot.y}, {dot.x + 6} {dot.y}"
    label = (
        f"{challenge.by} challenges {challenge.finding_id}: {challenge.text} "
        f"({challenge.outcome})"
    )
    return _doubt(label, path, x, y, outcome)


def _doubt(label: str, path: str, x: float, y: float, outcome: str) -> str:
    """Draw a line from a challenge to its finding, with a square at its start."""
    return element(
        "g",
        element("title", label),
        element("path", d=path, class_=f"challenge {outcome}"),
        element(
            "rect", x=x - 3.5, y=y - 3.5, width=7, height=7, class_=f"doubt {outcome}"
        ),
    )


def _joins(
    found: JoinedFinding, y: float, dots: dict[tuple[str, str], Dot]
) -> Iterator[str]:
    for source in found.sources:
        dot = dots.get(source)
        if dot is not None:
            middle = COUNCIL_X - 120
            path = (
                f"M {dot.x + 5} {dot.y} C {middle} {dot.y}, {middle} {y}, "
                f"{COUNCIL_X - 7} {y}"
            )
            yield element("path", d=path, class_=f"join {_severity(found.severity)}")


def _node(found: JoinedFinding, y: float) -> str:
    mark = " disputed" if found.cls == "disputed" else ""
    return element(
        "a",
        element("title", f"{found.severity or 'unrated'}: {found.title}"),
        element(
            "circle",
            cx=COUNCIL_X,
            cy=y,
            r=6,
            class_=f"{_severity(found.severity)}{mark}",
        ),
        element(
            "text", shortened(found.id, 12), x=COUNCIL_X + 12, y=y + 4, class_="node"
        ),
        href=f"#{found.id}",
    )


def _second_look(
    council: LiveCouncil, y: float, nodes: dict[str, float]
) -> Iterator[str]:
    seat = council.second_look
    yield element(
        "rect",
        x=0.5,
        y=y,
        width=COUNCIL_X - 40,
        height=HEAD + ROW - GAP,
        rx=6,
        class_="lane",
    )
    yield element("text", "second look", x=10, y=y + 22, class_="seat")
    if seat is not None:
        label = f"{shortened(seat.bridge, MOST_NAME)}, {seat.state}"
        yield element(
            "text",
            label,
            x=LABELS + 8,
            y=y + 22,
            class_=f"seat-state {_state_class(seat.state)}",
        )
    for place, note in enumerate(
        one for one in council.notes if one.finding_id in nodes
    ):
        x = COUNCIL_X - 160 + 9 * (place % 12)
        start = y + 18
        end = nodes[note.finding_id]
        path = (
            f"M {x} {start} C {x} {end + 30}, {COUNCIL_X - 60} {end}, {COUNCIL_X - 7} "
            f"{end}"
        )
        label = f"{note.finding_id}: {note.challenge} ({note.outcome})"
        yield _doubt(label, path, x, start, _OUTCOMES.get(note.outcome, "held"))


def _severity(severity: str | None) -> str:
    return severity.lower() if severity in RANKS else "low"


def _state_class(state: str) -> str:
    return {"running": "running", "halted": "high", "aborted": "failed"}.get(
        state, "quiet"
    )
