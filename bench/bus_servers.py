"""Servers the bus benchmarks load, each in a process of its own: `python -m bench.bus_servers KIND`.

Every one prints one JSON line with its address when it is ready, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bridgehead.bus.bus_settings import BusSettings
from bridgehead.bus.credentials import make_token, token_hash
from bridgehead.bus.hub import Hub
from bridgehead.bus.interfaces import Outside
from bridgehead.bus.loop import run, settle_memory
from bridgehead.bus.message import Message
from bridgehead.bus.serve import BusServer
from bridgehead.bus.sockets.base import Answer, Peer, Request, Upgrade
from bridgehead.bus.sockets.listening import listen
from bridgehead.bus.state_folder import StateFolder

OVOS = Path(os.environ.get("BRIDGEHEAD_OVOS") or Path(sys.prefix) / "ovos") / "bin"
UNLIMITED = {"messages_per_second": 1_000_000_000, "burst": 1_000_000_000}
READY_S = 60


class Echo:
    """Sends back what it gets: the floor under every round trip over this library."""

    def opened(self, peer: Peer) -> None:
        self._peer = peer

    def received(self, payload: bytes, *, text: bool) -> None:
        self._peer.send(payload)

    def caught_up(self) -> None: ...

    def ponged(self) -> None: ...

    def paused(self) -> None: ...

    def resumed(self) -> None: ...

    def closed(self, code: int, reason: str) -> None: ...


class EchoSite:
    def upgrade(self, request: Request) -> Upgrade | Answer:
        return Upgrade(Echo(), 1 << 20)

    async def respond(self, request: Request) -> Answer:
        return Answer(404)


async def _echo() -> dict[str, Any]:
    return {"url": f"ws://{(await listen(EchoSite(), '127.0.0.1', 0)).address}/"}


async def _hub() -> dict[str, Any]:
    return {"url": f"ws://{(await listen(Hub(), '127.0.0.1', 0)).address}/core"}


async def _bridge(participants: int = 1) -> dict[str, Any]:
    """A whole bus with somebody on its hub who answers every utterance at once."""
    table = {
        "listen": "127.0.0.1:0",
        "hub_listen": "127.0.0.1:0",
        "profile": "spec",
        "max_participants": 20_000,
    }
    folder = StateFolder(Path(tempfile.mkdtemp(prefix="bridgehead-bench-")))
    server = BusServer(BusSettings.parse(table), folder, Outside())
    await server.start()
    await server.link.connected()
    hub = server.hub
    assert hub is not None

    def answer(message: Message) -> None:
        if message.type == "ovos.utterance.handle":
            hub.publish(message.reply("ovos.utterance.speak", {"utterance": "ok"}))

    hub.listen(answer)
    tokens = _enrol_all(folder, participants)
    server.gateway.reload()
    return {"url": server.join_url, "tokens": tokens}


def _enrol_all(folder: StateFolder, count: int) -> list[str]:
    """Records and credentials of many participants, written in one go."""
    names = [f"sat{number}" for number in range(count)]
    limits = "".join(f"{key} = {value}\n" for key, value in UNLIMITED.items())
    folder.records_file.write_text("".join(f"[{name}.limits]\n{limits}" for name in names))
    tokens = [make_token(name, os.urandom(32)) for name in names]
    kept = {name: {"token_sha256": token_hash(token)} for name, token in zip(names, tokens, strict=True)}
    folder.credentials_file.write_text(json.dumps(kept))
    return tokens


KINDS = {"echo": _echo, "hub": _hub, "bridge": _bridge}


async def _serve(kind: str, arguments: list[int]) -> None:
    facts = await KINDS[kind](*arguments)
    settle_memory()  # as `bus serve` does
    print(json.dumps(facts), flush=True)
    await asyncio.to_thread(sys.stdin.read)


class Server:
    """A server process and what it said about itself."""

    def __init__(self, argv: list[str], facts: dict[str, Any] | None = None, **options: Any) -> None:
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
        )
        assert self.process.stdout is not None
        self.facts: dict[str, Any] = facts or json.loads(self.process.stdout.readline())

    @classmethod
    def ours(cls, kind: str, *arguments: int) -> Server:
        return cls([sys.executable, "-m", "bench.bus_servers", kind, *map(str, arguments)])

    @classmethod
    def messagebus(cls) -> Server | None:
        """A real ovos-messagebus, None where it is not installed."""
        if not (OVOS / "ovos-messagebus").exists():
            return None
        home = Path(tempfile.mkdtemp(prefix="bridgehead-bench-ovos-"))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        (home / "mycroft").mkdir()
        settings = {"websocket": {"host": "127.0.0.1", "port": port, "route": "/core"}}
        (home / "mycroft" / "mycroft.conf").write_text(json.dumps(settings))
        places = {f"XDG_{kind}_HOME": str(home) for kind in ("CONFIG", "DATA", "CACHE", "STATE")}
        environ = {"PATH": os.environ["PATH"], "HOME": str(home), **places}
        facts = {"url": f"ws://127.0.0.1:{port}/core"}
        server = cls([str(OVOS / "ovos-messagebus")], facts, env=environ, stderr=subprocess.DEVNULL)
        _wait_for(port, server.process)
        return server

    @property
    def resident_mib(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def _wait_for(port: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit("bench: ovos-messagebus did not start")


if __name__ == "__main__":
    run(_serve(sys.argv[1], [int(argument) for argument in sys.argv[2:]]))
