"""Life of a proposal in the modes brainstorm and design (council §15): two live states, three final ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final


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

    def after(self, event: ProposalEvent) -> ProposalLife | None:
        """The state after `event`, or None when the table does not list it: ignored, and to be logged."""
        if self.state not in LIVE:
            return None
        match event.step:
            case ProposalStep.CHALLENGE if event.challenge_id and event.challenge_id not in self.issued:
                return self._challenged(event.challenge_id)
            case ProposalStep.REVISE:
                # A revision answers every challenge that was open.
                return replace(
                    self, state=ProposalState.PROPOSED, revision=self.revision + 1, open_challenges=()
                )
            case ProposalStep.RESOLVE if event.challenge_id in self.open_challenges:
                return self._resolved(str(event.challenge_id))
            case ProposalStep.GIVE_IN if self.state is ProposalState.CHALLENGED:
                return replace(self, state=ProposalState.REJECTED)
            case ProposalStep.MERGE | ProposalStep.SPLIT:
                return replace(self, state=ProposalState.PARKED, replaced_by=event.children)
            case _:
                return None

    def ended(self, *, chosen: bool) -> ProposalLife:
        """The final state; a proposal with an open challenge is never accepted, chosen or not."""
        if self.state not in LIVE:
            return self
        accepted = chosen and self.state is ProposalState.PROPOSED
        return replace(self, state=ProposalState.ACCEPTED if accepted else ProposalState.PARKED)

    def _challenged(self, challenge_id: str) -> ProposalLife:
        return replace(
            self,
            state=ProposalState.CHALLENGED,
            open_challenges=(*self.open_challenges, challenge_id),
            issued=self.issued | {challenge_id},
        )

    def _resolved(self, challenge_id: str) -> ProposalLife:
        left = tuple(other for other in self.open_challenges if other != challenge_id)
        state = ProposalState.CHALLENGED if left else ProposalState.PROPOSED
        return replace(self, state=state, open_challenges=left)


@dataclass(frozen=True, slots=True)
class LivedProposal:
    """Where a proposal ended, and the events that had no effect."""

    life: ProposalLife
    ignored: tuple[ProposalEvent, ...]


def live_through(events: Sequence[ProposalEvent], *, chosen: bool) -> LivedProposal:
    """Carry a new proposal through `events` to the end of the run."""
    life = ProposalLife()
    ignored: list[ProposalEvent] = []
    for event in events:
        later = life.after(event)
        if later is None:
            ignored.append(event)
        else:
            life = later
    return LivedProposal(life.ended(chosen=chosen), tuple(ignored))
