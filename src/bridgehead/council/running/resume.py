"""What a run that is taken up again still has to do: asked for in an earlier process and answered by nobody. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bridgehead.council.calls import (
    Call,
    CallKey,
    Input,
    Seating,
    SeatPending,
    SeatReady,
    SeatReported,
    Step,
    Turn,
    UserQuestion,
)


@dataclass(frozen=True, slots=True)
class Unfinished:
    calls: Mapping[str, tuple[Call, ...]]
    """By seat; a seat that was ready has to be found again first."""
    seatings: tuple[Seating, ...]
    pending: tuple[SeatPending, ...]
    """Rigs whose answers may have come in meanwhile."""
    question: UserQuestion | None


def unfinished(
    turns: Sequence[Turn], earlier: Sequence[Input], *, outstanding: Sequence[CallKey], waiting_for: Sequence[str]
) -> Unfinished:
    """What is left of `turns` after `earlier`, given what the run still waits for."""
    asked = {one.seat: one for one in earlier if isinstance(one, SeatPending)}
    return Unfinished(
        calls=_calls(turns, outstanding, set(waiting_for)),
        seatings=_seatings(turns, earlier),
        pending=tuple(one for one in asked.values() if one.seat in waiting_for),
        question=turns[-1].question,
    )


def _calls(turns: Sequence[Turn], outstanding: Sequence[CallKey], waiting: set[str]) -> dict[str, tuple[Call, ...]]:
    # A seat that was shut out has left calls behind that nobody waits for.
    wanted = {key for key in outstanding if key.step is Step.STAGE_B or key.seat in waiting}
    latest = {call.key: call for turn in turns for call in turn.calls if call.key in wanted}
    seats = dict.fromkeys(key.seat for key in latest)
    return {seat: tuple(call for key, call in latest.items() if key.seat == seat) for seat in seats}


def _seatings(turns: Sequence[Turn], earlier: Sequence[Input]) -> tuple[Seating, ...]:
    """Checks that were asked for and never came back; each outcome answers one."""
    answered = [_checked_bridge(happened) for happened in earlier]
    left = []
    for seating in (one for turn in turns for one in turn.seatings):
        if seating.seat in answered:
            answered.remove(seating.seat)
        else:
            left.append(seating)
    return tuple(left)


def _checked_bridge(happened: Input) -> str | None:
    match happened:
        case SeatReady(seat=seat):
            return seat.name
        case SeatReported(report=report):
            return report.bridge
        case SeatPending(seat=name):
            return name
        case _:
            return None
