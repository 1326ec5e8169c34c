"""Where things stand in the picture of a council: lanes from top to bottom, rounds from left to right. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bridgehead.assembly.council_live import LiveOutput, LiveSeat
from bridgehead.contract.words import Severity

WIDTH: Final = 1000
LABELS: Final = 150
COUNCIL_X: Final = 880
TOP: Final = 28
HEAD: Final = 26
ROW: Final = 20
GAP: Final = 10
MOST_DOTS: Final = 30

RANKS: Final = {severity.value: severity.rank for severity in Severity}


@dataclass(frozen=True, slots=True)
class Dot:
    """A finding."""

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
        rows = len(self.agents) if self.seat.state == "skipped" else max(1, len(self.agents))
        return HEAD + ROW * rows

    def row(self, agent: str) -> float:
        place = self.agents.index(agent) if agent in self.agents else 0
        return self.y + HEAD + ROW * place + ROW / 2 - 3


@dataclass(frozen=True, slots=True)
class LeftOut:
    """How many findings of a cell are not drawn."""

    x: float
    y: float
    number: int


def lay_out(seats: Sequence[LiveSeat]) -> Iterator[Lane]:
    """The lanes, one below the other."""
    y = float(TOP)
    for seat in seats:
        lane = Lane(seat, y, _agents(seat))
        yield lane
        y += lane.height + GAP


def _agents(seat: LiveSeat) -> tuple[str, ...]:
    """Everybody who raised, doubted or was doubted; who was asked and said nothing needs no row."""
    found = [output.agent for output in seat.outputs]
    found += [name for one in seat.challenges for name in (one.by, one.to)]
    return tuple(dict.fromkeys(name for name in found if name))


def last_round(seats: Sequence[LiveSeat]) -> int:
    numbers = [output.round for seat in seats for output in seat.outputs]
    numbers += [challenge.round for seat in seats for challenge in seat.challenges]
    numbers += [step.number for seat in seats for step in seat.rounds]
    return max(numbers, default=1)


def column(number: int, rounds: int) -> tuple[float, float]:
    """Left edge and width of a round."""
    width = (COUNCIL_X - 40 - LABELS) / rounds
    return LABELS + width * (min(max(number, 1), rounds) - 1), width


def _cells(lane: Lane) -> dict[tuple[str, int], list[LiveOutput]]:
    """What each agent raised in each round."""
    cells: dict[tuple[str, int], list[LiveOutput]] = {}
    for output in lane.seat.outputs:
        cells.setdefault((output.agent, output.round), []).append(output)
    return cells


def dots(lane: Lane, rounds: int) -> Iterator[Dot]:
    """The findings of a cell from left to right; of very many only the gravest."""
    for (agent, number), outputs in _cells(lane).items():
        x, width = column(number, rounds)
        shown = outputs if len(outputs) <= MOST_DOTS else sorted(outputs, key=_gravest_first)[:MOST_DOTS]
        step = min(15.0, (width * 0.7 - 16) / len(shown))
        for place, output in enumerate(shown):
            yield Dot(round(x + 14 + step * place, 1), lane.row(agent), output)


def left_out(lane: Lane, rounds: int) -> Iterator[LeftOut]:
    for (agent, number), outputs in _cells(lane).items():
        if len(outputs) > MOST_DOTS:
            x, width = column(number, rounds)
            yield LeftOut(round(x + 6 + width * 0.7, 1), lane.row(agent), len(outputs) - MOST_DOTS)


def _gravest_first(output: LiveOutput) -> int:
    return -RANKS.get(output.severity or "", 0)
