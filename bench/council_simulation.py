"""One simulated project reviewed in every way that is compared: by the council's own protocol, and by the baselines."""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from bench.council_corpus import DOMAINS, Project
from bench.simulated import SimulatedConnection, Skill
from bridgehead.contract.report import Output
from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import CouncilProtocol, OutputType, Severity, Verdict
from bridgehead.council.calls import Call, Input, Seat, SeatEvent, SeatReady, Turn
from bridgehead.council.council import CouncilRun
from bridgehead.council.findings.joining import Comment, join
from bridgehead.council.findings.tree import Tree
from bridgehead.council.interfaces import RunInputs
from bridgehead.council.reporting.report import CouncilReport
from bridgehead.council.request.domains import Registry, load_registry
from bridgehead.council.request.plan import CouncilPlan
from bridgehead.council.running.call_runner import as_result

AT: Final = "2026-11-15T10:15:02.000Z"
TODAY: Final = dt.date(2026, 11, 15)

# Different models, on average those of the toy run in council §21; the baselines get the best of them.
MODELS: Final = {
    "claude": Skill(recall=0.50, false_positives=0.08, severity_noise=0.15),
    "codex": Skill(recall=0.45, false_positives=0.10, severity_noise=0.15),
    "gemini": Skill(recall=0.45, false_positives=0.10, severity_noise=0.15),
    "opencode": Skill(recall=0.40, false_positives=0.12, severity_noise=0.15),
}
BEST_MODEL: Final = "claude"


