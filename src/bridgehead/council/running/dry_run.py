"""Every call a council would make, before it makes one (council §24): what is certain, and what may come on top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bridgehead.contract.timeouts import MAX_ROUNDS, STANDING_AGENTS
from bridgehead.contract.words import CouncilProtocol, Intensity
from bridgehead.council.calls import Call, Seat
from bridgehead.council.council import run_for
from bridgehead.council.debate.five_phase import ROUNDS
from bridgehead.council.debate.roster import MOST_PER_RUN
from bridgehead.council.interfaces import RunInputs
from bridgehead.council.request.plan import CouncilPlan
from bridgehead.council.synthesis.cross_challenge import choose_coordinator, most_calls


@dataclass(frozen=True, slots=True)
class PlannedSeat:
    """One seat: its certain first calls, and the most its later steps can need (a repair per call not counted)."""

    name: str
    connection: str
    models: tuple[str | None, ...]
    first_calls: tuple[Call, ...]
    most_later_calls: int

    @property
    def most_calls(self) -> int:
        return len(self.first_calls) + self.most_later_calls


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a run would do with the seats that are available now."""

    seats: tuple[PlannedSeat, ...]
    coordinator: str | None
    stage_b_calls: int
    no_calls: Mapping[str, str]
    """Seats that make no model call, with the reason."""
    refusals: Mapping[str, str] = field(default_factory=dict)
    """Seats whose last call was refused, with the reason (council §19)."""
    domains: Mapping[str, str] = field(default_factory=dict)
    """What is looked at, and why."""
    notes: tuple[str, ...] = ()
    protocol: CouncilProtocol = CouncilProtocol.FULL
    call_prices: Mapping[str, float] = field(default_factory=dict)
    """What a call of a seat cost on average in earlier councils, in US dollars, where that is known."""

    @property
    def cost_usd(self) -> tuple[float, float]:
        """At least and at most, at those prices; seats without a price are left out."""
        priced = [(self.call_prices.get(seat.name, 0.0), seat) for seat in self.seats]
        second_look = self.stage_b_calls * self.call_prices.get(
            self.coordinator or "", 0.0
        )
        least = sum(price * len(seat.first_calls) for price, seat in priced)
        return least, sum(
            price * seat.most_calls for price, seat in priced
        ) + second_look

    @property
    def first_calls(self) -> int:
        return sum(len(seat.first_calls) for seat in self.seats)

    @property
    def most_calls(self) -> int:
        return sum(seat.most_calls for seat in self.seats) + self.stage_b_calls


def plan_calls(
    plan: CouncilPlan,
    inputs: RunInputs,
    ready: Sequence[Seat],
    no_calls: Mapping[str, str],
    *,
    at: str,
) -> DryRun:
    """List the calls for the seats that passed pre-flight; nothing is called."""
    seats = ready[:1] if plan.takes_first_available else ready
    coordinator = choose_coordinator(
        {seat.name: seat for seat in seats}, (), plan.coordinator
    )
    protocol = plan.protocol_of(len(seats))
    shared = protocol is CouncilProtocol.SHARED
    is_quick = plan.task.intensity is Intensity.QUICK
    skipped = plan.skips_stage_b or (shared and is_quick)
    debated = coordinator is not None and not skipped
    preset = plan.preset if plan.is_debate else None
    return DryRun(
        seats=tuple(
            PlannedSeat(
                name=seat.name,
                connection=seat.connection,
                models=seat.models,
                first_calls=run_for(
                    seat, plan.task, inputs, debate=preset, shared=shared
                )
                .start(at)
                .calls,
                most_later_calls=int(debated) if shared else _later_calls(seat, plan),
            )
            for seat in seats
        ),
        coordinator=coordinator.name if coordinator is not None and debated else None,
        stage_b_calls=_second_look_calls(plan, shared=shared) if debated else 0,
        no_calls=no_calls,
        protocol=protocol,
        domains=plan.domain_reasons,
        notes=plan.notes,
    )


def _second_look_calls(plan: CouncilPlan, *, shared: bool) -> int:
    """One challenge where calls are shared; each seat's answer to it is among its own."""
    return 1 if shared else most_calls(plan.task.intensity)


def _later_calls(seat: Seat, plan: CouncilPlan) -> int:
    """Challenge and response for everybody, a reminder, in every round, and one ruling; quick: one consolidation."""
    domains = len(plan.task.domains)
    rounds = MAX_ROUNDS[plan.task.intensity]
    if plan.is_debate or seat.messaging:
        return (ROUNDS[plan.task.intensity] + 1) * (domains + STANDING_AGENTS)
    if len(seat.models) > 1:
        rounds = 1 if seat.debate_merged and rounds else 0
        return rounds * (2 * (domains + STANDING_AGENTS) + 1) + rounds
    if rounds == 0 or plan.is_parallel_workflow:
        return 1
    agents = domains + MOST_PER_RUN + STANDING_AGENTS
    return rounds * (STANDING_AGENTS + 1 + agents) + MOST_PER_RUN + 1
