"""Small plots as SVG, and the plots of the council list: findings over runs, time and cost per seat."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from markupsafe import Markup

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council.live import LiveSeat
from bridgehead.assembly.council.views import CouncilLine, council_now
from bridgehead.assembly.rigs.views_cache import Cache
from bridgehead.contract.words import Severity
from bridgehead.council.reporting.render.html import element, joined
from bridgehead.dashboard.templating import short_id
from bridgehead.host.clock import parse_iso

WIDTH: Final = 360
HEIGHT: Final = 150
_LEFT = 36
_RIGHT = 8
_TOP = 10
_BOTTOM = 22
_STEPS: Final = (2, 4, 6, 8, 10, 20)  # halves that can be read, of counts too

RUNS_COUNTED: Final = 30
RUNS_LOOKED_INTO: Final = 10
MOST_REMEMBERED: Final = 200
MOST_SEATS: Final = 6


@dataclass(frozen=True, slots=True)
class Series:
    """One line, or one layer of the bars: a value per label, None where there is none."""

    name: str
    values: Sequence[float | None]
    color: str = "series-1"
    """A class of the stylesheet: `critical`, `high`, …; `series-1` to `series-6` differ without colour."""


@dataclass(frozen=True, slots=True)
class Plot:
    title: str
    labels: Sequence[str]
    series: Sequence[Series]
    unit: str = ""
    show: Callable[[float], str] = "{:,.6g}".format


def lines(plot: Plot) -> Markup:
    """One line per series over the labels; gaps where a value is missing."""
    values = chain.from_iterable(series.values for series in plot.series)
    top = _ceiling([value for value in values if value is not None])
    drawn = chain.from_iterable(
        _line(series, len(plot.labels), top) for series in plot.series
    )
    return _figure(plot, top, list(drawn))


def bars(plot: Plot) -> Markup:
    """One bar per label, the series stacked in it."""
    places = range(len(plot.labels))
    heights = [
        sum(series.values[place] or 0 for series in plot.series) for place in places
    ]
    top = _ceiling(heights)
    drawn = chain.from_iterable(_bar(plot, place, top) for place in places)
    return _figure(plot, top, list(drawn))


def _figure(plot: Plot, top: float, drawn: Sequence[str]) -> Markup:
    keys = [element("span", one.name, class_=f"key {one.color}") for one in plot.series]
    picture = element(
        "svg",
        element("title", plot.title),
        *_grid(plot, top),
        *drawn,
        *_ends(plot),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=plot.title,
    )
    unit = [element("span", plot.unit, class_="unit")] if plot.unit else []
    keyed = element("span", *keys, class_="keys")
    caption = element("figcaption", element("span", plot.title), *unit, keyed)
    return Markup(element("figure", caption, picture, _numbers(plot), class_="plot"))


def _grid(plot: Plot, top: float) -> Iterator[str]:
    for share in (0.0, 0.5, 1.0):
        y = _y(top * share, top)
        yield element("line", x1=_LEFT, x2=WIDTH - _RIGHT, y1=y, y2=y, class_="grid")
        yield element(
            "text", plot.show(top * share), x=_LEFT - 6, y=y + 4, text_anchor="end"
        )


def _ends(plot: Plot) -> list[str]:
    """The first and the last label; those between are in the table."""
    if not plot.labels:
        return []
    y = HEIGHT - 6
    first = element("text", plot.labels[0], x=_LEFT, y=y)
    last = element("text", plot.labels[-1], x=WIDTH - _RIGHT, y=y, text_anchor="end")
    return [first, last] if len(plot.labels) > 1 else [first]


def _line(series: Series, count: int, top: float) -> list[str]:
    points = [
        None if value is None else (_x(place, count), _y(value, top))
        for place, value in enumerate(series.values)
    ]
    path = []
    pen_down = False
    for point in points:
        if point is not None:
            path.append(f"{'L' if pen_down else 'M'} {point[0]} {point[1]}")
        pen_down = point is not None
    dots = [
        element(
            "circle", cx=point[0], cy=point[1], r=2.5, class_=f"point {series.color}"
        )
        for point in points
        if point is not None
    ]
    return (
        [element("path", d=" ".join(path), class_=f"line {series.color}"), *dots]
        if path
        else []
    )


def _bar(plot: Plot, place: int, top: float) -> list[str]:
    slot = (WIDTH - _LEFT - _RIGHT) / len(plot.labels)
    width = max(1.0, min(28.0, slot * 0.72))
    x = round(_LEFT + slot * (place + 0.5) - width / 2, 1)
    drawn: list[str] = []
    below = 0.0
    for one in plot.series:
        value = one.values[place] or 0
        if value <= 0:
            continue
        y = _y(below + value, top)
        height = _y(below, top) - _y(below + value, top)
        tooltip = f"{plot.labels[place]}: {one.name} {plot.show(value)}"
        rect = element(
            "rect",
            x=x,
            y=y,
            width=round(width, 1),
            height=round(height, 1),
            class_=f"bar {one.color}",
        )
        drawn.append(element("g", element("title", tooltip), rect))
        below += value
    return drawn


def _numbers(plot: Plot) -> str:
    head = element(
        "tr",
        element("td", ""),
        *(element("th", one.name, class_="figure") for one in plot.series),
    )
    values = (
        [one.values[place] for one in plot.series] for place in range(len(plot.labels))
    )
    told = (["–" if one is None else plot.show(one) for one in row] for row in values)
    rows = [
        element(
            "tr",
            element("td", label),
            *(element("td", one, class_="figure") for one in row),
        )
        for label, row in zip(plot.labels, told, strict=True)
    ]
    table = element("table", element("thead", head), element("tbody", *rows))
    shown = element("div", joined(table), class_="scroll", tabindex=0)
    # A name of its own, so that numbers a person opened stay open when the plot is drawn anew.
    own_id = f"numbers-{plot.title.lower().replace(' ', '-')}"
    return element("details", element("summary", "Numbers"), shown, id=own_id)


def _x(place: int, count: int) -> float:
    span = WIDTH - _LEFT - _RIGHT - 8
    return round(_LEFT + 4 + (span * place / (count - 1) if count > 1 else span / 2), 1)


def _y(value: float, top: float) -> float:
    return round(HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / top, 1)


def _ceiling(values: Sequence[float]) -> float:
    """The round number just above all values; the grid has a line at its half."""
    largest = max(values, default=0.0)
    if largest <= 0:
        return 1.0
    scale = 10.0 ** math.floor(math.log10(largest))
    return next(step * scale for step in _STEPS if step * scale >= largest * 0.999)


@dataclass(frozen=True, slots=True)
class SeatFigure:
    bridge: str
    seconds: float | None
    cost_usd: float | None


class SeatFigures:
    """Figures of councils that are over; they are worked out of many events, so they are remembered."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly
        self._known: Cache[str, tuple[SeatFigure, ...]] = Cache(MOST_REMEMBERED)

    def of(self, council: CouncilLine) -> tuple[SeatFigure, ...]:
        if council.ended_at is None:
            return ()
        return self._known.get_or_make(
            council.id,
            council.ended_at,
            lambda: tuple(
                map(_seat_figure, council_now(self._assembly, council.id).live.seats)
            ),
        )


