"""One connection's side of the protocol: who the client is, and what becomes of each
message. No I/O of its own.

A client opens either with `initialize` or with a request that carries the envelope of
2026-07-28; the other way of speaking is then refused.
"""

from __future__ import annotations

from typing import NamedTuple

from bridgehead.mcp_server import jsonrpc
from bridgehead.mcp_server.server import TAKES_TIME, Server

CANCELLED = "notifications/cancelled"


class Answer(NamedTuple):
    """Send this."""

    content: bytes


class CarryOut(NamedTuple):
    """Carry this out beside the loop, and send what comes of it."""

    request: jsonrpc.RpcRequest
    client: jsonrpc.Client


class Stop(NamedTuple):
    """The client wants no result of this request any more."""

    request_id: object


Effect = Answer | CarryOut | Stop | jsonrpc.Reply
"""A Reply is for the call that asked."""


class Conversation:
    """Feed it what arrived; carry out what it returns."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._client: jsonrpc.Client | None = None

    def received(self, message: jsonrpc.Message) -> Effect | None:
        match message:
            case jsonrpc.RpcRequest():
                try:
                    client = self._client_of(message)
                    if message.method in TAKES_TIME:
                        return CarryOut(message, client)
                    return Answer(
                        jsonrpc.result(
                            message.id, self._server.answer_at_once(message, client)
                        )
                    )
                except jsonrpc.RpcError as error:
                    return Answer(jsonrpc.error(message.id, error))
            case jsonrpc.Notification(method, params):
                return Stop(params.get("requestId")) if method == CANCELLED else None
            case jsonrpc.Malformed(request_id, code, problem):
                return Answer(
                    jsonrpc.error(request_id, jsonrpc.RpcError(code, problem))
                )
            case jsonrpc.Reply():
                return message

    def _client_of(self, request: jsonrpc.RpcRequest) -> jsonrpc.Client:
        if request.method == "initialize":
            return self._introduce(request)
        if jsonrpc.has_envelope(request):
            client = jsonrpc.client_of_envelope(request)
            if self._client is not None and not self._client.sends_envelopes:
                raise jsonrpc.RpcError(
                    jsonrpc.Code.INVALID_REQUEST,
                    "this connection began with initialize; omit the envelope",
                )
            self._client = client
            return client
        if request.method == "ping":
            return self._client or jsonrpc.Client("unknown", "")
        if self._client is None or self._client.sends_envelopes:
            raise jsonrpc.RpcError(
                jsonrpc.Code.INVALID_REQUEST,
                f"{request.method}: initialize first, or send the envelope in _meta",
            )
        return self._client

    def _introduce(self, request: jsonrpc.RpcRequest) -> jsonrpc.Client:
        if self._client is not None and self._client.sends_envelopes:
            raise jsonrpc.unsupported(str(request.params.get("protocolVersion")))
        if self._client is not None:
            raise jsonrpc.RpcError(
                jsonrpc.Code.INVALID_REQUEST, "initialize was already sent"
            )
        self._client = jsonrpc.client_of_initialize(request.params)
        return self._client
