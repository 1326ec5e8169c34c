"""Decide which pages, host names and users of this machine may reach a listener."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal
from urllib.parse import urlsplit

from bridgehead.bus.sockets.base import Answer, Ends, Request

TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
ROOT: Final = 0
_ESTABLISHED: Final = "01"
"""No other state counts: a socket that its program has closed is listed as root's."""

Whose = Literal["own", "other", "unknown"]
UserOf = Callable[[Request], int | None]
"""Returns the user id behind a request, or None if it is not known."""


def user_at(ends: Ends) -> int | None:
    """Return the user who opened a connection.

    Return None if the kernel does not say, as for other machines.
    """
    try:
        return find_user(ends, _tables())
    except ValueError:  # an end that is not an address
        return None


def user_behind(request: Request) -> int | None:
    """Return the user who opened the connection of a request."""
    return None if request.ends is None else user_at(request.ends)


def whose(request: Request, user_of: UserOf = user_behind) -> Whose:
    """Return whether a request comes from the user this process runs as.

    Root counts as that user, because it could read our memory anyway.
    """
    if request.address == "local":
        return "own"  # a Unix socket of mode 0600
    user = user_of(request)
    if user is None:
        return "unknown"
    return "own" if user in (os.geteuid(), ROOT) else "other"


def find_user(ends: Ends, tables: Iterable[bytes]) -> int | None:
    """Return the owner of the far end of a connection.

    The tables have the form of /proc/net/tcp.
    """
    entries = [
        f" {far} {near} {_ESTABLISHED} ".encode()
        for far, near in zip(_spellings(*ends.far), _spellings(*ends.near), strict=True)
    ]
    for table in tables:
        for entry in entries:
            _before, found, rest = table.partition(entry)
            if found:
                return _user_in(rest)
    return None


def _user_in(rest: bytes) -> int | None:
    """Return the user id from what follows the state of a connection in a table."""
    line = rest.split(b"\n", 1)[0]
    # Queues, timer and retransmits come before the user.
    fields = line.split()
    has_user = len(fields) > 3 and fields[3].isdigit()
    return int(fields[3]) if has_user else None


def _spellings(host: str, port: int) -> tuple[str, str]:
    """Return an address as the tables spell it: as it is, and as an IPv6 socket shows
    an IPv4 one.
    """
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    mapped = address.packed
    if address.version == 4:
        mapped = bytes(10) + b"\xff\xff" + mapped
    return f"{_hex(address.packed)}:{port:04X}", f"{_hex(mapped)}:{port:04X}"


def _hex(packed: bytes) -> str:
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)


def _tables() -> Iterable[bytes]:
    for path in TABLES:
        try:
            with open(path, "rb") as table:
                yield table.read()
        except OSError:
            continue


def own_names(hostname: str, extra: Iterable[str] = ()) -> frozenset[str]:
    """Return the names under which this machine may be addressed."""
    names = {
        "localhost",
        hostname.lower(),
        f"{hostname.lower()}.local",
        *(name.lower() for name in extra),
    }
    return frozenset(names)


def refusal(
    headers: Mapping[str, str],
    *,
    names: frozenset[str],
    listed: Iterable[str] = (),
    same_origin: bool = False,
    secure: bool = False,
) -> Answer | None:
    """Return the refusal of a request that is not admitted, else None.

    With `same_origin`, pages that we served ourselves are admitted.
    """
    host = headers.get("host", "")
    if not _is_ours(host, names):
        return Answer(403, b"this name is not served here\n")
    origin = headers.get("origin")
    if origin is None or origin in tuple(listed):
        return None
    if (
        same_origin
        and origin.lower() == f"{'https' if secure else 'http'}://{host.lower()}"
    ):
        return None
    return Answer(403, b"this origin is not admitted\n")


def _is_ours(host: str, names: frozenset[str]) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    if not name:
        return False
    if name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
