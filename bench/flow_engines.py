"""The same flow in other engines, each run by the interpreter of .venv/flow-engines; none is imported here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.harness import REPOSITORY, Comparison, cpu_milliseconds

INTERPRETER = REPOSITORY / ".venv" / "flow-engines" / "bin" / "python"
PROGRAMS = Path(__file__).with_name("flow_engine_programs")
RECORDED_STEPS = 200
ROUNDS = 2


class Ours(NamedTuple):
    """The same figures of our own engine."""

    pause_cpu: Callable[[], float]
    resume_cpu: Callable[[], float]
    recording_rate: Callable[[], float]


class Engine(NamedTuple):
    """One of the others, and the program that runs the flow on it."""

    name: str
    program: str

    def pause_cpu(self, folder: Path) -> float:
        return self._cpu("start", _empty(folder / self.program), expect=42)

    def resume_cpu(self, folder: Path) -> float:
        place = _empty(folder / self.program)
        self._cpu("start", place, expect=42)
        return self._cpu("resume", place, "seven")

    def recording_rate(self, folder: Path) -> float:
        """Steps per second as the program itself measures them: starting the engine does not count."""
        words = self._command(
            "record", _empty(folder / self.program), str(RECORDED_STEPS)
        )
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
        )
        return float(done.stdout)

    def is_installed(self) -> bool:
        """Whether its program can be loaded; that imports the engine."""
        if not INTERPRETER.exists():
            return False
        tried = subprocess.run(
            [str(INTERPRETER), str(PROGRAMS / self.program), "check"],
            capture_output=True,
        )
        return tried.returncode == 0

    def _cpu(self, verb: str, place: Path, *rest: str, expect: int = 0) -> float:
        return cpu_milliseconds(self._command(verb, place, *rest), expect=expect)

    def _command(self, verb: str, place: Path, *rest: str) -> list[str]:
        return [str(INTERPRETER), str(PROGRAMS / self.program), verb, str(place), *rest]


ENGINES = (
    Engine("DBOS, SQLite", "with_dbos.py"),
    Engine("LangGraph, SQLite", "with_langgraph.py"),
)


def engine_comparisons(folder: Path, ours: Ours) -> list[Comparison]:
    """Our figures against each engine that is installed; for one that is not, a line says so."""
    found: list[Comparison] = []
    for engine in ENGINES:
        if engine.is_installed():
            found += _against(engine, folder, ours)
        else:
            sys.stderr.write(
                f"bench: {engine.name} is not installed in .venv/flow-engines; `make bench` tries to\n"
            )
    return found


def _against(engine: Engine, folder: Path, ours: Ours) -> list[Comparison]:
    return [
        Comparison(
            *(
                "flow pause, CPU",
                "ms",
                ours.pause_cpu,
                partial(engine.pause_cpu, folder),
                engine.name,
            ),
            rounds=ROUNDS,
        ),
        Comparison(
            *(
                "flow resume, CPU",
                "ms",
                ours.resume_cpu,
                partial(engine.resume_cpu, folder),
                engine.name,
            ),
            rounds=ROUNDS,
        ),
        Comparison(
            *(
                "steps recorded durably",
                "/s",
                ours.recording_rate,
                partial(engine.recording_rate, folder),
            ),
            engine.name,
            rounds=ROUNDS,
            best=max,
        ),
    ]


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
