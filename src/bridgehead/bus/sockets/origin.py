"""Which pages and names may reach a listener: keeps a web page in the user's browser out. Pure.

A page can open a WebSocket to any address, but it cannot choose its `Origin`; a page that had its own name resolved
to this machine shows that name in `Host`. Names of this machine and bare addresses are fine, others must be listed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from bridgehead.bus.sockets.base import Answer


def own_names(hostname: str, extra: Iterable[str] = ()) -> frozenset[str]:
    """Names under which this machine may be addressed."""
    names = {"localhost", hostname.lower(), f"{hostname.lower()}.local", *(name.lower() for name in extra)}
    return frozenset(names)


def refusal(
    headers: Mapping[str, str],
    *,
    names: frozenset[str],
    listed: Iterable[str] = (),
    same_origin: bool = False,
    secure: bool = False,
) -> Answer | None:
    """Why a request may not come in, None if it may. `same_origin` lets in what was served from here."""
    host = headers.get("host", "")
    if not _is_ours(host, names):
        return Answer(403, b"this name is not served here\n")
    origin = headers.get("origin")
    if origin is None or origin in tuple(listed):
        return None
    if same_origin and origin.lower() == f"{'https' if secure else 'http'}://{host.lower()}":
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
