"""Who may open the dashboard: Host, Origin, session and token are checked before a request is worked on (design §9)."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import urlencode

import anyio
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bridgehead.bus.sockets.base import Ends, has_two_lengths
from bridgehead.bus.sockets.origin import refusal, user_at
from bridgehead.host.clock import Clock

SESSION_SECONDS: Final = 12 * 3600.0
MOST_SESSIONS: Final = 1000
MOST_NOTES: Final = 5
TICKET_SECONDS: Final = 60.0
MOST_TICKETS: Final = 100
MOST_BODY_BYTES: Final = 16 << 20
MOST_DIGITS: Final = 12
BODY_SECONDS: Final = 30.0

SAFE: Final = frozenset({"GET", "HEAD"})
PUBLIC: Final = "/static/"
MCP: Final = "/mcp"
LINK: Final = "/link"
_FOR_PROGRAMS: Final = frozenset({MCP, LINK})
_KEYS: Final = frozenset({"token", "ticket"})

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With `no-referrer` browsers send `Origin: null` along with our own forms; this tells other sites as little.
    "Referrer-Policy": "same-origin",
}


@dataclass(slots=True)
class Note:
    """One sentence shown on the next page: what an action did."""

    text: str
    bad: bool = False


class Visitor(NamedTuple):
    """Who asks, and under which address: a session is good for the visitor it was made for.

    Browsers send a cookie to every port of a host, so a server of another account on this machine can see it. Shown
    to us from there it opens nothing, because the kernel says that somebody else is asking.
    """

    host: str
    user: int | None
    """The user id at the far end, None where it is not known."""


@dataclass(slots=True)
class Session:
    until: float
    visitor: Visitor | None = None
    """None for a session nobody can come back to."""
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    notes: list[Note] = field(default_factory=list)

    def note(self, text: str, *, bad: bool = False) -> None:
        self.notes = [*self.notes, Note(text, bad)][-MOST_NOTES:]

    def take_notes(self) -> list[Note]:
        taken = self.notes
        self.notes = []
        return taken

    def is_own_form(self, csrf: str) -> bool:
        return hmac.compare_digest(csrf.encode("utf-8", "replace"), self.csrf.encode())


class Sessions:
    """Who is logged in. Kept in memory: a restarted server asks for its new token."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sessions: dict[str, Session] = {}

    def begin(self, visitor: Visitor) -> str:
        """A new session; returns what goes into the cookie."""
        key = secrets.token_urlsafe(32)
        self._sessions[key] = Session(
            self._clock.monotonic() + SESSION_SECONDS, visitor
        )
        while len(self._sessions) > MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return key

    def passing(self) -> Session:
        """A session that nobody can come back to, for a program that shows the token each time."""
        return Session(self._clock.monotonic() + SESSION_SECONDS)

    def find(self, key: str | None, visitor: Visitor) -> Session | None:
        session = self._sessions.get(key or "")
        if (
            session is None
            or session.until < self._clock.monotonic()
            or session.visitor != visitor
        ):
            return None
        return session


