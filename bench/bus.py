"""The hub against ovos-messagebus, the bridge against HiveMind-core and a bare echo, hubs on NATS, idle
participants, a storm of reconnects, an edit among many records.

Loopback only, bounded, with every check on. What is not installed is not measured, and a line says so.
"""

from __future__ import annotations

import atexit
import os
import resource
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from bench.bus_hivemind import HiveMind
from bench.bus_load import (
    busy_trips,
    fan_out,
    idle,
    longest_trip_ms,
    p99_ms,
    reconnect_s,
    round_trips,
)
from bench.bus_plots import lines, ratios
from bench.bus_processes import Server, Unavailable, messagebus, nats_server, ours
from bench.harness import REPOSITORY, Budget, Comparison, Outcome
from bridgehead.bus.sockets.event_loop import run

FAN_OUT = ((1, 3000), (10, 1500), (100, 200))
HUBS = 4
CORES = os.cpu_count() or 1
ALLOWED_P99_MS = 5.0
IDLE = 10_000
STORM = 3_000
ALLOWED_STORM_S = 5.0
ALLOWED_STALL_MS = 100.0  # less than a person notices
ALLOWED_IDLE_MIB = 1024.0
RESULTS = REPOSITORY / "bench" / "results"


def comparisons() -> list[Comparison]:
    print(
        f"bench: {CORES} cores; hubs on NATS are compared by processor time, with a budget while they fit on the cores",
        file=sys.stderr,
    )
    found: list[Comparison] = []
    for name, measured in (
        ("ovos-messagebus", _against_messagebus),
        ("a bare echo", _against_echo),
        ("HiveMind-core", _against_hivemind),
        ("NATS", _hubs_on_nats),
    ):
        try:
            found += measured()
        except Unavailable as missing:
            print(
                f"bench: nothing is measured against {name}: {missing}", file=sys.stderr
            )
    return found + _allowances()


def draw(outcomes: Sequence[Outcome]) -> list[Path]:
    """The figures as pictures."""
    RESULTS.mkdir(exist_ok=True)
    fanned = [
        outcome
        for outcome in outcomes
        if outcome.comparison.name.startswith("hub fan-out")
    ]
    pictures = {
        "bus-ratios.svg": ratios("The bus against its peers and its budgets", outcomes)
    }
    if fanned:
        receivers = [count for count, _messages in FAN_OUT]
        series = {
            "bridgehead": [max(outcome.ours) for outcome in fanned],
            "ovos-messagebus": [max(outcome.theirs) for outcome in fanned],
        }
        pictures["bus-fan-out.svg"] = lines(
            "Hub fan-out, 300 B: messages/s by receivers", receivers, series
        )
    for name, picture in pictures.items():
        (RESULTS / name).write_text(picture, encoding="utf-8")
    return [RESULTS / name for name in pictures]


@cache
def _server(kind: str, *arguments: int) -> Server:
    return _until_the_end(ours(kind, *arguments))


def _until_the_end(server: Server) -> Server:
    atexit.register(server.stop)
    return server


# -- peers ------------------------------------------------------------------------------------------------------


def _against_messagebus() -> list[Comparison]:
    peer = _until_the_end(messagebus())
    return [_fan_out(peer, receivers, messages) for receivers, messages in FAN_OUT]


def _fan_out(peer: Server, receivers: int, messages: int) -> Comparison:
    return Comparison(
        f"hub fan-out, 300 B, {receivers} receiver{'s' if receivers > 1 else ''}",
        "messages/s",
        lambda: fan_out(_server("hub").facts["url"], receivers, messages),
        lambda: fan_out(peer.facts["url"], receivers, max(50, messages // 10)),
        "ovos-messagebus",
        Budget(at_least=4),
        rounds=3,
        best=max,
    )


def _against_echo() -> list[Comparison]:
    return [
        Comparison(
            name,
            "trips/s",
            lambda kind=kind: round_trips(_server(kind).facts),  # type: ignore[misc]
            lambda: round_trips(_server("echo").facts),
            "bare echo, same library",
            Budget(at_least=0.5),
            best=max,
        )
        for name, kind in (
            ("bridge round trip", "bridge"),
            ("bridge round trip, profile auto", "bridge_auto"),
        )
    ]


def _against_hivemind() -> list[Comparison]:
    peer = HiveMind()
    atexit.register(peer.stop)
    peer.round_trips(1.0)  # whether it works at all
    return [
        Comparison(
            "bridge round trip",
            "trips/s",
            lambda: round_trips(_server("bridge").facts),
            peer.round_trips,
            "HiveMind-core 4.0.0",
            Budget(at_least=50),
            rounds=2,
            best=max,
        )
    ]


# -- several hubs -----------------------------------------------------------------------------------------------


def _hubs_on_nats() -> list[Comparison]:
    nats = _until_the_end(nats_server())
    hubs = [
        _until_the_end(ours("bridge_on_nats", nats.facts["port"])) for _ in range(HUBS)
    ]

    def capacity(count: int) -> Callable[[], float]:
        """What so many hubs could do with a core each: their trips in a second of processor time, all together."""

        def measure() -> float:
            loaded = (*hubs[:count], nats)
            before = sum(server.cpu_seconds for server in loaded)
            trips = busy_trips([hub.facts for hub in hubs[:count]])
            return (
                count * trips / (sum(server.cpu_seconds for server in loaded) - before)
            )

        return measure

    return [
        Comparison(
            f"{2 * count} hubs on NATS, capacity",
            "trips/s",
            capacity(2 * count),
            capacity(count),
            f"{count} hub{'s' if count > 1 else ''}",
            Budget(at_least=1.7) if 2 * count <= CORES else None,
            rounds=5,
            best=statistics.median,  # what others do on the machine moves both sides
        )
        for count in (1, 2)
    ]


# -- allowances -------------------------------------------------------------------------------------------------


def _allowances() -> list[Comparison]:
    return [
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
        Comparison(
            f"{STORM:,} participants reconnect at once",
            "s",
            _storm_s,
            lambda: ALLOWED_STORM_S,
            "allowed",
            Budget(at_most=1),
            rounds=3,
        ),
        Comparison(
            "longest trip while one record of 10,000 is edited",
            "ms",
            _stall_ms,
            lambda: ALLOWED_STALL_MS,
            "allowed",
            Budget(at_most=1),
            rounds=3,
        ),
    ]


def _storm_s() -> float:
    _allow_open_files(STORM + 200)
    return reconnect_s(_server("bridge", STORM).facts, STORM)


def _stall_ms() -> float:
    """A limit of somebody else is raised by one in the file, as an operator does it."""
    facts = _server("bridge", IDLE).facts
    records = Path(facts["state"]) / "participants.toml"

    def edit() -> None:
        head, burst, rest = records.read_text().rpartition("burst = ")
        number, line_end, rest = rest.partition("\n")
        changed = records.with_suffix(".new")
        changed.write_text(f"{head}{burst}{int(number) + 1}{line_end}{rest}")
        changed.replace(records)

    return longest_trip_ms(facts, edit)


def _allow_open_files(count: int) -> int:
    """Let this process have so many files open; how many it then may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, count)), hard))
    return min(hard, count)


@cache
def _idle_mib() -> float:
    """What a process holds with many participants connected and silent; measured once, it takes a while."""
    count = _allow_open_files(IDLE + 200) - 200
    server = ours("bridge", count)
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
