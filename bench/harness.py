"""Runs comparisons: every round runs each side once, so a busy moment hits both. Prints ratios with their spread."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
PEERS = Path(
    os.environ.get("BRIDGEHEAD_PEERS")
    or REPOSITORY / ".venv" / "npm" / "node_modules" / ".bin"
)
SCRIPTS = Path(sys.executable).parent

Measure = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Budget:
    """What the ratio ours/theirs must satisfy, or our figure by itself, in the unit of its row."""

    at_most: float | None = None
    at_least: float | None = None
    ours_at_most: float | None = None

    def met_by(self, ratio: float, ours: float) -> bool:
        below = self.at_most is None or ratio <= self.at_most
        small = self.ours_at_most is None or ours <= self.ours_at_most
        return below and small and (self.at_least is None or ratio >= self.at_least)

    def __str__(self) -> str:
        if self.ours_at_most is not None:
            return f"≤ {self.ours_at_most:g}"
        return (
            f"≤ {self.at_most:g}×"
            if self.at_most is not None
            else f"≥ {self.at_least:g}×"
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of ours against the same figure of a peer, in the same unit."""

    name: str
    unit: str
    ours: Measure
    theirs: Measure
    peer: str
    budget: Budget | None = None
    rounds: int = 9
    best: Callable[[Sequence[float]], float] = min
    """What stands for a side: the least of a cost, the largest of a rate."""


@dataclass(frozen=True, slots=True)
class Outcome:
    comparison: Comparison
    ours: Sequence[float]
    theirs: Sequence[float]

    @property
    def ratio(self) -> float:
        return self.comparison.best(self.ours) / self.comparison.best(self.theirs)

    @property
    def spread(self) -> tuple[float, float]:
        """The middle half of the ratios of single rounds."""
        ratios = [
            ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True)
        ]
        if len(ratios) < 2:
            return ratios[0], ratios[0]
        quarters = statistics.quantiles(ratios, n=4, method="inclusive")
        return quarters[0], quarters[2]

    @property
    def met(self) -> bool:
        budget = self.comparison.budget
        return budget is None or budget.met_by(
            self.ratio, self.comparison.best(self.ours)
        )

    def as_document(self) -> dict[str, Any]:
        return {
            "name": self.comparison.name,
            "unit": self.comparison.unit,
            "peer": self.comparison.peer,
            "ours": list(self.ours),
            "theirs": list(self.theirs),
            "ratio": self.ratio,
            "spread": list(self.spread),
            "budget": str(self.comparison.budget) if self.comparison.budget else None,
            "met": self.met,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """What a suite says that compares with no peer: its own text, and whether all its numbers are met."""

    text: str
    met: bool
    document: Mapping[str, Any]


@dataclass(slots=True)
class Progress:
    """Says on stderr what is being measured."""

    done: int = 0
    total: int = 0
    _shown: int = field(default=0, repr=False)

    def step(self, name: str) -> None:
        self.done += 1
        if sys.stderr.isatty():
            line = f"\r{self.done}/{self.total} {name}"
            sys.stderr.write(line.ljust(self._shown))
            self._shown = len(line)
            sys.stderr.flush()


def compare(comparison: Comparison, rounds: int | None, progress: Progress) -> Outcome:
    """Run both sides in turn; one unmeasured round first fills caches."""
    comparison.ours(), comparison.theirs()
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds or comparison.rounds):
        progress.step(comparison.name)
        ours.append(comparison.ours())
        theirs.append(comparison.theirs())
    return Outcome(comparison, ours, theirs)


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as aligned text."""
    rows = [("what", "ours", "peer", "", "ratio", "spread", "budget", "")]
    for outcome in outcomes:
        comparison = outcome.comparison
        low, high = outcome.spread
        rows.append(
            (
                comparison.name,
                f"{comparison.best(outcome.ours):.4g} {comparison.unit}",
                f"{comparison.best(outcome.theirs):.4g} {comparison.unit}",
                comparison.peer,
                f"{outcome.ratio:.3g}×",
                f"{low:.3g}–{high:.3g}",
                str(comparison.budget) if comparison.budget else "",
                ""
                if comparison.budget is None
                else ("met" if outcome.met else "MISSED"),
            )
        )
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equal length as columns of text."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    )


def cpu_milliseconds(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
    expect: int = 0,
) -> float:
    """User and system time of one process and its children, in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        argv,
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != expect:
        sys.exit(
            f"{argv[0]} exited {done.returncode}, not {expect}: {done.stderr.decode(errors='replace')[-400:]}"
        )
    used = (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
    return used * 1000


def wall_seconds(work: Callable[[], object]) -> float:
    """Seconds on the clock that `work` took."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
