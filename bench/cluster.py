"""`python -m bench.cluster [TURNS]`: three NATS servers, three bridges, and one node after the other killed.

Every bridge is a `bridgehead bus serve` of its own, with hub and assistant; satellites know all three. Every few
seconds a server or a bridge is killed with SIGKILL and started again. Each of the turns (10,000 by default) must end
in the answer to that very question or in a report to its speaker; somebody else's answer is a leak, no answer a
silent loss. A turn that meets a loss takes as long as the recovery.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from bridgehead.bus.access.enrolment import Enrolment, enrol
from bridgehead.bus.access.join_file import JoinFile
from bridgehead.bus.access.state_folder import StateFolder
from bridgehead.bus.client.participant import Satellite, SendRefused
from bridgehead.bus.sockets.event_loop import run
from bridgehead.errors import BridgeheadError
from bridgehead.host.clock import SystemClock

TURNS = 10_000
SATELLITES = 12
NODES = 3
NODE_LIVES_S = 8.0
NODE_AWAY_S = 4.0
WAIT_S = 60.0
PAUSE_S = 0.1
"""Between the turns of a satellite, which stays within its limits, and so that many of them meet a loss."""
SCRIPTS = Path(sys.executable).parent
SHARED = ("participants.toml", "credentials.json")


@dataclass
class Tally:
    """What became of the turns, as their speakers saw it."""

    answered: int = 0
    reported: int = 0
    silent: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)
    longest_s: float = 0.0

    @property
    def turns(self) -> int:
        return self.answered + self.reported + len(self.silent) + len(self.leaks)

    def text(self) -> str:
        return (
            f"{self.turns} turns: {self.answered} answered, {self.reported} reported as lost, "
            f"{len(self.silent)} lost in silence, {len(self.leaks)} leaks; killed {', '.join(self.killed)}; "
            f"the longest turn took {self.longest_s:.1f} s"
        )


class Node:
    """One process that can be killed and started again."""

    def __init__(
        self, name: str, port: int, command: list[str], environ: dict[str, str]
    ) -> None:
        self.name = name
        self._port = port
        self._command = command
        self._environ = environ
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            self._command, env=self._environ, stdout=quiet, stderr=quiet
        )
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self._port)
            except OSError:
                if (
                    self._process.poll() is not None
                ):  # its servers may have had no leader yet
                    self._process = subprocess.Popen(
                        self._command, env=self._environ, stdout=quiet, stderr=quiet
                    )
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def servers(folder: Path) -> list[Node]:
    clients, routes = free_ports(NODES), free_ports(NODES)
    others = ",".join(f"nats://127.0.0.1:{port}" for port in routes)
    program = shutil.which("nats-server") or str(SCRIPTS / "nats-server")
    return [
        Node(
            f"n{number}",
            clients[number],
            [
                *(
                    program,
                    "-a",
                    "127.0.0.1",
                    "-p",
                    str(clients[number]),
                    "-n",
                    f"n{number}",
                ),
                *(
                    "--cluster_name",
                    "c",
                    "--cluster",
                    f"nats://127.0.0.1:{routes[number]}",
                ),
                *("--routes", others, "-js", "-sd", str(folder / f"n{number}")),
            ],
            dict(os.environ),
        )
        for number in range(NODES)
    ]


def bridges(folder: Path, nats: list[Node]) -> tuple[list[Node], list[JoinFile]]:
    """The bridges, and the join file of each satellite, which everybody knows."""
    ports, hubs = free_ports(NODES), free_ports(NODES)
    urls = [f"ws://127.0.0.1:{port}/bridge/v1" for port in ports]
    first, joins = StateFolder(folder / "b0"), []
    first.prepare()
    for number in range(SATELLITES):
        request = Enrolment(
            f"sat{number}", {}, urls[number % NODES], alternatives=tuple(urls)
        )
        joins.append(enrol(first, request, SystemClock()))
    nodes = []
    for number, port in enumerate(ports):
        state = folder / f"b{number}"
        StateFolder(state).prepare()
        if number:
            for name in SHARED:
                shutil.copy(first.path / name, state / name)
        near = [
            f"nats://127.0.0.1:{nats[(number + step) % NODES]._port}"
            for step in range(NODES)
        ]
        environ = {
            **os.environ,
            "HOME": str(folder),
            "BRIDGEHEAD_BUS_NATS": ",".join(near),
        }
        environ |= {"BRIDGEHEAD_HOME": str(folder / f"home{number}")}
        command = [
            str(SCRIPTS / "bridgehead"),
            "bus",
            "serve",
            "--assistant",
            "scripted",
        ]
        command += ["--state", str(state), "--listen", f"127.0.0.1:{port}"]
        command += ["--hub-listen", f"127.0.0.1:{hubs[number]}"]
        nodes.append(Node(f"b{number}", port, command, environ))
    return nodes, joins


async def talk(join: JoinFile, turns: int, tally: Tally) -> None:
    satellite = await Satellite.connect(join)
    for number in range(turns):
        said, began = f"{join.participant} {number}", time.monotonic()
        try:
            spoken = await satellite.ask(said, wait_s=WAIT_S)
        except (SendRefused, BridgeheadError):
            tally.reported += 1
        else:
            if not spoken.handled:
                tally.silent.append(said)
            elif spoken.text != f"You said: {said}":
                tally.leaks.append(f"{said}: {spoken.text!r}")
            else:
                tally.answered += 1
                tally.longest_s = max(tally.longest_s, time.monotonic() - began)
        await asyncio.sleep(PAUSE_S)
    await satellite.close()


async def kill_one_after_the_other(nodes: list[Node], tally: Tally) -> None:
    dice = random.Random(7)
    while True:
        await asyncio.sleep(NODE_LIVES_S)
        node = dice.choice(nodes)
        await asyncio.to_thread(node.kill)
        tally.killed.append(node.name)
        await asyncio.sleep(NODE_AWAY_S)
        await node.start()


async def main(turns: int) -> Tally:
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="bridgehead-cluster-") as folder:
        nats = servers(Path(folder))
        nodes, joins = bridges(Path(folder), nats)
        try:
            await asyncio.gather(*(node.start() for node in nats))
            for node in nodes:
                await node.start()
            killing = asyncio.create_task(kill_one_after_the_other(nats + nodes, tally))
            await asyncio.gather(
                *(talk(join, turns // SATELLITES, tally) for join in joins)
            )
            killing.cancel()
        finally:
            for node in nats + nodes:
                node.kill()
    return tally


if __name__ == "__main__":
    outcome = run(main(int(sys.argv[1]) if len(sys.argv) > 1 else TURNS))
    print(outcome.text())
    for bad in (*outcome.silent[:10], *outcome.leaks[:10]):
        print(" ", bad)
    sys.exit(1 if outcome.silent or outcome.leaks else 0)
