"""A whole bus server on free ports, as `bus serve` runs it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bridgehead.bus.access.enrolment import Enrolment, enrol
from bridgehead.bus.access.join_file import JoinFile
from bridgehead.bus.access.state_folder import StateFolder
from bridgehead.bus.client.participant import Satellite
from bridgehead.bus.interfaces import Agent, Approvals, BusServices, Notices
from bridgehead.bus.serve import BusServer
from bridgehead.bus.settings import BusSettings
from bridgehead.host.clock import Clock, SystemClock
from bus.support.gateways import Announcements


class Served(BusServer):
    """A bus server with a way to enrol people."""

    announcements: Announcements

    def enrol(self, participant: str, *, token: bool = False, **table: Any) -> JoinFile:
        request = Enrolment(participant, table, self.join_url, self._pin, token)
        join = enrol(self.folder, request, SystemClock())
        self.gateway.reload()
        return join

    async def satellite(self, participant: str, **table: Any) -> Satellite:
        return await Satellite.connect(self.enrol(participant, **table))


@asynccontextmanager
async def served_bus(
    path: Path,
    *,
    agent: Agent | None = None,
    approvals: Approvals | None = None,
    notices: Notices | None = None,
    upstream: JoinFile | None = None,
    clock: Clock | None = None,
    **table: Any,
) -> AsyncIterator[Served]:
    settings = BusSettings.parse(
        {"listen": "127.0.0.1:0", "hub_listen": "127.0.0.1:0", **table}
    )
    announcements = Announcements()
    lent = BusServices(announcements, approvals, agent, notices, clock or SystemClock())
    server = Served(settings, StateFolder(path), lent, upstream=upstream)
    server.announcements = announcements
    await server.start()
    await server.link.connected()
    try:
        yield server
    finally:
        await server.stop()


async def http(
    address: str, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """One HTTP request over a plain socket; status, headers in lower case, body."""
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = {"Host": address, "Content-Length": str(len(body)), "Connection": "close"}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
    answered = await reader.read()
    writer.close()
    first, _, rest = answered.partition(b"\r\n")
    raw, _, content = rest.partition(b"\r\n\r\n")
    pairs = (line.split(": ", 1) for line in raw.decode().split("\r\n"))
    return (
        int(first.split()[1]),
        {name.lower(): value for name, value in pairs},
        content,
    )
