"""What a council costs besides its models: waiting, processor time for duplicates, memory (design §8).

Councils are called as the command calls them: pre-flight, journal, log, report and record included. Their seats are
simulated reviewers in this process whose answers take a known time.
"""

from __future__ import annotations

import gc
import hashlib
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import ClassVar, Final, Self

from bench.council_corpus import Project, make_project
from bench.council_labels import Agreement, agreement, join, labelled_outputs
from bench.council_static import LANGUAGES, STATIC_FILES, scores, static_cpu
from bench.harness import Budget, Comparison, wall_seconds
from bench.simulated import SimulatedConnection, Skill
from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council.councils import Councils
from bridgehead.assembly.council.request import CouncilRequest
from bridgehead.assembly.council.run import Audience
from bridgehead.contract.words import CouncilProtocol, Intensity
from bridgehead.council.calls import Call, CallKey, Step
from bridgehead.council.reporting.report import CouncilReport
from bridgehead.council.request.domains import load_registry
from bridgehead.council.request.plan import CouncilOptions
from bridgehead.council.runtimes.base import Runtime, SeatSetup, runtime
from bridgehead.council.runtimes.exchange import CallOutcome
from bridgehead.council.runtimes.machine import Machine
from bridgehead.council.scope.scope import ScopeRequest

SEATS: Final = {
    "first-model": "J",
    "second-model": "K",
    "third-model": "L",
    "fourth-model": "M",
}
AGENTS: Final = 8
DOMAINS: Final = AGENTS - 2
"""The Challenger and the Integration Checker are the other two."""
FEW_DOMAINS: Final = 2
"""For many councils in a row."""
SHORTEST_SECONDS: Final = 1.5
LONGEST_SECONDS: Final = 2.5
"""Models are slower; this is the harder case."""
DEDUPE_SECONDS: Final = 1.0
WARM_UP_COUNCILS: Final = 10
COUNCILS: Final = 100
ALLOWED_GROWTH: Final = 1.05


def comparisons() -> list[Comparison]:
    hall = Hall.build()
    within = Budget(at_most=1.0)
    return [
        Comparison(
            f"council of {len(SEATS)} seats with {AGENTS} agents each",
            "s",
            hall.seconds,
            lambda: hall.critical_path,
            "critical path of its agents",
            Budget(at_most=1.03),
            rounds=1,
        ),
        Comparison(
            "5,000 outputs deduplicated, CPU",
            "s",
            dedupe_cpu,
            lambda: DEDUPE_SECONDS,
            "one second",
            within,
            rounds=5,
        ),
        _share(
            "  pairs joined that belong together",
            lambda: labelled_agreement().precision,
            at_least=0.90,
        ),
        _share(
            "  pairs that belong together joined",
            lambda: labelled_agreement().recall,
            at_least=0.85,
        ),
        Comparison(
            f"memory after {COUNCILS} more councils",
            "MiB",
            lambda: hall.memory[1],
            lambda: hall.memory[0],
            f"after {WARM_UP_COUNCILS}",
            Budget(at_most=ALLOWED_GROWTH),
            rounds=1,
        ),
        Comparison(
            f"static seat, {STATIC_FILES} files once more, CPU",
            "s",
            lambda: static_cpu()[1],
            lambda: static_cpu()[0],
            "the first time",
            Budget(at_most=0.2),
            rounds=1,
        ),
        *static_shares(),
    ]


def static_shares() -> Iterator[Comparison]:
    """How much of the labelled code the static seat sees, and how much of what it says is right."""
    for language in (*dict.fromkeys(LANGUAGES.values()), "held out", "all"):

        def precision(language: str = language) -> float:
            return scores()[language].precision

        def recall(language: str = language) -> float:
            return scores()[language].recall

        yield _share(
            f"static seat, {language}: findings that are right", precision, at_least=0.8
        )
        yield _share(f"static seat, {language}: weaknesses found", recall, at_least=0.6)


def _share(name: str, measure: Callable[[], float], *, at_least: float) -> Comparison:
    return Comparison(
        name, "", measure, lambda: 1.0, "labels", Budget(at_least=at_least), rounds=1
    )


# -- duplicates


def dedupe_cpu() -> float:
    """Processor seconds from outputs to clusters."""
    outputs = labelled_outputs().outputs
    before = time.process_time()
    join(outputs)
    return time.process_time() - before


