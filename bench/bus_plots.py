"""Figures of the bus as SVG on logarithmic scales; every picture says its numbers in words too."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

from bench.harness import Outcome
from bench.plots import COLOURS

WIDTH = 980
ROW = 34
LEFT = 330
RIGHT = 250
BUDGET = "#000000"
_STYLE = "text{font:14px system-ui,sans-serif;fill:#1b1f24}.q{fill:#5a626d}"


def ratios(title: str, outcomes: Sequence[Outcome]) -> str:
    """One bar for each ratio on a logarithmic scale, with a mark where its budget lies."""
    shown = [
        value
        for outcome in outcomes
        for value in (outcome.ratio, _budget(outcome))
        if value
    ]
    low, high = min([*shown, 0.5]) / 1.5, max([*shown, 2.0]) * 1.5

    def x(value: float) -> float:
        return LEFT + (math.log(value / low) / math.log(high / low)) * (
            WIDTH - LEFT - RIGHT
        )

    parts = [_line(x(1), 44, x(1), 50 + ROW * len(outcomes), "#d9dce1")]
    for row, outcome in enumerate(outcomes):
        y = 52 + ROW * row
        begin, end = sorted((x(1), x(outcome.ratio)))
        colour = COLOURS[0] if outcome.met else COLOURS[2]
        parts.append(_text(LEFT - 10, y + 17, outcome.comparison.name, anchor="end"))
        parts.append(
            f'<rect x="{begin:.1f}" y="{y + 4}" width="{max(2, end - begin):.1f}" height="18" fill="{colour}"/>'
        )
        if (budget := _budget(outcome)) is not None:
            parts.append(_line(x(budget), y, x(budget), y + 26, BUDGET))
        words = f"{outcome.ratio:.3g}× {outcome.comparison.peer}"
        parts.append(_text(WIDTH - RIGHT + 8, y + 17, words, quiet=True))
    return _picture(title, 70 + ROW * len(outcomes), parts)


def lines(title: str, xs: Sequence[int], series: Mapping[str, Sequence[float]]) -> str:
    """Several series over the same places, both axes logarithmic."""
    values = [value for ys in series.values() for value in ys]
    low, high = min(values) / 1.5, max(values) * 1.5
    left, right, top, bottom = 80, WIDTH - RIGHT, 60, 380

    def place(at: int, value: float) -> tuple[float, float]:
        across = math.log(at / xs[0]) / math.log(xs[-1] / xs[0])
        up = math.log(value / low) / math.log(high / low)
        return left + across * (right - left), bottom - up * (bottom - top)

    parts = [_line(left, bottom, right, bottom, "#5a626d")]
    parts += [
        _text(place(at, low)[0], bottom + 20, str(at), anchor="middle", quiet=True)
        for at in xs
    ]
    for colour, (name, ys) in zip(COLOURS[::2], series.items(), strict=False):
        points = [place(at, value) for at, value in zip(xs, ys, strict=True)]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="3"/>'
        )
        for (px, py), value in zip(points, ys, strict=True):
            parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="5" fill="{colour}"/>')
            parts.append(
                _text(px, py - 12, f"{value:,.0f}", anchor="middle", quiet=True)
            )
        parts.append(_text(right + 12, points[-1][1] + 5, name))
    return _picture(title, bottom + 40, parts)


def _budget(outcome: Outcome) -> float | None:
    budget = outcome.comparison.budget
    return (
        None
        if budget is None
        else budget.at_least
        if budget.at_most is None
        else budget.at_most
    )


def _picture(title: str, height: int, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    ground = f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>'
    name = f"<title>{escape(title)}</title><style>{_STYLE}</style>"
    heading = f'<text x="16" y="28" style="font-weight:600">{escape(title)}</text>'
    return "\n".join((head, name, ground, heading, *parts, "</svg>")) + "\n"


def _text(
    x: float, y: float, words: str, *, anchor: str = "start", quiet: bool = False
) -> str:
    kind = ' class="q"' if quiet else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(words)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="2"/>'
