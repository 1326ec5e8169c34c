"""Which kind of run a seat gets."""

from __future__ import annotations

from bridgehead.contract.task import BridgeInput
from bridgehead.council.bridge_run import BridgeRun
from bridgehead.council.calls import Seat
from bridgehead.council.multi_model import MultiModelRun
from bridgehead.council.seat_run import SeatRun
from bridgehead.council.surroundings import Surroundings
from bridgehead.council.tally import Budget


def run_for(
    seat: Seat, task: BridgeInput, around: Surroundings, *, budget: Budget | None = None, seating: int = 1
) -> SeatRun:
    """Several models make a council inside the seat; everybody else debates (council §9, §12.1)."""
    kind = MultiModelRun if len(seat.models) > 1 else BridgeRun
    return kind(seat, task, around, budget=budget, seating=seating)
