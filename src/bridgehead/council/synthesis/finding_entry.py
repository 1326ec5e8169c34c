"""A council finding as the report shows it: sources, kinds of confirmation, identity, evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bridgehead.contract.report import Output
from bridgehead.contract.words import Confidence
from bridgehead.council.findings.fingerprint import Identity, cluster_fingerprint, is_weak, with_identity
from bridgehead.council.findings.tree import Tree
from bridgehead.council.reporting.report import (
    Confirmation,
    FindingClass,
    FindingEntry,
    SourceFinding,
    StatedPosition,
)
from bridgehead.council.synthesis.finding import CouncilFinding, as_output

_ONE_STEP_DOWN: Final = {
    Confidence.HIGH: Confidence.MEDIUM,
    Confidence.MEDIUM: Confidence.LOW,
    Confidence.LOW: Confidence.LOW,
}
_RANK: Final = {("passed", "quote"): 0, ("passed", "line"): 1, ("failed", None): 2, ("unchecked", None): 3}


def finding_entry(
    finding: CouncilFinding, tree: Tree | None, renames: Mapping[str, str], *, coordinator_failed: bool
) -> FindingEntry:
    """The entry of one finding; its evidence is that of the member whose citation held best."""
    members = [source.output for source in finding.sources] or [with_identity(as_output(finding), tree, renames)]
    best = min(members, key=_evidence_rank)
    fingerprint, fingerprints = cluster_fingerprint([_identity(member) for member in members])
    confidence = finding.confidence
    return FindingEntry(
        id=finding.id,
        cls=finding.cls,
        type=finding.type,
        severity=finding.severity,
        title=finding.title,
        description=finding.description,
        evidence=finding.evidence,
        remediation=finding.action,
        domains=finding.domains,
        confirmed_by=finding.confirming_seats if finding.cls is FindingClass.MULTI else (),
        source_bridge=finding.seats[0] if len(finding.seats) == 1 else _only_confirming(finding),
        source_findings=tuple(
            SourceFinding(source.seat.name, source.output.id, source.is_unverified) for source in finding.sources
        ),
        severity_votes=finding.votes,
        confirmation=Confirmation(
            model=len(finding.model_families) >= 2,
            runtime=len(finding.confirming_seats) >= 2,
            evidence=finding.is_quoted or finding.has_static_evidence or _evidence_rank(best) == 0,
        ),
        confidence=_ONE_STEP_DOWN[confidence] if coordinator_failed else confidence,
        shared_cli_path=finding.shared_cli_path,
        da_challenged=finding.da_challenged,
        challenges=sum(map(_challenges, members)) + finding.da_challenged,
        fingerprint=fingerprint,
        fingerprints=fingerprints,
        evidence_check=_check(best),
        anchor=best.anchor if isinstance(best.anchor, dict) else None,
        identity="weak" if is_weak(fingerprint) else "strong",
        positions=tuple(StatedPosition(one.seat, one.severity, one.position) for one in finding.positions),
        disputed_in=finding.disputed_in,
        unverified=finding.is_unverified,
        requirement_id=finding.requirement_id,
        was=finding.was,
        severity_original=finding.severity_original,
    )


def _only_confirming(finding: CouncilFinding) -> str | None:
    return finding.confirming_seats[0] if len(finding.confirming_seats) == 1 else None


def _identity(output: Output) -> Identity:
    own = output.fingerprint if isinstance(output.fingerprint, str) else ""
    names = output.fingerprints if isinstance(output.fingerprints, tuple) else ()
    return Identity(own, tuple(name for name in names if name != own))


def _challenges(output: Output) -> int:
    return len(output.challenges) if isinstance(output.challenges, tuple) else 0


def _check(output: Output) -> dict[str, Any]:
    return output.evidence_check if isinstance(output.evidence_check, dict) else {}


def _evidence_rank(output: Output) -> int:
    check = _check(output)
    return _RANK.get((str(check.get("outcome")), check.get("strength")), len(_RANK))
