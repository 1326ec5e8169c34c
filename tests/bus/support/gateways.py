"""A whole bridge on free ports: embedded hub, relay, gateway, state folder; and satellites that join it."""

from __future__ import annotations

import itertools
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bridgehead.bus.access.certificates import (
    certificate_der,
    ensure_certificate,
    key_fingerprint,
    server_context,
)
from bridgehead.bus.access.credentials import NO_BINDING, certificate_binding
from bridgehead.bus.access.enrolled import EnrolledParticipants
from bridgehead.bus.access.enrolment import Enrolment, enrol
from bridgehead.bus.access.join_file import JoinFile, Pin
from bridgehead.bus.access.state_folder import StateFolder
from bridgehead.bus.bridge.bridge import Bridge
from bridgehead.bus.bridge.settings import BridgeSettings
from bridgehead.bus.client.participant import Event, Incoming, Satellite
from bridgehead.bus.gateway.gateway import Gateway, GatewaySettings
from bridgehead.bus.hub.hub import Hub, MemoryTransport
from bridgehead.bus.relay import Relay
from bridgehead.bus.sockets.listen import listen
from bridgehead.bus.wire.message import Message
from bridgehead.host.clock import Clock, SystemClock
from bus.support.running import until

HANDLE = "ovos.utterance.handle"


def utterance(text: str, **context: Any) -> Message:
    return Message(HANDLE, {"utterances": [text]}, context)


class Announcements:
    """Remembers what was announced."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def announce(self, kind: str, data: dict[str, Any]) -> None:
        self.events.append((kind, data))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [data for seen, data in self.events if seen == kind]


class ServedBridge:
    """Everything one bridge consists of, at hand for a test."""

    def __init__(self, folder: StateFolder, secure: bool) -> None:
        self.folder = folder
        self.secure = secure
        self.hub = Hub()
        self.heard: list[Message] = []
        self.hub.listen(self.heard.append)
        self.announcements = Announcements()
        self.relay: Relay
        self.gateway: Gateway
        self.transport: MemoryTransport
        self.port = 0
        self.pin = Pin()

    @property
    def url(self) -> str:
        return f"{'wss' if self.secure else 'ws'}://127.0.0.1:{self.port}/bridge/v1"

    def enrol(
        self,
        participant: str,
        *,
        token: bool = False,
        expires_in_s: float | None = None,
        **table: Any,
    ) -> JoinFile:
        request = Enrolment(participant, table, self.url, self.pin, token, expires_in_s)
        join = enrol(self.folder, request, SystemClock())
        self.gateway.reload()
        return join

    async def satellite(
        self,
        participant: str,
        *,
        token: bool = False,
        claimed_id: str | None = None,
        **table: Any,
    ) -> Satellite:
        join = self.enrol(participant, token=token, **table)
        return await Satellite.connect(join, claimed_id=claimed_id, reconnect=False)

    async def until_heard(self, topic: str, count: int = 1) -> list[Message]:
        """The messages of this topic on the hub, once there are as many."""
        await until(
            lambda: sum(message.type == topic for message in self.heard) >= count
        )
        return [message for message in self.heard if message.type == topic]


@asynccontextmanager
async def served_bridge(
    path: Path,
    *,
    secure: bool = False,
    client_ca: Path | None = None,
    gateway: dict[str, Any] | None = None,
    debug: bool = False,
    clock: Clock | None = None,
    **settings: Any,
) -> AsyncIterator[ServedBridge]:
    folder = StateFolder(path / "bus")
    folder.prepare()
    served = ServedBridge(folder, secure)
    directory = EnrolledParticipants(folder)
    words = (f"{number:04x}" for number in itertools.count())
    bridge = Bridge(
        BridgeSettings.parse({"profile": "spec", **settings}),
        secret=folder.secret(),
        random_word=lambda: next(words),
        own_hub=True,
        remembered=(state := folder.state()).load(),
        records=folder.records(),
        owner_of=lambda name: name if name in directory.records else None,
        now=SystemClock().monotonic(),
    )
    transport = served.transport = MemoryTransport(served.hub)
    served.relay = Relay(
        bridge,
        transport,
        state=state,
        announcer=served.announcements,
        clock=clock,
        debug=debug,
    )
    await transport.connect(served.relay)
    served.relay.opened()
    tls, binding = _tls(folder, client_ca) if secure else (None, NO_BINDING)
    served.gateway = Gateway(
        served.relay,
        directory,
        GatewaySettings(
            **{"client_certificates": client_ca is not None, **(gateway or {})}
        ),
        binding=binding,
        announcer=served.announcements,
        clock=clock,
    )
    listener = await listen(served.gateway, "127.0.0.1", 0, tls=tls)
    served.port = listener.port
    if secure:
        served.pin = Pin(
            key_fingerprint(certificate_der(folder.tls_folder / "cert.pem"))
        )
    try:
        yield served
    finally:
        await listener.close()
        await served.relay.stop()
        await served.gateway.stop()
        await until(lambda: not served.gateway.heartbeat.watched)
        state.close()


def _tls(folder: StateFolder, client_ca: Path | None) -> tuple[ssl.SSLContext, bytes]:
    cert, key = ensure_certificate(folder.tls_folder, "127.0.0.1")
    context = server_context(cert, key, client_ca=client_ca, allow_tls12=False)
    return context, certificate_binding(certificate_der(cert))


async def next_message(satellite: Satellite, topic: str | None = None) -> Message:
    """The next message, of this topic if one is named."""
    while True:
        event: Event = await satellite.receive()
        if isinstance(event, Incoming) and topic in (None, event.message.type):
            return event.message