@cache
def labelled_agreement() -> Agreement:
    labelled = labelled_outputs()
    return agreement(join(labelled.outputs), labelled.label)


# -- councils


def latency_of(key: CallKey) -> float:
    """How long the answer to a call takes: always the same for the same call."""
    share = hashlib.blake2b(str(key).encode(), digest_size=1).digest()[0] / 255
    return SHORTEST_SECONDS + share * (LONGEST_SECONDS - SHORTEST_SECONDS)


def critical_path(made: Iterable[CallKey]) -> float:
    """The slowest seat's waves, each as long as its slowest call, and those of Stage B after them."""
    waves: defaultdict[tuple[str, int, Step, int], float] = defaultdict(float)
    for key in made:
        wave = key.seat, key.round, key.step, key.attempt
        waves[wave] = max(waves[wave], latency_of(key))
    seats: defaultdict[str, float] = defaultdict(float)
    for (bridge, _, step, _), seconds in waves.items():
        seats[Step.STAGE_B if step is Step.STAGE_B else bridge] += seconds
    last = seats.pop(Step.STAGE_B, 0.0)
    return max(seats.values()) + last


@dataclass
class Panel:
    """What the simulated seats of this process look at, and the calls that were made to them."""

    project: Project
    takes_time: bool = True
    made: list[CallKey] = field(default_factory=list)


class KnownSeat(SimulatedConnection):
    """A reviewer whose answers take a known time."""

    panel: ClassVar[Panel]

    @classmethod
    def locate(cls, setup: SeatSetup, machine: Machine) -> Self:
        return cls(cls.panel.project.sites, Skill(), name=setup.runtime, seed=1)

    def latency_seconds(self, call: Call) -> float:
        return latency_of(call.key) if self.panel.takes_time else 0.0

    def answer(self, call: Call) -> CallOutcome:
        self.panel.made.append(call.key)
        return super().answer(call)


@dataclass
class Hall:
    """A project on disk, a home of its own, and the seats."""

    councils: Councils
    panel: Panel

    @classmethod
    def build(cls) -> Self:
        root = Path(tempfile.mkdtemp(prefix="bridgehead-bench-"))
        panel = KnownSeat.panel = Panel(make_project(1))
        for name, prefix in SEATS.items():
            facts = {
                "model_family": f"simulated/{name}",
                "id_prefix": prefix,
                "connections": (KnownSeat,),
            }
            runtime(name)(type(f"Runtime{prefix}", (Runtime,), facts))
        for path, text in panel.project.files.items():
            (root / "project" / path).parent.mkdir(parents=True, exist_ok=True)
            (root / "project" / path).write_text(text, encoding="utf-8")
        home = root / "home"
        home.mkdir()
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "BRIDGEHEAD_HOME": str(home / "bridgehead"),
        }
        return cls(Councils(Assembly(root / "project", environ)), panel)

    def hold(self, domains_looked_at: int = DOMAINS) -> None:
        """One council from request to written report."""
        self.panel.made.clear()
        domains = tuple(
            domain.id for domain in load_registry().domains[:domains_looked_at]
        )
        request = CouncilRequest(
            scope=ScopeRequest(paths=("src",)),
            domains=domains,
            # One call a role: the harder case, with most calls to wait for.
            options=CouncilOptions(
                intensity=Intensity.STANDARD,
                runtimes=tuple(SEATS),
                protocol=CouncilProtocol.FULL,
            ),
        )
        finished = self.councils.call(request, Audience())
        report = finished.report
        if not isinstance(report, CouncilReport) or len(
            report.bridges_available
        ) != len(SEATS):
            raise SystemExit(f"bench: the council did not come about: {report}")

    def seconds(self) -> float:
        self.panel.takes_time = True
        return wall_seconds(self.hold)

    @property
    def critical_path(self) -> float:
        """Of the council that was held last."""
        return critical_path(self.panel.made)

    @cached_property
    def memory(self) -> tuple[float, float]:
        """Resident MiB after the warm-up, and after the councils that follow."""
        self.panel.takes_time = False
        figures = list(self._held(WARM_UP_COUNCILS, COUNCILS))
        return figures[0], figures[1]

    def _held(self, *counts: int) -> Iterator[float]:
        for count in counts:
            for _ in range(count):
                self.hold(FEW_DOMAINS)
            gc.collect()
            yield resident_mib()


def resident_mib() -> float:
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024
