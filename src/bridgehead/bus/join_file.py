"""The join file: all a participant needs to find its bridge and prove who it is (bus §17). Mode 0600."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from bridgehead.bus.bus_settings import Address
from bridgehead.bus.credentials import KEY_BYTES, from_base64
from bridgehead.bus.record import PARTICIPANT_ID
from bridgehead.errors import UserError
from bridgehead.host.files import read_bounded, write_atomic

MAX_BYTES: Final = 16 * 1024
_FINGERPRINT: Final = re.compile(r"[0-9A-Fa-f]{64}")


class JoinFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `bus participant add` writes and every client reads."""

    v: int
    url: str
    participant: str
    key: str | None = None
    token: str | None = None
    cert_sha256: str | None = None


def read_join_file(path: Path) -> JoinFile:
    """Read and check a join file."""
    try:
        join = msgspec.json.decode(read_bounded(path, MAX_BYTES), type=JoinFile)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadJoinFile(path, str(error)) from error
    if problem := _problem(join):
        raise BadJoinFile(path, problem)
    return join


def write_join_file(path: Path, join: JoinFile) -> None:
    """Write it for its owner only; another participant's or some other file is not replaced."""
    if problem := _url_problem(join.url):
        raise NoBridgeUrl(join.url, problem)
    if path.exists():
        try:
            owner = read_join_file(path).participant
        except BadJoinFile:
            owner = None
        if owner != join.participant:
            raise JoinFileTaken(path)
    write_atomic(path, msgspec.json.format(msgspec.json.encode(join), indent=2) + b"\n", private=True)


def _problem(join: JoinFile) -> str | None:
    if join.v != 1:
        return f"version {join.v} is not known here"
    if problem := _url_problem(join.url):
        return f"url {problem}"
    if PARTICIPANT_ID.fullmatch(join.participant) is None:
        return "participant is no participant id"
    if (join.key is None) == (join.token is None):
        return "it needs either a key or a token"
    if join.key is not None and from_base64(join.key, KEY_BYTES) is None:
        return "key is no device key"
    if join.cert_sha256 is not None and _FINGERPRINT.fullmatch(join.cert_sha256) is None:
        return "cert_sha256 is no fingerprint"
    return None


def _url_problem(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host, is_usable = parts.hostname, parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:
        host, is_usable = None, False
    if not host or not is_usable or parts.scheme not in ("ws", "wss"):
        return "is no WebSocket URL"
    if parts.scheme == "ws" and not Address(host, 0).is_loopback:
        return "is not encrypted and leaves this machine"  # bus §10.1
    return None


class NoBridgeUrl(UserError):
    """What the join file should name is no place where a bridge could be."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(f"{url!r} {problem}; nothing was added", hint="write wss://host:port/bridge/v1")


class BadJoinFile(UserError):
    """A file given as join file is none."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"{path} is no usable join file: {problem}",
            hint="bridgehead bus participant add ID makes one on the machine of the bridge",
        )


class JoinFileTaken(UserError):
    """Something else lies where the join file should go."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} exists and belongs to something else; nothing was added", hint="name another with --join"
        )
