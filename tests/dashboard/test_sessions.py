"""Sessions, tickets and headers by themselves: how long they last, how many there are, whose they are (design §9)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import Response

from bridgehead.dashboard.access import (
    MOST_SESSIONS,
    MOST_TICKETS,
    SESSION_SECONDS,
    TICKET_SECONDS,
    Access,
    Guard,
    Session,
    Sessions,
    Tickets,
    Visitor,
    protect,
)
from bridgehead.host.clock import ManualClock

TOKEN = "t" * 32
VISITOR = Visitor("127.0.0.1:8183", 1000)


def test_a_session_ends_is_one_visitor_s_and_one_of_so_many() -> None:
    clock = ManualClock()
    sessions = Sessions(clock)
    key = sessions.begin(VISITOR)
    assert sessions.find(key, VISITOR) is not None
    assert sessions.find(key, Visitor(VISITOR.host, 1001)) is None
    assert sessions.find(key, Visitor("localhost:8183", 1000)) is None
    clock.advance(SESSION_SECONDS + 1)
    assert sessions.find(key, VISITOR) is None
    keys = [sessions.begin(VISITOR) for _ in range(MOST_SESSIONS + 5)]
    assert len(sessions._sessions) == MOST_SESSIONS
    assert (
        sessions.find(keys[0], VISITOR) is None
        and sessions.find(keys[-1], VISITOR) is not None
    )


def test_a_ticket_opens_once_and_not_for_long() -> None:
    clock = ManualClock()
    tickets = Tickets(clock)
    ticket = tickets.issue()
    assert tickets.take(ticket) and not tickets.take(ticket)
    late = tickets.issue()
    clock.advance(TICKET_SECONDS + 1)
    assert not tickets.take(late)
    for _ in range(MOST_TICKETS + 5):
        tickets.issue()
    assert len(tickets._until) == MOST_TICKETS


def test_a_form_belongs_to_its_session() -> None:
    one, other = Session(1.0), Session(1.0)
    assert one.is_own_form(one.csrf)
    assert (
        not one.is_own_form(other.csrf)
        and not one.is_own_form("")
        and not one.is_own_form("\udcff")
    )


def access(port: int = 8183) -> Access:
    return Access(
        TOKEN,
        ManualClock(),
        names=frozenset({"localhost"}),
        port=port,
        user_at=lambda _ends: 1000,
    )


def connection(path: str = "/", method: str = "GET", **headers: str) -> HTTPConnection:
    sent = {
        "host": "127.0.0.1:8183",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    path, _, query = path.partition("?")
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        "client": ("127.0.0.1", 5000),
        "server": ("127.0.0.1", 8183),
        "scheme": "http",
    }
    return HTTPConnection(scope)


@pytest.mark.parametrize(
    ("authorization", "admitted"),
    [
        (f"Bearer {TOKEN}", True),
        (f"bearer  {TOKEN} ", True),
        (f"Basic {TOKEN}", False),
        (TOKEN, False),
        (f"Bearer {TOKEN[:-1]}", False),
        (f"Bearer {TOKEN[:8]}{'x' * 24}", False),
        ("Bearer", False),
    ],
)
def test_a_token_is_shown_whole_and_as_a_bearer_s(
    authorization: str, admitted: bool
) -> None:
    judged = access().judge(connection(authorization=authorization))
    assert isinstance(judged, Session) is admitted


def test_the_cookie_is_this_port_s() -> None:
    entered = access(8199).judge(connection(f"/?token={TOKEN}"))
    assert isinstance(entered, Response)
    cookie = entered.headers["set-cookie"]
    assert cookie.startswith("bridgehead_web_8199=")
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie


def test_nothing_is_kept_by_the_browser_unless_a_page_allows_it() -> None:
    headers = MutableHeaders()
    protect(headers)
    assert headers["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert (
        headers["x-frame-options"] == "DENY"
        and headers["x-content-type-options"] == "nosniff"
    )
    allowed = MutableHeaders({"cache-control": "max-age=60"})
    protect(allowed)
    assert allowed["cache-control"] == "max-age=60"


def test_a_websocket_is_closed_before_anybody_sees_it() -> None:
    sent: list[Any] = []

    async def nobody(*_: Any) -> None:
        raise AssertionError("it went around the guard")

    async def send(message: Any) -> None:
        sent.append(message)

    anyio.run(
        Guard(nobody, access()), {"type": "websocket", "headers": []}, nobody, send
    )
    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize(
    ("site", "mode", "method", "foreign"),
    [
        ("same-origin", "cors", "GET", False),
        ("none", "navigate", "GET", False),
        ("same-site", "cors", "GET", True),
        ("cross-site", "no-cors", "GET", True),
        ("cross-site", "navigate", "GET", False),
        ("cross-site", "navigate", "POST", True),
        ("same-site", "navigate", "POST", True),
    ],
)
def test_what_a_browser_says_about_the_asker_counts(
    site: str, mode: str, method: str, foreign: bool
) -> None:
    asked = connection(
        method=method,
        authorization=f"Bearer {TOKEN}",
        sec_fetch_site=site,
        sec_fetch_mode=mode,
    )
    assert isinstance(access().judge(asked), Response) is foreign
