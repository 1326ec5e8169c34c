"""The outermost layer of the application: judges every request, bounds its body, protects every answer."""

from __future__ import annotations

from typing import Final

import anyio
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bridgehead.dashboard.access import SAFE, Access, protect

MOST_BODY_BYTES: Final = 16 << 20
MOST_DIGITS: Final = 12
BODY_SECONDS: Final = 30.0


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
    if not declared.isdecimal() or len(declared) > MOST_DIGITS or int(declared) > MOST_BODY_BYTES:
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
    message = f"the request is larger than {MOST_BODY_BYTES >> 20} MiB; nothing was changed\n"
    return PlainTextResponse(message, 413, headers={"Connection": "close"})


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Hands the body out once, then whatever really happens next."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _protected(send: Send) -> Send:
    async def protected(message: Message) -> None:
        if message["type"] == "http.response.start":
            protect(MutableHeaders(scope=message))
        await send(message)

    return protected
