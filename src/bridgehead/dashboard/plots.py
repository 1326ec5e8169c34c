"""Draw small plots as SVG, and those of the council list.

The list shows findings over runs, and time and cost per seat.
"""

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
_STEPS: Final = (
    2,
    4,
    6,
    8,
    10,
    20,
)  # even numbers, so that the half of the axis is a whole count

RUNS_COUNTED: Final = 30
RUNS_LOOKED_INTO: Final = 10
MOST_REMEMBERED: Final = 200
MOST_SEATS: Final = 6


@dataclass(frozen=True, slots=True)
class Series:
    """One line, or one layer of the bars: a value per label, or None."""

    name: str
    values: Sequence[float | None]
    color: str = "series-1"
    """A class of the stylesheet: `critical`, `high`, …, or `series-1` to `series-6`.

    The latter can be told apart without colours.
    """


@dataclass(frozen=True, slots=True)
class Plot:
    title: str
    labels: Sequence[str]
    series: Sequence[Series]
    unit: str = ""
    show: Callable[[float], str] = "{:,.6g}".format


def lines(plot: Plot) -> Markup:
    """Draw a line per series over the labels, with gaps where values are missing."""
    values = chain.from_iterable(series.values for series in plot.series)
    top = _ceiling([value for value in values if value is not None])
    drawn = chain.from_iterable(
        _line(series, len(plot.labels), top) for series in plot.series
    )
    return _figure(plot, top, list(drawn))


def bars(plot: Plot) -> Markup:
    """Draw a bar per label, with the series stacked in it."""
    indexes = range(len(plot.labels))
    heights = [
        sum(series.values[index] or 0 for series in plot.series) for index in indexes
    ]
    top = _ceiling(heights)
    drawn = chain.from_iterable(_bar(plot, index, top) for index in indexes)
    return _figure(plot, top, list(drawn))


def _figure(plot: Plot, top: float, drawn: Sequence[str]) -> Markup:
    keys = [
        element("span", series.name, class_=f"key {series.color}")
        for series in plot.series
    ]
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
    legend = element("span", *keys, class_="keys")
    caption = element("figcaption", element("span", plot.title), *unit, legend)
    return Markup(element("figure", caption, picture, _numbers(plot), class_="plot"))


def _grid(plot: Plot, top: float) -> Iterator[str]:
    for share in (0.0, 0.5, 1.0):
        y = _y(top * share, top)
        yield element("line", x1=_LEFT, x2=WIDTH - _RIGHT, y1=y, y2=y, class_="grid")
        yield element(
            "text", plot.show(top * share), x=_LEFT - 6, y=y + 4, text_anchor="end"
        )


def _ends(plot: Plot) -> list[str]:
    """Draw the first and the last label; the table of numbers has the others."""
    if not plot.labels:
        return []
    y = HEIGHT - 6
    first = element("text", plot.labels[0], x=_LEFT, y=y)
    last = element("text", plot.labels[-1], x=WIDTH - _RIGHT, y=y, text_anchor="end")
    return [first, last] if len(plot.labels) > 1 else [first]


def _line(series: Series, count: int, top: float) -> list[str]:
    """Draw the points of a series, and a line through those without a gap between."""
    path: list[str] = []
    dots: list[str] = []
    is_pen_down = False
    for index, value in enumerate(series.values):
        if value is None:
            is_pen_down = False
            continue
        x = _x(index, count)
        y = _y(value, top)
        path.append(f"{'L' if is_pen_down else 'M'} {x} {y}")
        dots.append(
            element("circle", cx=x, cy=y, r=2.5, class_=f"point {series.color}")
        )
        is_pen_down = True
    if not path:
        return []
    return [element("path", d=" ".join(path), class_=f"line {series.color}"), *dots]


def _bar(plot: Plot, index: int, top: float) -> list[str]:
    slot = (WIDTH - _LEFT - _RIGHT) / len(plot.labels)
    width = max(1.0, min(28.0, slot * 0.72))
    x = round(_LEFT + slot * (index + 0.5) - width / 2, 1)
    drawn: list[str] = []
    below = 0.0
    for series in plot.series:
        value = series.values[index] or 0
        if value <= 0:
            continue
        y = _y(below + value, top)
        height = _y(below, top) - _y(below + value, top)
        tooltip = f"{plot.labels[index]}: {series.name} {plot.show(value)}"
        rect = element(
            "rect",
            x=x,
            y=y,
            width=round(width, 1),
            height=round(height, 1),
            class_=f"bar {series.color}",
        )
        drawn.append(element("g", element("title", tooltip), rect))
        below += value
    return drawn


