"""What pages work with: the record, what waits, the clock, and how an answer to the browser is made."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from bridgehead import __version__
from bridgehead.assembly.application import Assembly
from bridgehead.assembly.waiting import WaitingList, waiting_list
from bridgehead.contract.pending import PendingItem
from bridgehead.control_plane.records import OPEN_ITEMS
from bridgehead.control_plane.stores.base import Store
from bridgehead.dashboard.checkups import Checkups
from bridgehead.dashboard.page import Page
from bridgehead.dashboard.seat_figures import SeatFigures
from bridgehead.dashboard.sessions import Session
from bridgehead.dashboard.templating import environment
from bridgehead.errors import BridgeheadError
from bridgehead.host.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_WAITING: Final = 200
WAITING_SECONDS: Final = 5.0
NOT_FOUND: Final = 404
SERVER_ERRORS: Final = 500

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Desk:
    """Handed to every view and action."""

    assembly: Assembly
    store: Store
    clock: Clock
    user: str
    """Who answers and dismisses from here."""
    pages: Sequence[Page]
    checkups: Checkups
    seat_figures: SeatFigures
    _waiting: tuple[int, float, list[PendingItem]] | None = field(default=None, init=False)

    @property
    def waiting_list(self) -> WaitingList:
        return waiting_list(self.assembly, self.store, logger.warning)

    def waiting(self) -> list[PendingItem]:
        """What waits for someone, the latest first.

        Looked up again after anything was recorded. Some of it is worked out from repositories without an event, so
        it is never older than a few seconds either.
        """
        newest, now = self.store.last_seq(), self.clock.monotonic()
        known = self._waiting
        if known is None or known[0] != newest or now - known[1] > WAITING_SECONDS:
            items = self.waiting_list.items(OPEN_ITEMS, limit=MOST_WAITING)
            self._waiting = known = (newest, now, items)
        return known[2]

    def forget_waiting(self) -> None:
        """Something was answered from here: look again, whatever the record says."""
        self._waiting = None

    def show(
        self, request: Request, page: Page | None, template: str, *, status: int = 200, **facts: Any
    ) -> Response:
        """A page. Notes of the last action are shown once; a part that is fetched again does not use them up."""
        session: Session = request.state.session
        in_background = request.headers.get("x-live") == "1"
        rendered = (
            environment()
            .get_template(template)
            .render(
                page=page,
                pages=[one for one in self.pages if one.in_navigation],
                path=request.url.path,
                csrf_token=session.csrf,
                seq=getattr(request.state, "seq", None),
                is_still=status != 200,
                notes=[] if in_background else session.take_notes(),
                waiting_count=self._waiting_count(),
                now=self.clock.now(),
                version=__version__,
                **facts,
            )
        )
        return HTMLResponse(rendered, status)

    def _waiting_count(self) -> int | None:
        """None when the record cannot be asked: the page that says so needs a head, too."""
        try:
            return len(self.waiting())
        except BridgeheadError:
            return None

    def go(self, request: Request, path: str, note: str, *, bad: bool = False) -> Response:
        """End an action: a note, and the page on which it is read. `path` is one of ours, never taken from outside."""
        session: Session = request.state.session
        session.note(note, bad=bad)
        return RedirectResponse(path, 303)

    def problem(self, request: Request, error: BridgeheadError, status: int) -> Response:
        """A page that says what was refused and what to do next."""
        heading = "Not found" if status == NOT_FOUND else "Refused" if status < SERVER_ERRORS else "Failed"
        facts = {"heading": heading, "message": error.message, "hint": error.hint}
        return self.show(request, None, "problem.html", status=status, **facts)
