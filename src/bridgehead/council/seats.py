"""Which kind of run a seat gets."""

from __future__ import annotations

import msgspec

from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import TaskType
from bridgehead.council.bridge_run import BridgeRun
from bridgehead.council.calls import Seat
from bridgehead.council.five_phase import DEFAULT, Preset
from bridgehead.council.five_phase_run import FivePhaseRun
from bridgehead.council.multi_model import MultiModelRun
from bridgehead.council.seat_run import SeatRun
from bridgehead.council.surroundings import Surroundings
from bridgehead.council.tally import Budget


def run_for(
    seat: Seat,
    task: BridgeInput,
    around: Surroundings,
    *,
    budget: Budget | None = None,
    seating: int = 1,
    debate: Preset | None = None,
) -> SeatRun:
    """Several models make a council inside the seat; agents that can write to each other, and a standalone
    `debate`, use the five-phase engine; everybody else the usual rounds (council §9, §12.1, §17)."""
    if task.task_type is TaskType.IMPLEMENTATION:
        # Several models would make several changes in one checkout.
        seat = msgspec.structs.replace(seat, models=seat.models[:1])
    if debate is not None or seat.messaging:
        return FivePhaseRun(seat, task, around, budget=budget, seating=seating, preset=debate or DEFAULT)
    kind = MultiModelRun if len(seat.models) > 1 else BridgeRun
    return kind(seat, task, around, budget=budget, seating=seating)
