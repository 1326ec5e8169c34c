"""JSON-RPC 2.0 as MCP uses it: one message in, one message out, errors with their codes. No I/O."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple

import msgspec

VERSION: Final = "2.0"

RequestId = str | int


class Code(IntEnum):
    """JSON-RPC's own codes, and those MCP adds."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    BUSY = -32000
    RESOURCE_NOT_FOUND = -32002
    HEADER_MISMATCH = -32020
    UNSUPPORTED_VERSION = -32022


class Request(NamedTuple):
    """Something that wants an answer."""

    id: RequestId
    method: str
    params: dict[str, Any]

    @property
    def meta(self) -> dict[str, Any]:
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}


class Notification(NamedTuple):
    """Something that wants none."""

    method: str
    params: dict[str, Any]


class Reply(NamedTuple):
    """An answer to a request of ours; we make none, so it is dropped."""


class Malformed(NamedTuple):
    """What could not be read as a message; `id` where one could be made out."""

    id: RequestId | None
    code: Code
    problem: str


Message = Request | Notification | Reply | Malformed


class RpcError(Exception):
    """A request that is answered with a protocol error instead of a result."""

    def __init__(self, code: Code, message: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def read_message(content: bytes) -> Message:
    """The message in one line or body; never raises, because a peer may send anything."""
    try:
        document = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Malformed(None, Code.PARSE_ERROR, f"not JSON: {error}")
    if isinstance(document, list):
        return Malformed(None, Code.INVALID_REQUEST, "batches are not part of the protocol any more")
    if not isinstance(document, dict):
        return Malformed(None, Code.INVALID_REQUEST, "a message is a JSON object")
    return _message(document)


def _message(document: dict[str, Any]) -> Message:
    given = document.get("id")
    request_id = given if isinstance(given, str | int) and not isinstance(given, bool) else None
    if document.get("jsonrpc") != VERSION:
        return Malformed(request_id, Code.INVALID_REQUEST, 'a message carries "jsonrpc": "2.0"')
    if "method" not in document and ("result" in document or "error" in document):
        return Reply()
    method, params = document.get("method"), document.get("params", {})
    if not isinstance(method, str):
        return Malformed(request_id, Code.INVALID_REQUEST, "the method is missing")
    if "id" not in document:  # never answered, whatever it carries
        return Notification(method, params if isinstance(params, dict) else {})
    if not isinstance(params, dict):
        return Malformed(request_id, Code.INVALID_PARAMS, "params must be an object")
    if request_id is None:
        return Malformed(None, Code.INVALID_REQUEST, "an id is a string or a whole number")
    return Request(request_id, method, params)


def result(request_id: RequestId, value: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": VERSION, "id": request_id, "result": value})


def error(request_id: RequestId | None, failed: RpcError) -> bytes:
    body: dict[str, Any] = {"code": int(failed.code), "message": failed.message}
    if failed.data is not None:
        body["data"] = failed.data
    return msgspec.json.encode({"jsonrpc": VERSION, "id": request_id, "error": body})


def notification(method: str, params: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": VERSION, "method": method, "params": params})