def plots_of(councils: Sequence[CouncilLine], figures: SeatFigures) -> list[Markup]:
    """Findings over runs, and time and money per seat; nothing before there are two runs to compare."""
    over = [council for council in councils if council.ended_at][:RUNS_COUNTED][::-1]
    if len(over) < 2:
        return []
    recent = over[-RUNS_LOOKED_INTO:]
    per_run = [{one.bridge: one for one in figures.of(council)} for council in recent]
    labels = [short_id(council.id) for council in recent]
    seats = list(dict.fromkeys(chain.from_iterable(per_run)))[:MOST_SEATS]
    return [
        _findings(over),
        *_per_seat("Duration per seat", "seconds", labels, seats, per_run, "seconds"),
        *_per_seat("Cost per seat", "US dollars", labels, seats, per_run, "cost_usd"),
    ]


def _findings(over: Sequence[CouncilLine]) -> Markup:
    series = [
        Series(
            severity.lower(),
            [council.counts.get(severity, 0) for council in over],
            severity.lower(),
        )
        for severity in reversed(Severity)
    ]
    labels = [short_id(council.id) for council in over]
    return bars(
        Plot(
            "Findings by severity over runs",
            labels,
            [one for one in series if any(one.values)],
        )
    )


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
            seat,
            [getattr(run[seat], field) if seat in run else None for run in per_run],
            f"series-{place}",
        )
        for place, seat in enumerate(seats, start=1)
    ]
    known = [one for one in series if any(value is not None for value in one.values)]
    return [lines(Plot(title, labels, known, unit))] if known else []


def _seat_figure(seat: LiveSeat) -> SeatFigure:
    seconds = None
    if seat.started_at and seat.ended_at:
        seconds = round(
            (parse_iso(seat.ended_at) - parse_iso(seat.started_at)).total_seconds(), 1
        )
    return SeatFigure(seat.bridge, seconds, seat.cost_usd)
