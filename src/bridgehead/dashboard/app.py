"""Build the application: pages and live stream behind the access check."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from bridgehead.assembly.application import Assembly
from bridgehead.bus.sockets.origin import own_names
from bridgehead.control_plane.stores.base import Store
from bridgehead.dashboard.access import LINK, MCP, Access, Guard
from bridgehead.dashboard.background import CommandRunner, DoctorCache
from bridgehead.dashboard.live import Broadcast, LiveStream
from bridgehead.dashboard.page import (
    Action,
    BadForm,
    Page,
    PageContext,
    View,
    read_form,
)
from bridgehead.dashboard.pages import (
    actions,
    bus,
    councils,
    events,
    flows,
    health,
    now,
    threads,
)
from bridgehead.dashboard.plots import SeatFigures
from bridgehead.dashboard.templating import serve_static
from bridgehead.errors import AlreadyAnswered, BridgeheadError, NotFound, UserError
from bridgehead.host.clock import Clock, SystemClock

PAGES: Final[tuple[Page, ...]] = (
    *(now.PAGE, councils.PAGE, threads.PAGE, flows.PAGE, bus.PAGE, events.PAGE),
    *(health.PAGE, actions.PAGE),
)
_STATUS: Final = (
    (NotFound, 404),
    (AlreadyAnswered, 409),
    (UserError, 422),
    (BridgeheadError, 503),
)
_SENTENCES: Final = {404: "there is no such page", 405: "this page is for reading only"}


class Mounted(Protocol):
    """An application of another part, served behind the same access check."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def stop(self) -> None:
        """End everything that is running."""
        ...


class Dashboard:
    """The application, and what a server needs to run it.

    It can be reached as localhost, by address, and under the names in `hosts`. Those
    may also lead to a proxy that adds TLS.
    """

    def __init__(
        self,
        assembly: Assembly,
        store: Store,
        *,
        token: str,
        port: int,
        user: str = "web",
        hosts: Sequence[str] = (),
        clock: Clock | None = None,
        mcp: Mounted | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self.live = Broadcast(store)
        self._mcp = mcp
        self.context = PageContext(
            assembly,
            store,
            clock,
            user,
            PAGES,
            DoctorCache(assembly, clock),
            SeatFigures(assembly),
            CommandRunner(assembly, clock),
        )
        self.access = Access(
            token,
            clock,
            names=own_names("localhost", hosts),
            origins=[f"https://{host}" for host in hosts],
            port=port,
        )
        # The guard is around everything, including the page for unexpected errors.
        pages = Starlette(
            routes=self._routes(store),
            exception_handlers={
                BridgeheadError: self._failed,
                HTTPException: self._refused,
                Exception: self._broken,
            },
            lifespan=self._lifespan,
        )
        self.app = Guard(pages, self.access)

    def close_streams(self) -> None:
        """End the endless streams, which would keep the server from stopping."""
        self.live.close_readers()
        if self._mcp is not None:
            self._mcp.stop()

    def _routes(self, store: Store) -> list[Route]:
        routes = [
            Route("/static/{name}", serve_static),
            Route("/live", LiveStream(store, self.live).__call__),
            Route(LINK, self._link, methods=["POST"]),
        ]
        if self._mcp is not None:
            routes.append(Route(MCP, self._mcp))
        for page in PAGES:
            routes += [
                Route(path, self._viewing(view)) for path, view in page.views.items()
            ]
            routes += [
                Route(path, self._acting(action), methods=["POST"])
                for path, action in page.actions.items()
            ]
        return routes

    def _viewing(self, view: View) -> Callable[[Request], Response]:
        def viewed(request: Request) -> Response:
            # Read before the view reads anything: what is recorded from now on is sent
            # to the page once it listens.
            request.state.seq = self.context.store.last_seq()
            return view(self.context, request)

        return viewed

    def _acting(self, action: Action) -> Callable[[Request], object]:
        async def acted(request: Request) -> Response:
            form = read_form(
                request.headers.get("content-type", ""), await request.body()
            )
            if not request.state.session.is_own_form(form.get("csrf", "")):
                raise BadForm("it was not sent from a page of this session")
            return await run_in_threadpool(action, self.context, request, form)

        return acted

    async def _link(self, _request: Request) -> Response:
        """Return a link for `bridgehead web --open` of another process."""
        return PlainTextResponse(self.access.new_link())

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        await self.live.start()
        try:
            yield
        finally:
            self.close_streams()
            await run_in_threadpool(self.context.commands.close)
            await self.live.stop()

    def _failed(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, BridgeheadError)
        status = next(status for kind, status in _STATUS if isinstance(error, kind))
        return self.context.problem(request, error, status)

    def _refused(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if request.state.session is None:
            return Response(status_code=error.status_code)
        sentence = _SENTENCES.get(error.status_code, str(error.detail))
        return self.context.problem(request, NotFound(sentence), error.status_code)

    def _broken(self, request: Request, error: Exception) -> Response:
        problem = BridgeheadError(
            f"internal error: {type(error).__name__}", hint="see the server's output"
        )
        return self.context.problem(request, problem, 500)
