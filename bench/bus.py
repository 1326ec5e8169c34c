"""The hub against ovos-messagebus, the bridge against a bare echo of the same library. Loopback only, bounded.

Everything is measured with every check on. HiveMind-core is a peer by its wire alone and is compared only where
`BRIDGEHEAD_HIVEMIND` names a figure somebody measured on the same machine (round trips a second).
"""

from __future__ import annotations

import atexit
import os
import resource
from collections.abc import Callable
from functools import cache

from bench.bus_load import fan_out, idle, p99_ms, round_trips
from bench.bus_servers import Server
from bench.harness import Budget, Comparison
from bridgehead.bus.loop import run

FAN_OUT = ((1, 3000), (10, 1500), (100, 200))
ALLOWED_P99_MS = 5.0
IDLE = 10_000
ALLOWED_IDLE_MIB = 1024.0


@cache
def _server(kind: str, *arguments: int) -> Server:
    started = Server.ours(kind, *arguments)
    atexit.register(started.stop)
    return started


@cache
def _messagebus() -> Server:
    started = Server.messagebus()
    if started is None:
        raise SystemExit("bench: ovos-messagebus is not installed in the environment for OVOS")
    atexit.register(started.stop)
    return started


def _fan_out(receivers: int, messages: int) -> Comparison:
    return Comparison(
        f"hub fan-out, 300 B, {receivers} receivers",
        "messages/s",
        lambda: fan_out(_server("hub").facts["url"], receivers, messages),
        lambda: fan_out(_messagebus().facts["url"], receivers, max(50, messages // 10)),
        "ovos-messagebus",
        Budget(at_least=4),
        rounds=3,
        best=max,
    )


def _idle_mib() -> float:
    """What a process holds with many participants connected and silent."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(IDLE, hard - 200)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, count + 200)), hard))
    server = Server.ours("bridge", count)
    try:

        async def measure() -> float:
            members = await idle(server.facts, count)
            held = server.resident_mib * IDLE / count
            for member in members:
                member.peer.abort()
            return held

        return run(measure())
    finally:
        server.stop()


def comparisons() -> list[Comparison]:
    echo: Callable[[], float] = lambda: round_trips(_server("echo").facts)  # noqa: E731
    found = [_fan_out(receivers, messages) for receivers, messages in FAN_OUT]
    found += [
        Comparison(
            "bridge round trip, one in flight",
            "trips/s",
            lambda: round_trips(_server("bridge").facts),
            echo,
            "bare echo, same library",
            Budget(at_least=0.5),
            rounds=5,
            best=max,
        ),
        Comparison(
            "bridge p99 at 1,000 messages/s",
            "ms",
            lambda: p99_ms(_server("bridge").facts),
            lambda: ALLOWED_P99_MS,
            "allowed",
            Budget(at_most=1),
            rounds=3,
        ),
        Comparison(
            "10,000 idle participants",
            "MiB",
            _idle_mib,
            lambda: ALLOWED_IDLE_MIB,
            "allowed",
            Budget(at_most=1),
            rounds=1,
        ),
    ]
    if measured := os.environ.get("BRIDGEHEAD_HIVEMIND"):
        found.append(
            Comparison(
                "bridge round trip",
                "trips/s",
                lambda: round_trips(_server("bridge").facts),
                lambda: float(measured),
                "HiveMind-core, as measured",
                Budget(at_least=50),
                rounds=3,
                best=max,
            )
        )
    return found
