"""A round trip through HiveMind-core: satellite, core, ovos-messagebus, somebody who answers, and back.

The satellite is HiveMind's own client library in HiveMind's own environment, told what to do by the script below.
"""

from __future__ import annotations

import json
import subprocess

from bench.bus_processes import (
    HIVEMIND,
    READY_S,
    Server,
    Unavailable,
    hivemind_core,
    messagebus,
    ours,
    scratch_environment,
)

SATELLITE = """
import json, os, sys, threading, time
from hivemind_bus_client import HiveMessageBusClient
from ovos_bus_client import Message

port, seconds = int(sys.argv[1]), float(sys.argv[2])
client = HiveMessageBusClient(
    key="bench-key", password="bench-password", host="ws://127.0.0.1", port=port, useragent="bench")
client.connect()
answered = threading.Event()
client.on_mycroft("speak", lambda _message: answered.set())
trips, began = 0, time.perf_counter()
while time.perf_counter() - began < seconds:
    answered.clear()
    client.emit(Message("recognizer_loop:utterance", {"utterances": ["x" * 100]}))
    trips += answered.wait(3)  # an answer that never comes costs what a person would wait
print(json.dumps(trips / (time.perf_counter() - began)), flush=True)
os._exit(0)
"""


class HiveMind:
    """Everything a HiveMind deployment needs, running."""

    def __init__(self) -> None:
        self._running: list[Server] = []
        try:
            bus = self._started(messagebus())
            self._core = self._started(hivemind_core(bus.facts["port"]))
            self._started(ours("responder", bus.facts["port"]))
        except BaseException:
            self.stop()
            raise

    def _started(self, server: Server) -> Server:
        self._running.append(server)
        return server

    def round_trips(self, seconds: float = 4.0) -> float:
        """Round trips a second with one message in flight."""
        done = subprocess.run(
            [
                str(HIVEMIND / "python"),
                "-c",
                SATELLITE,
                str(self._core.facts["port"]),
                str(seconds),
            ],
            env=scratch_environment(self._core.home),
            capture_output=True,
            text=True,
            timeout=seconds + READY_S,
            check=False,
        )
        if done.returncode:
            raise Unavailable(
                f"the HiveMind satellite failed: {done.stderr.strip()[-200:]}"
            )
        rate = float(json.loads(done.stdout.splitlines()[-1]))
        if not rate:
            raise Unavailable("HiveMind-core answered nothing")
        return rate

    def stop(self) -> None:
        for server in reversed(self._running):
            server.stop()
