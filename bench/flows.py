"""Flows: what a pause and a resume cost over the bare interpreter, recording, replaying, and other engines."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from bench.flow_engines import Ours, engine_comparisons
from bench.harness import SCRIPTS, Budget, Comparison, cpu_milliseconds, wall_seconds
from bridgehead.flows import Context, Flow, RunInputs, RunRequest, run_flow
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.journals.sqlite import MIGRATIONS, PUT_RECORD, SqliteJournal

PAUSE_ALLOWANCE_MS = 60.0
RECORD_ALLOWANCE_MS = 30.0
REPLAYED_STEPS = 100_000
REPLAY_ALLOWANCE_MS = 3000.0
RECORDED_STEPS = 2_000
AT = "2026-11-15T10:15:02.123456Z"

PROGRAM = """
from bridgehead.flows import flow, main

@flow("one", version="1")
def one(ctx):
    number = ctx.step("prepare", lambda: 41)
    return ctx.ask("question", agent="reviewer", prompt="How many?") + str(number)

if __name__ == "__main__":
    raise SystemExit(main(one))
"""
_COMMAND = (str(SCRIPTS / "bridgehead"), "flow")


def comparisons() -> list[Comparison]:
    folder = Path(tempfile.mkdtemp(prefix="bridgehead-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    ours = Ours(
        partial(pause_cpu, folder),
        partial(resume_cpu, folder),
        partial(recording_rate, folder),
    )
    return [
        *_start_up(folder, ours),
        *_journal(folder, ours),
        *engine_comparisons(folder, ours),
    ]


def _start_up(folder: Path, ours: Ours) -> list[Comparison]:
    """A program that is a flow, and the same flow run by the command, which also tells the record."""
    within = Budget(at_most=1.0)
    alone = partial(interpreter_allowance, folder, PAUSE_ALLOWANCE_MS)
    telling = partial(
        interpreter_allowance, folder, PAUSE_ALLOWANCE_MS + RECORD_ALLOWANCE_MS
    )
    allowance = f"interpreter + {PAUSE_ALLOWANCE_MS:g} ms"
    allowance_with_record = f"{allowance}, {RECORD_ALLOWANCE_MS:g} ms for the record"
    run, resume = (
        partial(command_pause_cpu, folder),
        partial(command_resume_cpu, folder),
    )
    return [
        Comparison("flow pause, CPU", "ms", ours.pause_cpu, alone, allowance, within),
        Comparison("flow resume, CPU", "ms", ours.resume_cpu, alone, allowance, within),
        Comparison(
            "`bridgehead flow run`, CPU",
            "ms",
            run,
            telling,
            allowance_with_record,
            within,
        ),
        Comparison(
            "`bridgehead flow resume`, CPU",
            "ms",
            resume,
            telling,
            allowance_with_record,
            within,
        ),
    ]


def _journal(folder: Path, ours: Ours) -> list[Comparison]:
    return [
        Comparison(
            f"resume after {REPLAYED_STEPS:,} recorded steps, CPU",
            "ms",
            _replay_of(folder / "replay"),
            lambda: REPLAY_ALLOWANCE_MS,
            f"{REPLAY_ALLOWANCE_MS / 1000:g} seconds",
            Budget(at_most=1.0),
            rounds=3,
        ),
        Comparison(
            "steps recorded durably",
            "/s",
            ours.recording_rate,
            partial(raw_sqlite_rate, folder),
            "raw SQLite, one transaction each",
            Budget(at_least=0.6),
            rounds=5,
            best=max,
        ),
    ]


def interpreter_allowance(folder: Path, allowance_ms: float) -> float:
    """CPU milliseconds of an interpreter that does nothing, and what a flow may use besides."""
    return cpu_milliseconds([sys.executable, "-c", "pass"], cwd=folder) + allowance_ms


def pause_cpu(folder: Path) -> float:
    """CPU milliseconds from starting a flow to exit 42."""
    return cpu_milliseconds([sys.executable, "one.py"], cwd=_program(folder), expect=42)


def resume_cpu(folder: Path) -> float:
    """CPU milliseconds from `--resume` with an answer to the end."""
    root = _program(folder)
    cpu_milliseconds([sys.executable, "one.py"], cwd=root, expect=42)
    _answer(root)
    return cpu_milliseconds([sys.executable, "one.py", "--resume"], cwd=root)


def command_pause_cpu(folder: Path) -> float:
    """The same with `bridgehead flow run`."""
    root = _program(folder)
    return cpu_milliseconds(
        [*_COMMAND, "run", "one.py"], cwd=root, environ=_home(folder), expect=42
    )


def command_resume_cpu(folder: Path) -> float:
    """The same with `bridgehead flow resume`."""
    root = _program(folder)
    cpu_milliseconds(
        [*_COMMAND, "run", "one.py"], cwd=root, environ=_home(folder), expect=42
    )
    _answer(root)
    return cpu_milliseconds([*_COMMAND, "resume"], cwd=root, environ=_home(folder))


def recording_rate(folder: Path) -> float:
    """Steps per second that a flow records, each in a transaction of its own."""
    root = _empty(folder / "recording")
    flow = Flow("recording", "1", _many_steps(RECORDED_STEPS))
    return RECORDED_STEPS / wall_seconds(lambda: run_flow(flow, RunRequest(root=root)))


def raw_sqlite_rate(folder: Path) -> float:
    """Rows per second of the same shape and durability, without a flow around them, from no file to a closed one."""
    path = _empty(folder / "raw") / "raw.db"

    def insert() -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=FULL")
            for statement in MIGRATIONS[0]:
                database.execute(statement)
            for number in range(RECORDED_STEPS):
                row = (
                    "flow-1",
                    f"step#{number}",
                    "step",
                    "0" * 64,
                    "completed",
                    str(number),
                    None,
                    AT,
                    AT,
                    None,
                )
                database.execute(PUT_RECORD, row)

    return RECORDED_STEPS / wall_seconds(insert)


def _replay_of(root: Path) -> Callable[[], float]:
    """Record the steps when first measured; then each measure is one resume that replays them all."""
    flow = Flow("replay", "1", _many_steps(REPLAYED_STEPS, then_ask=True))

    def measure() -> float:
        if not root.exists():
            # Made without waiting for the disk: what is measured is how it is read.
            run_flow(
                flow,
                RunRequest(root=_empty(root)),
                RunInputs(open_journal=_hasty_journal),
            )
        began = time.process_time()
        run_flow(flow, RunRequest(root=root, resume=True))
        return (time.process_time() - began) * 1000

    return measure


def _hasty_journal(root: FlowRoot) -> SqliteJournal:
    journal = SqliteJournal(root.journal)
    journal._db.execute("PRAGMA synchronous=OFF")
    return journal


def _many_steps(count: int, *, then_ask: bool = False) -> Callable[[Context], int]:
    def work(ctx: Context) -> int:
        total: int = sum(ctx.step("step", abs, number) for number in range(count))
        if then_ask:
            ctx.ask("question", agent="reviewer", prompt=str(total), timeout=86_400)
        return total

    return work


def _answer(root: Path) -> None:
    request = json.loads((root / ".agent-request.json").read_bytes())
    response = {
        "request_id": request["request_id"],
        "version": "1.0",
        "status": "success",
        "created_at": AT,
        "response": "seven",
    }
    (root / ".agent-response.json").write_text(json.dumps(response))


def _home(folder: Path) -> dict[str, str]:
    """A user whose record is in the scratch folder."""
    return {"PATH": os.environ.get("PATH", ""), "HOME": str(folder / "home")}


def _program(folder: Path) -> Path:
    root = _empty(folder / "program")
    (root / "one.py").write_text(PROGRAM)
    return root


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
