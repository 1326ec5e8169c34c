"""`/metrics` for Prometheus (bus §10.6). Readable from this machine only: the page has no credential of its own."""

from __future__ import annotations

import ipaddress

from bridgehead.bus.gateway.gateway import NOT_FOUND
from bridgehead.bus.hub.hub import Hub
from bridgehead.bus.relay import Relay
from bridgehead.bus.sockets.base import Answer, Request, Upgrade

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricsEndpoint:
    """Counters of a relay, and of the embedded hub where there is one."""

    def __init__(self, relay: Relay, hub: Hub | None) -> None:
        self._relay = relay
        self._hub = hub

    def upgrade(self, request: Request) -> Upgrade | Answer:
        return NOT_FOUND

    async def respond(self, request: Request) -> Answer:
        if request.path != "/metrics":
            return NOT_FOUND
        if not _is_local(request.address):
            return Answer(403, b"metrics are read on this machine\n")
        return Answer(200, self.text().encode(), CONTENT_TYPE)

    def text(self) -> str:
        known = list(self._relay.bridge.known)
        figures = [
            (
                "bridgehead_bus_participants_connected",
                "Participants that are connected.",
                sum(p.connected for p in known),
            ),
            ("bridgehead_bus_participants_known", "Participants known, those in grace included.", len(known)),
            ("bridgehead_bus_held", "Messages held for a reconnect.", sum(len(p.held) for p in known)),
            ("bridgehead_bus_queued", "Messages queued behind slow transports.", sum(len(p.queued) for p in known)),
            ("bridgehead_bus_taken_total", "Messages taken from participants.", self._relay.bridge.taken),
            ("bridgehead_bus_offered_total", "Messages offered to participants.", self._relay.bridge.offered),
        ]
        return self._relay.counters.prometheus(figures) + self._hub_lines()

    def _hub_lines(self) -> str:
        if self._hub is None:
            return ""
        lines = ["# TYPE bridgehead_hub_events_total counter"]
        lines += [
            f'bridgehead_hub_events_total{{event="{event}"}} {count}'
            for event, count in sorted(self._hub.counts.items())
        ]
        lines += ["# TYPE bridgehead_hub_members gauge", f"bridgehead_hub_members {self._hub.members}"]
        return "\n".join(lines) + "\n"


def _is_local(address: str) -> bool:
    try:
        return address == "local" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
