"""Every item a seat ever raised and what debate did to it: nothing leaves, items are merged or withdrawn (council
§9.7, Q2).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from bridgehead.contract.ids import id_sort_key, numbered_id
from bridgehead.contract.report import Output
from bridgehead.contract.words import OutputState, Severity, severity_rank
from bridgehead.council.calls import Role, agent_name
from bridgehead.council.findings.evidence import (
    EvidenceCheck,
    EvidenceOutcome,
    check_evidence,
)
from bridgehead.council.findings.joining import Comment, Problem, join, likeness
from bridgehead.council.findings.tree import Tree
from bridgehead.council.replies.items import Draft
from bridgehead.council.reporting.seat_report import raised_facts


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
UNRESOLVED: Final = frozenset(
    {ChallengeState.OPEN, ChallengeState.MAINTAINED, ChallengeState.ESCALATED}
)
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
        if (
            self.withdrawn
            or self.challenges.get(challenge_id, ChallengeState.CLOSED) in FINAL
        ):
            return False
        self.challenges[challenge_id] = _AFTER_RULING[ruling]
        return True

    @property
    def unresolved(self) -> tuple[str, ...]:
        """Challenges left open, maintained or escalated, oldest first."""
        return tuple(
            key for key, state in self.challenges.items() if state in UNRESOLVED
        )

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


Log = Callable[..., None]
"""Takes an event's name and its fields."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who answers for an item."""

    role: Role
    domain: str

    @property
    def name(self) -> str:
        return agent_name(self.role, self.domain)


@dataclass(slots=True)
class Entry:
    """One item: its present content, its state, and where it went."""

    output: Output
    owner: Owner
    state: FindingState
    check: EvidenceCheck
    merged_into: str | None = None
    merged_from: list[str] = field(default_factory=list)
    unchallenged: bool = False
    withdrawal_reason: str = ""
    withdrawn_for: str | None = None
    lowered_from: Severity | None = None
    """The severity it had before its owner lowered it."""
    model: str | None = None

    @property
    def id(self) -> str:
        return self.output.id

    @property
    def is_live(self) -> bool:
        return self.merged_into is None and not self.state.withdrawn


class Ledger:
    """The items of one seat run, by id, in the order they were raised."""

    def __init__(self, prefix: str, tree: Tree | None, log: Log) -> None:
        self._prefix = prefix
        self._tree = tree
        self._log = log
        self._entries: dict[str, Entry] = {}
        self._count = 0

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __getitem__(self, output_id: str) -> Entry:
        return self._entries[output_id]

    def get(self, output_id: object) -> Entry | None:
        return self._entries.get(output_id) if isinstance(output_id, str) else None

    def survivor(self, output_id: object) -> Entry | None:
        """The item of that id, or the one it was merged into."""
        entry = self.get(output_id)
        while entry is not None and entry.merged_into is not None:
            entry = self._entries[entry.merged_into]
        return entry

    def live(self) -> list[Entry]:
        return [entry for entry in self if entry.is_live]

    def count_raised_in(self, round_number: int) -> int:
        """How many items are new since that round began; duplicates of others are not."""
        return sum(
            entry.state.origin_round == round_number and entry.merged_into is None
            for entry in self
        )

    def add(
        self,
        drafts: Iterable[Draft],
        owner: Owner,
        *,
        agent: str,
        round_number: int,
        model: str | None = None,
    ) -> list[Entry]:
        """Take drafts in, in order; each gets the next id."""
        return [self._add(draft, owner, agent, round_number, model) for draft in drafts]

    def _add(
        self,
        draft: Draft,
        owner: Owner,
        agent: str,
        round_number: int,
        model: str | None,
    ) -> Entry:
        self._count += 1
        output = draft.output(
            numbered_id(self._prefix, self._count),
            domain=owner.domain,
            agent=agent,
            origin_round=round_number,
            severity_original=draft.severity_original or UNSET,
            severity_inferred=draft.severity_inferred or UNSET,
            requirement_id=draft.requirement_id or UNSET,
            met=draft.met if draft.met is not None and draft.requirement_id else UNSET,
            proposal=draft.proposal if draft.proposal is not None else UNSET,
        )
        entry = Entry(
            output,
            owner,
            FindingState(round_number),
            self.check(draft.evidence),
            model=model,
        )
        self._entries[output.id] = entry
        self._log("output", **raised_facts(output, round_number))
        return entry

    def adopt(self, entry: Entry) -> None:
        """Take in an item that has its id already; its evidence is checked now."""
        entry.check = self.check(entry.output.evidence)
        self._entries[entry.id] = entry

    def check(self, evidence: str | None) -> EvidenceCheck:
        """Compare a citation with the tree; without a tree nothing can be said."""
        if self._tree is None:
            return EvidenceCheck(EvidenceOutcome.UNCHECKED, "no_tree")
        return check_evidence(evidence, self._tree)

    def revise(self, entry: Entry, changes: Mapping[str, Any]) -> None:
        """Replace some of an item's texts; the id stays, evidence is checked again."""
        entry.output = msgspec.structs.replace(entry.output, **changes)
        if "evidence" in changes:
            entry.check = self.check(entry.output.evidence)

    def merge_duplicates(self) -> None:
        """Join live items of one domain that describe the same problem."""
        live = self.live()
        candidates = [Comment.of(entry.output) for entry in live]
        for found in join(candidates, same_domain=True):
            if len(found.members) > 1:
                self._merge(found)

    def join(self, one: Entry, other: Entry) -> None:
        """Merge two items whose owners agree that they are one problem."""
        self._merge(Problem((Comment.of(one.output), Comment.of(other.output))))

    def _merge(self, found: Problem) -> None:
        # An item that has lived through a round keeps its id and its challenges; a newcomer joins it.
        first, *others = sorted(
            found.members,
            key=lambda member: self._entries[member.id].state.origin_round,
        )
        kept = self._entries[first.id]
        severity = max((member.severity for member in found.members), key=severity_rank)
        kept.output = msgspec.structs.replace(
            kept.output,
            severity=severity,
            type=found.type,
            requirement_id=self._requirement(first, others),
        )
        for other in sorted(others, key=lambda member: id_sort_key(member.id)):
            merged = self._entries[other.id]
            merged.merged_into = kept.id
            kept.merged_from += [other.id, *merged.merged_from]
            kept.state.challenges.update(merged.state.challenges)
            alike = likeness(first, other)
            self._log(
                "merge",
                kept=kept.id,
                discarded=other.id,
                similarity=round(alike.value, 4),
                location=alike.relation,
                words=alike.words,
            )

    def _requirement(self, kept: Comment, others: Iterable[Comment]) -> str | UnsetType:
        """The requirement a merged item is about: its own, else that of a duplicate which says it is unmet."""
        unmet = (
            other for other in others if self._entries[other.id].output.met is not True
        )
        named = (member.requirement_id for member in (kept, *unmet))
        return next(
            (requirement_id for requirement_id in named if requirement_id), UNSET
        )


