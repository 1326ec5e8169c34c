"""What flows over the bus as the page shows it: rates as small plots, heads with names instead of sources. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from bridgehead.bus.status import BusStatus, MessageHead, Rate
from bridgehead.dashboard.plots import Plot, Series, lines

STEP_SECONDS: Final = 4
"""Seconds that one point of a plot stands for."""
MOST_HEADS: Final = 100


@dataclass(frozen=True, slots=True)
class ShownHead:
    """A message without what it carries."""

    head: MessageHead
    source: str
    destination: str


def rate_plots(rates: Sequence[Rate]) -> list[Markup]:
    """Messages per second, once in and once out."""
    groups = [rates[end - STEP_SECONDS : end] for end in range(len(rates), STEP_SECONDS - 1, -STEP_SECONDS)]
    groups.reverse()
    labels = [_ago(len(groups) - 1 - place) for place in range(len(groups))]
    return [
        _plot("From participants", labels, [_mean([one.taken for one in group]) for group in groups]),
        _plot("To participants", labels, [_mean([one.offered for one in group]) for group in groups]),
    ]


def shown_heads(status: BusStatus, *, until: int | None) -> list[ShownHead]:
    """The newest first; `until` leaves out what came after that number."""
    names = {one.source: one.id for one in status.participants if one.source is not None}
    heads = [head for head in status.tail if until is None or head.number <= until]
    return [_shown(head, names) for head in reversed(heads[-MOST_HEADS:])]


def _shown(head: MessageHead, names: Mapping[str, str]) -> ShownHead:
    source = "?" if head.source is None else names.get(head.source, head.source)
    to = ", ".join(names.get(one, one) for one in head.destination)
    return ShownHead(head, source, to or "everybody")


def _plot(title: str, labels: Sequence[str], values: Sequence[float]) -> Markup:
    return lines(Plot(title, labels, [Series("messages", values)], unit="messages per second"))


def _mean(counts: Sequence[int]) -> float:
    return round(sum(counts) / len(counts), 2)


def _ago(steps: int) -> str:
    return f"{steps * STEP_SECONDS} s ago" if steps else "now"
