"""Who calls, and in which of the two ways the protocol has of saying so.

Up to 2025-11-25 a client introduces itself once (`initialize`); from 2026-07-28 on every request carries an envelope in
`params._meta`. Results differ a little between the two, handlers do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from bridgehead.mcp_server.jsonrpc import Code, Request, RpcError

HANDSHAKE_VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
ENVELOPE_VERSIONS: Final = ("2026-07-28",)

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_KEY: Final = "io.modelcontextprotocol/clientInfo"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
LONGEST_NAME: Final = 80


class Client(NamedTuple):
    """The other side of a connection, or of one request."""

    name: str
    version: str
    offers_sampling: bool = False

    @property
    def sends_envelopes(self) -> bool:
        return self.version in ENVELOPE_VERSIONS

    @property
    def can_be_asked(self) -> bool:
        """Whether a result may be `input_required` with a prompt for the client's model in it."""
        return self.sends_envelopes and self.offers_sampling


def has_envelope(request: Request) -> bool:
    return VERSION_KEY in request.meta


def introduced(params: Mapping[str, Any]) -> Client:
    """The client that sends `initialize`; a version we do not know is answered with the newest we do."""
    wanted = params.get("protocolVersion")
    if not isinstance(wanted, str):
        raise RpcError(Code.INVALID_PARAMS, "initialize: protocolVersion must be a string")
    version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[0]
    return Client(_name(params.get("clientInfo")), version, _samples(params.get("capabilities")))


def enveloped(request: Request) -> Client:
    """The client as one request of 2026-07-28 describes it."""
    meta = request.meta
    version, capabilities = meta.get(VERSION_KEY), meta.get(CAPABILITIES_KEY)
    if not isinstance(version, str) or not isinstance(capabilities, dict):
        raise RpcError(
            Code.INVALID_PARAMS,
            f"params._meta needs {VERSION_KEY} (a string) and {CAPABILITIES_KEY} (an object)",
        )
    if version not in ENVELOPE_VERSIONS:
        raise unsupported(version)
    return Client(_name(meta.get(CLIENT_KEY)), version, _samples(capabilities))


def unsupported(version: str) -> RpcError:
    data = {"supported": list(ENVELOPE_VERSIONS), "requested": version}
    return RpcError(Code.UNSUPPORTED_VERSION, "Unsupported protocol version", data)


def _name(client_info: object) -> str:
    name = client_info.get("name") if isinstance(client_info, dict) else None
    return name[:LONGEST_NAME] if isinstance(name, str) and name else "unknown"


def _samples(capabilities: object) -> bool:
    return isinstance(capabilities, dict) and isinstance(capabilities.get("sampling"), dict)
