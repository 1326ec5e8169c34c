"""The run of one seat in rounds: Round 1, debate rounds, ruling, report (council §9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from bridgehead.contract.looks import Look, LookKind, Unlooked, not_looked
from bridgehead.contract.report import BridgeReport
from bridgehead.contract.task import BridgeInput
from bridgehead.contract.timeouts import (
    MAX_ROUNDS,
    STANDING_AGENTS,
    timeout_skip_reason,
)
from bridgehead.contract.words import ErrorClass, Intensity
from bridgehead.council import calls
from bridgehead.council.debate.answers import (
    consolidated,
    note_trouble,
    settle,
    take_items,
    take_responses,
    take_rulings,
)
from bridgehead.council.debate.asks import (
    challenge_asks,
    consolidation_asks,
    reminder_ask,
    response_asks,
    ruling_asks,
)
from bridgehead.council.debate.call_batch import (
    BUDGET_REACHED,
    Ask,
    Budget,
    CallBatch,
    Tally,
)
from bridgehead.council.debate.challenges import Debate
from bridgehead.council.debate.first_round import (
    CHALLENGER,
    FIRST_ROUND,
    covered_domains,
    domain_looks,
    first_round_asks,
    usual_failure,
)
from bridgehead.council.debate.ledger import Ledger, shown
from bridgehead.council.debate.roster import NewExpert, Roster
from bridgehead.council.debate.shared_round import (
    EXCHANGE_MODE,
    SECTION_MISSING,
    by_role,
    shared_asks,
)
from bridgehead.council.debate.state import SeatState
from bridgehead.council.interfaces import RunInputs
from bridgehead.council.prompts.debate import repair_prompt
from bridgehead.council.prompts.sections import CalledIn
from bridgehead.council.prompts.shared import PromptContext
from bridgehead.council.replies.items import Intake
from bridgehead.council.reporting.seat_report import (
    SeatFacts,
    closing_facts,
    completed_report,
    skipped_report,
)

NO_ANSWER: Final = "no_answer"
INTERRUPTED: Final = "interrupted"

SeatInput = (
    calls.Reply
    | calls.CallFailed
    | calls.DeadlineReached
    | calls.GivenUp
    | calls.Interrupted
)
BUDGET: Final = "budget"


class SeatRun:
    """One seat from its first call to its report: one model, experts, a Challenger and an Integration Checker.

    Feed it; carry out the turns it returns.
    """

    _mode_of_round_1 = "multi-agent"

    def __init__(
        self,
        seat: calls.Seat,
        task: BridgeInput,
        inputs: RunInputs,
        *,
        budget: Budget | None = None,
        seating: int = 1,
        shared: bool = False,
    ) -> None:
        """`shared`: all roles answer in one call, and the council challenges what they find."""
        if shared:
            seat = msgspec.structs.replace(seat, exchange_mode=EXCHANGE_MODE)
        self._shared = shared
        self.called_in: tuple[CalledIn, ...] = ()
        """Experts that its findings call for, where the council asks them."""
        self.seat = seat
        self.task = task
        self.report: BridgeReport | None = None
        self._seating = seating
        self._budget = budget or Budget()
        self._tally = Tally()
        self._budget.watch(self._tally)
        material = inputs.material.for_seat(reads_files=seat.reads_files)
        self._context = PromptContext(task, material, inputs.secret)
        self._warnings: list[str] = [*seat.warnings, *material.warnings]
        self._models_seen: list[str] = []
        """Models that really answered, where the runtime says which."""
        self._started_at = self._at = ""
        self._events: list[calls.SeatEvent] = []
        self._calls: list[calls.Call] = []
        self._cancelled: tuple[calls.CallKey, ...] = ()
        self._batch: CallBatch | None = None
        self._first_round: CallBatch | None = None
        self._then: Callable[[], None] | None = None
        ledger = Ledger(seat.id_prefix, inputs.tree, self._log)
        self._run = SeatState(
            seat=seat,
            context=self._context,
            inputs=inputs,
            intake=(intake := Intake(task)),
            ledger=ledger,
            debate=Debate(
                ledger, intake, self._log, withdrawal_guard=inputs.withdrawal_guard
            ),
            roster=Roster(inputs.registry, task, self._log),
            log=self._log,
            seating=seating,
        )
        self._ending: str | None = None

    def start(self, at: str) -> calls.Turn:
        """Begin; returns the calls of Round 1."""
        self._started_at = self._at = at
        self._log(
            "bridge_start",
            bridge=self.seat.name,
            session_id=self.task.session_id,
            timestamp=at,
        )
        self._begin()
        return self._turn()

    def feed(self, happened: SeatInput) -> calls.Turn:
        """Something happened; returns what is to be done now. After the report everything is ignored."""
        if self.report is not None or self._batch is None:
            return calls.Turn()
        self._at = happened.at
        if (
            isinstance(happened, calls.Reply)
            and happened.model
            and happened.model not in self._models_seen
        ):
            self._models_seen.append(happened.model)
        if isinstance(happened, calls.Reply | calls.CallFailed):
            self._calls += self._batch.received(happened)
            self._go_on()
        else:
            if isinstance(happened, calls.DeadlineReached):
                reason = timeout_skip_reason(self.seat.timeout_seconds)
                self._log(
                    "deadline_reached", detail=f"after {self.seat.deadline_seconds} s"
                )
            else:
                reason = (
                    NO_ANSWER if isinstance(happened, calls.GivenUp) else INTERRUPTED
                )
            self._cancelled = self._batch.give_up(reason)
            self._cut_short(reason)
        return self._turn()

    @property
    def outstanding(self) -> tuple[calls.CallKey, ...]:
        """Keys of the calls that have no result yet."""
        return (
            self._batch.outstanding
            if self._batch is not None and self.report is None
            else ()
        )

    def _ask(self, asks: Sequence[Ask], then: Callable[[], None]) -> None:
        """Put questions together; `then` goes on when all are settled."""
        repair = partial(repair_prompt, self._context)
        self._batch = CallBatch(
            asks,
            self._log,
            self._tally,
            repair,
            keeps_history=self.seat.keeps_history,
            sessions=self._run.sessions,
        )
        self._then = then
        self._calls += self._batch.start()
        self._go_on()

    def _go_on(self) -> None:
        if (
            self._batch is not None
            and self._batch.is_done
            and self._then is not None
            and self.report is None
        ):
            then = self._then
            self._then = None
            then()

    def _log(self, event: str, **fields: Any) -> None:
        self._events.append(calls.SeatEvent(self.seat.name, event, fields))

    def _warn(self, code: str) -> None:
        if code not in self._warnings:
            self._warnings.append(code)
            self._log("warning", detail=code)

    def _facts(self, **more: Any) -> SeatFacts:
        seat = self.seat
        seen = {"models_used": tuple(self._models_seen)} if self._models_seen else {}
        unseen = (
            {"unseen_files": found} if (found := self._context.material.unseen) else {}
        )
        looks = self._looks()
        looked = {"looks": looks} if looks else {}
        extra = {**seen, **unseen, **looked, **seat.extra, **more.pop("extra", {})}
        return SeatFacts(
            name=seat.name,
            model_family=seat.model_family,
            connection=seat.connection,
            timeout_seconds=seat.timeout_seconds,
            started_at=self._started_at,
            finished_at=self._at,
            usage=self._tally.usage(),
            prompt_sizes=dict(self._tally.largest_prompt),
            model_validation_warnings=seat.model_validation_warnings,
            warnings=tuple(self._warnings),
            extra=extra,
            **more,
        )

    def _finish(self, report: BridgeReport) -> None:
        self.report = report
        self._log("bridge_complete", **closing_facts(report, self._at))

    def _turn(self) -> calls.Turn:
        turn = calls.Turn(
            events=tuple(self._events),
            seat_reports=(self.report,) if self.report is not None else (),
            cancelled=self._cancelled,
            calls=tuple(self._calls),
        )
        self._events = []
        self._calls = []
        self._cancelled = ()
        return turn

    # -- Round 1

    def _begin(self) -> None:
        wanted: list[Ask] = []
        ask_all = shared_asks if self._shared else first_round_asks
        for model in self._models_of_round_1():
            wanted += ask_all(
                self.seat,
                self._context,
                self._run.roster.experts,
                seating=self._seating,
                model=model,
            )
        asks = self._affordable(wanted)
        if not asks:
            reason = f"budget_exhausted: {self._budget.refusal(len(wanted))}"
            self._finish(skipped_report(self.task, self._facts(), reason))
            return
        if len(asks) < len(wanted):
            self._warn(BUDGET_REACHED)
        self._log_dispatch(EXCHANGE_MODE if self._shared else self._mode_of_round_1)
        self._ask(asks, self._after_first_round)
        self._first_round = self._settled_batch()

    def _affordable(self, wanted: Sequence[Ask]) -> list[Ask]:
        """Return the questions that the budget allows: all, or experts as far as it goes."""
        calls_left = self._budget.calls_left
        if self._budget.refusal(len(wanted)) is None:
            return list(wanted)
        if calls_left is None or self._budget.refusal(1) is not None:
            return []
        asking = (calls.Role.EXPERT, calls.Role.EXPERTS)
        experts = [ask for ask in wanted if ask.call.key.role in asking]
        return experts[:calls_left]

    def _looks(self) -> tuple[Look, ...]:
        """Return how far each expert of Round 1 came, asked or not."""
        if self._first_round is None:
            return ()
        looks = domain_looks(self._heard(self._first_round), self.seat.name)
        asked = {look.on for look in looks}
        unasked = [
            not_looked(self.seat.name, domain, Unlooked.BUDGET, kind=LookKind.DOMAIN)
            for domain in self.task.domains
            if domain not in asked
        ]
        return (*looks, *unasked)

    def _heard(self, batch: CallBatch) -> CallBatch:
        """Return the answers of Round 1 by role, however many share a call."""
        return by_role(batch, self.task.domains) if self._shared else batch

    def _first_answers(self) -> CallBatch:
        """Return the same once they are all there; what no role answers is logged."""
        batch = self._settled_batch()
        heard = self._heard(batch)
        for key, reason in heard.failures.items():
            if reason == SECTION_MISSING:
                self._log(
                    "agent_failed",
                    round=key.round,
                    role=key.role.value,
                    domain=key.domain,
                    reason=reason,
                    error_class=ErrorClass.MALFORMED.value,
                )
        return heard

    def _called_in(self, new: NewExpert) -> CalledIn:
        trigger = None
        if new.trigger_id is not None:
            trigger = shown(self._run.ledger[new.trigger_id])
        return CalledIn(new.expert, trigger, new.reason)

    def _models_of_round_1(self) -> Sequence[str | None]:
        """Each is asked by itself; None leaves the choice to the runtime."""
        return (None,)

    def _after_first_round(self) -> None:
        run = self._run
        batch = self._first_answers()
        if not covered_domains(batch):
            self._finish(skipped_report(self.task, self._facts(), usual_failure(batch)))
            return
        take_items(run, batch.in_order())
        settle(run, batch)
        if self._shared:
            self.called_in = tuple(map(self._called_in, run.roster.waiting))
            run.roster.leave_unexplored()
            self._end(None)
        elif self.task.intensity is Intensity.QUICK:
            self._begin_consolidation()
        elif not run.ledger.live() and not run.roster.waiting:
            self._end("nothing_found")
        else:
            self._begin_round()

    # -- quick: one look across domains

    def _begin_consolidation(self) -> None:
        found_in = {entry.output.domain for entry in self._run.ledger.live()}
        if len(found_in) < 2 or self._budget.refusal(1) is not None:
            self._end(None)
            return
        self._ask(consolidation_asks(self._run), self._after_consolidation)

    def _after_consolidation(self) -> None:
        batch = self._settled_batch()
        take_items(self._run, batch.in_order())
        settle(self._run, batch)
        self._end(None)

    # -- a debate round: challenge, response

    def _begin_round(self) -> None:
        run = self._run
        # The most a round can need: new experts and both standing roles, a reminder, everybody's answer, a ruling.
        most_calls = (
            len(run.roster.waiting)
            + STANDING_AGENTS
            + 1
            + len(run.roster.active)
            + STANDING_AGENTS
            + 1
        )
        if self._budget.refusal(most_calls) is not None:
            self._warn(BUDGET_REACHED)
            self._begin_ruling(BUDGET)
            return
        run.begin_round()
        self._log_dispatch()
        added, run.roster.waiting = run.roster.waiting, []
        self._ask(challenge_asks(run, added), self._after_challenges)

    def _after_challenges(self) -> None:
        run = self._run
        batch = self._settled_batch()
        replies = batch.in_order()
        take_items(run, replies)
        settle(run, batch)
        spoken = [
            one for one in replies if one.ask.call.key.role is calls.Role.CHALLENGER
        ]
        missing = run.debate.owed(
            shown for one in spoken for shown in one.ask.shown_ids
        )
        if spoken and missing:
            self._ask([reminder_ask(run, spoken[-1], missing)], self._after_reminder)
        else:
            self._begin_responses()

    def _after_reminder(self) -> None:
        batch = self._settled_batch()
        note_trouble(self._run, batch)
        for reply in batch.in_order():
            self._run.debate.take_challenges(
                reply.value["challenges"], self._run.round, by=CHALLENGER
            )
        self._begin_responses()

    def _begin_responses(self) -> None:
        run = self._run
        for entry in run.debate.owed(entry.id for entry in run.ledger.live()):
            entry.unchallenged = entry.state.origin_round < run.round
        asks = [
            ask for owner in run.owners_to_answer() for ask in response_asks(run, owner)
        ]
        self._ask(asks, self._after_responses)

    def _after_responses(self) -> None:
        run = self._run
        batch = self._settled_batch()
        take_responses(run, batch.in_order())
        settle(run, batch)
        stop = self.stop_reason()
        run.debate.finish_round(run.round, stop)
        if stop is None:
            self._begin_round()
        else:
            self._begin_ruling(stop)

    def stop_reason(self) -> str | None:
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
        self._run.roster.leave_unexplored()
        if self._run.debate.awaits_ruling:
            self._ask(ruling_asks(self._run), self._after_ruling)
        else:
            self._end(stop)

    def _after_ruling(self) -> None:
        batch = self._settled_batch()
        note_trouble(self._run, batch)
        take_rulings(self._run, batch.in_order())
        self._end(self._ending)

    def _cut_short(self, reason: str) -> None:
        """Time is up: keep what arrived of the step that was running; its round does not count as finished.

        `reason`: why a seat that has nothing is skipped.
        """
        run = self._run
        batch = self._settled_batch()
        if self._shared:
            batch = self._first_answers()
        step = next((ask.call.key.step for ask in batch.asks), calls.Step.ANALYSIS)
        if step is calls.Step.ANALYSIS and not covered_domains(batch):
            self._finish(skipped_report(self.task, self._facts(), reason))
            return
        take = {
            calls.Step.RESPONSE: take_responses,
            calls.Step.RULING: take_rulings,
        }.get(step, take_items)
        take(run, batch.in_order())
        settle(run, batch)
        run.roster.leave_unexplored()
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

    def _settled_batch(self) -> CallBatch:
        if self._batch is None:
            raise AssertionError("a step ends only after its questions were put")
        return self._batch

    def _log_dispatch(self, mode: str = "multi-agent") -> None:
        run = self._run
        self._log(
            "dispatch",
            mode=mode,
            domains=list(run.roster.active),
            connection=self.seat.connection,
            round=max(run.round, FIRST_ROUND),
        )
