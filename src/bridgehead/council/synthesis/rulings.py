"""What becomes of a challenge after its owners were heard: pure, one finding at a time (council §14.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from bridgehead.contract.words import Severity, severity_rank
from bridgehead.council.replies.items import as_line, as_text, parse_severity
from bridgehead.council.synthesis.cross_challenge_notes import (
    ChallengeNote,
    NoteOutcome,
    apply_note,
)
from bridgehead.council.synthesis.finding import CouncilFinding

_SERIOUS: Final = frozenset({Severity.CRITICAL, Severity.HIGH})
_DOUBTS: Final = frozenset({NoteOutcome.DISPUTED, NoteOutcome.WITHDRAWN})
SEVERAL: Final = 2


class OwnerStance(StrEnum):
    """What a seat makes of a challenge against a finding of its own."""

    DEFENDS = "defends"
    LOWERS = "lowers"
    WITHDRAWS = "withdraws"
    UNPROVEN = "unproven"
    """It stands by the finding and cites nothing that is there."""


@dataclass(frozen=True, slots=True)
class OwnerAnswer:
    """What one seat says about the challenge against its finding."""

    seat: str
    stance: OwnerStance
    reason: str
    cites_evidence: bool
    severity: Severity | None = None

    def as_note(self, challenged: ChallengeNote) -> ChallengeNote:
        """Return the answer as the report and the log keep it."""
        outcomes = {
            OwnerStance.LOWERS: NoteOutcome.DOWNGRADED,
            OwnerStance.WITHDRAWS: NoteOutcome.WITHDRAWN,
        }
        return ChallengeNote(
            finding_id=challenged.finding_id,
            outcome=outcomes.get(self.stance, NoteOutcome.CONFIRMED),
            challenge=challenged.challenge,
            response=self.reason,
            new_severity=self.severity,
            cites_evidence=self.cites_evidence,
            by=self.seat,
            challenger=challenged.by,
        )


def is_open(note: ChallengeNote, finding: CouncilFinding) -> bool:
    """Return whether a note would change a finding, so that its owners must be heard."""
    if note.outcome is NoteOutcome.DOWNGRADED:
        return note.lowers(finding)
    return note.outcome in (NoteOutcome.DISPUTED, NoteOutcome.WITHDRAWN)


def read_answer(
    fields: Mapping[str, Any],
    finding: CouncilFinding,
    seat: str,
    *,
    cites_evidence: bool,
) -> OwnerAnswer | None:
    """Return what a seat answers about a finding; None for no answer.

    A revision that does not lower the severity stands by the finding.
    """
    reason = reason_in(fields)
    status = as_line(fields.get("status")).casefold()
    severity = parse_severity(fields.get("severity"))
    is_lower = severity is not None and severity.rank < severity_rank(finding.severity)
    if status == "withdrawn":
        return OwnerAnswer(seat, OwnerStance.WITHDRAWS, reason, cites_evidence)
    if status == "revised" and is_lower:
        return OwnerAnswer(seat, OwnerStance.LOWERS, reason, cites_evidence, severity)
    if status not in ("confirmed", "revised"):
        return None
    stance = OwnerStance.DEFENDS if cites_evidence else OwnerStance.UNPROVEN
    return OwnerAnswer(seat, stance, reason, cites_evidence)


def reason_in(fields: Mapping[str, Any]) -> str:
    """Return what an answer gives as its reason, with the evidence it adds."""
    given = [as_text(fields.get(name)) for name in ("defense", "reason", "evidence")]
    return "\n".join(dict.fromkeys(text for text in given if text))


def rule(
    finding: CouncilFinding,
    note: ChallengeNote | None,
    answers: Sequence[OwnerAnswer],
    opinions: Sequence[ChallengeNote] = (),
    *,
    heard: bool = True,
    guarded: bool = True,
    by_owner: bool = False,
) -> ChallengeNote | None:
    """Return what becomes of a finding; None: nothing is said that changes it.

    `note` is the coordinator's (`by_owner`: it reported the finding itself), `opinions`
    are those of the seats that did not report it. A
    finding falls if two want it withdrawn and one of them cites proof, or if most of
    those that did not report it doubt it and one of them cites proof. Otherwise what the
    coordinator proposes applies if the owners accept it, say nothing, or cite nothing
    that is there; against a defence that cites what is there it is a dispute, and so it
    is if nobody could be `heard`. A single opinion with proof makes a dispute.
    """
    noted = [note] if note is not None else []
    strangers = [*([] if by_owner else noted), *opinions]
    doubts = [one for one in strangers if one.outcome in _DOUBTS]
    proofs = [one for one in (*noted, *opinions) if is_proof(one)]
    given_in = [one for one in answers if one.stance is OwnerStance.WITHDRAWS]
    agreed = len(proofs) + len(given_in) >= SEVERAL and bool(proofs)
    outvoted = len(doubts) >= SEVERAL and 2 * len(doubts) > len(strangers)
    if agreed or (outvoted and proofs):
        return proofs[0]
    if note is not None and is_open(note, finding):
        return _after_answers(finding, note, answers, heard=heard, guarded=guarded)
    return replace(proofs[0], outcome=NoteOutcome.DISPUTED) if proofs else None


def _after_answers(
    finding: CouncilFinding,
    note: ChallengeNote,
    answers: Sequence[OwnerAnswer],
    *,
    heard: bool,
    guarded: bool,
) -> ChallengeNote:
    """Return the coordinator's note with the outcome that the owners leave it."""
    if not heard or any(one.stance is OwnerStance.DEFENDS for one in answers):
        return replace(note, outcome=NoteOutcome.DISPUTED)
    lowered = [one for one in answers if one.stance is OwnerStance.LOWERS]
    withdrawn = [one for one in answers if one.stance is OwnerStance.WITHDRAWS]
    # A serious finding must not vanish or shrink on a polite word, its owner's included
    # (Q3).
    is_free = not guarded or finding.severity not in _SERIOUS
    is_proven = note.cites_evidence or any(
        one.cites_evidence for one in (*lowered, *withdrawn)
    )
    if lowered:
        severity = max((one.severity for one in lowered), key=severity_rank)
        return replace(
            note,
            outcome=NoteOutcome.DOWNGRADED,
            new_severity=severity,
            cites_evidence=is_proven or is_free,
        )
    if not withdrawn:
        return note
    return replace(
        note, outcome=NoteOutcome.WITHDRAWN, cites_evidence=is_proven or is_free
    )


