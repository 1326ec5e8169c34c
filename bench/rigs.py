"""Rig commands against the npm reference: start-up, listings warm and cold, sending, memory.

Figures are processor time of the command and its children. Warm: what an earlier command kept is there; cold: nothing
is, and the command builds it anew.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

from bench.harness import SCRIPTS, Budget, Comparison, Measure, cpu_milliseconds
from bench.rig_bridges import (
    RECIPIENT,
    environ,
    forget,
    idle_megabytes,
    make_bridge,
    ours,
    peak_megabytes,
    theirs,
)

PEER = "npm rig-bridge"
SIZES = (100, 1_000, 10_000)
LARGEST = SIZES[-1]
START_UP = Budget(at_most=0.8)
# Below some thousand envelopes start-up is nearly all of the time, on both sides (rigs §15).
WARM = {LARGEST: Budget(at_most=0.125)}
# The index is built from nothing, with a history that the reference never looks at.
COLD = {LARGEST: Budget(at_most=3.0)}
HUGE = 50_000


def comparisons() -> list[Comparison]:
    return [
        *_start_up(Bench("small", threads=1, envelopes=20)),
        *_listings(),
        *_in_a_huge_bridge(),
    ]


class Bench:
    """One bridge, and both programs measured in it."""

    def __init__(
        self,
        name: str,
        *,
        threads: int,
        envelopes: int,
        lately: int = 0,
        rig_id: str = "bench",
    ) -> None:
        home = Path(tempfile.mkdtemp(prefix="bridgehead-bench-"))
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        self.bridge = make_bridge(
            home,
            name,
            threads=threads,
            envelopes=envelopes,
            lately=lately,
            rig_id=rig_id,
        )
        self._environ = environ(home)

    def cpu(self, program: list[str], *arguments: str, exit_code: int = 0) -> float:
        return cpu_milliseconds(
            [*program, *arguments],
            cwd=self.bridge,
            environ=self._environ,
            expect=exit_code,
        )

    def cold(self, program: list[str], *arguments: str) -> float:
        forget(self.bridge)
        return self.cpu(program, *arguments)

    def peak(self, program: list[str], *arguments: str) -> float:
        return peak_megabytes([*program, *arguments], self.bridge, self._environ)

    def idle(self, program: list[str], *arguments: str) -> float:
        return idle_megabytes([*program, *arguments], self.bridge, self._environ)


def _start_up(bench: Bench) -> list[Comparison]:
    """Every command of the reference, and ours that it lacks against its `status`."""
    thread = ("--thread", "thread-000", "--to", "windows-5080", "--no-push")
    same: dict[str, tuple[str, ...]] = {
        "--help": ("--help",),
        "init": ("init", "--rig-id", "bench", "--force"),
        "new": ("new", "opened-01", "--force"),
        "send": ("send", "STATE", *thread),
        "status": ("status",),
        "thread": ("thread", "thread-000"),
        "sync": ("sync",),
    }
    rows = [
        _row(
            name,
            partial(bench.cpu, ours(), *words),
            partial(bench.cpu, theirs(), *words),
        )
        for name, words in same.items()
    ]
    close = _closing(bench)
    refused = (
        "relay",
        "ACK",
        "--thread",
        "thread-000",
    )  # this rig is no relay: refused after all is loaded
    rows += [
        _row("close", partial(close, ours()), partial(close, theirs())),
        _row(
            "relay, refused",
            partial(bench.cpu, ours(), *refused, exit_code=1),
            partial(bench.cpu, theirs(), *refused, exit_code=1),
        ),
    ]
    nearest = partial(bench.cpu, theirs(), "status")
    return rows + [
        _row(
            f"{' '.join(words)}, peer: status",
            partial(bench.cpu, ours(), *words),
            nearest,
        )
        for words in (("verify",), ("inbox",), ("trust", "list"))
    ]


def _row(name: str, us: Measure, them: Measure) -> Comparison:
    return Comparison(f"rig {name}", "ms CPU", us, them, PEER, START_UP, rounds=3)


def _closing(bench: Bench) -> Callable[[list[str]], float]:
    """A thread may be closed once only, so every call closes one of its own."""
    numbers = count()

    def close(program: list[str]) -> float:
        thread = f"closing-{next(numbers):03d}"
        (bench.bridge / thread).mkdir()
        return bench.cpu(program, "close", thread, "--status", "completed", "--no-push")

    return close


def _listings() -> list[Comparison]:
    rows: list[Comparison] = []
    for size in SIZES:
        many = Bench("many", threads=max(1, size // 50), envelopes=size)
        one = Bench("one", threads=1, envelopes=size)
        for bench, words in ((many, ("status",)), (one, ("thread", "thread-000"))):
            rows += _listing(bench, words, size)
    return rows


def _listing(bench: Bench, words: tuple[str, ...], size: int) -> list[Comparison]:
    name, rounds = f"rig {words[0]}, {size} envelopes", 2 if size == LARGEST else 3
    warm, cold, peer = (
        partial(measure, program, *words)
        for measure, program in (
            (bench.cpu, ours()),
            (bench.cold, ours()),
            (bench.cpu, theirs()),
        )
    )
    rows = [
        Comparison(f"{name}, warm", "ms CPU", warm, peer, PEER, WARM.get(size), rounds),
        Comparison(
            f"{name}, cold",
            "ms CPU",
            cold,
            peer,
            PEER,
            COLD.get(size),
            rounds,
        ),
    ]
    if size == LARGEST:
        rows += [
            _memory(bench, words, f"{name}, {state}, peak", state)
            for state in ("warm", "cold")
        ]
    return rows


def _in_a_huge_bridge() -> list[Comparison]:
    """One small thread, one-shot commands and their memory where there are very many envelopes.

    A cold command reads all of history, whatever it shows, so its peer is `status`.
    """
    bench = Bench(
        "huge", threads=HUGE // 50, envelopes=HUGE, lately=50, rig_id=RECIPIENT
    )
    name, status = f"{HUGE} envelopes", partial(bench.cpu, theirs(), "status")
    rows = []
    for thread, words in (
        ("lately", "begun lately"),
        ("thread-000", "spread over all of them"),
    ):
        cold = partial(bench.cold, ours(), "thread", thread)
        row = f"rig thread of 50 in {name}, {words}, cold, peer: status"
        rows.append(
            Comparison(row, "ms CPU", cold, status, PEER, Budget(at_most=3.0), 1)
        )
    for command in (("status",), ("inbox",), ("verify", "thread-000")):
        us = partial(bench.cpu, ours(), *command)
        row = f"rig {command[0]}, {name}, warm, peer: status"
        rows.append(
            Comparison(row, "ms CPU", us, status, PEER, Budget(at_most=0.125), rounds=2)
        )
        rows.append(
            _memory(
                bench,
                command,
                f"rig {command[0]}, {name}, warm, peak, peer: status",
                "warm",
                ("status",),
            )
        )
    pending = partial(bench.cpu, [str(SCRIPTS / "bridgehead"), "pending"])
    rows.append(
        Comparison(
            f"pending, {name}, warm, peer: status",
            "ms CPU",
            pending,
            status,
            PEER,
            Budget(at_most=0.125),
            rounds=2,
        )
    )
    sending = (
        "send",
        "STATE",
        "--thread",
        "thread-000",
        "--to",
        "windows-5080",
        "--no-push",
    )
    rows.append(
        _memory(
            bench, sending, f"rig send, {name}, peak, peer: status", "warm", ("status",)
        )
    )
    rows.append(
        _memory(
            bench,
            ("inbox",),
            f"rig inbox, {name}, cold, peak, peer: status",
            "cold",
            ("status",),
        )
    )
    idle, peak = (
        partial(bench.idle, ours(), "watch"),
        partial(bench.peak, theirs(), "status"),
    )
    watch = f"rig watch, {name}, idle, peer: status"
    rows.append(
        Comparison(watch, "MB", idle, peak, PEER, Budget(at_most=1.0), rounds=1)
    )
    return rows


def _memory(
    bench: Bench,
    words: tuple[str, ...],
    name: str,
    state: str,
    peers: tuple[str, ...] | None = None,
) -> Comparison:
    def us() -> float:
        if state == "cold":
            forget(bench.bridge)
        return bench.peak(ours(), *words)

    peer = partial(bench.peak, theirs(), *(peers or words))
    return Comparison(name, "MB", us, peer, PEER, Budget(at_most=1.0), rounds=1)
