"""Calls that are being carried out beside a transport's loop: a bounded number, each of
which can be stopped.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import Any, Final

from bridgehead.host.command import Cancel
from bridgehead.mcp_server import jsonrpc
from bridgehead.mcp_server.jsonrpc import (
    ELICIT,
    Client,
    Code,
    Reply,
    RequestId,
    RpcError,
    RpcRequest,
    Wire,
)
from bridgehead.mcp_server.server import Server

MOST_CALLS: Final = 32
SECONDS_TO_END: Final = 20.0
"""How long calls that were stopped may take to put everything away."""

Send = Callable[[bytes], bool]
"""Tells whether the client still reads."""

logger = logging.getLogger(__name__)


class Questions:
    """Requests of ours to one client, each waited for by the call that makes it."""

    def __init__(self) -> None:
        self._waiting: dict[object, SimpleQueue[Mapping[str, Any]]] = {}

    def ask(
        self, params: Mapping[str, Any], send: Send, cancel: Cancel
    ) -> Mapping[str, Any]:
        """Have a person asked; empty when the call was cancelled meanwhile."""
        request_id = f"ask-{secrets.token_hex(8)}"
        replies = SimpleQueue[Mapping[str, Any]]()
        self._waiting[request_id] = replies
        try:
            with cancel.waking(lambda: replies.put({})):
                if cancel.cancelled:
                    return {}
                send(jsonrpc.request(request_id, ELICIT, params))
                return replies.get()
        finally:
            del self._waiting[request_id]

    def replied(self, reply: Reply) -> None:
        """Give a reply to whoever waits for it; others are old news."""
        if (
            isinstance(reply.id, str)
            and (replies := self._waiting.get(reply.id)) is not None
        ):
            replies.put(reply.result)


class Calls:
    """One thread for each call.

    What a call sends goes through `send`, which must be safe from any thread.
    """

    def __init__(self, server: Server, send: Send) -> None:
        self._server = server
        self._send = send
        self.questions = Questions()
        self._lock = threading.Lock()
        self._under_way: dict[RequestId, tuple[threading.Thread, Cancel]] = {}
        self._unwanted: set[RequestId] = set()

    def start(self, request: RpcRequest, client: Client) -> None:
        """Carry `request` out; RpcError when that cannot be begun."""
        cancel = Cancel()
        thread = threading.Thread(
            target=self._carry_out,
            args=(request, client, cancel),
            name=f"mcp {request.method}",
            daemon=True,
        )
        with self._lock:
            if request.id in self._under_way:
                raise RpcError(
                    Code.INVALID_REQUEST, f"request {request.id!r} is still running"
                )
            if len(self._under_way) >= MOST_CALLS:
                raise RpcError(
                    Code.BUSY,
                    f"{MOST_CALLS} calls are running; wait for one of them to end",
                )
            self._under_way[request.id] = (thread, cancel)
        thread.start()

    def stop(self, request_id: object) -> None:
        """The client wants no result any more; unknown ids are old news."""
        if not isinstance(request_id, str | int):
            return
        with self._lock:
            found = self._under_way.get(request_id)
            if found is not None:
                self._unwanted.add(request_id)
        if found is not None:
            found[1].cancel()

    def stop_all(self) -> None:
        """Stop everything and wait until it is put away, as after Ctrl-C.

        What ends all the same is still answered.
        """
        with self._lock:
            under_way = list(self._under_way.values())
        for _, cancel in under_way:
            cancel.cancel()
        for thread, _ in under_way:
            thread.join(SECONDS_TO_END)

    def _carry_out(self, request: RpcRequest, client: Client, cancel: Cancel) -> None:
        progress = ProgressNotifications(request, self._send)
        unanswered: list[Callable[[], None]] = []
        try:
            wire = Wire(
                progress,
                lambda asked: self.questions.ask(asked, self._send, cancel),
                unanswered.append,
            )
            answer = answer_of(self._server, request, client, cancel, wire)
        finally:
            with self._lock:
                self._under_way.pop(request.id, None)
                wanted = request.id not in self._unwanted
                self._unwanted.discard(request.id)
        # MCP: a request that was cancelled is not answered.
        if wanted and self._send(answer):
            for done in unanswered:
                done()


def answer_of(
    server: Server, request: RpcRequest, client: Client, cancel: Cancel, wire: Wire
) -> bytes:
    """Return the response to a request that takes time, whatever comes of it."""
    try:
        return jsonrpc.result(
            request.id, server.carry_out(request, client, cancel, wire)
        )
    except RpcError as error:
        return jsonrpc.error(request.id, error)
    except Exception as error:  # one request must not end the server for all others
        logger.exception("%s failed", request.method)
        return jsonrpc.error(
            request.id,
            RpcError(Code.INTERNAL_ERROR, f"{type(error).__name__}: {error}"),
        )


class ProgressNotifications:
    """`notifications/progress` of one request.

    Says nothing when the client gave no token for it.
    """

    def __init__(self, request: RpcRequest, send: Send) -> None:
        token = request.meta.get("progressToken")
        self._token = (
            token
            if isinstance(token, str | int) and not isinstance(token, bool)
            else None
        )
        self._send = send
        self._done = 0
        self._count = 0

    def __call__(self, message: str, done: int, total: int) -> None:
        if self._token is None:
            return
        # MCP: it grows with every message; within a part it comes ever closer to that
        # part's end.
        self._done, self._count = (
            (done, 0) if done > self._done else (self._done, self._count + 1)
        )
        progress = self._done + self._count / (self._count + 1)
        params: dict[str, Any] = {
            "progressToken": self._token,
            "progress": progress,
            "message": message,
        }
        params |= {"total": total} if total else {}
        self._send(jsonrpc.notification("notifications/progress", params))
