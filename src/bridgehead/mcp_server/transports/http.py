"""Streamable HTTP inside the dashboard: sessions, one call at a time per request, a
token on every request.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from bridgehead.errors import UserError
from bridgehead.host.command import Cancel
from bridgehead.mcp_server import jsonrpc
from bridgehead.mcp_server.server import TAKES_TIME, Server
from bridgehead.mcp_server.transports.calls import (
    MOST_CALLS,
    ProgressNotifications,
    Questions,
    answer_of,
)
from bridgehead.mcp_server.transports.conversation import CANCELLED

if TYPE_CHECKING:
    from bridgehead.assembly.application import Assembly

KEEP_ALIVE_SECONDS: Final = 15.0
"""A comment this often keeps proxies and clients from giving up on a quiet stream."""

MOST_WAITING: Final = 1_000
MOST_SESSIONS: Final = 256
MOST_BODY_BYTES: Final = 16 * 1024 * 1024
SESSION_HEADER: Final = "mcp-session-id"
_NAMED_BY: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
}
_STATUS: Final = {
    jsonrpc.Code.PARSE_ERROR: 400,
    jsonrpc.Code.INVALID_REQUEST: 400,
    jsonrpc.Code.INVALID_PARAMS: 400,
    jsonrpc.Code.HEADER_MISMATCH: 400,
    jsonrpc.Code.UNSUPPORTED_VERSION: 400,
    jsonrpc.Code.METHOD_NOT_FOUND: 404,
}

_free_calls = threading.BoundedSemaphore(MOST_CALLS)


class HttpApp:
    """One endpoint; its path is where it was mounted.

    `stop()` it when the server shuts down.
    """

    def __init__(self, make_assembly: Callable[[], Assembly], *, token: str) -> None:
        if not token:
            raise UserError(
                "MCP over HTTP needs a token", hint="use the token of `bridgehead web`"
            )
        self._server = Server(make_assembly)
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
            return Response(
                "the message is too large\n", 413, headers={"Connection": "close"}
            )
        return self._received(request.headers, body)

    def _received(self, headers: Mapping[str, str], body: bytes) -> Response:
        message = jsonrpc.read_message(body)
        match message:
            case jsonrpc.RpcRequest():
                try:
                    return self._asked(headers, message)
                except jsonrpc.RpcError as error:
                    return _refused(
                        message.id, error, modern=jsonrpc.has_envelope(message)
                    )
            case jsonrpc.Malformed(request_id, code, problem):
                return _refused(
                    request_id, jsonrpc.RpcError(code, problem), modern=True
                )
            case jsonrpc.Notification(method, params) if method == CANCELLED:
                if (
                    session := self._sessions.find(headers.get(SESSION_HEADER))
                ) is not None:
                    session.stop(params.get("requestId"))
            case jsonrpc.Reply():
                if (
                    session := self._sessions.find(headers.get(SESSION_HEADER))
                ) is not None:
                    session.questions.replied(message)
        return Response(status_code=202)

    def _asked(
        self, headers: Mapping[str, str], request: jsonrpc.RpcRequest
    ) -> Response:
        if request.method == "initialize":
            client = jsonrpc.client_of_initialize(request.params)
            answer = _json(
                jsonrpc.result(request.id, self._server.answer_at_once(request, client))
            )
            answer.headers[SESSION_HEADER] = self._sessions.begin(client)
            return answer
        session: HttpSession | None = None
        if jsonrpc.has_envelope(request):
            _refuse_mismatch(headers, request)
            client = jsonrpc.client_of_envelope(request)
        else:
            session = self._sessions.find(headers.get(SESSION_HEADER))
            if session is None:
                return Response(
                    "no such session; initialize first\n",
                    404 if SESSION_HEADER in headers else 400,
                )
            client = session.client
        if request.method not in TAKES_TIME:
            return _json(
                jsonrpc.result(request.id, self._server.answer_at_once(request, client))
            )
        return self._streamed(request, client, session)

    def _streamed(
        self,
        request: jsonrpc.RpcRequest,
        client: jsonrpc.Client,
        session: HttpSession | None,
    ) -> Response:
        call = HttpCall(
            self._server,
            request,
            client,
            session.questions if session is not None else Questions(),
        )
        self._calls.add(call)
        if session is not None:
            session.running[request.id] = call.cancel

        def ended() -> None:
            self._calls.discard(call)
            if session is not None:
                session.running.pop(request.id, None)

        return StreamingResponse(
            call.events(ended),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store"},
        )

    def _shows_token(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        same = hmac.compare_digest(
            given.strip().encode("utf-8", "replace"), self._token.encode()
        )
        return scheme.lower() == "bearer" and same


class HttpSession:
    """One client, and what is being carried out for it."""

    def __init__(self, client: jsonrpc.Client) -> None:
        self.client = client
        self.running: dict[jsonrpc.RequestId, Cancel] = {}
        self.questions = Questions()

    def stop(self, request_id: object) -> None:
        if (
            isinstance(request_id, str | int)
            and (cancel := self.running.get(request_id)) is not None
        ):
            cancel.cancel()


class HttpSessions:
    """All of them; the oldest makes room, and its client introduces itself again."""

    def __init__(self) -> None:
        self._sessions: dict[str, HttpSession] = {}

    def begin(self, client: jsonrpc.Client) -> str:
        """Return a new session's id: unguessable, because it lets its holder stop
        calls.
        """
        while len(self._sessions) >= MOST_SESSIONS:
            self.end(next(iter(self._sessions)))
        session_id = secrets.token_urlsafe(24)
        self._sessions[session_id] = HttpSession(client)
        return session_id

    def find(self, session_id: str | None) -> HttpSession | None:
        return self._sessions.get(session_id) if session_id else None

    def end(self, session_id: str | None) -> bool:
        """Forget a session and stop what runs for it; False when there is none."""
        session = self._sessions.pop(session_id, None) if session_id else None
        for cancel in list(session.running.values()) if session else ():
            cancel.cancel()
        return session is not None

    def end_all(self) -> None:
        for session_id in list(self._sessions):
            self.end(session_id)


class HttpCall:
    """A request that takes time; made inside the server's loop. `cancel` stops it."""

    def __init__(
        self,
        server: Server,
        request: jsonrpc.RpcRequest,
        client: jsonrpc.Client,
        questions: Questions,
    ) -> None:
        self._server = server
        self._request = request
        self._client = client
        self._questions = questions
        self.cancel = Cancel()
        self._left = Cancel()
        """Nobody reads the stream any more, so that nobody can be asked."""
        self._loop = asyncio.get_running_loop()
        self._progress: asyncio.Queue[bytes | None] = asyncio.Queue()
        """None ends it: the answer is there, or nobody wants it any more."""
        self._answer = b""
        self._unanswered: list[Callable[[], None]] = []

    async def events(self, ended: Callable[[], None]) -> AsyncIterator[bytes]:
        """Yield the stream.

        A client of 2026-07-28 stops the call by closing it, older ones look for the
        result later.
        """
        if not _free_calls.acquire(blocking=False):
            ended()
            busy = jsonrpc.RpcError(
                jsonrpc.Code.BUSY,
                f"{MOST_CALLS} calls are running; wait for one of them to end",
            )
            yield _event(jsonrpc.error(self._request.id, busy))
            return
        threading.Thread(target=self._carry_out, args=(ended,), name="mcp call").start()
        try:
            async for event in self._progress_events():
                yield event
            if not self.cancel.cancelled:
                yield _event(self._answer)
                # It was written out, or nobody would ask for more.
                for done in self._unanswered:
                    done()
        finally:
            self._left.cancel()
            if self._client.sends_envelopes:
                self.cancel.cancel()

    async def _progress_events(self) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                    content = await self._progress.get()
            except TimeoutError:
                yield b": still at it\n\n"
                continue
            if content is None:
                return
            yield _event(content)

    def _carry_out(self, ended: Callable[[], None]) -> None:
        """In its own thread."""
        progress = ProgressNotifications(self._request, self._send_progress)
        try:
            wire = jsonrpc.Wire(progress, self._ask, self._unanswered.append)
            self._answer = answer_of(
                self._server, self._request, self._client, self.cancel, wire
            )
        finally:
            _free_calls.release()
            self._in_loop(ended)
            self._in_loop(lambda: self._progress.put_nowait(None))

    def _ask(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        with self.cancel.waking(self._left.cancel):
            return self._questions.ask(params, self._send_progress, self._left)

    def _send_progress(self, content: bytes) -> bool:
        """Progress for whoever still reads.

        What a slow reader misses is only progress.
        """
        if self._progress.qsize() < MOST_WAITING:
            self._in_loop(lambda: self._progress.put_nowait(content))
        return True

    def _in_loop(self, action: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(action)
        except RuntimeError:
            return  # the server's loop is closed: nobody reads it any more


def _event(content: bytes) -> bytes:
    return b"event: message\ndata: " + content + b"\n\n"


def _refuse_mismatch(headers: Mapping[str, str], request: jsonrpc.RpcRequest) -> None:
    """2026-07-28: what intermediaries read in the headers must be what the message
    says.
    """
    said = {
        "mcp-protocol-version": request.meta.get(jsonrpc.VERSION_KEY),
        "mcp-method": request.method,
    }
    if (field := _NAMED_BY.get(request.method)) is not None and field in request.params:
        said["mcp-name"] = request.params[field]
    for name, value in said.items():
        if _decoded(headers.get(name)) != value:
            raise jsonrpc.RpcError(
                jsonrpc.Code.HEADER_MISMATCH,
                f"the header {name} does not match the message",
            )


def _decoded(value: str | None) -> str | None:
    """Return a header's value; texts that headers cannot carry come as =?base64?…?=."""
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    import base64

    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except ValueError:
        return None


async def _body(request: Request) -> bytes | None:
    """Return the whole body; None when it is too large."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BODY_BYTES:
            return None
    return bytes(body)


def _json(content: bytes, status: int = 200) -> Response:
    return Response(content, status, media_type="application/json")


def _refused(
    request_id: jsonrpc.RequestId | None, error: jsonrpc.RpcError, *, modern: bool
) -> Response:
    """Return an error of the protocol.

    Older clients read 404 as the end of their session, so they get 200.
    """
    return _json(
        jsonrpc.error(request_id, error),
        _STATUS.get(error.code, 200) if modern else 200,
    )
