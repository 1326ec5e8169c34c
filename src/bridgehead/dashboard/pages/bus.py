"""The bus page: participants, health, and traffic as rates and heads of messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from bridgehead.assembly.bus.views import bus_view, message_content
from bridgehead.bus.gateway.status import BusStatus, MessageHead, Rate
from bridgehead.dashboard.page import Page, PageContext, Query
from bridgehead.dashboard.plots import Plot, Series, lines

STEP_SECONDS: Final = 4
"""Seconds that one point of a plot stands for."""
MOST_HEADS: Final = 100
MOST_PAYLOAD: Final = 64 * 1024


@dataclass(frozen=True)
class BusQuery(Query):
    """The query of the bus page: filters, a message to open, a number to stop at."""

    participant: str = ""
    topic: str = ""
    message: int | None = None
    until: int | None = None

    def opening(self, number: int) -> str:
        return self.address("/bus", message=number) + "#payload"

    def closing(self) -> str:
        return self.address("/bus", message=None) + "#tail"

    def still_at(self, number: int | None) -> str:
        return self.address("/bus", until=number) + "#tail"


def show_bus(context: PageContext, request: Request) -> Response:
    asked = BusQuery.of(request.query_params)
    view = bus_view(context.assembly, participant=asked.participant, topic=asked.topic)
    if view.status is None:
        return context.show(request, PAGE, "bus_quiet.html", view=view)
    return context.show(
        request,
        PAGE,
        "bus.html",
        view=view,
        bus=view.status,
        connected=sum(one.state == "connected" for one in view.status.participants),
        plots=rate_plots(view.status.rates),
        asked=asked,
        names=sorted(one.id for one in view.status.participants),
        heads=shown_heads(view.status, until=asked.until),
        newest=view.status.tail[-1].number if view.status.tail else None,
        payload=_payload(context, asked.message) if asked.message is not None else None,
    )


def _payload(context: PageContext, number: int) -> str:
    """Return the content of a message that somebody opened."""
    content = message_content(context.assembly, number)
    if content is None:
        return "This message is no longer kept, or was too large to keep."
    encoded = msgspec.json.encode({"data": content.data, "context": content.context})
    text = msgspec.json.format(encoded, indent=2).decode()
    return text if len(text) <= MOST_PAYLOAD else f"{text[:MOST_PAYLOAD]}\n… and more"


@dataclass(frozen=True, slots=True)
class ShownHead:
    """A message without its content."""

    head: MessageHead
    source: str
    destination: str


def rate_plots(rates: Sequence[Rate]) -> list[Markup]:
    """Messages per second, once in and once out."""
    groups = [
        rates[end - STEP_SECONDS : end]
        for end in range(len(rates), STEP_SECONDS - 1, -STEP_SECONDS)
    ]
    groups.reverse()
    labels = [
        f"{steps * STEP_SECONDS} s ago" if steps else "now"
        for steps in reversed(range(len(groups)))
    ]
    return [
        _plot(
            "From participants",
            labels,
            [_mean([one.taken for one in group]) for group in groups],
        ),
        _plot(
            "To participants",
            labels,
            [_mean([one.offered for one in group]) for group in groups],
        ),
    ]


def shown_heads(status: BusStatus, *, until: int | None) -> list[ShownHead]:
    """Return the messages, newest first; `until` leaves out those after that number."""
    names = {
        one.source: one.id for one in status.participants if one.source is not None
    }
    heads = [head for head in status.tail if until is None or head.number <= until]
    return [_shown(head, names) for head in reversed(heads[-MOST_HEADS:])]


def _shown(head: MessageHead, names: Mapping[str, str]) -> ShownHead:
    source = "?" if head.source is None else names.get(head.source, head.source)
    to = ", ".join(names.get(one, one) for one in head.destination)
    return ShownHead(head, source, to or "all")


def _plot(title: str, labels: Sequence[str], values: Sequence[float]) -> Markup:
    return lines(
        Plot(title, labels, [Series("messages", values)], unit="messages per second")
    )


def _mean(counts: Sequence[int]) -> float:
    return round(sum(counts) / len(counts), 2)


PAGE: Final = Page("Bus", "/bus", views={"/bus": show_bus})
