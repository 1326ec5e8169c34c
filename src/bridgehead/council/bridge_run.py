"""One seat through the post-analysis protocol: Round 1, debate rounds, ruling, report (council §9).

    analysis -> (quick) consolidation -> report
    analysis -> challenge -> [reminder] -> response -> … -> [ruling] -> report

Each arrow is one wave of calls. questions.py builds them, hearing.py takes the answers in; here is decided who is
asked next and when it ends.
"""

from __future__ import annotations

from typing import Any, Final

from bridgehead.contract.report import BridgeReport
from bridgehead.contract.timeouts import MAX_ROUNDS, STANDING_AGENTS
from bridgehead.contract.words import Intensity
from bridgehead.council.bridge_report import SeatFacts, completed_report, skipped_report
from bridgehead.council.calls import Role, Step
from bridgehead.council.consolidate import consolidated
from bridgehead.council.debate import Debate
from bridgehead.council.first_look import (
    CHALLENGER,
    FIRST_ROUND,
    covered_domains,
    first_look_asks,
    usual_failure,
)
from bridgehead.council.hearing import hear_items, hear_responses, hear_rulings, note_trouble, settle
from bridgehead.council.ledger import Ledger, domains_with_items
from bridgehead.council.proceedings import Proceedings
from bridgehead.council.questions import (
    challenge_asks,
    consolidation_asks,
    reminder_ask,
    response_asks,
    ruling_asks,
)
from bridgehead.council.roster import Roster
from bridgehead.council.seat_run import SeatRun
from bridgehead.council.tally import BUDGET_REACHED
from bridgehead.council.wave import Wave

BUDGET: Final = "budget"


