"""A council finding: what one or several seats say about one problem, and where the council stands on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from msgspec import UNSET

from bridgehead.contract.ids import (
    DISPUTED_PREFIX,
    INTEGRATION_PREFIX,
    MULTI_SOURCE_PREFIX,
    SINGLE_SOURCE_PREFIX,
    id_sort_key,
)
from bridgehead.contract.report import BridgeReport, Output
from bridgehead.contract.words import Confidence, OutputType, Severity, severity_rank
from bridgehead.council.replies.items import told
from bridgehead.council.reporting.report import STATIC, FindingClass, StatedPosition

CALLER: Final = "caller"
COORDINATOR: Final = "coordinator"
YOU: Final = "you"
UNKNOWN_FAMILY: Final = "unknown"
HIGH_DEPTH: Final = ("claude", "native-dispatch")
ID_PREFIX: Final = {
    FindingClass.MULTI: MULTI_SOURCE_PREFIX,
    FindingClass.SINGLE: SINGLE_SOURCE_PREFIX,
    FindingClass.DISPUTED: DISPUTED_PREFIX,
    FindingClass.INTEGRATION: INTEGRATION_PREFIX,
}


@dataclass(frozen=True, slots=True)
class SeatReport:
    """A seat's report as the council takes it; `verified` matters for rigs only (council §23)."""

    report: BridgeReport
    verified: bool = True

    @property
    def name(self) -> str:
        return self.report.bridge

    @property
    def confirms(self) -> bool:
        """Whether its word counts towards two seats; the static seat and an unverified rig are evidence only."""
        return self.name != STATIC and (
            self.verified or not self.name.startswith("rig:")
        )

    @property
    def makes_a_council(self) -> bool:
        """Whether it counts when one asks how many seats completed (council §14.4)."""
        return self.confirms and self.name != CALLER


@dataclass(frozen=True, slots=True)
class Source:
    """One output and the seat it came from."""

    seat: SeatReport
    output: Output

    def stated(self, position: str = "") -> StatedPosition:
        """What its seat holds; that it reports it, unless something else is said."""
        said = position or f"reports it: {self.output.title}"
        return StatedPosition(self.seat.name, self.output.severity, said)

    @property
    def is_unverified(self) -> bool:
        return not self.seat.confirms and self.seat.name != STATIC

    @property
    def families(self) -> frozenset[str]:
        """The model families that stand behind it; an unknown one stands for nobody."""
        if not self.seat.confirms or self.seat.name == CALLER:
            return frozenset()
        models = self.output.confirmed_by_models
        if isinstance(models, tuple) and models:
            return frozenset(model.partition("/")[0] for model in models)
        family = self.seat.report.model_family
        return frozenset() if family == UNKNOWN_FAMILY else frozenset({family})


@dataclass(frozen=True, slots=True)
class CouncilFinding:
    """One council finding. Integration findings have no sources; their texts come from the coordinator."""

    cls: FindingClass
    type: OutputType
    severity: Severity | None
    title: str
    description: str
    evidence: str | None
    action: str | None
    domains: tuple[str, ...]
    sources: tuple[Source, ...] = ()
    requirement_id: str | None = None
    shared_cli_path: bool = False
    positions: tuple[StatedPosition, ...] = ()
    id: str = ""
    was: str | None = None
    da_challenged: bool = False
    severity_original: Severity | None = None
    reason: str | None = None
    """Why it was withdrawn or downgraded."""
    lowered_by: str | None = None
    """Who lowered its severity."""

    @property
    def seats(self) -> tuple[str, ...]:
        return tuple(sorted({source.seat.name for source in self.sources}))

    @property
    def confirming_seats(self) -> tuple[str, ...]:
        return tuple(
            sorted(
                {source.seat.name for source in self.sources if source.seat.confirms}
            )
        )

    @property
    def model_families(self) -> frozenset[str]:
        return frozenset().union(*(source.families for source in self.sources))

    @property
    def has_static_evidence(self) -> bool:
        return any(source.seat.name == STATIC for source in self.sources)

    @property
    def is_quoted(self) -> bool:
        """Whether code found the quoted text where a member says it is."""
        checks = [evidence_check(source.output) for source in self.sources]
        return any(
            check.get("outcome") == "passed" and check.get("strength") == "quote"
            for check in checks
        )

    @property
    def not_found(self) -> str | None:
        """What code looked for in vain, when no citation of any member was there (council §25.1)."""
        checks = [evidence_check(source.output) for source in self.sources]
        if not checks or any(check.get("outcome") != "failed" for check in checks):
            return None
        return str(checks[0].get("reason"))

    @property
    def is_high_depth(self) -> bool:
        return any(
            (source.seat.name, source.seat.report.connection_used) == HIGH_DEPTH
            for source in self.sources
        )

    @property
    def is_unverified(self) -> bool:
        """Whether nobody stands behind it but a rig whose signature is not known."""
        return bool(self.sources) and all(
            source.is_unverified for source in self.sources
        )

    @property
    def disputed_in(self) -> tuple[str, ...]:
        return tuple(
            sorted(
                {
                    source.seat.name
                    for source in self.sources
                    if source.output.status == "disputed"
                }
            )
        )

    @property
    def votes(self) -> dict[str, Severity | None]:
        """Per seat its highest severity."""
        votes: dict[str, Severity | None] = {}
        for source in self.sources:
            known = votes.get(source.seat.name)
            votes[source.seat.name] = max(
                known, source.output.severity, key=severity_rank
            )
        return votes

    def facts(self) -> dict[str, object]:
        """What a line of the log says about it."""
        sources = [
            {"bridge": one.seat.name, "finding_id": one.output.id}
            for one in self.sources
        ]
        return {
            "id": self.id,
            "class": self.cls.value,
            "severity": self.severity,
            "title": self.title,
            "sources": sources,
        }

    @property
    def confidence(self) -> Confidence:
        """Two seats or checked evidence speak for a finding, a dispute against it."""
        if self.cls is FindingClass.DISPUTED or self.is_unverified:
            return Confidence.LOW
        supported = (self.cls is FindingClass.MULTI) + (
            self.is_quoted or self.has_static_evidence
        )
        steps = (Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH)
        reached = steps[min(2, 1 + supported)]
        # Two stateless command lines share too much to count as independent (K24).
        return (
            Confidence.MEDIUM
            if self.shared_cli_path and reached is Confidence.HIGH
            else reached
        )


def as_output(finding: CouncilFinding) -> Output:
    """A council finding in the shape the table of one seat counts."""
    return Output(
        **told(finding),
        id=finding.id,
        status=None,
        domain=finding.domains[0] if finding.domains else "",
        agent="",
        requirement_id=finding.requirement_id or UNSET,
    )


def highest_number(findings: Iterable[CouncilFinding], cls: FindingClass) -> int:
    """The highest number given so far in a class; numbers are not used twice."""
    ids = [name for finding in findings for name in (finding.id, finding.was or "")]
    numbers = [
        id_sort_key(name)[1] for name in ids if id_sort_key(name)[0] == ID_PREFIX[cls]
    ]
    return max(numbers, default=0)


def gap_requirements(findings: Iterable[CouncilFinding]) -> set[str]:
    """Requirements on which a gap is among the sources."""
    return {
        source.output.requirement_id
        for finding in findings
        for source in finding.sources
        if source.output.type is OutputType.COMPLIANCE_GAP
        and isinstance(source.output.requirement_id, str)
    }


def evidence_check(output: Output) -> dict[str, Any]:
    """What the check of its evidence found; nothing where it was not checked."""
    return output.evidence_check if isinstance(output.evidence_check, dict) else {}
