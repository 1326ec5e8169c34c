"""Sessions of MCP over HTTP by themselves, and the token that opens the door."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from starlette.requests import Request

from bridgehead.errors import UserError
from bridgehead.mcp_server.jsonrpc import Client, RpcRequest, Wire
from bridgehead.mcp_server.server import Server
from bridgehead.mcp_server.transports.calls import Questions
from bridgehead.mcp_server.transports.http import (
    MOST_SESSIONS,
    HttpApp,
    HttpCall,
    HttpSessions,
)

TOKEN = "t" * 32


def test_sessions_cannot_be_guessed_and_have_an_end() -> None:
    sessions = HttpSessions()
    made = [sessions.begin(cast(Any, None)) for _ in range(MOST_SESSIONS + 5)]
    assert len(set(made)) == len(made) and min(map(len, made)) >= 32
    assert len(sessions._sessions) == MOST_SESSIONS
    assert sessions.find(made[0]) is None and sessions.find(made[-1]) is not None
    assert sessions.end(made[-1]) and sessions.find(made[-1]) is None


@pytest.mark.parametrize(
    ("authorization", "shown"),
    [
        (f"Bearer {TOKEN}", True),
        (f"Basic {TOKEN}", False),
        (f"Bearer {TOKEN[:8]}{'x' * 24}", False),
        (f"Bearer {TOKEN}x", False),
        ("Bearer ", False),
        ("", False),
    ],
)
def test_the_token_is_shown_whole(authorization: str, shown: bool) -> None:
    app = HttpApp(cast(Any, None), token=TOKEN)
    headers = [(b"authorization", authorization.encode())]
    assert app._shows_token(Request({"type": "http", "headers": headers})) is shown


def test_nothing_is_served_without_a_token() -> None:
    with pytest.raises(UserError, match="token"):
        HttpApp(cast(Any, None), token="")


class NotingServer(Server):
    """Answers at once, and notes when it is told that the answer arrived."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    def carry_out(self, *given: Any) -> dict[str, Any]:
        wire: Wire = given[-1]
        wire.once_answered(lambda: self.noted.append("answered"))
        return {}


@pytest.mark.parametrize(("client_stays", "noted"), [(True, ["answered"]), (False, [])])
def test_what_waits_for_the_answer_waits_until_it_was_written(
    client_stays: bool, noted: list[str]
) -> None:
    server = NotingServer()

    async def read_answer() -> None:
        call = HttpCall(
            server,
            RpcRequest(1, "tools/call", {}),
            Client("c", "2025-11-25"),
            Questions(),
        )
        events = call.events(lambda: None)
        assert b'"id":1' in await anext(events)
        assert server.noted == []
        if client_stays:
            assert await anext(events, None) is None
        await events.aclose()  # type: ignore[attr-defined]

    asyncio.run(read_answer())

    assert server.noted == noted
