"""Bus: who is there, how much passes, what passes, what became of it, how the links are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bridgehead.assembly.bus_views import BusStatus, BusView, bus_view, message_content
from bridgehead.dashboard.bus_traffic import rate_plots, shown_heads
from bridgehead.dashboard.desk import Desk
from bridgehead.dashboard.page import Page

MOST_PAYLOAD: Final = 64 * 1024
_MOST_DIGITS: Final = 15


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address asks for: a filter of the tail, a message to be opened, a moment at which it stands still."""

    participant: str = ""
    topic: str = ""
    message: int | None = None
    until: int | None = None

    @classmethod
    def of(cls, request: Request) -> Asked:
        query = request.query_params
        return cls(
            query.get("participant", "").strip(),
            query.get("topic", "").strip(),
            _number(query.get("message", "")),
            _number(query.get("until", "")),
        )

    @property
    def is_narrow(self) -> bool:
        return bool(self.participant or self.topic)

    @property
    def address(self) -> str:
        given = {
            "participant": self.participant,
            "topic": self.topic,
            "message": self.message,
            "until": self.until,
        }
        query = urlencode({name: value for name, value in given.items() if value})
        return f"/bus?{query}" if query else "/bus"

    def opening(self, number: int) -> str:
        return f"{replace(self, message=number).address}#payload"

    def closing(self) -> str:
        return f"{replace(self, message=None).address}#tail"

    def still_at(self, number: int | None) -> str:
        return f"{replace(self, until=number).address}#tail"


def show_bus(desk: Desk, request: Request) -> Response:
    asked = Asked.of(request)
    view = bus_view(desk.assembly, participant=asked.participant, topic=asked.topic)
    if view.status is None:
        return desk.show(request, PAGE, "bus_quiet.html", view=view)
    return _show_running(desk, request, asked, view, view.status)


def _show_running(desk: Desk, request: Request, asked: Asked, view: BusView, status: BusStatus) -> Response:
    return desk.show(
        request,
        PAGE,
        "bus.html",
        view=view,
        bus=status,
        connected=sum(one.state == "connected" for one in status.participants),
        plots=rate_plots(status.rates),
        asked=asked,
        names=sorted(one.id for one in status.participants),
        heads=shown_heads(status, until=asked.until),
        newest=status.tail[-1].number if status.tail else None,
        payload=_payload(desk, asked.message) if asked.message is not None else None,
    )


def _payload(desk: Desk, number: int) -> str:
    """What a message carries, because somebody asked to see it."""
    content = message_content(desk.assembly, number)
    if content is None:
        return "This message is gone, or was too large to be kept."
    told = msgspec.json.encode({"data": content.data, "context": content.context})
    text = msgspec.json.format(told, indent=2).decode()
    return text if len(text) <= MOST_PAYLOAD else f"{text[:MOST_PAYLOAD]}\n… and more"


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


PAGE: Final = Page("Bus", "/bus", views={"/bus": show_bus})
