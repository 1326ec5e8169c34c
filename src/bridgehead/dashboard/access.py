"""Decide who may use the dashboard (design §9).

Host, Origin, session and token are checked before a request is handled.
"""

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
    # With `no-referrer`, browsers would send `Origin: null` with our own forms. This
    # value tells other sites no more.
    "Referrer-Policy": "same-origin",
}


@dataclass(slots=True)
class Note:
    """A sentence about what an action did, shown on the next page."""

    text: str
    bad: bool = False


class Visitor(NamedTuple):
    """The user that sends a request, and the host name it uses.

    A session is valid only for the visitor it was made for. Browsers send a cookie to
    every port of a host, so a server run by another user of this machine can see it. It
    cannot use the cookie, because the kernel tells us which user sends a request.
    """

    host: str
    user: int | None
    """The user id at the other end of the connection; None if it is unknown."""


@dataclass(slots=True)
class Session:
    until: float
    visitor: Visitor | None = None
    """None for a session that serves a single request."""
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    notes: list[Note] = field(default_factory=list)

    def note(self, text: str, *, bad: bool = False) -> None:
        self.notes = [*self.notes, Note(text, bad)][-MOST_NOTES:]

    def take_notes(self) -> list[Note]:
        """Return the notes to be shown, and forget them."""
        notes = self.notes
        self.notes = []
        return notes

    def is_own_form(self, csrf: str) -> bool:
        """Return whether a form with this token came from a page of this session."""
        return hmac.compare_digest(csrf.encode("utf-8", "replace"), self.csrf.encode())


class Sessions:
    """The sessions of those who are logged in.

    They are kept in memory: a restarted server asks for its new token.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sessions: dict[str, Session] = {}

    def begin(self, visitor: Visitor) -> str:
        """Begin a session; return the value of its cookie."""
        key = secrets.token_urlsafe(32)
        self._sessions[key] = Session(
            self._clock.monotonic() + SESSION_SECONDS, visitor
        )
        while len(self._sessions) > MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return key

    def passing(self) -> Session:
        """Return a session for a single request, of a program that sends the token."""
        return Session(self._clock.monotonic() + SESSION_SECONDS)

    def find(self, key: str | None, visitor: Visitor) -> Session | None:
        """Return the session with this cookie, if it is valid for the visitor."""
        session = self._sessions.get(key or "")
        if session is None or session.visitor != visitor:
            return None
        has_expired = session.until < self._clock.monotonic()
        return None if has_expired else session


class Tickets:
    """Keys for links that work once, within a minute.

    A link given to a program is visible to every user of the machine (`ps`).
    """

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
        """Use a ticket; return whether it was valid."""
        until = self._until.pop(ticket, None)
        return until is not None and until >= self._clock.monotonic()


class Access:
    """Admits or refuses requests by their headers."""

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
        """Admit requests whose Host is in `names`.

        `origins` are admitted besides our own, for a proxy that adds TLS.
        """
        self._user_at = user_at
        self._token = token
        self._sessions = Sessions(clock)
        self._tickets = Tickets(clock)
        self._names = names
        self._origins = origins
        # Cookies are shared by all ports of a host. With the port in its name, two
        # dashboards on one machine do not log each other out.
        self.cookie = f"bridgehead_web_{port}"

    def new_link(self) -> str:
        """Return a path that admits one browser."""
        return f"/?ticket={self._tickets.issue()}"

    def judge(self, request: HTTPConnection) -> Session | Response | None:
        """Return the session of a request, or the response that refuses it.

        Return None if anybody may see what is requested.
        """
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
        # Browsers send the origin with every form, so a request without one was not
        # made by a page of ours.
        if method not in SAFE and "origin" not in request.headers:
            return PlainTextResponse("this origin is not admitted\n", 403)
        return session

    def _visitor(self, request: HTTPConnection) -> Visitor:
        client = request.scope.get("client")
        server = request.scope.get("server")
        user = None
        if client is not None and server is not None and server[1] is not None:
            user = self._user_at(Ends((client[0], client[1]), (server[0], server[1])))
        return Visitor(request.headers.get("host", "").lower(), user)

    def _shows_token(self, request: HTTPConnection) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self._is_token(token.strip())

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(
            text.encode("utf-8", "replace"), self._token.encode()
        )

    def _enter(self, request: HTTPConnection) -> Response:
        """Exchange the token or ticket for a cookie; remove it from the address bar."""
        query = request.query_params
        has_token = self._is_token(query.get("token", ""))
        if not has_token and not self._tickets.take(query.get("ticket", "")):
            return closed()
        others = [item for item in query.multi_items() if item[0] not in _KEYS]
        # One slash only: `//name` would lead to another host.
        target = "/" + request.url.path.lstrip("/")
        if others:
            target += f"?{urlencode(others)}"
        response = RedirectResponse(target, 303)
        response.set_cookie(
            self.cookie,
            self._sessions.begin(self._visitor(request)),
            max_age=int(SESSION_SECONDS),
            path="/",
            httponly=True,
            samesite="strict",
        )
        return response


def closed() -> Response:
    """Return the page shown to those who are not logged in."""
    from bridgehead.dashboard.templating import environment

    return Response(
        environment().get_template("closed.html").render(), 401, media_type="text/html"
    )


def protect(headers: MutableHeaders) -> None:
    """Add the security headers that every response has."""
    headers.update(_HEADERS)
    headers.setdefault("Cache-Control", "no-store")


def _is_foreign(request: HTTPConnection, method: str) -> bool:
    """Return whether another site made the browser send this, except by a link."""
    if request.headers.get("sec-fetch-site") in (None, "same-origin", "none"):
        return False
    return method not in SAFE or request.headers.get("sec-fetch-mode") != "navigate"


class Guard:
    """Passes on the requests that `Access` admits, with `request.state.session` set."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._guard(scope, receive, _protected(send))
        else:
            # The dashboard has no WebSockets.
            await send({"type": "websocket.close", "code": 1008})

    async def _guard(self, scope: Scope, receive: Receive, send: Send) -> None:
        if has_two_lengths(name for name, _ in scope["headers"]):
            message = "send Content-Length or Transfer-Encoding, not both\n"
            refused = PlainTextResponse(message, 400, headers={"Connection": "close"})
            await refused(scope, receive, send)
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
    """Return the whole body; None if the client has disconnected.

    Return a response if the body is too large or takes too long.
    """
    request = Request(scope, receive)
    declared = request.headers.get("content-length", "0")
    is_number = declared.isdecimal() and len(declared) <= MOST_DIGITS
    if not is_number or int(declared) > MOST_BODY_BYTES:
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
    """Return a receiver that first delivers the body, then what really comes."""
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
