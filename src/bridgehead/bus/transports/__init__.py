"""Ways to reach a hub; the URL's scheme picks one."""

from __future__ import annotations

from urllib.parse import urlsplit

from bridgehead.bus.sockets.dial import BadUrl
from bridgehead.bus.transports.base import Transport


def transport_for(
    url: str,
    *,
    token: str | None = None,
    deployment: str = "home",
    nats_credentials: str | None = None,
    nats_ca: str | None = None,
) -> Transport:
    """The transport for a foreign hub: `ws://`, `wss://`, or `nats://` (`tls://`) for a fabric of many."""
    scheme = _scheme(url.partition(",")[0])
    if scheme in ("ws", "wss"):
        from bridgehead.bus.transports.websocket import WebSocketTransport

        return WebSocketTransport(url, token=token)
    if scheme in ("nats", "tls"):
        from bridgehead.bus.transports.nats import NatsTransport
        from bridgehead.bus.transports.nats_client import NatsAccess

        return NatsTransport(NatsAccess.parse(url, nats_credentials, nats_ca), deployment)
    raise BadUrl(url)


def _scheme(url: str) -> str | None:
    """None where the rest of the URL names no place."""
    try:
        parts = urlsplit(url)
        return parts.scheme if parts.hostname and parts.port != 0 else None
    except ValueError:
        return None
