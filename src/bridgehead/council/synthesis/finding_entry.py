"""A council finding as the report shows it: sources, kinds of confirmation, identity, evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from bridgehead.contract.report import Output
from bridgehead.contract.words import Confidence, Severity, severity_rank
from bridgehead.council.debate.challenges import NOBODY_ANSWERED
from bridgehead.council.findings.acted_on import ActedOn
from bridgehead.council.findings.fingerprint import (
    Identity,
    cluster_fingerprint,
    is_weak,
    with_identity,
)
from bridgehead.council.findings.joining import Comment, likeness
from bridgehead.council.findings.probability import (
    ChallengeOutcome,
    Checked,
    Signs,
    probability,
    shipped_prior,
)
from bridgehead.council.findings.references import Relation
from bridgehead.council.findings.tree import Tree
from bridgehead.council.reporting.report import (
    ArgumentStep,
    CitedLines,
    Confirmation,
    FindingClass,
    FindingEntry,
    SourceFinding,
)
from bridgehead.council.synthesis.cross_challenge_notes import ChallengeNote
from bridgehead.council.synthesis.finding import (
    COORDINATOR,
    YOU,
    CouncilFinding,
    as_output,
    evidence_check,
)

_ONE_STEP_DOWN: Final = {
    Confidence.HIGH: Confidence.MEDIUM,
    Confidence.MEDIUM: Confidence.LOW,
    Confidence.LOW: Confidence.LOW,
}
_RANK: Final = {
    ("passed", "quote"): 0,
    ("passed", "line"): 1,
    ("failed", None): 2,
    ("unchecked", None): 3,
}
MOST_CITED: Final = 3
MOST_LINES: Final = 12
AROUND: Final = 2
SECOND_LOOK: Final = "second look"


def finding_entry(
    finding: CouncilFinding,
    tree: Tree | None,
    renames: Mapping[str, str],
    notes: Sequence[ChallengeNote] = (),
    *,
    coordinator_failed: bool,
    looked: int = 1,
    acted_on: ActedOn | None = None,
) -> FindingEntry:
    """The entry of one finding; its evidence is that of the member whose citation held best."""
    members = [source.output for source in finding.sources] or [
        with_identity(as_output(finding), tree, renames)
    ]
    best = min(members, key=_evidence_rank)
    fingerprint, fingerprints = cluster_fingerprint(
        [_identity(member) for member in members]
    )
    confidence = finding.confidence
    alone = (
        seats[0]
        for seats in (finding.seats, finding.confirming_seats)
        if len(seats) == 1
    )
    record = tuple(
        record_of(
            finding,
            [one for one in notes if one.finding_id in (finding.id, finding.was)],
        )
    )
    estimate = probability(
        signs_of(finding, looked), acted_on or ActedOn(), shipped_prior()
    )
    questions = sum(one.step == "challenge" and one.by == YOU for one in record)
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
        confirmed_by=finding.confirming_seats
        if finding.cls is FindingClass.MULTI
        else (),
        source_bridge=next(alone, None),
        source_findings=tuple(
            SourceFinding(
                source.seat.name,
                source.output.id,
                source.is_unverified,
                _identity(source.output).fingerprint,
            )
            for source in finding.sources
        ),
        severity_votes=finding.votes,
        confirmation=Confirmation(
            model=len(finding.model_families) >= 2,
            runtime=len(finding.confirming_seats) >= 2,
            evidence=finding.is_quoted
            or finding.has_static_evidence
            or _evidence_rank(best) == 0,
        ),
        confidence=_ONE_STEP_DOWN[confidence] if coordinator_failed else confidence,
        shared_cli_path=finding.shared_cli_path,
        da_challenged=finding.da_challenged,
        challenges=sum(map(_challenges, members)) + finding.da_challenged + questions,
        record=record,
        unanswered=sum(one.step == "unanswered" for one in record),
        cited=tuple(cited_lines(evidence_check(best), tree)),
        fingerprint=fingerprint,
        fingerprints=fingerprints,
        evidence_check=evidence_check(best),
        anchor=best.anchor if isinstance(best.anchor, dict) else None,
        identity="weak" if is_weak(fingerprint) else "strong",
        positions=finding.positions,
        disputed_in=finding.disputed_in,
        unverified=finding.is_unverified,
        requirement_id=finding.requirement_id,
        was=finding.was,
        severity_original=finding.severity_original,
        lowered=lowered(finding),
        probability=estimate.value,
        probability_reasons=estimate.reasons,
        joined_by=tuple(joined_by(finding)),
    )


def lowered(finding: CouncilFinding) -> str | None:
    """Return from which severity a finding was lowered, and by whom; None if it was not."""
    if finding.severity_original is not None and finding.lowered_by is not None:
        return f"lowered from {finding.severity_original} by {finding.lowered_by}"
    before: dict[str, Severity] = {}
    for source in finding.sources:
        if isinstance(source.output.lowered_from, Severity):
            before[source.seat.name] = source.output.lowered_from
    highest = max(before.values(), key=lambda one: one.rank, default=None)
    if highest is None or highest.rank <= severity_rank(finding.severity):
        return None
    return f"lowered from {highest} by {', '.join(before)}"


def signs_of(finding: CouncilFinding, looked: int) -> Signs:
    """What speaks for a finding and against it; `looked` is how many model families took part."""
    return Signs(
        seats=finding.confirming_seats,
        families=len(finding.model_families),
        looked=looked,
        domains=finding.domains,
        severity=finding.severity,
        evidence=_checked(finding),
        static=finding.has_static_evidence,
        challenge=_challenge(finding),
    )


def _checked(finding: CouncilFinding) -> Checked:
    if finding.not_found is not None:
        return Checked.NOT_FOUND
    if finding.is_quoted:
        return Checked.QUOTED
    checks = [evidence_check(source.output) for source in finding.sources]
    is_found = any(check.get("outcome") == "passed" for check in checks)
    return Checked.FOUND if is_found else Checked.UNCHECKED


def _challenge(finding: CouncilFinding) -> ChallengeOutcome:
    if finding.cls is FindingClass.DISPUTED:
        return ChallengeOutcome.DISPUTED
    if finding.severity_original is not None:
        return ChallengeOutcome.LOWERED
    return ChallengeOutcome.SURVIVED if finding.da_challenged else ChallengeOutcome.NONE


def joined_by(finding: CouncilFinding) -> Iterator[str]:
    """What each further output has in common with the first one."""
    if len(finding.sources) < 2:
        return
    first = Comment.of(finding.sources[0].output)
    for source in finding.sources[1:]:
        alike = likeness(first, Comment.of(source.output))
        common: list[str] = []
        if alike.words:
            common.append("words " + ", ".join(alike.words))
        if alike.relation is Relation.SAME_LINES:
            common.append("the same lines")
        elif alike.relation is Relation.SAME_FILE:
            common.append("the same file")
        if alike.weaknesses:
            common.append("weakness " + ", ".join(sorted(alike.weaknesses)))
        shared = "; ".join(common) or "what others in the group share with both"
        yield f"{source.seat.name} {source.output.id}: {shared}"


def record_of(
    finding: CouncilFinding, notes: Sequence[ChallengeNote]
) -> Iterator[ArgumentStep]:
    """The argument about a finding: claims and debates of its seats, then the second look, then what you asked."""
    for source in finding.sources:
        output = source.output
        seat = source.seat.name
        more = output.description.removesuffix(output.title).rstrip(": \n")
        claim = f"{output.severity or output.type}: {output.title}" + (
            f". {more}" if more else ""
        )
        yield ArgumentStep(
            "claim", f"{seat}, {output.agent}" if output.agent else seat, claim
        )
        for step in output.argument if isinstance(output.argument, tuple) else ():
            yield ArgumentStep(**{**step, "by": f"{seat}, {step['by']}"})
    asked = ""
    for note in notes:
        if note.challenge and note.challenge != asked:
            yield ArgumentStep("challenge", _challenger(note), note.challenge)
        asked = note.challenge
        if note.by == YOU or (note.challenge and not note.response):
            yield ArgumentStep("unanswered", "everybody", NOBODY_ANSWERED)
            continue
        by = SECOND_LOOK if note.by == COORDINATOR else note.by
        word = note.refused or note.outcome.value
        said = ": ".join(filter(None, [word, note.response]))
        yield ArgumentStep(
            "defence" if note.by in finding.seats else "ruling", by, said
        )


def _challenger(note: ChallengeNote) -> str:
    """Return whose challenge a note is about."""
    by = note.challenger or note.by
    if by == COORDINATOR:
        return SECOND_LOOK
    return YOU if note.challenger is None else by


def cited_lines(check: Mapping[str, Any], tree: Tree | None) -> Iterator[CitedLines]:
    """The lines that were found where the evidence says they are."""
    found = [
        one
        for one in check.get("references", ())
        if one["outcome"] == "passed" and one["lines"]
    ]
    for reference in found[:MOST_CITED]:
        text = tree.file(reference["path"]) if tree is not None else None
        if text is not None:
            first, last = reference["lines"]
            start = max(first - AROUND, 1)
            end = min(last, first + MOST_LINES) + AROUND
            yield CitedLines(
                reference["path"],
                (first, last),
                start,
                tuple(text.lines[start - 1 : end]),
            )


def _identity(output: Output) -> Identity:
    own = output.fingerprint if isinstance(output.fingerprint, str) else ""
    names = output.fingerprints if isinstance(output.fingerprints, tuple) else ()
    return Identity(own, tuple(name for name in names if name != own))


def _challenges(output: Output) -> int:
    return len(output.challenges) if isinstance(output.challenges, tuple) else 0


def _evidence_rank(output: Output) -> int:
    check = evidence_check(output)
    return _RANK.get((str(check.get("outcome")), check.get("strength")), len(_RANK))
