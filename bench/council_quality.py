"""Is a council worth its calls? Simulated reviewers, the real protocol, baselines at equal cost (council §21).

`python -m bench council_quality` prints a table with 95 % Wilson intervals, draws it into bench/results/ and fails when
an acceptance number is missed. `--rounds N` sets the number of seeds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bench.council_corpus import DOMAINS, clean_twin, make_project
from bench.council_scores import Score, score, total, verdict_only
from bench.council_simulation import (
    MODELS,
    Condition,
    agreed,
    hold_council,
    plain_union,
    sample,
)
from bench.harness import REPOSITORY, Report, aligned
from bench.plots import Line, line_chart
from bridgehead.contract.words import CouncilProtocol

SEEDS: Final = 200
SEEDS_PER_TASK: Final = 10
CLEAN_TWIN_EVERY: Final = 5
CORRELATIONS: Final = (0.0, 0.3, 0.5, 0.8)
MODERATE: Final = 0.5
"""Up to this correlation a council must beat every baseline."""
UNION_ALLOWANCE: Final = 0.02
MOST_LOST: Final = 0.05
PLOT: Final = REPOSITORY / "bench" / "results" / "council_quality.svg"

COUNCIL: Final = "council"
GIVING_IN: Final = "council, s = 0.8"
UNGUARDED: Final = "council, s = 0.8, no guard"
UNION: Final = "union of its four models"
SHARED: Final = "council, shared"
SHARED_GIVING_IN: Final = "council, shared, s = 0.8"
SHARED_CALLS: Final = 9
"""Of four seats at most: one first call each, a challenge, one answer each."""
COUNCILS: Final[Mapping[str, Mapping[str, Any]]] = {
    COUNCIL: {},
    SHARED: {"protocol": CouncilProtocol.SHARED},
    SHARED_GIVING_IN: {"protocol": CouncilProtocol.SHARED, "sycophancy": 0.8},
    GIVING_IN: {"sycophancy": 0.8},
    UNGUARDED: {"sycophancy": 0.8, "withdrawal_guard": False},
    "council, c_t = c_f = 0.3": {"doubts_true": 0.30, "doubts_false": 0.30},
}
GUARDED: Final = tuple(
    name for name in COUNCILS if name != UNGUARDED and "c_t" not in name
)
ALONE: Final = "one reviewer"
BASELINES: Final = (
    ALONE,
    "4 samples, union",
    "4 samples, majority",
    "equal calls, union",
    "equal calls, majority",
)
DRAWN: Final = (COUNCIL, GIVING_IN, UNGUARDED, "council, c_t = c_f = 0.3", UNION, ALONE)

Scores = dict[str, Score]


@dataclass(frozen=True, slots=True)
class Check:
    """One acceptance number."""

    what: str
    met: bool
    figures: str

    def __str__(self) -> str:
        return f"{'met   ' if self.met else 'MISSED'}  {self.what}: {self.figures}"


def report(rounds: int | None = None) -> Report:
    """Run the grid, and say whether the council is worth its cost."""
    by_correlation = measure(rounds or SEEDS)
    checks = list(accept(by_correlation))
    PLOT.parent.mkdir(exist_ok=True)
    PLOT.write_text(_plot(by_correlation), encoding="utf-8")
    lines = [
        _table(by_correlation),
        "",
        *map(str, checks),
        "",
        f"drawn: {PLOT.relative_to(REPOSITORY)}",
    ]
    document = {
        str(rho): {name: str(one.f1) for name, one in scores.items()}
        for rho, scores in by_correlation.items()
    }
    return Report("\n".join(lines), all(check.met for check in checks), document)


def measure(seeds: int) -> dict[float, Scores]:
    """The scores of every strategy at every correlation, over the same projects."""
    batches = [
        range(start, min(start + SEEDS_PER_TASK, seeds))
        for start in range(0, seeds, SEEDS_PER_TASK)
    ]
    by_correlation: dict[float, Scores] = {}
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        for rho in CORRELATIONS:
            by_correlation[rho] = _sum(pool.map(partial(review_projects, rho), batches))
    return by_correlation


def review_projects(correlation: float, seeds: Sequence[int]) -> Scores:
    """Everything for some seeds at one correlation."""
    return _sum(dict(review_project(correlation, seed)) for seed in seeds)


def review_project(correlation: float, seed: int) -> Iterator[tuple[str, Score]]:
    """One project in every way; the first council says how many calls the baselines may make."""
    project = make_project(seed)
    plain = Condition(correlation)
    calls = 0
    for name, changes in COUNCILS.items():
        held = hold_council(project, Condition(correlation, **changes), seed)
        calls = calls or held.calls
        yield name, score(project, held)
    few, many = len(MODELS), calls // len(DOMAINS)
    looked, looked_often = (
        sample(project, plain, seed, few),
        sample(project, plain, seed, many),
    )
    for name, review in (
        (ALONE, sample(project, plain, seed, 1)),
        (UNION, plain_union(project, plain, seed)),
        ("4 samples, union", looked),
        ("4 samples, majority", agreed(looked, few // 2 + 1)),
        ("4 samples, two agree", agreed(looked, 2)),
        ("equal calls, union", looked_often),
        ("equal calls, majority", agreed(looked_often, many // 2 + 1)),
    ):
        yield name, score(project, review)
    if seed % CLEAN_TWIN_EVERY == 0:
        yield from _judge_clean_twin(plain, seed)


def _judge_clean_twin(plain: Condition, seed: int) -> Iterator[tuple[str, Score]]:
    twin = clean_twin(seed)
    yield f"{COUNCIL}{_CLEAN}", verdict_only(twin, hold_council(twin, plain, seed))
    yield f"{UNION}{_CLEAN}", verdict_only(twin, plain_union(twin, plain, seed))
    yield f"{ALONE}{_CLEAN}", verdict_only(twin, sample(twin, plain, seed, 1))


_CLEAN: Final = " on clean twins"


def accept(by_correlation: Mapping[float, Scores]) -> Iterator[Check]:
    """The acceptance numbers of council §21."""
    for rho, scores in by_correlation.items():
        if rho <= MODERATE:
            best = max(BASELINES, key=lambda name: scores[name].f1.value)
            ours, theirs = scores[COUNCIL].f1, scores[best].f1
            yield Check(
                f"F1 above the best baseline, rho {rho:g}",
                ours.interval[0] > theirs.interval[1],
                f"{ours} against {theirs} ({best})",
            )
    for rho, scores in by_correlation.items():
        worst = min(GUARDED, key=lambda name: scores[name].f1.value)
        ours, union = scores[worst].f1, scores[UNION].f1
        yield Check(
            f"F1 never below the plain union - {UNION_ALLOWANCE:g}, rho {rho:g}",
            ours.value >= union.value - UNION_ALLOWANCE,
            f"{ours} ({worst}) against {union}",
        )
    for rho, scores in by_correlation.items():
        for name in (GIVING_IN, SHARED_GIVING_IN):
            lost = scores[name].lost_by_withdrawal
            yield Check(
                f"true findings lost by withdrawal ≤ {MOST_LOST:.0%}, rho {rho:g}",
                lost.value <= MOST_LOST,
                f"{lost} ({name})",
            )
    for rho, scores in by_correlation.items():
        shared, full = scores[SHARED], scores[COUNCIL]
        yield Check(
            f"F1 with shared calls no worse than with one call a role, rho {rho:g}",
            shared.f1.value >= full.f1.value,
            f"{shared.f1} against {full.f1}",
        )
        calls = shared.calls / shared.projects
        yield Check(
            f"shared calls ≤ {SHARED_CALLS}, rho {rho:g}",
            calls <= SHARED_CALLS,
            f"{calls:.1f} against {full.calls / full.projects:.1f}",
        )


def _sum(parts: Iterable[Scores]) -> Scores:
    summed: Scores = {}
    for part in parts:
        for name, one in part.items():
            summed[name] = total([summed.get(name, Score()), one])
    return summed


def _table(by_correlation: Mapping[float, Scores]) -> str:
    head = (
        "rho",
        "strategy",
        "F1",
        "recall",
        "precision",
        "severity off",
        "repeated",
        "mixed",
        "verdict right",
    )
    rows: list[tuple[str, ...]] = [(*head, "lost by withdrawal", "calls", "characters")]
    for rho, scores in by_correlation.items():
        rows += [(f"{rho:g}", name, *_cells(one)) for name, one in scores.items()]
    return aligned(rows)


def _cells(one: Score) -> tuple[str, ...]:
    if not one.projects:
        return "", "", "", "", "", "", str(one.verdict_accuracy), "", "", ""
    rates = (
        one.f1,
        one.recall,
        one.precision,
        one.severity_error,
        one.duplicates_left,
        one.false_merges,
        one.verdict_accuracy,
        one.lost_by_withdrawal,
    )
    return (
        *map(str, rates),
        f"{one.calls / one.projects:.1f}",
        f"{one.characters / one.projects:.0f}",
    )


def _plot(by_correlation: Mapping[float, Scores]) -> str:
    lines = [
        Line(
            name,
            [
                (rho, scores[name].f1.value, *scores[name].f1.interval)
                for rho, scores in by_correlation.items()
            ],
        )
        for name in DRAWN
    ]
    best = [
        (rho, max((scores[name].f1 for name in BASELINES), key=lambda rate: rate.value))
        for rho, scores in by_correlation.items()
    ]
    lines.append(
        Line("best baseline", [(rho, rate.value, *rate.interval) for rho, rate in best])
    )
    return line_chart(
        "F1 of a simulated council", "correlation of errors (rho)", "F1", lines
    )
