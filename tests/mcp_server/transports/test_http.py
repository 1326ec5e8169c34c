"""MCP over HTTP: the official client against the mounted application, and requests nobody may make."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from mcp import Client, types

from bridgehead.assembly.application import Assembly
from bridgehead.errors import UserError
from bridgehead.mcp_server.jsonrpc import CAPABILITIES_KEY, VERSION_KEY
from bridgehead.mcp_server.tools.catalogue import TOOLS
from bridgehead.mcp_server.transports.http import HttpApp
from support.installed import Machine
from support.mcp_hosts import HELLO, TOKEN, called, served, with_http_client

pytestmark = pytest.mark.xdist_group("mcp")

ALONE = {"paths": ["orders/store.py"], "runtimes": ["static"], "intensity": "quick"}


def test_both_generations_of_clients_hold_councils_with_progress_over_http(
    orders: Machine,
) -> None:
    told: list[str] = []

    async def review(client: Client) -> dict[str, Any]:
        async def heard(
            _progress: float, _total: float | None, message: str | None
        ) -> None:
            told.append(message or "")

        result = await client.call_tool("council", ALONE, progress_callback=heard)
        assert result.structured_content is not None
        return result.structured_content

    async def look(client: Client) -> str:
        listed = await client.list_resources()
        report = next(one.uri for one in listed.resources if "council" in one.uri)
        content = (await client.read_resource(report)).contents[0]
        assert isinstance(content, types.TextResourceContents)
        assert (await called(client, "pending"))["items"] == []
        return content.text

    with served(orders) as address:
        reported = with_http_client(address, "legacy", review)
        text = with_http_client(address, "auto", look)

    assert reported["verdict"] == "CONCERNS"
    assert "host_unknown" in reported["warnings"], (
        "nobody knows which seat this client would take"
    )
    assert any(message.startswith("static: completed, ") for message in told)
    assert reported["review_id"] in text
    assert "<<< begin foreign text" in text


def message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def test_strangers_and_contradictions_are_refused_before_anything_is_done(
    orders: Machine,
) -> None:
    envelope = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}
    call = message("tools/call", name="doctor", _meta=envelope)
    routed = {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "doctor",
    }
    ours = {"authorization": f"Bearer {TOKEN}"}
    cases: list[tuple[str, dict[str, str], Any, int]] = [
        ("POST", {}, call, 401),
        ("POST", {"authorization": "Bearer wrong"}, call, 401),
        ("POST", {"authorization": f"Basic {TOKEN}"}, call, 401),
        ("GET", ours, None, 405),
        ("DELETE", ours, None, 404),
        ("POST", ours, {}, 400),
        ("POST", ours, message("tools/list"), 400),
        ("POST", {**ours, "mcp-session-id": "guessed"}, message("tools/list"), 404),
        ("POST", {**ours, **routed, "mcp-name": "council"}, call, 400),
        ("POST", {**ours, **routed, "mcp-method": "tools/list"}, call, 400),
        ("POST", {**ours, **routed, "mcp-protocol-version": "2025-11-25"}, call, 400),
        (
            "POST",
            {**ours, **routed, "mcp-method": "no/such"},
            message("no/such", _meta=envelope),
            404,
        ),
        ("POST", ours, {"jsonrpc": "2.0", "method": "notifications/initialized"}, 202),
    ]

    with served(orders) as address, httpx.Client(trust_env=False) as client:
        answers = [
            client.request(method, address, headers=headers, json=body).status_code
            for method, headers, body, _ in cases
        ]
        begun = client.post(address, headers=ours, json=message("initialize", **HELLO))
        session = {**ours, "mcp-session-id": begun.headers["mcp-session-id"]}
        listed = client.post(
            address, headers=session, json=message("tools/list")
        ).json()
        unknown = client.post(address, headers=session, json=message("no/such"))
        ended = client.delete(address, headers=session).status_code
        gone = client.post(
            address, headers=session, json=message("tools/list")
        ).status_code
        too_large = client.post(
            address, headers=ours, content=b" " * (17 << 20)
        ).status_code

    assert answers == [status for *_, status in cases]
    assert len(listed["result"]["tools"]) == len(TOOLS)
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (200, -32601)
    assert (ended, gone, too_large) == (204, 404, 413)
    assert not orders.record.exists(), json.dumps(answers)


def test_there_is_no_application_without_a_token(orders: Machine) -> None:
    with pytest.raises(UserError, match="token"):
        HttpApp(lambda: Assembly(orders.project, orders.environ()), token="")
