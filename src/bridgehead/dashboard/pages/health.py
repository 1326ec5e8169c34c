"""Health: what `bridgehead doctor` says about this machine."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from bridgehead.dashboard.page import Form, Page, PageContext
from bridgehead.doctor.diagnosis import MARKS, State


def show_health(desk: PageContext, request: Request) -> Response:
    """The last check; the first visit begins one."""
    if desk.checkups.latest is None:
        desk.checkups.look()
    looked = desk.checkups.latest
    found = looked.checkup.diagnoses if looked else ()
    return desk.show(
        request,
        PAGE,
        "health.html",
        looked=looked,
        is_looking=desk.checkups.is_looking,
        groups=[(str(group), list(some)) for group, some in groupby(found, key=lambda one: one.group)],
        worst=_worst(desk),
        marks=MARKS,
    )


def look_again(desk: PageContext, request: Request, form: Form) -> Response:
    desk.checkups.look()
    return RedirectResponse(PAGE.path, 303)


def _worst(desk: PageContext) -> State:
    looked = desk.checkups.latest
    states = {one.state for one in looked.checkup.diagnoses} if looked else set()
    return next((state for state in (State.BROKEN, State.LOOK) if state in states), State.FINE)


PAGE: Final = Page(
    "Health", "/health", views={"/health": show_health}, actions={"/health": look_again}, in_navigation=False
)
