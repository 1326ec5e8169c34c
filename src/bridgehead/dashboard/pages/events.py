"""Events: the record as it is written, the newest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bridgehead.contract.events import KINDS, RecordedEvent
from bridgehead.contract.record_words import Part
from bridgehead.control_plane.records import EventFilter
from bridgehead.dashboard.page import Page, PageContext, Query
from bridgehead.dashboard.templating import spelled
from bridgehead.errors import UserError
from bridgehead.host.clock import iso_ms

PAGE_LENGTH: Final = 50
EXPORTED_AT_ONCE: Final = 1000
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


@dataclass(frozen=True)
class EventsQuery(Query):
    """The query of the events page."""

    part: str = ""
    run: str = ""
    kind: str = ""
    project: str = ""
    since: str = ""
    until: str = ""
    text: str = ""
    before: int | None = None

    def where(self) -> EventFilter:
        if self.part and self.part not in tuple(Part):
            raise UserError(
                f"there is no part {self.part!r}", hint=f"parts: {', '.join(Part)}"
            )
        return EventFilter(
            kinds=(self.kind,) if self.kind else (),
            parts=(Part(self.part),) if self.part else (),
            run_id=self.run or None,
            project=self.project or None,
            since=_day(self.since),
            until=_day(self.until, days=1),
            text=self.text,
        )


def _day(text: str, days: int = 0) -> str | None:
    """Return when a day, or the one after it, begins in local time."""
    try:
        return (
            iso_ms((datetime.fromisoformat(text) + timedelta(days=days)).astimezone())
            if text
            else None
        )
    except (ValueError, OverflowError) as error:
        raise UserError(
            f"{text!r} is not a day", hint="write it as 2026-11-15"
        ) from error


def show_events(context: PageContext, request: Request) -> Response:
    asked = EventsQuery.of(request.query_params)
    page = context.store.events(
        asked.where(), before=asked.before, limit=PAGE_LENGTH + 1, newest_first=True
    )
    shown = page[:PAGE_LENGTH]
    return context.show(
        request,
        PAGE,
        "events.html",
        asked=asked,
        lines=[_line(recorded) for recorded in shown],
        older=asked.address("/events", before=shown[-1].seq)
        if len(page) > PAGE_LENGTH
        else None,
        newest=asked.address("/events", before=None) if asked.before else None,
        export=asked.address("/events.jsonl"),
        kinds=sorted(KINDS),
        parts=[str(part) for part in Part],
        projects=sorted(
            {one.event.project for one in page if one.event.project}
            | {asked.project} - {""}
        ),
    )


def export_events(context: PageContext, request: Request) -> Response:
    """Return the events the filter admits as JSON lines, newest first.

    The format is that of `bridgehead events --json`.
    """
    asked = EventsQuery.of(request.query_params)

    def lines() -> Iterator[bytes]:
        before = asked.before
        while page := context.store.events(
            asked.where(), before=before, limit=EXPORTED_AT_ONCE, newest_first=True
        ):
            for recorded in page:
                yield (
                    msgspec.json.encode(
                        {"seq": recorded.seq, **msgspec.to_builtins(recorded.event)}
                    )
                    + b"\n"
                )
            before = page[-1].seq

    asked.where()  # a mistake is a page, not half a file
    named = {"Content-Disposition": 'attachment; filename="events.jsonl"'}
    return StreamingResponse(lines(), media_type="application/x-ndjson", headers=named)


def _line(recorded: RecordedEvent) -> Line:
    data = recorded.event.data
    facts = [
        (key, " ".join(spelled(value)[:MOST_SHOWN].split()))
        for key, value in data.items()
        if key not in _SAID_ALREADY and value is not None
    ]
    whole = (
        msgspec.json.format(msgspec.json.encode(data), indent=2).decode()
        if data
        else ""
    )
    return Line(recorded, tuple(facts[:MOST_FACTS]), whole)


PAGE: Final = Page(
    "Events", "/events", views={"/events": show_events, "/events.jsonl": export_events}
)
