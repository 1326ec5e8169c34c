"""Proposals of a brainstorm or design: their life in the debate, and how the report lists them (council §15)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from bridgehead.contract.ids import numbered_id
from bridgehead.contract.words import OutputType
from bridgehead.council.replies.items import (
    PROPOSAL_LISTS,
    PROPOSAL_TEXTS,
    PROPOSAL_WORDS,
)
from bridgehead.council.reporting.report import FindingClass
from bridgehead.council.request.plan import PROPOSING_MODES, CouncilPlan
from bridgehead.council.synthesis.cross_challenge_notes import (
    ChallengeNote,
    NoteOutcome,
)
from bridgehead.council.synthesis.finding import CouncilFinding
from bridgehead.council.synthesis.synthesis import CrossDebate

PREFIX: Final = "P"


class ProposalState(StrEnum):
    PROPOSED = "proposed"
    CHALLENGED = "challenged"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    PARKED = "parked"


LIVE: Final = frozenset({ProposalState.PROPOSED, ProposalState.CHALLENGED})


class ProposalStep(StrEnum):
    CHALLENGE = "challenge"
    REVISE = "revise"
    RESOLVE = "resolve"
    GIVE_IN = "give_in"
    MERGE = "merge"
    SPLIT = "split"


@dataclass(frozen=True, slots=True)
class ProposalEvent:
    step: ProposalStep
    challenge_id: str | None = None
    children: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProposalLife:
    """One proposal's state, the challenges still open (in order of issue), and what replaced it."""

    state: ProposalState = ProposalState.PROPOSED
    revision: int = 0
    open_challenges: tuple[str, ...] = ()
    replaced_by: tuple[str, ...] = ()
    issued: frozenset[str] = field(default=frozenset())

    def after(self, event: ProposalEvent) -> ProposalLife:
        """The state after `event`; one that the table does not list changes nothing."""
        if self.state not in LIVE:
            return self
        match event.step:
            case ProposalStep.CHALLENGE if (
                event.challenge_id and event.challenge_id not in self.issued
            ):
                return replace(
                    self,
                    state=ProposalState.CHALLENGED,
                    open_challenges=(*self.open_challenges, event.challenge_id),
                    issued=self.issued | {event.challenge_id},
                )
            case ProposalStep.REVISE:
                # A revision answers every challenge that was open.
                return replace(
                    self,
                    state=ProposalState.PROPOSED,
                    revision=self.revision + 1,
                    open_challenges=(),
                )
            case ProposalStep.RESOLVE if event.challenge_id in self.open_challenges:
                left = tuple(
                    other
                    for other in self.open_challenges
                    if other != str(event.challenge_id)
                )
                state = ProposalState.CHALLENGED if left else ProposalState.PROPOSED
                return replace(self, state=state, open_challenges=left)
            case ProposalStep.GIVE_IN if self.state is ProposalState.CHALLENGED:
                return replace(self, state=ProposalState.REJECTED)
            case ProposalStep.MERGE | ProposalStep.SPLIT:
                return replace(
                    self, state=ProposalState.PARKED, replaced_by=event.children
                )
            case _:
                return self

    def ended(self, *, chosen: bool) -> ProposalLife:
        """The final state; a proposal with an open challenge is never accepted, chosen or not."""
        if self.state not in LIVE:
            return self
        accepted = chosen and self.state is ProposalState.PROPOSED
        return replace(
            self, state=ProposalState.ACCEPTED if accepted else ProposalState.PARKED
        )


def live_through(events: Sequence[ProposalEvent], *, chosen: bool) -> ProposalLife:
    """Carry a new proposal through `events` to the end of the run."""
    life = ProposalLife()
    for event in events:
        life = life.after(event)
    return life.ended(chosen=chosen)


def proposal_entries(
    plan: CouncilPlan, findings: Sequence[CouncilFinding], debate: CrossDebate
) -> tuple[dict[str, Any], ...]:
    """One entry per proposal, numbered; other modes have none."""
    if plan.task.mode not in PROPOSING_MODES:
        return ()
    proposals = [finding for finding in findings if finding.type is OutputType.PROPOSAL]
    named = (debate.recommendation or {}).get("chosen")
    chosen = (
        frozenset(name for name in named if isinstance(name, str))
        if isinstance(named, list)
        else frozenset()
    )
    return tuple(
        _told(numbered_id(PREFIX, number), finding, debate.notes, chosen)
        for number, finding in enumerate(proposals, start=1)
    )


def _told(
    proposal_id: str,
    finding: CouncilFinding,
    notes: Sequence[ChallengeNote],
    chosen: frozenset[str],
) -> dict[str, Any]:
    mine = [note for note in notes if note.finding_id in (finding.id, finding.was)]
    life = live_through(
        _events(finding, mine), chosen=bool({finding.id, finding.was} & chosen)
    )
    still_open = [mine[int(number)].challenge for number in life.open_challenges]
    said = _said(finding)
    revisions = [source.output.revision for source in finding.sources]
    return {
        "id": proposal_id,
        "finding_id": finding.id,
        "title": finding.title,
        **said,
        "summary": said["summary"] or finding.description,
        "open_questions": [*said["open_questions"], *filter(None, still_open)],
        "lineage": {
            "derived_from": [
                f"{source.seat.name}:{source.output.id}" for source in finding.sources
            ],
            "replaced_by": list(life.replaced_by),
        },
        "revision": max((one for one in revisions if isinstance(one, int)), default=0),
        "status": life.state.value,
    }


def _events(
    finding: CouncilFinding, notes: Sequence[ChallengeNote]
) -> list[ProposalEvent]:
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


def _said(finding: CouncilFinding) -> dict[str, Any]:
    """The fields of the first source that gave them."""
    given = next(
        (
            source.output.proposal
            for source in finding.sources
            if isinstance(source.output.proposal, dict)
        ),
        {},
    )
    texts = {name: given.get(name) for name in (*PROPOSAL_TEXTS, *PROPOSAL_WORDS)}
    return {**texts, **{name: list(given.get(name) or []) for name in PROPOSAL_LISTS}}
