"""Matrix as an application service: the file that makes the bus known to a server, and
where that server brings what is said.

We serve the few routes ourselves: a framework for bridges would be a second Matrix
library beside the one that the door reads events and sends with.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import yaml

from bridgehead.bus.access.credentials import bearer_token
from bridgehead.bus.gateway.doors.matrix import MatrixDoor
from bridgehead.bus.gateway.gateway import Gateway
from bridgehead.bus.sockets.base import Answer, Request, Site, json_answer
from bridgehead.errors import ConfigError
from bridgehead.host.files import read_bounded, write_atomic

_log: Final = logging.getLogger("bridgehead.bus.matrix")
TRANSACTIONS: Final = "/_matrix/app/v1/transactions/"
TRANSACTION_BYTES: Final = 16 * 1024 * 1024
"""A server brings up to a hundred messages of 64 KiB at once, and brings them again for
ever if they are not taken.
"""
MAX_BYTES: Final = 64 * 1024
USER: Final = "bridgehead"
"""What the assistant is called on the server.

The file may be changed before the server knows it.
"""
_Filled = Annotated[str, msgspec.Meta(min_length=1)]


class Registration(msgspec.Struct, frozen=True):
    """What both sides know of each other.

    Everything else in the file is for the server.
    """

    as_token: _Filled
    hs_token: _Filled
    sender_localpart: _Filled


class Transaction(msgspec.Struct, frozen=True):
    """What is brought at once."""

    events: list[Any]


def registration_in(path: Path, url: str) -> Registration:
    """Return the registration in a file.

    Where there is none, one with fresh tokens for a server that reaches us at `url`.
    """
    if not path.exists():
        facts = {
            "id": USER,
            "url": url,
            **{name: secrets.token_urlsafe(32) for name in ("as_token", "hs_token")},
            "sender_localpart": USER,
            "rate_limited": False,
            "namespaces": {"users": [{"exclusive": True, "regex": f"@{USER}:.*"}]},
        }
        write_atomic(
            path, yaml.safe_dump(facts, sort_keys=False), private=True, exclusive=True
        )
        _log.warning(
            "wrote %s; add it to app_service_config_files of the Matrix server", path
        )
    try:
        return msgspec.convert(
            yaml.safe_load(read_bounded(path, MAX_BYTES)), Registration
        )
    except (
        yaml.YAMLError,
        msgspec.ValidationError,
        UnicodeDecodeError,
        RecursionError,
    ) as error:
        raise ConfigError(
            f"{path} is not the registration of an application service: {error}",
            hint="move it away; bridgehead then writes a new one",
        ) from error


class AppserviceEndpoint(Site):
    """`/_matrix/app/v1/`: the token of the registration is looked at first, and only
    who has it is read.
    """

    def __init__(
        self, gateway: Gateway, registration: Registration, door: MatrixDoor
    ) -> None:
        self._gateway = gateway
        self._registration = registration
        self._door = door

    def body_limit(self, request: Request) -> int | Answer:
        token = bearer_token(request.headers.get("authorization")) or ""
        if hmac.compare_digest(token.encode(), self._registration.hs_token.encode()):
            return TRANSACTION_BYTES
        self._gateway.authentication_failed(request.address)
        return _refused(403, "M_FORBIDDEN", "this is not the token of the registration")

    async def respond(self, request: Request) -> Answer:
        if isinstance(refused := self.body_limit(request), Answer):
            return refused
        name = request.path.removeprefix(TRANSACTIONS)
        # Nobody but the one user of ours is here, and no room.
        if request.method != "PUT" or name == request.path:
            return _refused(
                404,
                "M_NOT_FOUND",
                f"{request.method} {request.path} is not served here",
            )
        try:
            events = msgspec.json.decode(request.body, type=Transaction).events
        except (msgspec.DecodeError, RecursionError):
            return _refused(
                400,
                "M_BAD_JSON",
                "a transaction must be an object with a list of events",
            )
        if await self._door.transaction(name, events):
            return json_answer({})
        return _refused(503, "M_UNKNOWN", "the bus is not ready; send it again later")


def _refused(status: int, code: str, sentence: str) -> Answer:
    return json_answer({"errcode": code, "error": sentence}, status)
