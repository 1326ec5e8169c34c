"""What debate does to one finding and to the challenges against it (council §9.7). Nothing else changes a state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from bridgehead.contract.words import OutputState


class ChallengeState(StrEnum):
    OPEN = "open"
    DEFENDED = "defended"
    REVISED = "revised"
    WITHDRAWN = "withdrawn"
    MAINTAINED = "maintained"
    ESCALATED = "escalated"
    CLOSED = "closed"
    """The finding itself was withdrawn."""


class Ruling(StrEnum):
    """What the Challenger makes of an answer."""

    WITHDRAW = "withdraw"
    MAINTAIN = "maintain"
    ESCALATE = "escalate"


FINAL: Final = frozenset({ChallengeState.WITHDRAWN, ChallengeState.CLOSED})
UNRESOLVED: Final = frozenset({ChallengeState.OPEN, ChallengeState.MAINTAINED, ChallengeState.ESCALATED})
_AFTER_RULING: Final = {
    Ruling.WITHDRAW: ChallengeState.WITHDRAWN,
    Ruling.MAINTAIN: ChallengeState.MAINTAINED,
    Ruling.ESCALATE: ChallengeState.ESCALATED,
}


@dataclass(slots=True)
class FindingState:
    """State of one finding. Every method tells whether anything changed; what is not in the table is ignored."""

    origin_round: int = 1
    revision: int = 0
    withdrawn: bool = False
    challenges: dict[str, ChallengeState] = field(default_factory=dict)

    def challenge(self, challenge_id: str) -> bool:
        if self.withdrawn or challenge_id in self.challenges:
            return False
        self.challenges[challenge_id] = ChallengeState.OPEN
        return True

    def defend(self, challenge_id: str) -> bool:
        return self._answer(challenge_id, ChallengeState.DEFENDED)

    def revise(self, *challenge_ids: str) -> bool:
        """The content was replaced, in answer to challenges or without one."""
        if self.withdrawn:
            return False
        self.revision += 1
        for challenge_id in challenge_ids:
            self._answer(challenge_id, ChallengeState.REVISED)
        return True

    def withdraw(self) -> bool:
        """Terminal: every challenge that was not taken back is closed."""
        if self.withdrawn:
            return False
        self.withdrawn = True
        for challenge_id, state in self.challenges.items():
            if state is not ChallengeState.WITHDRAWN:
                self.challenges[challenge_id] = ChallengeState.CLOSED
        return True

    def rule(self, challenge_id: str, ruling: Ruling) -> bool:
        """The Challenger may rule on any challenge that is not final, answered or not."""
        if self.withdrawn or self.challenges.get(challenge_id, ChallengeState.CLOSED) in FINAL:
            return False
        self.challenges[challenge_id] = _AFTER_RULING[ruling]
        return True

    def inherit(self, merged: FindingState) -> None:
        """A duplicate was merged into this finding: its challenges are directed here now."""
        self.challenges.update(merged.challenges)

    @property
    def unresolved(self) -> tuple[str, ...]:
        """Challenges left open, maintained or escalated, oldest first."""
        return tuple(key for key, state in self.challenges.items() if state in UNRESOLVED)

    def status(self, debate_rounds: int) -> OutputState | None:
        """The final status: the first that fits (K14, K15)."""
        if self.withdrawn:
            return OutputState.WITHDRAWN
        if self.unresolved:
            return OutputState.DISPUTED
        if self.revision > 0:
            return OutputState.REVISED
        if self.origin_round >= 2:
            return OutputState.DISCOVERED
        return OutputState.CONFIRMED if debate_rounds >= 1 else None

    def _answer(self, challenge_id: str, state: ChallengeState) -> bool:
        if self.withdrawn or self.challenges.get(challenge_id) not in UNRESOLVED:
            return False
        self.challenges[challenge_id] = state
        return True


def placement(status: OutputState | None) -> tuple[str, ...]:
    """The report lists an output of that status appears in."""
    if status is OutputState.WITHDRAWN:
        return ("withdrawn_outputs",)
    if status is OutputState.DISPUTED:
        return ("outputs", "disputed_outputs")
    return ("outputs",)


def any_unresolved(findings: Iterable[FindingState]) -> bool:
    """Whether a challenge against a live finding is still unresolved (council §9.6, all_resolved)."""
    return any(finding.unresolved for finding in findings if not finding.withdrawn)
