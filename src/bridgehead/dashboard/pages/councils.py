"""Show the list of councils and single ones, and dismiss findings."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from bridgehead.assembly.council import views
from bridgehead.assembly.council.live import LiveChallenge
from bridgehead.assembly.council.reports import DismissRequest
from bridgehead.control_plane.records import EventFilter
from bridgehead.dashboard.page import Form, Page, PageContext
from bridgehead.dashboard.pages import council_findings
from bridgehead.dashboard.pages.council_findings import Choices, Excerpts, Filter
from bridgehead.dashboard.pages.council_lanes import LEGEND, draw_lanes
from bridgehead.dashboard.plots import plots_of
from bridgehead.errors import BridgeheadError, UserError

MOST_DISMISSED: Final = 1000
MOST_CHALLENGES: Final = 200


def show_list(context: PageContext, request: Request) -> Response:
    before = request.query_params.get("before") or None
    page: views.CouncilPage = views.list_councils(
        context.assembly, before=before, clock=context.clock
    )
    return context.show(
        request,
        PAGE,
        "councils.html",
        councils=page.councils,
        plots=plots_of(page.councils, context.seat_figures) if before is None else [],
        older=f"/councils?before={quote(page.before, safe='')}"
        if page.before
        else None,
        is_first=before is None,
    )


def show_council(context: PageContext, request: Request) -> Response:
    reference = str(request.path_params["council_id"])
    now: views.CouncilNow = views.council_now(
        context.assembly, reference, clock=context.clock
    )
    report, trouble = _report(context, now)
    asked = Filter.of(request.query_params)
    return context.show(
        request,
        PAGE,
        "council.html",
        council=now.council,
        state=now,
        picture=draw_lanes(now.live),
        legend=LEGEND,
        challenges=_challenges(now)[:MOST_CHALLENGES],
        trouble=trouble,
        report=report.report if report else None,
        asked=asked,
        **(_findings(context, report, asked) if report else {"found": None}),
    )


def _challenges(now: views.CouncilNow) -> list[tuple[str, LiveChallenge]]:
    """Return who challenges, and the challenge."""
    challenges: list[tuple[str, LiveChallenge]] = []
    for seat in now.live.seats:
        challenges += [(seat.bridge, challenge) for challenge in seat.challenges]
    return challenges


def show_calls(context: PageContext, request: Request) -> Response:
    reference = str(request.path_params["council_id"])
    now = views.council_now(context.assembly, reference, clock=context.clock)
    calls = views.council_calls(context.assembly, reference)
    chosen = next(
        (one for one in calls if one.name == request.query_params.get("call")), None
    )
    return context.show(
        request, PAGE, "calls.html", council=now.council, calls=calls, chosen=chosen
    )


def dismiss(context: PageContext, request: Request, form: Form) -> Response:
    council_id = str(request.path_params["council_id"])
    finding_id = str(request.path_params["finding_id"])
    views.dismiss_finding(
        context.assembly,
        council_id,
        DismissRequest(
            finding_id,
            form.get("reason", ""),
            until=_day(form.get("until", "")),
            accept_critical=form.get("accept_critical") == "yes",
        ),
    )
    back = f"{PAGE.path}/{quote(council_id, safe='')}#{quote(finding_id, safe='')}"
    return context.go(
        request,
        back,
        f"{finding_id} dismissed; .bridgehead/dismissals.toml is meant to be "
        "committed.",
    )


def _report(
    context: PageContext, now: views.CouncilNow
) -> tuple[views.ReportText | None, str | None]:
    """Return the report if there is one, and why it cannot be shown."""
    if not now.has_report:
        return None, None
    try:
        return views.council_report(
            context.assembly, now.council.id, clock=context.clock
        ), None
    except BridgeheadError as error:
        return None, error.message


def _findings(
    context: PageContext, report: views.ReportText, query: Filter
) -> dict[str, Any]:
    """Return the findings that the query admits, and what the page says about them."""
    previous = (report.comparison or {}).get("previous_review_id")
    texts = list(report.findings)
    if not previous:
        texts = [council_findings.uncompared(text) for text in texts]
    everything = council_findings.ordered(texts)
    admitted = [text for text in everything if query.admits(text)]
    excerpts = Excerpts(Path(report.council.project))
    earlier = _earlier(context, previous) if previous else {}
    dismissed_now = _dismissed_since(context, report.council.id)
    start = query.start or 0
    end = start + council_findings.PAGE_LENGTH
    part = admitted[start:end]
    return {
        "found": [
            council_findings.shown(text, excerpts, earlier, dismissed_now)
            for text in part
        ],
        "admitted": len(admitted),
        "everything": len(everything),
        "choices": Choices.among(everything),
        "previous": previous,
        "comparison": report.comparison or {},
        "more": query.address("", start=end) if end < len(admitted) else None,
    }


def _dismissed_since(context: PageContext, council_id: str) -> frozenset[str]:
    """Return the fingerprints of findings dismissed since the council ended."""
    dismissals = EventFilter(kinds=("council.dismissed",), run_id=council_id)
    events = context.store.events(dismissals, limit=MOST_DISMISSED)
    return frozenset(str(recorded.event.data.get("fingerprint")) for recorded in events)


def _earlier(context: PageContext, review_id: str) -> dict[str, str]:
    """Return the ids of the previous run's findings by fingerprint, as far as known."""
    try:
        report = views.council_report(context.assembly, review_id, clock=context.clock)
    except BridgeheadError:
        return {}
    ids = {}
    for text in report.findings:
        for fingerprint in text.finding.fingerprints:
            ids[fingerprint] = text.finding.id
    return ids


def _day(text: str) -> dt.date | None:
    if not text.strip():
        return None
    try:
        return dt.date.fromisoformat(text.strip())
    except ValueError as error:
        raise UserError(
            f"{text!r} is not a day", hint="write it as 2026-12-31"
        ) from error


PAGE: Final = Page(
    "Councils",
    "/councils",
    views={
        "/councils": show_list,
        "/councils/{council_id}": show_council,
        "/councils/{council_id}/calls": show_calls,
    },
    actions={"/councils/{council_id}/findings/{finding_id}/dismiss": dismiss},
)
