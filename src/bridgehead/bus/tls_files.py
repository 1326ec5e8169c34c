"""The gateway's certificate and the URL participants are told, from the settings (bus §10.1, §17)."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.bus.bus_settings import Address, BusSettings
from bridgehead.bus.certificates import certificate_der, ensure_certificate, server_context
from bridgehead.bus.state_folder import StateFolder

FRAMED_PATH: Final = "/bridge/v1"


class TlsFiles(msgspec.Struct, frozen=True):
    """The gateway's certificate, and what participants may know of it."""

    context: ssl.SSLContext
    certificate: bytes

    @classmethod
    def prepare(cls, settings: BusSettings, folder: StateFolder) -> TlsFiles | None:
        """The configured certificate or a self-made one; None where connections are plain."""
        serving = settings.serving
        if not settings.uses_tls:
            return None
        if serving.tls_cert is not None and serving.tls_key is not None:
            cert, key = Path(serving.tls_cert), Path(serving.tls_key)
        else:
            cert, key = ensure_certificate(folder.tls_folder, Address.parse(serving.listen).host)
        authority = Path(serving.client_ca) if serving.client_ca is not None else None
        context = server_context(cert, key, client_ca=authority, allow_tls12=serving.allow_tls12)
        return cls(context, certificate_der(cert))


def public_url(settings: BusSettings, bound: str | None = None) -> str:
    """The URL join files carry: the configured one, or made from the address of the gateway."""
    address = Address.parse(bound or settings.serving.listen)
    host = socket.gethostname() if address.host in ("0.0.0.0", "::") else address.host
    scheme = "wss" if settings.uses_tls else "ws"
    return f"{scheme}://{Address(host, address.port)}{FRAMED_PATH}"
