"""Health: what `bridgehead doctor` says about this machine."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from bridgehead.dashboard.page import Form, Page, PageContext
from bridgehead.doctor.diagnosis import MARKS, State


def show_health(context: PageContext, request: Request) -> Response:
    """Show the last check; the first visit starts one."""
    if context.doctor_cache.latest is None:
        context.doctor_cache.check()
    latest = context.doctor_cache.latest
    found = latest.checkup.diagnoses if latest else ()
    states = {one.state for one in found}
    return context.show(
        request,
        PAGE,
        "health.html",
        latest=latest,
        is_checking=context.doctor_cache.is_checking,
        groups=[
            (str(group), list(some))
            for group, some in groupby(found, key=lambda one: one.group)
        ],
        worst=next(
            (state for state in (State.BROKEN, State.LOOK) if state in states),
            State.FINE,
        ),
        marks=MARKS,
    )


def check_again(context: PageContext, request: Request, form: Form) -> Response:
    context.doctor_cache.check()
    return RedirectResponse(PAGE.path, 303)


PAGE: Final = Page(
    "Health",
    "/health",
    views={"/health": show_health},
    actions={"/health": check_again},
    in_navigation=False,
)
