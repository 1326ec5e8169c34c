"""Where a bridge can be reached: encrypted, or on this machine (bus §10.1). Pure."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from bridgehead.errors import UserError


def is_loopback(host: str) -> bool:
    """Whether this host can only be the machine itself."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def url_problem(url: str) -> str | None:
    """Why no participant should connect to `url`, None if it may."""
    try:
        parts = urlsplit(url)
        host, is_usable = parts.hostname, parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:
        host, is_usable = None, False
    if not host or not is_usable or parts.scheme not in ("ws", "wss"):
        return "is no WebSocket URL"
    if parts.scheme == "ws" and not is_loopback(host):
        return "is not encrypted and leaves this machine"
    return None


def check_bridge_url(url: str) -> None:
    if problem := url_problem(url):
        raise NoBridgeUrl(url, problem)


class NoBridgeUrl(UserError):
    """A bridge cannot be reached there, or not safely."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(f"{url!r} {problem}", hint="write wss://host:port/bridge/v1")
