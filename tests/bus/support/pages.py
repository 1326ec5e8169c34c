"""The chat page as a program sees it: the link, the cookie, the WebSocket behind it."""

from __future__ import annotations

import json
from typing import Any

from bridgehead.bus.sockets.dial import ClientConversation, Target, dial
from bus.support.serving import Served, http


async def enter(server: Served) -> str:
    """Open the link that is printed; the cookie it gives."""
    path = server.chat_url.split(server.gateway_address)[1]
    status, headers, body = await http(server.gateway_address, "GET", path)
    assert status == 200 and b"<textarea" in body
    cookie = headers["set-cookie"]
    assert (
        "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Path=/chat" in cookie
    )
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    again, _, closed = await http(server.gateway_address, "GET", path)
    assert again == 401 and b"has been used" in closed
    return cookie.partition(";")[0]


async def page(
    server: Served, cookie: str | None, **headers: str
) -> ClientConversation:
    conversation = ClientConversation()
    shown = {"Origin": f"http://{server.gateway_address}", **headers}
    if cookie is not None:
        shown["Cookie"] = cookie
    await dial(
        Target(f"ws://{server.gateway_address}/chat", tuple(shown.items())),
        conversation,
    )
    return conversation


async def told(conversation: ClientConversation, key: str) -> Any:
    while key not in (event := json.loads(await conversation.receive())):
        pass
    return event[key]
