"""Layer 1: join the seats' findings, have them challenged, and remember what was settled (council §14.2, §14.3).

It may run several times in the life of a council, whenever a late answer is folded in: a finding whose members have
not changed keeps what an earlier Stage B said of it, so that finished calls are never made again (council §23).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from bridgehead.contract.report import BridgeReport, Usage
from bridgehead.council.calls import Call, CallKey, Result, Seat
from bridgehead.council.debate.call_batch import BUDGET_REACHED, Budget, Tally
from bridgehead.council.debate.ledger import Log
from bridgehead.council.interfaces import RunInputs
from bridgehead.council.prompts.sections import CalledIn
from bridgehead.council.reporting.report import FindingClass
from bridgehead.council.request.plan import CouncilPlan
from bridgehead.council.synthesis.cross_challenge import (
    COMPLETED,
    SKIPPED,
    CrossChallenge,
    FindingQuestion,
    choose_coordinator,
    most_calls,
)
from bridgehead.council.synthesis.cross_challenge_notes import ChallengeNote
from bridgehead.council.synthesis.finding import YOU, CouncilFinding, SeatReport
from bridgehead.council.synthesis.finding_entry import SECOND_LOOK, record_of
from bridgehead.council.synthesis.join import number, stage_a
from bridgehead.council.synthesis.shared_challenge import SharedChallenge

_NOBODY: Final[Mapping[str, Sequence[CalledIn]]] = {}
Signature = frozenset[tuple[str, str, str]]
"""A council finding by its members: seat, id and wording of each."""


@dataclass(frozen=True, slots=True)
class CrossDebate:
    """What Stage B left behind."""

    outcome: str = SKIPPED
    rounds: int = 0
    notes: tuple[ChallengeNote, ...] = ()
    usage: Usage = field(default_factory=Usage)
    """Of all Stage B calls of this council."""
    recommendation: dict[str, Any] | None = None
    contradictions: tuple[dict[str, Any], ...] = ()


class Synthesis:
    """Feed it the reports, then results, until `is_done`; then read `findings` and `debate`."""

    def __init__(
        self, plan: CouncilPlan, inputs: RunInputs, budget: Budget, log: Log
    ) -> None:
        self.findings: list[CouncilFinding] = []
        self.debate = CrossDebate()
        self.warnings: list[str] = []
        self.is_done = True
        self.amended: dict[str, BridgeReport] = {}
        """Reports of seats to which Stage B added something."""
        self._plan = plan
        self._inputs = inputs
        self._budget = budget
        self._log = log
        self._stage: CrossChallenge | None = None
        self._tally = Tally()
        self._budget.watch(self._tally)
        self._runs = 0
        self._heard_experts: set[str] = set()
        """Seats whose further experts were asked."""
        self._beside: list[CouncilFinding] = []
        self._settled: dict[
            Signature, tuple[CouncilFinding, tuple[ChallengeNote, ...]]
        ] = {}

    def begin(
        self,
        reports: Sequence[SeatReport],
        askable: Mapping[str, Seat],
        *,
        debate: bool,
        shared: bool = False,
        called_in: Mapping[str, Sequence[CalledIn]] = _NOBODY,
    ) -> tuple[Call, ...]:
        """Stage A, then the first calls of Stage B; without any the layer is done at once.

        `called_in` are experts that a seat's findings call for, asked where calls are
        shared.
        """
        joined = stage_a(reports, self._plan.task.task_type, self._plan.splits)
        self._log("stage_a", findings=len(joined))
        fresh = [
            replace(one, id="")
            for one in joined
            if _signature(one) not in self._settled
        ]
        self._beside = [
            self._settled[_signature(one)][0]
            for one in joined
            if _signature(one) in self._settled
        ]
        self._beside += [one for one, _ in self._settled.values() if not one.sources]
        everything = number([*self._beside, *fresh])
        fresh = [one for one in everything if _signature(one) not in self._settled]
        for one in fresh:
            self._log("joined", **one.facts())
        seat = choose_coordinator(askable, everything, self._plan.coordinator)
        least = 1 if shared else most_calls(self._plan.task.intensity)
        if seat is None or not fresh or not debate or not self._may_spend(least):
            self._finish(
                everything,
                CrossDebate(
                    COMPLETED if self._beside else SKIPPED, 0, self._old_notes()
                ),
            )
            return ()
        self._runs += 1
        given = (self._plan.task, self._inputs, self._tally, self._log)
        kind = SharedChallenge if shared else CrossChallenge
        stage = kind(fresh, seat, *given, attempt=self._runs, settled=self._beside)
        if isinstance(stage, SharedChallenge):
            unheard = {
                name: experts
                for name, experts in called_in.items()
                if name not in self._heard_experts
            }
            stage.among(askable, self._is_affordable, reports, unheard)
        self._stage = stage
        self.is_done = False
        self._log("stage_b_start", findings=len(fresh), coordinator=seat.name)
        calls = stage.start()
        if stage.is_done:
            self._take(stage)
        return calls

    def question(
        self, finding_id: str, text: str, seats: Sequence[Seat]
    ) -> tuple[Call, ...]:
        """Ask the seats about one finding once more; without it, or anybody to ask, nothing changes."""
        asked = [
            one
            for one in self.findings
            if one.id == finding_id and one.cls is not FindingClass.WITHDRAWN
        ]
        if not (asked and seats and self.is_done):
            return ()
        if self._budget.refusal(len(seats)) is not None:
            self.warnings.append(BUDGET_REACHED)
            return ()
        self._runs += 1
        self._beside = [one for one in self.findings if one.id != finding_id]
        notes = [
            one
            for one in self.debate.notes
            if one.finding_id in (asked[0].id, asked[0].was)
        ]
        record = [
            _without_seat(msgspec.to_builtins(step))
            for step in record_of(asked[0], notes)
        ]
        given = (self._plan.task, self._inputs, self._tally, self._log)
        stage = FindingQuestion(
            asked, seats[0], *given, attempt=self._runs, settled=self._beside
        )
        self._stage = stage
        self.is_done = False
        return stage.ask(text, record, seats)

    def received(self, result: Result) -> tuple[Call, ...]:
        """A result of Stage B; returns the next calls."""
        if self._stage is None or self.is_done:
            return ()
        calls = self._stage.received(result)
        if self._stage.is_done:
            self._take(self._stage)
        return calls

    def give_up(self, reason: str) -> tuple[CallKey, ...]:
        """Stop Stage B now; returns the keys to cancel."""
        if self._stage is None or self.is_done:
            return ()
        abandoned = self._stage.give_up(reason)
        self._take(self._stage)
        return abandoned

    @property
    def outstanding(self) -> tuple[CallKey, ...]:
        return (
            self._stage.outstanding
            if self._stage is not None and not self.is_done
            else ()
        )

    def _take(self, stage: CrossChallenge) -> None:
        if isinstance(stage, FindingQuestion):
            # What a question changed; all else of an earlier Stage B stays.
            self.warnings += stage.warnings
            finding = stage.findings[0]
            notes = (*self.debate.notes, *stage.notes)
            mine = tuple(
                one for one in notes if one.finding_id in (finding.id, finding.was)
            )
            self._settled[_signature(finding)] = (finding, mine)
            self._finish(
                [*self._beside, finding],
                replace(self.debate, notes=notes, usage=self._tally.usage()),
            )
            return
        self.warnings += stage.warnings
        if isinstance(stage, SharedChallenge):
            self.amended = stage.amended
            self._heard_experts |= stage.heard_experts
        if stage.outcome == COMPLETED:
            for finding in stage.findings:
                notes = tuple(
                    note
                    for note in stage.notes
                    if note.finding_id in (finding.id, finding.was)
                )
                self._settled[_signature(finding)] = (finding, notes)
        self._finish(
            [*self._beside, *stage.findings],
            CrossDebate(
                outcome=stage.outcome,
                rounds=stage.rounds,
                notes=(*self._old_notes(), *stage.notes),
                usage=self._tally.usage(),
                recommendation=stage.recommendation,
                contradictions=tuple(stage.contradictions),
            ),
        )

    def _finish(self, findings: Sequence[CouncilFinding], debate: CrossDebate) -> None:
        self.findings = list(findings)
        self.debate = debate
        self.is_done = True
        self._log("stage_b", outcome=debate.outcome, notes=len(debate.notes))

    def _is_affordable(self, calls: int) -> bool:
        return self._budget.refusal(calls) is None

    def _may_spend(self, calls: int) -> bool:
        if self._is_affordable(calls):
            return True
        self.warnings.append(BUDGET_REACHED)
        return False

    def _old_notes(self) -> tuple[ChallengeNote, ...]:
        return tuple(
            note
            for one in self._beside
            for note in self._settled.get(_signature(one), (one, ()))[1]
        )


def _without_seat(step: dict[str, Any]) -> dict[str, Any]:
    """A step as every seat may see it: the role that spoke, not whose."""
    seat, _, role = step["by"].partition(", ")
    return {
        **step,
        "by": role or (seat if seat in (YOU, SECOND_LOOK) else "a reviewer"),
    }


def _signature(finding: CouncilFinding) -> Signature:
    if not finding.sources:
        return frozenset(
            {(FindingClass.INTEGRATION.value, finding.title, finding.description)}
        )
    return frozenset(
        (
            source.seat.name,
            source.output.id,
            f"{source.output.title}\n{source.output.description}",
        )
        for source in finding.sources
    )