@dataclass(frozen=True, slots=True)
class Condition:
    """What is varied: how much reviewers err together, how they argue, and whether withdrawals are guarded."""

    correlation: float
    doubts_true: float = 0.15
    doubts_false: float = 0.60
    sycophancy: float = 0.0
    withdrawal_guard: bool = True
    protocol: CouncilProtocol = CouncilProtocol.FULL

    def reviewer(
        self, project: Project, model: str, seed: int, *, sample: int = 0
    ) -> SimulatedConnection:
        """Samples of one model err together as much as models do, which favours the baselines."""
        skill = replace(
            MODELS[model],
            doubts_true=self.doubts_true,
            doubts_false=self.doubts_false,
            sycophancy=self.sycophancy,
        )
        name = f"{model}#{sample}" if sample else model
        return SimulatedConnection(
            project.sites, skill, name=name, seed=seed, correlation=self.correlation
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """One entry of a report: what the reader sees, and the titles of everything that was joined in it."""

    title: str
    severity: Severity | None
    titles: tuple[str, ...]
    reporters: int = 1
    is_disputed: bool = False


@dataclass(frozen=True, slots=True)
class Review:
    """What came of one way of reviewing one project."""

    findings: tuple[Finding, ...]
    calls: int
    characters: int = 0
    verdict: Verdict | None = None
    withdrawn: tuple[str, ...] = ()
    """Titles that were withdrawn on the way."""


# -- the council


def hold_council(project: Project, condition: Condition, seed: int) -> Review:
    """Drive the council's own protocol, without a clock or threads, with simulated reviewers in its seats."""
    connections = {model: condition.reviewer(project, model, seed) for model in MODELS}
    held = _Held(connections)
    report = held.drive(_council_run(project, condition, seed))
    return Review(
        findings=tuple(held.findings(report)),
        calls=held.calls,
        characters=held.characters,
        verdict=report.verdict,
        withdrawn=tuple(held.withdrawn),
    )


def _council_run(project: Project, condition: Condition, seed: int) -> CouncilRun:
    task = BridgeInput(
        session_id=f"seed-{seed}",
        scope="src/",
        task_description="Review the project",
        domains=DOMAINS,
    )
    around = RunInputs(
        _registry(),
        b"the secret of a simulation",
        tree=Tree.of(project.files),
        withdrawal_guard=condition.withdrawal_guard,
    )
    plan = CouncilPlan(task, tuple(MODELS), TODAY, protocol=condition.protocol)
    return CouncilRun(plan, around)


class _Held:
    """A council under way: answers its calls and keeps what the scores need."""

    def __init__(self, connections: Mapping[str, SimulatedConnection]) -> None:
        self.calls = 0
        self.characters = 0
        self.withdrawn: list[str] = []
        self._connections = connections
        self._titles: dict[tuple[str, str], str] = {}
        self._merged: dict[tuple[str, str], list[str]] = {}

    def drive(self, run: CouncilRun) -> CouncilReport:
        happened: deque[Input] = deque()
        turn = run.start(AT)
        while not isinstance(run.report, CouncilReport):
            self._note(turn)
            happened += [
                SeatReady(seat=_seat(seating.seat), at=AT) for seating in turn.seatings
            ]
            happened += [self._answer(call) for call in turn.calls]
            turn = run.feed(happened.popleft())
        self._note(turn)
        return run.report

    def findings(self, report: CouncilReport) -> Iterable[Finding]:
        """Everything that was not withdrawn: what is disputed stays before the reader's eyes (Q2, Q3)."""
        kept = (
            *report.multi_source_confirmed,
            *report.single_source_findings,
            *report.integration_findings,
        )
        for entry in (*kept, *report.disputed_findings):
            sources = [
                (source.bridge, source.finding_id) for source in entry.source_findings
            ]
            ids = [
                (bridge, one)
                for bridge, first in sources
                for one in self._joined(bridge, first)
            ]
            yield Finding(
                title=entry.title,
                severity=entry.severity,
                titles=tuple(self._titles[one] for one in ids),
                reporters=len({bridge for bridge, _ in sources}),
                is_disputed=entry in report.disputed_findings,
            )

    def _joined(self, bridge: str, first: str) -> list[str]:
        return [first, *self._merged.get((bridge, first), ())]

    def _answer(self, call: Call) -> Input:
        self.calls += 1
        self.characters += len(call.prompt)
        outcome = self._connections[call.key.seat].answer(call)
        return as_result(call, outcome, at=AT, duration_seconds=0.0, mask=str)

    def _note(self, turn: Turn) -> None:
        for event in turn.events:
            self._note_event(event)
        if isinstance(turn.report, CouncilReport):
            self.withdrawn += [one.title for one in turn.report.withdrawn_findings]
        for report in turn.seat_reports:
            self.withdrawn += [one.title for one in report.withdrawn_outputs]

    def _note_event(self, event: SeatEvent) -> None:
        fields: Mapping[str, Any] = event.fields
        if event.event == "output":
            self._titles[event.seat, fields["id"]] = fields["title"]
        elif event.event == "merge":
            self._merged.setdefault((event.seat, fields["kept"]), []).append(
                fields["discarded"]
            )


# -- the baselines


def plain_union(project: Project, condition: Condition, seed: int) -> Review:
    """One look by each model of the council, joined; nobody is challenged."""
    return _joined_reviews(
        [condition.reviewer(project, model, seed) for model in MODELS]
    )


def sample(project: Project, condition: Condition, seed: int, samples: int) -> Review:
    """Several looks by the best model, joined by the council's matcher."""
    numbers = range(1, samples + 1)
    return _joined_reviews(
        [condition.reviewer(project, BEST_MODEL, seed, sample=n) for n in numbers]
    )


def agreed(review: Review, by: int) -> Review:
    """Only what that many looks report."""
    return replace(
        review, findings=tuple(one for one in review.findings if one.reporters >= by)
    )


def _joined_reviews(reviewers: Sequence[SimulatedConnection]) -> Review:
    outputs: list[Output] = []
    reporter: dict[str, int] = {}
    for number, reviewer in enumerate(reviewers):
        for domain in DOMAINS:
            for item in reviewer.findings(domain):
                outputs.append(_output(item, domain, f"C{len(outputs) + 1:03d}"))
                reporter[outputs[-1].id] = number
    titles = {output.id: output.title for output in outputs}
    joined = join([Comment.of(output) for output in outputs], same_domain=False)
    findings = tuple(
        Finding(
            title=titles[one.survivor.id],
            severity=one.survivor.severity,
            titles=tuple(titles[name] for name in one.ids),
            reporters=len({reporter[name] for name in one.ids}),
        )
        for one in joined
    )
    return Review(findings, calls=len(reviewers) * len(DOMAINS))


def _seat(runtime: str) -> Seat:
    """A seat that is simulated, so what else is said of it does not matter."""
    prefix = {"claude": "C", "gemini": "G", "codex": "X", "opencode": "O"}.get(
        runtime, "N"
    )
    return Seat(
        name=runtime,
        model_family=f"scripted/{runtime}",
        connection="cli",
        id_prefix=prefix,
        timeout_seconds=60,
        deadline_seconds=600,
        runtime="scripted",
    )


def _output(item: Mapping[str, Any], domain: str, output_id: str) -> Output:
    return Output(
        id=output_id,
        type=OutputType.FINDING,
        severity=Severity(item["severity"]),
        status=None,
        title=item["title"],
        description=item["description"],
        evidence=item["evidence"],
        action=item["action"],
        domain=domain,
        agent=domain,
    )


@lru_cache(maxsize=1)
def _registry() -> Registry:
    return load_registry()
