"""The server over Streamable HTTP: an ASGI application to be mounted, `http_app(make_assembly, token=…)`.

One message is one POST. What is answered from the tables comes back as JSON, what takes time as a stream of events
with its progress. Without the token nothing is looked at; Host and Origin are the mounting application's to check.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from bridgehead.errors import UserError
from bridgehead.mcp_server import jsonrpc
from bridgehead.mcp_server.client import VERSION_KEY, Client, enveloped, has_envelope, introduced
from bridgehead.mcp_server.conversation import CANCELLED
from bridgehead.mcp_server.http_call import HttpCall
from bridgehead.mcp_server.http_sessions import HttpSession, HttpSessions
from bridgehead.mcp_server.jsonrpc import Code, Malformed, Notification, RpcError, read_message
from bridgehead.mcp_server.server import TAKES_TIME, Server

if TYPE_CHECKING:
    from bridgehead.assembly.application import Assembly

MOST_BODY_BYTES: Final = 16 * 1024 * 1024
SESSION_HEADER: Final = "mcp-session-id"
_NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_STATUS: Final = {
    Code.PARSE_ERROR: 400,
    Code.INVALID_REQUEST: 400,
    Code.INVALID_PARAMS: 400,
    Code.HEADER_MISMATCH: 400,
    Code.UNSUPPORTED_VERSION: 400,
    Code.METHOD_NOT_FOUND: 404,
}


class TokenNeeded(UserError):
    """MCP over HTTP was to be served to everybody."""

    def __init__(self) -> None:
        super().__init__(
            "MCP over HTTP is served with a token only", hint="use the token of `bridgehead web`"
        )


def http_app(make_assembly: Callable[[], Assembly], *, token: str) -> HttpApp:
    """The application; refuses to be made without a token. `stop()` it when the server shuts down."""
    if not token:
        raise TokenNeeded
    return HttpApp(Server(make_assembly), token)


class HttpApp:
    """One endpoint; its path is where it was mounted."""

    def __init__(self, server: Server, token: str) -> None:
        self._server = server
        self._token = token
        self._sessions = HttpSessions()
        self._calls: set[HttpCall] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        response = await self._respond(request)
        if response is not None:
            await response(scope, receive, send)

    def stop(self) -> None:
        """Stop everything that runs, as by Ctrl-C."""
        self._sessions.end_all()
        for call in list(self._calls):
            call.cancel.cancel()

    async def _respond(self, request: Request) -> ASGIApp | None:
        if not self._shows_token(request):
            return Response(status_code=401, headers={"WWW-Authenticate": "Bearer"})
        if request.method == "DELETE":
            ended = self._sessions.end(request.headers.get(SESSION_HEADER))
            return Response(status_code=204 if ended else 404)
        if request.method != "POST":
            return Response(status_code=405, headers={"Allow": "POST, DELETE"})
        try:
            body = await _body(request)
        except ClientDisconnect:
            return None
        if body is None:
            return Response("the message is too large\n", 413, headers={"Connection": "close"})
        return self._received(request.headers, body)

    def _received(self, headers: Mapping[str, str], body: bytes) -> Response:
        message = read_message(body)
        match message:
            case jsonrpc.Request():
                try:
                    return self._asked(headers, message)
                except RpcError as error:
                    return _refused(message.id, error, modern=has_envelope(message))
            case Malformed(request_id, code, problem):
                return _refused(request_id, RpcError(code, problem), modern=True)
            case Notification(method, params) if method == CANCELLED:
                session = self._sessions.find(headers.get(SESSION_HEADER))
                if session is not None:
                    session.stop(params.get("requestId"))
        return Response(status_code=202)

    def _asked(self, headers: Mapping[str, str], request: jsonrpc.Request) -> Response:
        if request.method == "initialize":
            client = introduced(request.params)
            answer = _json(jsonrpc.result(request.id, self._server.answer_at_once(request, client)))
            answer.headers[SESSION_HEADER] = self._sessions.begin(client)
            return answer
        session: HttpSession | None = None
        if has_envelope(request):
            _refuse_mismatch(headers, request)
            client = enveloped(request)
        else:
            session = self._sessions.find(headers.get(SESSION_HEADER))
            if session is None:
                return Response(
                    "no such session; initialize first\n", 404 if SESSION_HEADER in headers else 400
                )
            client = session.client
        if request.method not in TAKES_TIME:
            return _json(jsonrpc.result(request.id, self._server.answer_at_once(request, client)))
        return self._streamed(request, client, session)

    def _streamed(self, request: jsonrpc.Request, client: Client, session: HttpSession | None) -> Response:
        call = HttpCall(self._server, request, client)
        self._calls.add(call)
        if session is not None:
            session.running[request.id] = call.cancel

        def ended() -> None:
            self._calls.discard(call)
            if session is not None:
                session.running.pop(request.id, None)

        return StreamingResponse(
            call.events(ended), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    def _shows_token(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._token.encode())
        return scheme.lower() == "bearer" and same


def _refuse_mismatch(headers: Mapping[str, str], request: jsonrpc.Request) -> None:
    """2026-07-28: what intermediaries read in the headers must be what the message says."""
    said = {"mcp-protocol-version": request.meta.get(VERSION_KEY), "mcp-method": request.method}
    if (field := _NAMED_BY.get(request.method)) is not None and field in request.params:
        said["mcp-name"] = request.params[field]
    for name, value in said.items():
        if _decoded(headers.get(name)) != value:
            raise RpcError(Code.HEADER_MISMATCH, f"the header {name} does not say what the message does")


def _decoded(value: str | None) -> str | None:
    """A header's value; texts that headers cannot carry come as =?base64?…?=."""
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    import base64

    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except ValueError:
        return None


async def _body(request: Request) -> bytes | None:
    """The whole body; None when it is too large."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BODY_BYTES:
            return None
    return bytes(body)


def _json(content: bytes, status: int = 200) -> Response:
    return Response(content, status, media_type="application/json")


def _refused(request_id: jsonrpc.RequestId | None, error: RpcError, *, modern: bool) -> Response:
    """An error of the protocol; older clients read 404 as the end of their session, so they get 200."""
    status = _STATUS.get(error.code, 200) if modern else 200
    return _json(jsonrpc.error(request_id, error), status)
