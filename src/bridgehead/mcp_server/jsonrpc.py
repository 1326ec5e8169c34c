"""JSON-RPC 2.0 as MCP uses it: reading messages, writing replies and errors, and what a
client said about itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

import msgspec

VERSION: Final = "2.0"
HANDSHAKE_VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
ENVELOPE_VERSIONS: Final = ("2026-07-28",)

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_KEY: Final = "io.modelcontextprotocol/clientInfo"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
ELICIT: Final = "elicitation/create"
LONGEST_NAME: Final = 80

RequestId = str | int

Progress = Callable[[str, int, int], None]
"""What happened, and how many parts of how many are done; 0 of 0 where nobody knows."""

AskPerson = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Has the client show a person a form and waits for what comes back; empty when nothing
did.
"""

OnceAnswered = Callable[[Callable[[], None]], None]
"""Takes what is to be done when the client has the answer."""


class Wire(NamedTuple):
    """What a call under way can do with its client."""

    progress: Progress
    ask: AskPerson
    once_answered: OnceAnswered


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


class RpcRequest(NamedTuple):
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
    """An answer to a request of ours.

    An error of the client's counts as an empty one.
    """

    id: object
    result: dict[str, Any]


class Malformed(NamedTuple):
    """What could not be read as a message; `id` where one could be made out."""

    id: RequestId | None
    code: Code
    problem: str


Message = RpcRequest | Notification | Reply | Malformed


class RpcError(Exception):
    """A request that is answered with a protocol error instead of a result."""

    def __init__(
        self, code: Code, message: str, data: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def read_message(content: bytes) -> Message:
    """Return the message in one line or body.

    Never raises, because a peer may send anything.
    """
    try:
        document = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Malformed(None, Code.PARSE_ERROR, f"not JSON: {error}")
    if isinstance(document, list):
        return Malformed(
            None, Code.INVALID_REQUEST, "batches are no longer part of the protocol"
        )
    if not isinstance(document, dict):
        return Malformed(None, Code.INVALID_REQUEST, "a message is a JSON object")
    return _message(document)


def _message(document: dict[str, Any]) -> Message:
    """Return the message in a JSON object."""
    request_id = _request_id(document)
    if document.get("jsonrpc") != VERSION:
        return Malformed(
            request_id, Code.INVALID_REQUEST, 'a message carries "jsonrpc": "2.0"'
        )
    if _is_reply(document):
        value = document.get("result")
        return Reply(document["id"], value if isinstance(value, dict) else {})
    method = document.get("method")
    params = document.get("params", {})
    if not isinstance(method, str):
        return Malformed(request_id, Code.INVALID_REQUEST, "the method is missing")
    if "id" not in document:  # never answered, whatever it carries
        return Notification(method, params if isinstance(params, dict) else {})
    if not isinstance(params, dict):
        return Malformed(request_id, Code.INVALID_PARAMS, "params must be an object")
    if request_id is None:
        return Malformed(
            None, Code.INVALID_REQUEST, "an id is a string or a whole number"
        )
    return RpcRequest(request_id, method, params)


def _request_id(document: Mapping[str, Any]) -> RequestId | None:
    """Return the id of a message, None if it has none that the protocol allows."""
    value = document.get("id")
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return value


def _is_reply(document: Mapping[str, Any]) -> bool:
    if "method" in document or "id" not in document:
        return False
    return "result" in document or "error" in document


def request(request_id: RequestId, method: str, params: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(
        {"jsonrpc": VERSION, "id": request_id, "method": method, "params": params}
    )


def result(request_id: RequestId, value: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": VERSION, "id": request_id, "result": value})


def error(request_id: RequestId | None, failed: RpcError) -> bytes:
    body: dict[str, Any] = {"code": int(failed.code), "message": failed.message}
    if failed.data is not None:
        body["data"] = failed.data
    return msgspec.json.encode({"jsonrpc": VERSION, "id": request_id, "error": body})


def notification(method: str, params: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": VERSION, "method": method, "params": params})


class Client(NamedTuple):
    """The other side of a connection, or of one request."""

    name: str
    version: str
    offers_sampling: bool = False
    offers_forms: bool = False
    """Whether it shows a person a form for us (elicitation)."""

    @property
    def sends_envelopes(self) -> bool:
        return self.version in ENVELOPE_VERSIONS

    @property
    def can_be_asked(self) -> bool:
        """Whether a result may be `input_required` with a prompt for the client's model
        in it.
        """
        return self.sends_envelopes and self.offers_sampling


def has_envelope(request: RpcRequest) -> bool:
    return VERSION_KEY in request.meta


def client_of_initialize(params: Mapping[str, Any]) -> Client:
    """Return the client that sends `initialize`.

    A version we do not know is answered with the newest we do.
    """
    wanted = params.get("protocolVersion")
    if not isinstance(wanted, str):
        raise RpcError(
            Code.INVALID_PARAMS, "initialize: protocolVersion must be a string"
        )
    version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[0]
    return Client(
        _name(params.get("clientInfo")), version, *_offers(params.get("capabilities"))
    )


def client_of_envelope(request: RpcRequest) -> Client:
    """Return the client as one request of 2026-07-28 describes it."""
    meta = request.meta
    version = meta.get(VERSION_KEY)
    capabilities = meta.get(CAPABILITIES_KEY)
    if not isinstance(version, str) or not isinstance(capabilities, dict):
        raise RpcError(
            Code.INVALID_PARAMS,
            f"params._meta needs {VERSION_KEY} (a string) and {CAPABILITIES_KEY} (an "
            "object)",
        )
    if version not in ENVELOPE_VERSIONS:
        raise unsupported(version)
    return Client(_name(meta.get(CLIENT_KEY)), version, *_offers(capabilities))


def unsupported(version: str) -> RpcError:
    data = {"supported": list(ENVELOPE_VERSIONS), "requested": version}
    return RpcError(Code.UNSUPPORTED_VERSION, "Unsupported protocol version", data)


def _name(client_info: object) -> str:
    name = client_info.get("name") if isinstance(client_info, dict) else None
    return name[:LONGEST_NAME] if isinstance(name, str) and name else "unknown"


def _offers(capabilities: object) -> tuple[bool, bool]:
    """Return whether a client lends us its model, and whether it shows forms.

    `{}` stands for forms (MCP 2025-11-25).
    """
    offered = capabilities if isinstance(capabilities, dict) else {}
    elicits = offered.get("elicitation")
    forms = isinstance(elicits, dict) and ("form" in elicits or "url" not in elicits)
    return isinstance(offered.get("sampling"), dict), forms
