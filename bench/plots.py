"""Line charts with error bars, written as SVG by hand: a browser is all one needs to look at them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 860
HEIGHT: Final = 460
LEFT, RIGHT, TOP, BOTTOM = 60, 250, 50, 60
COLOURS: Final = (
    "#0072b2",
    "#56b4e9",
    "#d55e00",
    "#cc79a7",
    "#009e73",
    "#999999",
    "#000000",
)
"""Told apart by colour-blind readers, too (Okabe and Ito)."""

Point = tuple[float, float, float, float]
"""x, y, and the interval of y."""


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class _Scale:
    """From figures to places on the paper; y runs from 0 to 1."""

    least: float
    most: float

    def x(self, value: float) -> float:
        share = (value - self.least) / ((self.most - self.least) or 1.0)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        return round(HEIGHT - BOTTOM - value * (HEIGHT - TOP - BOTTOM), 1)


def line_chart(title: str, x_label: str, y_label: str, lines: Sequence[Line]) -> str:
    """The whole SVG document."""
    values = sorted({point[0] for line in lines for point in line.points})
    scale = _Scale(values[0], values[-1])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 26, title, size=17),
        *_axes(scale, values, x_label, y_label),
    ]
    for number, line in enumerate(lines):
        parts += _drawn(scale, line, number)
    return "\n".join([*parts, "</svg>", ""])


def _axes(
    scale: _Scale, values: Sequence[float], x_label: str, y_label: str
) -> Iterator[str]:
    right, bottom = WIDTH - RIGHT, scale.y(0)
    for tenth in range(0, 11, 2):
        y = scale.y(tenth / 10)
        yield f'<path d="M{LEFT} {y}H{right}" stroke="#ddd"/>'
        yield _text(LEFT - 8, y + 4, f"{tenth / 10:.1f}", anchor="end")
    for value in values:
        yield _text(scale.x(value), bottom + 20, f"{value:g}", anchor="middle")
    yield _text((LEFT + right) / 2, HEIGHT - 16, x_label, anchor="middle")
    yield _text(14, TOP - 12, y_label)


def _drawn(scale: _Scale, line: Line, number: int) -> Iterator[str]:
    colour = COLOURS[number % len(COLOURS)]
    # Intervals of different lines at one place stand side by side.
    places = [
        (scale.x(x) + number * 2, scale.y(y), scale.y(low), scale.y(high))
        for x, y, low, high in line.points
    ]
    path = " ".join(f"{x:g},{y:g}" for x, y, _, _ in places)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for x, y, low, high in places:
        yield f'<path d="M{x:g} {low:g}V{high:g}" stroke="{colour}"/>'
        yield f'<circle cx="{x:g}" cy="{y:g}" r="3" fill="{colour}"/>'
    top = TOP + 14 + number * 24
    yield f'<path d="M{WIDTH - RIGHT + 20} {top - 4}h22" stroke="{colour}" stroke-width="3"/>'
    yield _text(WIDTH - RIGHT + 50, top, line.name)


def _text(
    x: float, y: float, words: str, *, anchor: str = "start", size: int = 13
) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}">{escape(words)}</text>'
