"""What every kind of seat run has in common: one wave of calls at a time, a log, a tally, an end.

Subclasses say what comes first (`_begin`), and what to make of what is there when time is up (`_cut_short`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from bridgehead.contract.report import BridgeReport
from bridgehead.contract.task import BridgeInput
from bridgehead.contract.timeouts import timeout_skip_reason
from bridgehead.council.bridge_report import SeatFacts
from bridgehead.council.calls import (
    Call,
    CallFailed,
    CallKey,
    DeadlineReached,
    GivenUp,
    Interrupted,
    Reply,
    Role,
    Seat,
    SeatEvent,
    Step,
    Turn,
)
from bridgehead.council.items import Intake
from bridgehead.council.prompts.debate import repair_prompt
from bridgehead.council.prompts.scene import Scene
from bridgehead.council.prompts.template import Safe
from bridgehead.council.surroundings import Surroundings
from bridgehead.council.tally import Budget, Tally
from bridgehead.council.wave import Ask, Wave

NO_ANSWER: Final = "no_answer"
INTERRUPTED: Final = "interrupted"

SeatInput = Reply | CallFailed | DeadlineReached | GivenUp | Interrupted


class SeatRun(ABC):
    """One seat from its first call to its report. Feed it; carry out the turns it returns."""

    def __init__(
        self,
        seat: Seat,
        task: BridgeInput,
        surroundings: Surroundings,
        *,
        budget: Budget | None = None,
        seating: int = 1,
    ) -> None:
        self.seat = seat
        self.task = task
        self.report: BridgeReport | None = None
        self._surroundings = surroundings
        self._seating = seating
        self._budget = budget or Budget()
        self._tally = Tally()
        self._budget.watch(self._tally)
        material = surroundings.material.for_seat(reads_files=seat.reads_files)
        self._scene = Scene(task, material, surroundings.secret)
        self._intake = Intake(task)
        self._warnings: list[str] = [*seat.warnings, *material.warnings]
        self._sessions: dict[str, str] = {}
        self._models_seen: list[str] = []
        """Models that really answered, where the runtime says which."""
        self._started_at = self._at = ""
        self._events: list[SeatEvent] = []
        self._calls: list[Call] = []
        self._cancelled: tuple[CallKey, ...] = ()
        self._wave: Wave | None = None
        self._then: Callable[[], None] | None = None

    def start(self, at: str) -> Turn:
        """Begin; returns the calls of Round 1."""
        self._started_at = self._at = at
        self._log("bridge_start", bridge=self.seat.bridge, session_id=self.task.session_id, timestamp=at)
        self._begin()
        return self._turn()

    def feed(self, happened: SeatInput) -> Turn:
        """Something happened; returns what is to be done now. After the report everything is ignored."""
        if self.report is not None or self._wave is None:
            return Turn()
        self._at = happened.at
        if isinstance(happened, Reply) and happened.model and happened.model not in self._models_seen:
            self._models_seen.append(happened.model)
        if isinstance(happened, Reply | CallFailed):
            self._calls += self._wave.received(happened)
            self._go_on()
        else:
            self._stop_waiting(happened)
        return self._turn()

    @property
    def outstanding(self) -> tuple[CallKey, ...]:
        """Keys of the calls that have no result yet."""
        return self._wave.outstanding if self._wave is not None and self.report is None else ()

    @abstractmethod
    def _begin(self) -> None:
        """Ask the first questions, or finish."""

    @abstractmethod
    def _cut_short(self, reason: str) -> None:
        """Time is up and the wave has been settled: finish with what is there. `reason`: why a seat is skipped."""

    def _stop_waiting(self, happened: DeadlineReached | GivenUp | Interrupted) -> None:
        if isinstance(happened, DeadlineReached):
            reason = timeout_skip_reason(self.seat.timeout_seconds)
            self._log("deadline_reached", detail=f"after {self.seat.deadline_seconds} s")
        else:
            reason = NO_ANSWER if isinstance(happened, GivenUp) else INTERRUPTED
        if self._wave is not None:
            self._cancelled = self._wave.give_up(reason)
        self._cut_short(reason)

    def _ask(self, asks: Sequence[Ask], then: Callable[[], None]) -> None:
        """Put questions together; `then` goes on when all are settled."""
        self._wave = Wave(
            asks,
            self._log,
            self._tally,
            self._repair,
            keeps_history=self.seat.keeps_history,
            sessions=self._sessions,
        )
        self._then = then
        self._calls += self._wave.start()
        self._go_on()

    def _go_on(self) -> None:
        if self._wave is not None and self._wave.is_done and self._then is not None and self.report is None:
            then, self._then = self._then, None
            then()

    def _key(self, *, round_number: int, step: Step, role: Role, domain: str, **more: Any) -> CallKey:
        return CallKey(
            bridge=self.seat.bridge,
            round=round_number,
            step=step,
            role=role,
            domain=domain,
            seating=self._seating,
            **more,
        )

    def _repair(self, key: CallKey, previous: Safe, answer: str) -> Safe:
        return repair_prompt(self._scene, key, previous, answer)

    def _log(self, event: str, **fields: Any) -> None:
        self._events.append(SeatEvent(self.seat.bridge, event, fields))

    def _warn(self, code: str) -> None:
        if code not in self._warnings:
            self._warnings.append(code)
            self._log("warning", detail=code)

    def _facts(self, **more: Any) -> SeatFacts:
        seat = self.seat
        seen = {"models_used": tuple(self._models_seen)} if self._models_seen else {}
        extra = {**seen, **seat.extra, **more.pop("extra", {})}
        return SeatFacts(
            bridge=seat.bridge,
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
        self._log(
            "bridge_complete",
            status=report.status.value,
            verdict=report.verdict,
            output_count=len(report.outputs),
            reason=report.skip_reason,
            timestamp=self._at,
        )

    def _turn(self) -> Turn:
        turn = Turn(
            events=tuple(self._events),
            bridge_reports=(self.report,) if self.report is not None else (),
            cancelled=self._cancelled,
            calls=tuple(self._calls),
        )
        self._events, self._calls, self._cancelled = [], [], ()
        return turn