def final_output(
    entry: Entry, debate_rounds: int, argument: Sequence[dict[str, Any]] = ()
) -> Output:
    """The item as the report shows it."""
    state = entry.state
    status = state.status(debate_rounds)
    is_withdrawn = status is OutputState.WITHDRAWN
    return msgspec.structs.replace(
        entry.output,
        status=status,
        revision=state.revision or UNSET,
        merged_from=tuple(entry.merged_from) or UNSET,
        challenges=tuple(state.challenges) or UNSET,
        argument=tuple(argument) or UNSET,
        unchallenged=entry.unchallenged or UNSET,
        withdrawal_reason=entry.withdrawal_reason if is_withdrawn else UNSET,
        challenge_id=entry.withdrawn_for or UNSET if is_withdrawn else UNSET,
        lowered_from=_lowered_from(entry),
        evidence_check=entry.check.to_json(),
        model=entry.model or UNSET,
    )


def _lowered_from(entry: Entry) -> Severity | UnsetType:
    before = entry.lowered_from
    if before is None or severity_rank(entry.output.severity) >= before.rank:
        return UNSET
    return before


def shown(entry: Entry) -> dict[str, Any]:
    """The full item as debate prompts carry it (council §9.5, level 0 of §9.9)."""
    output = entry.output
    item: dict[str, Any] = {
        "id": output.id,
        "type": output.type.value,
        "severity": output.severity.value if output.severity else None,
        "status": None,
        "title": output.title,
        "description": output.description,
        "evidence": output.evidence,
        "action": output.action,
        "domain": output.domain,
        "agent": output.agent,
    }
    if isinstance(output.requirement_id, str):
        item["requirement_id"] = output.requirement_id
        item["met"] = output.met is True
    return item


def by_severity(entries: Iterable[Entry]) -> list[Entry]:
    """Highest severity first, then id."""
    return sorted(
        entries,
        key=lambda entry: (
            -severity_rank(entry.output.severity),
            id_sort_key(entry.id),
        ),
    )


def is_serious(entry: Entry) -> bool:
    """Severities that must be challenged and are guarded against a careless withdrawal."""
    return entry.output.severity in (Severity.CRITICAL, Severity.HIGH)


def speaks_of(entry: Entry, requirement_id: str) -> bool:
    """Whether an item is about a requirement: by its field, or by naming it."""
    output = entry.output
    if output.requirement_id == requirement_id:
        return True
    # Whole ids only: R-1 is not spoken of where is.
    whole = rf"(?<!\w)(?<!\w[.-]){re.escape(requirement_id)}(?![.-]?\w)"
    return (
        re.search(
            whole, f"{output.title}\n{output.description}\n{output.evidence or ''}"
        )
        is not None
    )