class Tickets:
    """Links that work once, within a minute. A program that is handed a link shows it to the whole machine (`ps`)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def issue(self) -> str:
        ticket = secrets.token_urlsafe(32)
        self._until[ticket] = self._clock.monotonic() + TICKET_SECONDS
        while len(self._until) > MOST_TICKETS:
            del self._until[next(iter(self._until))]
        return ticket

    def take(self, ticket: str) -> bool:
        """Whether the ticket was good; it is used up now."""
        until = self._until.pop(ticket, None)
        return until is not None and until >= self._clock.monotonic()


class Access:
    """Decides about requests by their head."""

    def __init__(
        self,
        token: str,
        clock: Clock,
        *,
        names: frozenset[str],
        port: int,
        origins: Sequence[str] = (),
        user_at: Callable[[Ends], int | None] = user_at,
    ) -> None:
        """`names` may stand in Host; `origins` are admitted besides our own, for a proxy that speaks TLS for us."""
        self._user_at = user_at
        self._token = token
        self._sessions = Sessions(clock)
        self._tickets = Tickets(clock)
        self._names = names
        self._origins = origins
        # Cookies know no ports: two dashboards on one machine must not log each other out.
        self.cookie = f"bridgehead_web_{port}"

    def new_link(self) -> str:
        """A path that lets one browser in."""
        return f"/?ticket={self._tickets.issue()}"

    def judge(self, request: HTTPConnection) -> Session | Response | None:
        """The session behind a request, what it is answered instead, or None for what anybody may see."""
        method = str(request.scope["method"])
        path = request.url.path
        refused = refusal(
            request.headers, names=self._names, listed=self._origins, same_origin=True
        )
        if refused is not None:
            return PlainTextResponse(refused.body, refused.status)
        if _is_foreign(request, method):
            return PlainTextResponse("this origin is not admitted\n", 403)
        if path.startswith(PUBLIC):
            return None
        if self._shows_token(request):
            return self._sessions.passing()
        if path in _FOR_PROGRAMS:
            return Response(status_code=401, headers={"WWW-Authenticate": "Bearer"})
        if method in SAFE and not _KEYS.isdisjoint(request.query_params):
            return self._enter(request)
        session = self._sessions.find(
            request.cookies.get(self.cookie), self._visitor(request)
        )
        if session is None:
            return closed()
        # Browsers name the origin of every form they send; what leaves it out is no page of ours.
        if method not in SAFE and "origin" not in request.headers:
            return PlainTextResponse("this origin is not admitted\n", 403)
        return session

    def _visitor(self, request: HTTPConnection) -> Visitor:
        far = request.scope.get("client")
        near = request.scope.get("server")
        user = None
        if far is not None and near is not None and near[1] is not None:
            user = self._user_at(Ends((far[0], far[1]), (near[0], near[1])))
        return Visitor(request.headers.get("host", "").lower(), user)

    def _shows_token(self, request: HTTPConnection) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self._is_token(given.strip())

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(
            given.encode("utf-8", "replace"), self._token.encode()
        )

    def _enter(self, request: HTTPConnection) -> Response:
        """Exchange the token or ticket for a cookie and take it out of the address bar."""
        query = request.query_params
        if not self._is_token(query.get("token", "")) and not self._tickets.take(
            query.get("ticket", "")
        ):
            return closed()
        rest = [(key, value) for key, value in query.multi_items() if key not in _KEYS]
        # One slash only: `//name` would lead to another host.
        target = (
            "/" + request.url.path.lstrip("/") + (f"?{urlencode(rest)}" if rest else "")
        )
        entered = RedirectResponse(target, 303)
        entered.set_cookie(
            self.cookie,
            self._sessions.begin(self._visitor(request)),
            max_age=int(SESSION_SECONDS),
            path="/",
            httponly=True,
            samesite="strict",
        )
        return entered


def closed() -> Response:
    """What a stranger gets."""
    from bridgehead.dashboard.templating import environment

    return Response(
        environment().get_template("closed.html").render(), 401, media_type="text/html"
    )


def protect(headers: MutableHeaders) -> None:
    """What every answer tells the browser."""
    headers.update(_HEADERS)
    headers.setdefault("Cache-Control", "no-store")


def _is_foreign(request: HTTPConnection, method: str) -> bool:
    """Whether another page makes the browser ask, other than by a link that was followed."""
    if request.headers.get("sec-fetch-site") in (None, "same-origin", "none"):
        return False
    return method not in SAFE or request.headers.get("sec-fetch-mode") != "navigate"


class Guard:
    """Lets through what `Access` admits; the session travels on as `request.state.session`."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._guard(scope, receive, _protected(send))
        else:
            # There is no WebSocket here; none is opened, whoever asks.
            await send({"type": "websocket.close", "code": 1008})

    async def _guard(self, scope: Scope, receive: Receive, send: Send) -> None:
        if has_two_lengths(name for name, _ in scope["headers"]):
            both = "send Content-Length or Transfer-Encoding, not both\n"
            await PlainTextResponse(both, 400, headers={"Connection": "close"})(
                scope, receive, send
            )
            return
        judged = self._access.judge(HTTPConnection(scope))
        if isinstance(judged, Response):
            await judged(scope, receive, send)
            return
        scope.setdefault("state", {})["session"] = judged
        if scope["method"] in SAFE:
            await self._app(scope, receive, send)
            return
        body = await _bounded_body(scope, receive)
        if body is None:
            return
        if isinstance(body, Response):
            await body(scope, receive, send)
            return
        await self._app(scope, _replayed(body, receive), send)


async def _bounded_body(scope: Scope, receive: Receive) -> bytes | Response | None:
    """The whole body, what to answer when it is too much or too slow, None when the far side left."""
    request = Request(scope, receive)
    declared = request.headers.get("content-length", "0")
    if (
        not declared.isdecimal()
        or len(declared) > MOST_DIGITS
        or int(declared) > MOST_BODY_BYTES
    ):
        return _too_large()
    body = bytearray()
    try:
        with anyio.fail_after(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MOST_BODY_BYTES:
                    return _too_large()
    except TimeoutError:
        return PlainTextResponse("the request took too long to arrive\n", 408)
    except ClientDisconnect:
        return None
    return bytes(body)


def _too_large() -> Response:
    message = (
        f"the request is larger than {MOST_BODY_BYTES >> 20} MiB; nothing was changed\n"
    )
    return PlainTextResponse(message, 413, headers={"Connection": "close"})


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Hands the body out once, then whatever really happens next."""
    messages: list[Message] = [
        {"type": "http.request", "body": body, "more_body": False}
    ]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _protected(send: Send) -> Send:
    async def protected(message: Message) -> None:
        if message["type"] == "http.response.start":
            protect(MutableHeaders(scope=message))
        await send(message)

    return protected