def seats_against(
    answers: Sequence[OwnerAnswer], spoken: Sequence[ChallengeNote]
) -> list[str]:
    """Return who wants to take a finding back and cites what is there."""
    giving_in = (OwnerStance.LOWERS, OwnerStance.WITHDRAWS)
    taking_back = (NoteOutcome.DOWNGRADED, NoteOutcome.WITHDRAWN)
    return [
        *(
            one.seat
            for one in answers
            if one.stance in giving_in and one.cites_evidence
        ),
        *(
            one.by
            for one in spoken
            if one.outcome in taking_back and one.cites_evidence
        ),
    ]


def is_proof(note: ChallengeNote) -> bool:
    """Return whether a note says that a finding is wrong and cites what is there."""
    return note.outcome is NoteOutcome.WITHDRAWN and note.cites_evidence


def apply_ruling(
    finding: CouncilFinding, ruling: ChallengeNote, answers: Sequence[OwnerAnswer]
) -> CouncilFinding:
    """Return the finding after the ruling; a dispute shows what its owners said."""
    said = {one.seat: one.reason for one in answers if one.reason}
    if ruling.outcome is NoteOutcome.DISPUTED and said and not finding.positions:
        positions = tuple(
            source.stated(said.get(source.seat.name, "")) for source in finding.sources
        )
        finding = replace(finding, positions=positions)
    return apply_note(finding, ruling)
