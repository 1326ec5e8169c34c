"""Proposals of a brainstorm or design as the report lists them: content, lineage, where each ended (council §15)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bridgehead.contract.ids import numbered_id
from bridgehead.contract.words import OutputType
from bridgehead.council.items import PROPOSAL_LISTS, PROPOSAL_TEXTS, PROPOSAL_WORDS
from bridgehead.council.joint import JointFinding
from bridgehead.council.layer_one import CrossDebate
from bridgehead.council.modes import PROPOSING_MODES
from bridgehead.council.plan import CouncilPlan
from bridgehead.council.proposals import ProposalEvent, ProposalLife, ProposalStep, live_through
from bridgehead.council.report import FindingClass
from bridgehead.council.stage_b_outcomes import ChallengeNote, NoteOutcome

PREFIX: Final = "P"


def told_proposals(
    plan: CouncilPlan, findings: Sequence[JointFinding], debate: CrossDebate
) -> tuple[dict[str, Any], ...]:
    """One entry per proposal, numbered; other modes have none."""
    if plan.task.mode not in PROPOSING_MODES:
        return ()
    proposals = [finding for finding in findings if finding.type is OutputType.PROPOSAL]
    chosen = _chosen(debate)
    return tuple(
        _told(numbered_id(PREFIX, number), finding, debate.notes, chosen)
        for number, finding in enumerate(proposals, start=1)
    )


def _chosen(debate: CrossDebate) -> frozenset[str]:
    named = (debate.recommendation or {}).get("chosen")
    return (
        frozenset(name for name in named if isinstance(name, str)) if isinstance(named, list) else frozenset()
    )


def _told(
    proposal_id: str, finding: JointFinding, notes: Sequence[ChallengeNote], chosen: frozenset[str]
) -> dict[str, Any]:
    mine = [note for note in notes if note.finding_id in (finding.id, finding.was)]
    life = live_through(list(_events(finding, mine)), chosen=bool({finding.id, finding.was} & chosen)).life
    said = _said(finding)
    return {
        "id": proposal_id,
        "finding_id": finding.id,
        "title": finding.title,
        **said,
        "summary": said["summary"] or finding.description,
        "open_questions": [*said["open_questions"], *_open_texts(life, mine)],
        "lineage": {
            "derived_from": [f"{source.bridge}:{source.output.id}" for source in finding.sources],
            "replaced_by": list(life.replaced_by),
        },
        "revision": max((_revision(source.output.revision) for source in finding.sources), default=0),
        "status": life.state.value,
    }


def _events(finding: JointFinding, notes: Sequence[ChallengeNote]) -> list[ProposalEvent]:
    """Stage B as the life of a proposal: a note challenges, a confirming one is a challenge that was met."""
    events: list[ProposalEvent] = []
    for number, note in enumerate(notes):
        challenge_id = str(number)
        events.append(ProposalEvent(ProposalStep.CHALLENGE, challenge_id))
        if note.outcome in (NoteOutcome.CONFIRMED, NoteOutcome.DOWNGRADED):
            events.append(ProposalEvent(ProposalStep.RESOLVE, challenge_id))
    if finding.cls is FindingClass.WITHDRAWN:
        events.append(ProposalEvent(ProposalStep.GIVE_IN))
    return events


def _open_texts(life: ProposalLife, notes: Sequence[ChallengeNote]) -> list[str]:
    return [notes[int(number)].challenge for number in life.open_challenges if notes[int(number)].challenge]


def _said(finding: JointFinding) -> dict[str, Any]:
    """The fields of the first source that gave them."""
    given = next(
        (source.output.proposal for source in finding.sources if isinstance(source.output.proposal, dict)), {}
    )
    texts = {name: given.get(name) for name in (*PROPOSAL_TEXTS, *PROPOSAL_WORDS)}
    return {**texts, **{name: list(given.get(name) or []) for name in PROPOSAL_LISTS}}


def _revision(value: object) -> int:
    return value if isinstance(value, int) else 0
