"""Who takes part in a council, and what becomes of those who halted (council §3, §14.8).

A seat never turns its own HALTED into SKIPPED; that is decided here, with the user's answer or without one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from bridgehead.contract.words import Status
from bridgehead.council.calls import UserQuestion

MOST_RETRIES: Final = 3
DISABLED: Final = "disabled_in_settings"
NOTHING_COMPLETED: Final = "No bridges returned COMPLETED results"


class Choice(StrEnum):
    SKIP = "skip"
    RETRY = "retry"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class SeatStatus:
    """How one seat stands."""

    name: str
    status: Status
    skip_reason: str | None = None
    halt_reason: str | None = None
    halt_message: str | None = None
    retries: int = 0
    converted: bool = False
    """SKIPPED by us, without an answer of the user."""


class Attendance:
    """The statuses of all seats in dispatch order; pending ones have no entry until they answer."""

    def __init__(self, seats: Sequence[str], *, interactive: bool) -> None:
        self.interactive = interactive
        self.aborted_by: str | None = None
        self._order = tuple(seats)
        self._seats: dict[str, SeatStatus] = {}

    def reported(self, seat: SeatStatus) -> None:
        """A seat came back, for the first time or after a retry."""
        earlier = self._seats.get(seat.name)
        self._seats[seat.name] = replace(
            seat, retries=earlier.retries if earlier else 0
        )
        if seat.status is Status.ABORTED and self.aborted_by is None:
            self.aborted_by = seat.name

    def go_on(self) -> None:
        """A seat is to be seated again: the user has taken an earlier abort back."""
        self.aborted_by = None

    def question(self) -> UserQuestion | None:
        """The next halted seat, as it is put to the user; None when nobody is left to ask about."""
        if self.aborted_by is not None:
            return None
        seat = next(
            (seat for seat in self._known() if seat.status is Status.HALTED), None
        )
        if seat is None:
            return None
        return UserQuestion(
            seat.name,
            seat.halt_reason or "",
            seat.halt_message or "",
            tuple(map(str, _choices(seat))),
        )

    def answered(self, name: str, answer: str | None) -> bool:
        """The user typed `answer` (None: end of input); whether the seat is to be seated again. Else ask on."""
        seat = self._seats[name]
        if answer is None:
            self.convert(name)
            return False
        chosen = answer.strip().casefold()
        if chosen not in _choices(seat):
            return False
        if chosen == Choice.SKIP:
            self._seats[name] = replace(
                seat, status=Status.SKIPPED, skip_reason="user_chose_skip"
            )
        elif chosen == Choice.ABORT:
            self.aborted_by = name
        else:
            self._seats[name] = replace(seat, retries=seat.retries + 1)
        return chosen == Choice.RETRY

    def convert(self, name: str) -> SeatStatus:
        """Nobody can be asked: HALTED becomes SKIPPED and is recorded as converted."""
        seat = self._seats[name]
        skipped = replace(
            seat,
            status=Status.SKIPPED,
            skip_reason=f"halted:{seat.halt_reason}",
            converted=True,
        )
        self._seats[name] = skipped
        return skipped

    @property
    def abort_reason(self) -> str | None:
        """Why there is no report, or None when there is one."""
        if self.aborted_by is not None:
            return f"user_abort:{self.aborted_by}"
        return None if self.available else NOTHING_COMPLETED

    @property
    def invoked(self) -> tuple[str, ...]:
        return tuple(
            seat.name for seat in self._known() if seat.skip_reason != DISABLED
        )

    @property
    def available(self) -> tuple[str, ...]:
        return self._with_status(Status.COMPLETED)

    @property
    def skipped(self) -> tuple[str, ...]:
        return self._with_status(Status.SKIPPED)

    @property
    def skipped_by_themselves(self) -> tuple[str, ...]:
        """Skipped without those we converted; an ABORTED report lists the latter as halted."""
        return tuple(
            seat.name
            for seat in self._known()
            if seat.status is Status.SKIPPED and not seat.converted
        )

    @property
    def halted(self) -> tuple[str, ...]:
        return tuple(
            seat.name
            for seat in self._known()
            if seat.converted or seat.status is Status.HALTED
        )

    @property
    def skip_reasons(self) -> Mapping[str, str]:
        return {
            seat.name: seat.skip_reason
            for seat in self._known()
            if seat.skip_reason is not None
        }

    @property
    def auto_skipped(self) -> tuple[dict[str, str], ...]:
        return tuple(
            {"bridge": seat.name, "halt_reason": seat.halt_reason or ""}
            for seat in self._known()
            if seat.converted
        )

    @property
    def partial_coverage(self) -> bool:
        return bool(self.auto_skipped)

    def _known(self) -> list[SeatStatus]:
        return [self._seats[seat] for seat in self._order if seat in self._seats]

    def _with_status(self, status: Status) -> tuple[str, ...]:
        return tuple(seat.name for seat in self._known() if seat.status is status)


def _choices(seat: SeatStatus) -> tuple[Choice, ...]:
    if seat.retries >= MOST_RETRIES:
        return (Choice.SKIP, Choice.ABORT)
    return (Choice.SKIP, Choice.RETRY, Choice.ABORT)
