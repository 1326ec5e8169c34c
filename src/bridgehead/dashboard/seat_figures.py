"""What seats cost and how long they took over the last councils, and the plots of the list."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council_live import LiveSeat
from bridgehead.assembly.council_views import CouncilLine, council_now
from bridgehead.contract.words import Severity
from bridgehead.dashboard.plots import Plot, Series, bars, lines
from bridgehead.dashboard.templating import short_id
from bridgehead.host.clock import parse_iso

RUNS_COUNTED: Final = 30
RUNS_LOOKED_INTO: Final = 10
MOST_KEPT: Final = 200
MOST_SEATS: Final = 6


@dataclass(frozen=True, slots=True)
class SeatFigure:
    bridge: str
    seconds: float | None
    cost_usd: float | None


class SeatFigures:
    """Figures of councils that are over; they are worked out of many events, so they are kept."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly
        self._known: OrderedDict[tuple[str, str], tuple[SeatFigure, ...]] = OrderedDict()

    def of(self, council: CouncilLine) -> tuple[SeatFigure, ...]:
        if council.ended_at is None:
            return ()
        key = (council.id, council.ended_at)
        if key not in self._known:
            seats = council_now(self._assembly, council.id).live.seats
            self._known[key] = tuple(_figure(seat) for seat in seats)
            while len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)
        return self._known[key]


def plots_of(councils: Sequence[CouncilLine], figures: SeatFigures) -> list[Markup]:
    """Findings over runs, and time and money per seat; nothing before there are two runs to compare."""
    over = [council for council in councils if council.ended_at][:RUNS_COUNTED][::-1]
    if len(over) < 2:
        return []
    recent = over[-RUNS_LOOKED_INTO:]
    per_run = [{one.bridge: one for one in figures.of(council)} for council in recent]
    labels = [short_id(council.id) for council in recent]
    seats = list(dict.fromkeys(bridge for run in per_run for bridge in run))[:MOST_SEATS]
    return [
        _findings(over),
        *_per_seat("Duration per seat", "seconds", labels, seats, per_run, "seconds"),
        *_per_seat("Cost per seat", "US dollars", labels, seats, per_run, "cost_usd"),
    ]


def _findings(over: Sequence[CouncilLine]) -> Markup:
    series = [
        Series(severity.lower(), [council.counts.get(severity, 0) for council in over], severity.lower())
        for severity in reversed(Severity)
    ]
    labels = [short_id(council.id) for council in over]
    return bars(Plot("Findings by severity over runs", labels, [one for one in series if any(one.values)]))


def _per_seat(
    title: str,
    unit: str,
    labels: Sequence[str],
    seats: Sequence[str],
    per_run: Sequence[dict[str, SeatFigure]],
    field: str,
) -> list[Markup]:
    series = [
        Series(
            seat, [getattr(run[seat], field) if seat in run else None for run in per_run], f"series-{place}"
        )
        for place, seat in enumerate(seats, start=1)
    ]
    known = [one for one in series if any(value is not None for value in one.values)]
    return [lines(Plot(title, labels, known, unit))] if known else []


def _figure(seat: LiveSeat) -> SeatFigure:
    seconds = None
    if seat.started_at and seat.ended_at:
        seconds = round((parse_iso(seat.ended_at) - parse_iso(seat.started_at)).total_seconds(), 1)
    return SeatFigure(seat.bridge, seconds, seat.cost_usd)
