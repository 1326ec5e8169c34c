"""What a note of the Devil's Advocate does to a council finding (council §14.3). Pure, one note at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from bridgehead.contract.ids import numbered_id
from bridgehead.contract.words import Severity, severity_rank
from bridgehead.council.debate.challenges import MECHANISMS
from bridgehead.council.findings.taking_back import objection_to_taking_back
from bridgehead.council.replies.items import as_line, as_text, parse_severity
from bridgehead.council.reporting.report import FindingClass, StatedPosition
from bridgehead.council.synthesis.finding import (
    COORDINATOR,
    ID_PREFIX,
    CouncilFinding,
    highest_number,
)

_SERIOUS: Final = frozenset({Severity.CRITICAL, Severity.HIGH})


class NoteOutcome(StrEnum):
    CONFIRMED = "confirmed"
    DOWNGRADED = "downgraded"
    DISPUTED = "disputed"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class ChallengeNote:
    """One note, read; `cites_evidence` was checked by code (K26)."""

    finding_id: str
    outcome: NoteOutcome
    challenge: str = ""
    mechanism: str | None = None
    response: str = ""
    new_severity: Severity | None = None
    cites_evidence: bool = False
    by: str = COORDINATOR
    """Who answers: the coordinator of Stage B, or a seat that was asked about one finding."""
    refused: str = ""
    """Why it does not lower or withdraw the finding, although it says so."""
    challenger: str | None = None
    """Whose challenge it is where that is somebody else: the coordinator's, for an owner that answers."""

    def lowers(self, finding: CouncilFinding) -> bool:
        """Whether it names a severity, and a lower one; no severity at all is no milder judgement."""
        return self.new_severity is not None and self.new_severity.rank < severity_rank(
            finding.severity
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "finding_id": self.finding_id,
            "challenge": self.challenge,
            "mechanism": self.mechanism,
            "response": self.response,
            "outcome": self.outcome.value,
            "new_severity": self.new_severity,
            "cites_evidence": self.cites_evidence,
            **({"by": self.by} if self.by != COORDINATOR else {}),
            **({"refused": self.refused} if self.refused else {}),
        }


def read_note(fields: Mapping[str, Any], known: Iterable[str]) -> ChallengeNote | None:
    """A note on a known finding with a known outcome; None otherwise."""
    finding_id = as_line(fields.get("finding_id"))
    spelled = as_line(fields.get("outcome")).casefold()
    outcome = next((one for one in NoteOutcome if one.value == spelled), None)
    if outcome is None or finding_id not in known:
        return None
    mechanism = as_line(fields.get("mechanism")).casefold()
    return ChallengeNote(
        finding_id=finding_id,
        outcome=outcome,
        challenge=as_text(fields.get("challenge")) or "",
        mechanism=mechanism if mechanism in MECHANISMS else None,
        response=as_text(fields.get("response")) or "",
        new_severity=parse_severity(fields.get("new_severity")),
    )


def guard_note(
    finding: CouncilFinding, note: ChallengeNote, *, families: int = 1
) -> ChallengeNote:
    """Return the note as far as it may count; `families` want to take the finding back."""
    lowers = note.outcome is NoteOutcome.DOWNGRADED and note.lowers(finding)
    if not lowers and note.outcome is not NoteOutcome.WITHDRAWN:
        return note
    objection = objection_to_taking_back(
        cites_evidence=note.cites_evidence,
        is_deterministic=finding.has_static_evidence,
        families=families,
    )
    if objection is None:
        return note
    outcome = NoteOutcome.CONFIRMED if lowers else NoteOutcome.DISPUTED
    return replace(
        note, outcome=outcome, refused=f"{note.outcome} refused: {objection}"
    )


def apply_note(finding: CouncilFinding, note: ChallengeNote) -> CouncilFinding:
    """The finding after the note. A severity is never raised; a withdrawal without evidence is a dispute."""
    if finding.cls is FindingClass.WITHDRAWN:
        return finding
    challenged = replace(
        finding, da_challenged=finding.da_challenged or note.mechanism is not None
    )
    why = note.response or note.challenge
    match note.outcome:
        case NoteOutcome.DOWNGRADED if note.lowers(finding):
            original = finding.severity_original or finding.severity
            return replace(
                challenged,
                severity=note.new_severity,
                severity_original=original,
                reason=why,
                lowered_by=note.by,
            )
        case NoteOutcome.WITHDRAWN if note.cites_evidence:
            return replace(
                challenged,
                cls=FindingClass.WITHDRAWN,
                shared_cli_path=False,
                reason=why,
            )
        case NoteOutcome.WITHDRAWN | NoteOutcome.DISPUTED:
            doubt = StatedPosition(note.by, note.new_severity, why or "doubts it")
            own = finding.positions or tuple(
                source.stated() for source in finding.sources
            )
            return replace(
                challenged,
                cls=FindingClass.DISPUTED,
                shared_cli_path=False,
                positions=(*own, doubt),
            )
        case _:
            return challenged


def renamed_after_change(
    before: Sequence[CouncilFinding],
    after: Sequence[CouncilFinding],
    beside: Sequence[CouncilFinding] = (),
) -> list[CouncilFinding]:
    """Findings that changed class get the next id of the new class, the old one in `was` (council §14.6)."""
    taken = {cls: highest_number([*before, *beside], cls) for cls in ID_PREFIX}
    renamed: list[CouncilFinding] = []
    for old, new in zip(before, after, strict=True):
        if new.cls is old.cls or new.cls is FindingClass.WITHDRAWN:
            renamed.append(new)
            continue
        taken[new.cls] += 1
        renamed.append(
            replace(new, id=numbered_id(ID_PREFIX[new.cls], taken[new.cls]), was=old.id)
        )
    return renamed


def owed_notes(findings: Sequence[CouncilFinding]) -> list[CouncilFinding]:
    """Findings that must be challenged: serious ones, and those whose reporters share a path."""
    return [
        finding
        for finding in findings
        if finding.cls
        in (FindingClass.MULTI, FindingClass.SINGLE, FindingClass.INTEGRATION)
        and not finding.da_challenged
        and (finding.shared_cli_path or finding.severity in _SERIOUS)
    ]
