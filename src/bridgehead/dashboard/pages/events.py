"""Events: the record as it is written, the newest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bridgehead.contract.events import KINDS, RecordedEvent
from bridgehead.contract.record_words import Part
from bridgehead.control_plane.records import EventFilter
from bridgehead.dashboard.page import Page, PageContext
from bridgehead.errors import UserError

PAGE_LENGTH: Final = 50
MOST_SHOWN: Final = 200
"""Characters of a fact on its line; all of it is there when the line is opened."""
MOST_FACTS: Final = 12
_SAID_ALREADY: Final = frozenset({"ts", "timestamp"})


@dataclass(frozen=True, slots=True)
class Line:
    """An event as the page lists it."""

    recorded: RecordedEvent
    facts: tuple[tuple[str, str], ...]
    whole: str


@dataclass(frozen=True, slots=True)
class EventsQuery:
    """What the address asks for."""

    part: str = ""
    run: str = ""
    kind: str = ""
    before: int | None = None

    @classmethod
    def of(cls, request: Request) -> EventsQuery:
        query = request.query_params
        before = query.get("before", "")
        if before and not (before.isascii() and before.isdecimal() and len(before) < 19):
            raise UserError(f"before={before!r} is not the number of an event")
        part = query.get("part", "")
        if part and part not in tuple(Part):
            raise UserError(f"there is no part {part!r}", hint=f"parts: {', '.join(Part)}")
        asked_before = int(before) if before else None
        return cls(part, query.get("run", "").strip(), query.get("kind", "").strip(), asked_before)

    def where(self) -> EventFilter:
        return EventFilter(
            kinds=(self.kind,) if self.kind else (),
            parts=(Part(self.part),) if self.part else (),
            run_id=self.run or None,
        )

    def address(self, before: int | None) -> str:
        given = {"part": self.part, "run": self.run, "kind": self.kind, "before": before}
        query = urlencode({name: value for name, value in given.items() if value})
        return f"/events?{query}" if query else "/events"


def show_events(context: PageContext, request: Request) -> Response:
    asked = EventsQuery.of(request)
    page = context.store.events(asked.where(), before=asked.before, limit=PAGE_LENGTH + 1, newest_first=True)
    shown = page[:PAGE_LENGTH]
    return context.show(
        request,
        PAGE,
        "events.html",
        asked=asked,
        lines=[_line(recorded) for recorded in shown],
        older=asked.address(shown[-1].seq) if len(page) > PAGE_LENGTH else None,
        newest=asked.address(None) if asked.before else None,
        kinds=sorted(KINDS),
        parts=[str(part) for part in Part],
    )


def _line(recorded: RecordedEvent) -> Line:
    data = recorded.event.data
    facts = [
        (key, " ".join(_value(value)[:MOST_SHOWN].split()))
        for key, value in data.items()
        if key not in _SAID_ALREADY and value is not None
    ]
    whole = msgspec.json.format(msgspec.json.encode(data), indent=2).decode() if data else ""
    return Line(recorded, tuple(facts[:MOST_FACTS]), whole)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


PAGE: Final = Page("Events", "/events", views={"/events": show_events})