class BridgeRun(SeatRun):
    """The usual seat: one model, experts, a Challenger and an Integration Checker."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        around = self._surroundings
        ledger = Ledger(self.seat.id_prefix, around.tree, self._log)
        self._run = Proceedings(
            seat=self.seat,
            scene=self._scene,
            around=around,
            intake=self._intake,
            ledger=ledger,
            debate=Debate(ledger, self._intake, self._log, withdrawal_guard=around.withdrawal_guard),
            roster=Roster(around.registry, self.task, self._log),
            log=self._log,
            seating=self._seating,
            sessions=self._sessions,
        )
        self._ending: str | None = None

    # -- Round 1

    def _begin(self) -> None:
        refusal = self._budget.refusal(len(self.task.domains) + STANDING_AGENTS)
        if refusal is not None:
            self._finish(skipped_report(self.task, self._facts(), f"budget_exhausted: {refusal}"))
            return
        self._log_dispatch()
        asks = first_look_asks(self.seat, self._scene, self._run.roster.experts, seating=self._seating)
        self._ask(asks, self._after_first_look)

    def _after_first_look(self) -> None:
        run, wave = self._run, self._settled_wave()
        if not covered_domains(wave):
            self._finish(skipped_report(self.task, self._facts(), usual_failure(wave)))
            return
        hear_items(run, wave.in_order())
        settle(run, wave)
        if self.task.intensity is Intensity.QUICK:
            self._begin_consolidation()
        elif not run.ledger.live() and not run.roster.waiting:
            self._end("nothing_found")
        else:
            self._begin_round()

    # -- quick: one look across domains

    def _begin_consolidation(self) -> None:
        found_in = domains_with_items(self._run.ledger.live())
        if len(found_in) < 2 or self._budget.refusal(1) is not None:
            self._end(None)
            return
        self._ask(consolidation_asks(self._run), self._after_consolidation)

    def _after_consolidation(self) -> None:
        wave = self._settled_wave()
        hear_items(self._run, wave.in_order())
        settle(self._run, wave)
        self._end(None)

    # -- a debate round: challenge, response

    def _begin_round(self) -> None:
        run = self._run
        if self._budget.refusal(self._calls_of_a_round()) is not None:
            self._warn(BUDGET_REACHED)
            self._begin_ruling(BUDGET)
            return
        run.begin_round()
        self._log_dispatch()
        added, run.roster.waiting = run.roster.waiting, []
        self._ask(challenge_asks(run, added), self._after_challenges)

    def _calls_of_a_round(self) -> int:
        """The most a round can need: new experts and both standing roles, a reminder, everybody's answer, a ruling."""
        roster = self._run.roster
        challenge = len(roster.waiting) + STANDING_AGENTS + 1
        return challenge + len(roster.active) + STANDING_AGENTS + 1

    def _after_challenges(self) -> None:
        run, wave = self._run, self._settled_wave()
        heard = wave.in_order()
        hear_items(run, heard)
        settle(run, wave)
        spoken = [one for one in heard if one.ask.call.key.role is Role.CHALLENGER]
        missing = run.debate.owed(shown for one in spoken for shown in one.ask.shown_ids)
        if spoken and missing:
            self._ask([reminder_ask(run, spoken[-1], missing)], self._after_reminder)
        else:
            self._begin_responses()

    def _after_reminder(self) -> None:
        wave = self._settled_wave()
        note_trouble(self._run, wave)
        for heard in wave.in_order():
            self._run.debate.take_challenges(heard.value["challenges"], self._run.round, by=CHALLENGER)
        self._begin_responses()

    def _begin_responses(self) -> None:
        run = self._run
        for entry in run.debate.owed(entry.id for entry in run.ledger.live()):
            entry.unchallenged = entry.state.origin_round < run.round
        asks = [ask for owner in run.owners_to_answer() for ask in response_asks(run, owner)]
        self._ask(asks, self._after_responses)

    def _after_responses(self) -> None:
        run, wave = self._run, self._settled_wave()
        hear_responses(run, wave.in_order())
        settle(run, wave)
        stop = self._stop_reason()
        run.debate.finish_round(run.round, stop)
        if stop is None:
            self._begin_round()
        else:
            self._begin_ruling(stop)

    def _stop_reason(self) -> str | None:
        """The first reason to end the debate (council §9.6)."""
        run = self._run
        if run.debate_round >= MAX_ROUNDS[self.task.intensity]:
            return "max_rounds"
        if run.roster.waiting:
            return None
        if run.debate.all_resolved:
            return "all_resolved"
        return None if run.debate.changes.total() else "convergence"

    # -- the last word of the Challenger, and the end

    def _begin_ruling(self, stop: str) -> None:
        self._ending = stop
        self._run.roster.leave_unheard()
        if self._run.debate.awaits_ruling:
            self._ask(ruling_asks(self._run), self._after_ruling)
        else:
            self._end(stop)

    def _after_ruling(self) -> None:
        wave = self._settled_wave()
        note_trouble(self._run, wave)
        hear_rulings(self._run, wave.in_order())
        self._end(self._ending)

    def _cut_short(self, reason: str) -> None:
        """Keep what arrived of the step that was running; its round does not count as finished."""
        run, wave = self._run, self._settled_wave()
        step = next((ask.call.key.step for ask in wave.asks), Step.ANALYSIS)
        if step is Step.ANALYSIS and not covered_domains(wave):
            self._finish(skipped_report(self.task, self._facts(), reason))
            return
        hear = {Step.RESPONSE: hear_responses, Step.RULING: hear_rulings}.get(step, hear_items)
        hear(run, wave.in_order())
        settle(run, wave)
        run.roster.leave_unheard()
        self._end(f"stopped: {reason}")

    def _end(self, reason: str | None) -> None:
        run = self._run
        for overflow in run.overflow:
            self._warn(f"context_overflow:r{overflow['round']}:{overflow['role']}")
        facts = self._facts(
            termination_reason=reason,
            unexplored_domains=tuple(dict.fromkeys(run.roster.unexplored)),
            context_overflow=tuple(run.overflow),
        )
        self._finish(self._report(facts))

    def _report(self, facts: SeatFacts) -> BridgeReport:
        return completed_report(self.task, facts, consolidated(self._run))

    def _settled_wave(self) -> Wave:
        if self._wave is None:
            raise AssertionError("a step ends only after its questions were put")
        return self._wave

    def _log_dispatch(self, mode: str = "multi-agent") -> None:
        run = self._run
        self._log(
            "dispatch",
            mode=mode,
            domains=list(run.roster.active),
            connection=self.seat.connection,
            round=max(run.round, FIRST_ROUND),
        )
