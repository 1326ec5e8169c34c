"""Who may come in: Host, Origin and credentials are judged before anything of a request is worked on (design §9).

A page of another site cannot choose its `Origin`, and one that resolved its own name to this machine shows that name
in `Host`. Cookies are shared by all ports of a host, so a page of another local server counts as foreign too.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from bridgehead.bus.sockets.origin import refusal
from bridgehead.dashboard.sessions import SESSION_SECONDS, Session, Sessions, Tickets
from bridgehead.host.clock import Clock

SAFE: Final = frozenset({"GET", "HEAD"})
PUBLIC: Final = "/static/"
MCP: Final = "/mcp"
LINK: Final = "/link"
_FOR_PROGRAMS: Final = frozenset({MCP, LINK})
_KEYS: Final = frozenset({"token", "ticket"})

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
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


class Access:
    """Decides about requests by their head."""

    def __init__(
        self, token: str, clock: Clock, *, names: frozenset[str], port: int, origins: Sequence[str] = ()
    ) -> None:
        """`names` may stand in Host; `origins` are admitted besides our own, for a proxy that speaks TLS for us."""
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
        method, path = str(request.scope["method"]), request.url.path
        refused = refusal(request.headers, names=self._names, listed=self._origins, same_origin=True)
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
        return self._known(request, method)

    def _known(self, request: HTTPConnection, method: str) -> Session | Response:
        session = self._sessions.find(request.cookies.get(self.cookie))
        if session is None:
            return closed()
        # Browsers name the origin of every form they send; what leaves it out is no page of ours.
        if method not in SAFE and "origin" not in request.headers:
            return PlainTextResponse("this origin is not admitted\n", 403)
        return session

    def _shows_token(self, request: HTTPConnection) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self._is_token(given.strip())

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode())

    def _enter(self, request: HTTPConnection) -> Response:
        """Exchange the token or ticket for a cookie and take it out of the address bar."""
        query = request.query_params
        if not self._is_token(query.get("token", "")) and not self._tickets.take(query.get("ticket", "")):
            return closed()
        rest = [(key, value) for key, value in query.multi_items() if key not in _KEYS]
        # One slash only: `//name` would lead to another host.
        target = "/" + request.url.path.lstrip("/") + (f"?{urlencode(rest)}" if rest else "")
        entered = RedirectResponse(target, 303)
        entered.set_cookie(
            self.cookie,
            self._sessions.begin(),
            max_age=int(SESSION_SECONDS),
            path="/",
            httponly=True,
            samesite="strict",
        )
        return entered


def closed() -> Response:
    """What a stranger gets."""
    from bridgehead.dashboard.templating import environment

    return Response(environment().get_template("closed.html").render(), 401, media_type="text/html")


def protect(headers: MutableHeaders) -> None:
    """What every answer tells the browser."""
    for name, value in _HEADERS.items():
        headers[name] = value
    headers.setdefault("Cache-Control", "no-store")


def _is_foreign(request: HTTPConnection, method: str) -> bool:
    """Whether another page makes the browser ask, other than by a link that was followed."""
    if request.headers.get("sec-fetch-site") in (None, "same-origin", "none"):
        return False
    return method not in SAFE or request.headers.get("sec-fetch-mode") != "navigate"
