"""One connection's side of the protocol: who the client is, and what becomes of each message. No I/O of its own.

A client opens either with `initialize` or with a request that carries the envelope of 2026-07-28; the other way of
speaking is then refused.
"""

from __future__ import annotations

from typing import NamedTuple

from bridgehead.mcp_server import jsonrpc
from bridgehead.mcp_server.jsonrpc import (
    Client,
    Code,
    Malformed,
    Message,
    Notification,
    Reply,
    RpcError,
    RpcRequest,
    client_of_envelope,
    client_of_initialize,
    has_envelope,
    unsupported,
)
from bridgehead.mcp_server.server import TAKES_TIME, Server

CANCELLED = "notifications/cancelled"


class Answer(NamedTuple):
    """Send this."""

    content: bytes


class CarryOut(NamedTuple):
    """Carry this out beside the loop, and send what comes of it."""

    request: RpcRequest
    client: Client


class Stop(NamedTuple):
    """The client wants no result of this request any more."""

    request_id: object


Effect = Answer | CarryOut | Stop | Reply
"""A Reply is for the call that asked."""


class Conversation:
    """Feed it what arrived; carry out what it returns."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._client: Client | None = None

    def received(self, message: Message) -> Effect | None:
        match message:
            case RpcRequest():
                return self._asked(message)
            case Notification(method, params):
                return Stop(params.get("requestId")) if method == CANCELLED else None
            case Malformed(request_id, code, problem):
                return Answer(jsonrpc.error(request_id, RpcError(code, problem)))
            case Reply():
                return message

    def _asked(self, request: RpcRequest) -> Effect:
        try:
            client = self._client_of(request)
            if request.method in TAKES_TIME:
                return CarryOut(request, client)
            return Answer(jsonrpc.result(request.id, self._server.answer_at_once(request, client)))
        except RpcError as error:
            return Answer(jsonrpc.error(request.id, error))

    def _client_of(self, request: RpcRequest) -> Client:
        if request.method == "initialize":
            return self._introduce(request)
        if has_envelope(request):
            client = client_of_envelope(request)
            if self._client is not None and not self._client.sends_envelopes:
                raise RpcError(Code.INVALID_REQUEST, "this connection began with initialize; omit the envelope")
            self._client = client
            return client
        if request.method == "ping":
            return self._client or Client("unknown", "")
        if self._client is None or self._client.sends_envelopes:
            raise RpcError(Code.INVALID_REQUEST, f"{request.method}: initialize first, or send the envelope in _meta")
        return self._client

    def _introduce(self, request: RpcRequest) -> Client:
        if self._client is not None and self._client.sends_envelopes:
            raise unsupported(str(request.params.get("protocolVersion")))
        if self._client is not None:
            raise RpcError(Code.INVALID_REQUEST, "initialize was sent before")
        self._client = client_of_initialize(request.params)
        return self._client