def _numbers(plot: Plot) -> str:
    """Return the plot's numbers as a table that can be opened."""
    names = [element("th", series.name, class_="figure") for series in plot.series]
    head = element("tr", element("td", ""), *names)
    rows = [_row(plot, index) for index in range(len(plot.labels))]
    table = element("table", element("thead", head), element("tbody", *rows))
    shown = element("div", joined(table), class_="scroll", tabindex=0)
    # With an id, a table that a person has opened stays open when the plot is redrawn.
    own_id = f"numbers-{plot.title.lower().replace(' ', '-')}"
    return element("details", element("summary", "Numbers"), shown, id=own_id)


def _row(plot: Plot, index: int) -> str:
    cells = []
    for series in plot.series:
        value = series.values[index]
        text = "–" if value is None else plot.show(value)
        cells.append(element("td", text, class_="figure"))
    return element("tr", element("td", plot.labels[index]), *cells)


def _x(index: int, count: int) -> float:
    span = WIDTH - _LEFT - _RIGHT - 8
    offset = span * index / (count - 1) if count > 1 else span / 2
    return round(_LEFT + 4 + offset, 1)


def _y(value: float, top: float) -> float:
    return round(HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / top, 1)


def _ceiling(values: Sequence[float]) -> float:
    """Return a round number just above all values; the grid also shows its half."""
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
    """Time and cost per seat of councils that have ended.

    They are computed from many events, and therefore cached.
    """

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly
        self._cache: Cache[str, tuple[SeatFigure, ...]] = Cache(MOST_REMEMBERED)

    def of(self, council: CouncilLine) -> tuple[SeatFigure, ...]:
        if council.ended_at is None:
            return ()
        return self._cache.get_or_make(
            council.id,
            council.ended_at,
            lambda: tuple(
                map(_seat_figure, council_now(self._assembly, council.id).live.seats)
            ),
        )


def plots_of(councils: Sequence[CouncilLine], figures: SeatFigures) -> list[Markup]:
    """Return the plots of the council list; none if there are fewer than two runs."""
    ended = [council for council in councils if council.ended_at]
    oldest_first = ended[:RUNS_COUNTED][::-1]
    if len(oldest_first) < 2:
        return []
    recent = oldest_first[-RUNS_LOOKED_INTO:]
    per_run = [
        {figure.bridge: figure for figure in figures.of(council)} for council in recent
    ]
    labels = [short_id(council.id) for council in recent]
    seats = list(dict.fromkeys(chain.from_iterable(per_run)))[:MOST_SEATS]
    return [
        _findings(oldest_first),
        *_per_seat("Duration per seat", "seconds", labels, seats, per_run, "seconds"),
        *_per_seat("Cost per seat", "US dollars", labels, seats, per_run, "cost_usd"),
    ]


def _findings(councils: Sequence[CouncilLine]) -> Markup:
    layers = []
    for severity in reversed(Severity):
        counts = [council.counts.get(severity, 0) for council in councils]
        if any(counts):
            layers.append(Series(severity.lower(), counts, severity.lower()))
    labels = [short_id(council.id) for council in councils]
    return bars(Plot("Findings by severity over runs", labels, layers))


def _per_seat(
    title: str,
    unit: str,
    labels: Sequence[str],
    seats: Sequence[str],
    per_run: Sequence[dict[str, SeatFigure]],
    field: str,
) -> list[Markup]:
    """Draw one figure of each seat over the runs; draw nothing if no run has it."""
    series = []
    for number, seat in enumerate(seats, start=1):
        values = [getattr(run[seat], field) if seat in run else None for run in per_run]
        if any(value is not None for value in values):
            series.append(Series(seat, values, f"series-{number}"))
    return [lines(Plot(title, labels, series, unit))] if series else []


def _seat_figure(seat: LiveSeat) -> SeatFigure:
    seconds = None
    if seat.started_at and seat.ended_at:
        duration = parse_iso(seat.ended_at) - parse_iso(seat.started_at)
        seconds = round(duration.total_seconds(), 1)
    return SeatFigure(seat.bridge, seconds, seat.cost_usd)
