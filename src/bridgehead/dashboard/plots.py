"""Plots drawn on the server: lines and stacked bars as SVG, with the numbers in a table for those who read.

Everything put in is escaped. Colours are classes of the stylesheet, so both themes fit and nothing is styled inline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from bridgehead.council.render.markup import element, joined

WIDTH: Final = 360
HEIGHT: Final = 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 36, 8, 10, 22
_STEPS: Final = (2, 4, 6, 8, 10, 20)  # halves that can be read, of counts too


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
    top = _ceiling([value for one in plot.series for value in one.values if value is not None])
    drawn = [part for one in plot.series for part in _line(one, len(plot.labels), top)]
    return _figure(plot, top, drawn)


def bars(plot: Plot) -> Markup:
    """One bar per label, the series stacked in it."""
    heights = [sum(one.values[place] or 0 for one in plot.series) for place in range(len(plot.labels))]
    top = _ceiling(heights)
    drawn: list[str] = []
    for place in range(len(plot.labels)):
        drawn += _bar(plot, place, top)
    return _figure(plot, top, drawn)


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


def _grid(plot: Plot, top: float) -> list[str]:
    made: list[str] = []
    for share in (0.0, 0.5, 1.0):
        y = _y(top * share, top)
        made.append(element("line", x1=_LEFT, x2=WIDTH - _RIGHT, y1=y, y2=y, class_="grid"))
        label = plot.show(top * share)
        made.append(element("text", label, x=_LEFT - 6, y=y + 4, text_anchor="end"))
    return made


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
    path, pen_down = [], False
    for point in points:
        if point is not None:
            path.append(f"{'L' if pen_down else 'M'} {point[0]} {point[1]}")
        pen_down = point is not None
    dots = [
        element("circle", cx=point[0], cy=point[1], r=2.5, class_=f"point {series.color}")
        for point in points
        if point is not None
    ]
    return [element("path", d=" ".join(path), class_=f"line {series.color}"), *dots] if path else []


def _bar(plot: Plot, place: int, top: float) -> list[str]:
    room = (WIDTH - _LEFT - _RIGHT) / len(plot.labels)
    width = max(1.0, min(28.0, room * 0.72))
    x = round(_LEFT + room * (place + 0.5) - width / 2, 1)
    drawn: list[str] = []
    below = 0.0
    for one in plot.series:
        value = one.values[place] or 0
        if value <= 0:
            continue
        y, height = _y(below + value, top), _y(below, top) - _y(below + value, top)
        told = f"{plot.labels[place]}: {one.name} {plot.show(value)}"
        rect = element(
            "rect",
            x=x,
            y=y,
            width=round(width, 1),
            height=round(height, 1),
            class_=f"bar {one.color}",
        )
        drawn.append(element("g", element("title", told), rect))
        below += value
    return drawn


def _numbers(plot: Plot) -> str:
    head = element(
        "tr", element("th", ""), *(element("th", one.name, class_="figure") for one in plot.series)
    )
    rows = [
        element(
            "tr",
            element("td", label),
            *(element("td", _told(plot, one.values[place]), class_="figure") for one in plot.series),
        )
        for place, label in enumerate(plot.labels)
    ]
    table = element("table", element("thead", head), element("tbody", *rows))
    shown = element("div", joined(table), class_="scroll")
    # A name of its own, so that numbers a person opened stay open when the plot is drawn anew.
    own_id = f"numbers-{plot.title.lower().replace(' ', '-')}"
    return element("details", element("summary", "Numbers"), shown, id=own_id)


def _told(plot: Plot, value: float | None) -> str:
    return "–" if value is None else plot.show(value)


def _x(place: int, count: int) -> float:
    room = WIDTH - _LEFT - _RIGHT - 8
    return round(_LEFT + 4 + (room * place / (count - 1) if count > 1 else room / 2), 1)


def _y(value: float, top: float) -> float:
    return round(HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / top, 1)


def _ceiling(values: Sequence[float]) -> float:
    """The round number just above all values; the grid has a line at its half."""
    largest = max(values, default=0.0)
    if largest <= 0:
        return 1.0
    scale = 10.0 ** math.floor(math.log10(largest))
    return next(step * scale for step in _STEPS if step * scale >= largest * 0.999)
