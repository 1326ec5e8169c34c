"""The state of one seat's debate: who sits, what was raised, what was said about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bridgehead.contract.task import BridgeInput
from bridgehead.council.calls import CallKey, Role, Seat, Step
from bridgehead.council.debate.challenges import Debate
from bridgehead.council.debate.first_round import (
    CHALLENGER,
    INTEGRATOR,
    TITLES,
    expert_owner,
)
from bridgehead.council.debate.ledger import Ledger, Log, Owner
from bridgehead.council.debate.packets import (
    Conflict,
    find_conflicts,
    passed_on_conflicts,
)
from bridgehead.council.debate.roster import Roster
from bridgehead.council.interfaces import RunInputs
from bridgehead.council.prompts.debate import CONSOLIDATION_TITLE
from bridgehead.council.prompts.shared import PromptContext
from bridgehead.council.replies.items import Intake


@dataclass(slots=True)
class SeatState:
    """What questions are made from and what answers change."""

    seat: Seat
    context: PromptContext
    inputs: RunInputs
    intake: Intake
    ledger: Ledger
    debate: Debate
    roster: Roster
    log: Log
    seating: int
    sessions: dict[str, str] = field(default_factory=dict)
    model: str | None = None
    debate_round: int = 0
    covered: list[str] = field(default_factory=list)
    """Domains whose expert gave a usable reply."""
    troubled: bool = False
    """Whether an agent failed or was cut off."""
    overflow: list[dict[str, Any]] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    """Those of the present round."""
    _told: set[tuple[Owner, str | None, str]] = field(default_factory=set)

    @property
    def task(self) -> BridgeInput:
        return self.context.task

    @property
    def round(self) -> int:
        """Round number in packets and ids: debate round k is Round k+1."""
        return self.debate_round + 1

    def begin_round(self) -> None:
        """Open the next debate round: conflicts nobody was told of yet, nothing produced so far."""
        self.debate_round += 1
        self.debate.changes.clear()
        owners = {domain: expert_owner(domain) for domain in self.roster.active}
        passed_on, self.roster.passed_on = self.roster.passed_on, []
        found = [
            *find_conflicts(self.ledger.live()),
            *passed_on_conflicts(passed_on, owners),
        ]
        self.conflicts = [
            one
            for one in found
            if (one.owner, one.own_id, one.other_id) not in self._told
        ]
        self._told |= {(one.owner, one.own_id, one.other_id) for one in self.conflicts}

    def owners_to_answer(self) -> list[Owner]:
        """Everybody who has a challenge or a conflict to answer, experts first, in active order."""
        everybody = [*map(expert_owner, self.roster.active), INTEGRATOR, CHALLENGER]
        concerned = {conflict.owner for conflict in self.conflicts}
        return [
            owner
            for owner in everybody
            if self.debate.open_for(owner) or owner in concerned
        ]

    def key(self, owner: Owner, step: Step, *, shard: int = 1) -> CallKey:
        return CallKey(
            seat=self.seat.name,
            round=self.round,
            step=step,
            role=owner.role,
            domain=owner.domain,
            model=self.model,
            shard=shard,
            seating=self.seating,
        )

    def session_of(self, owner: Owner) -> str | None:
        """The role's session where the connection keeps history."""
        speaker = self.key(owner, Step.CHALLENGE).speaker  # the same in every step
        return self.sessions.get(speaker) if self.seat.keeps_history else None

    def title(self, owner: Owner) -> str:
        if owner.role is Role.EXPERT:
            return self.roster.experts[owner.domain].role
        return TITLES.get(owner.role, CONSOLIDATION_TITLE)
