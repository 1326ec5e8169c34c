"""Ways to reach a hub; the URL's scheme picks one."""

from __future__ import annotations

from urllib.parse import urlsplit

from bridgehead.bus.sockets.dialling import BadUrl
from bridgehead.bus.transports.base import Transport


def transport_for(url: str, *, token: str | None = None, deployment: str = "home") -> Transport:
    """The transport for a foreign hub: `ws://`, `wss://`, or `nats://` for a fabric of many."""
    scheme = urlsplit(url).scheme
    if scheme in ("ws", "wss"):
        from bridgehead.bus.transports.websocket import WebSocketTransport

        return WebSocketTransport(url, token=token)
    if scheme == "nats":
        from bridgehead.bus.transports.nats import NatsTransport

        return NatsTransport(url, deployment)
    raise BadUrl(url)
