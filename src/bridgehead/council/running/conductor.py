"""Runs a council: carries out what the pure run asks for, feeds it what happened, and stops when asked to (council
§20).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import anyio
from anyio.abc import TaskGroup

from bridgehead.contract.words import ErrorClass
from bridgehead.council.calls import (
    Call,
    CallKey,
    DeadlineReached,
    GivenUp,
    Input,
    Interrupted,
    Questioned,
    Result,
    Retried,
    SeatEvent,
    Seating,
    SeatPending,
    SeatReady,
    SeatReported,
    Step,
    Turn,
    UserAnswered,
    UserQuestion,
)
from bridgehead.council.council import COUNCIL_LOG, CouncilRun
from bridgehead.council.findings.tree import stopping_when
from bridgehead.council.interfaces import CallJournal, HostRequests, MemoryJournal
from bridgehead.council.reporting.report import AbortedReport, CouncilReport
from bridgehead.council.running.artifacts import RunLog
from bridgehead.council.running.call_runner import CallRunner, as_result
from bridgehead.council.running.masking import (
    FromSeat,
    Said,
    mask_event,
    mask_input,
    mask_words,
)
from bridgehead.council.runtimes.base import HostSeat
from bridgehead.council.runtimes.exchange import (
    CallOutcome,
    RuntimeAnswer,
    RuntimeRefusal,
    RuntimeRequest,
)
from bridgehead.council.runtimes.rig import RigRejected
from bridgehead.council.seating.answer_schemas import schema_of
from bridgehead.council.seating.preflight import Ready
from bridgehead.council.seating.seating import OwnReport, Posted, SeatOutcome, Seats
from bridgehead.host.clock import Clock, SystemClock, iso_ms
from bridgehead.host.command import Cancel
from bridgehead.host.secrets_scan import without_secrets

PROGRESS: Final = "progress"
# These shut a seat out before it began: another connection may do, or a person must act (council §4.1, §19).
_SHUT_OUT: Final = (ErrorClass.AUTH, ErrorClass.RETIRED)
STOPPED_FROM_OUTSIDE: Final = signal.SIGINT.name
"""A token that was cancelled counts as Ctrl-C: what is there is kept and reported."""
PROGRESS_SECONDS: Final = 10.0
DEFAULT_CONCURRENCY: Final = 8


@dataclass
class Seated:
    """A seat while it sits."""

    ready: Ready
    places: anyio.CapacityLimiter
    deadline: anyio.CancelScope
    has_answered: bool = False
    shut_out: bool = False

    @property
    def name(self) -> str:
        return self.ready.seat.name


@dataclass
class Running:
    """A call under way."""

    call: Call
    scope: anyio.CancelScope
    since: float


@dataclass
class ActiveCalls:
    checking: dict[str, None] = field(default_factory=dict)
    """Seats in pre-flight, and the static seat while it analyses, in the order they began."""
    seated: dict[str, Seated] = field(default_factory=dict)
    running: dict[CallKey, Running] = field(default_factory=dict)

    def calls_of(self, seat: str) -> list[Running]:
        return [
            running
            for running in self.running.values()
            if running.call.key.seat == seat
        ]

    def progress(self, now: float) -> Iterator[SeatEvent]:
        """A line per live seat. One that is still being looked at has no log yet; the council speaks for it."""
        if self.checking:
            yield SeatEvent(COUNCIL_LOG, PROGRESS, {"looking_at": list(self.checking)})
        oldest: dict[str, Running] = {}
        for running in self.running.values():
            oldest.setdefault(running.call.key.seat, running)
        for seat, running in oldest.items():
            key = running.call.key
            elapsed = round(now - running.since, 1)
            facts = {"round": key.round, "role": key.role.value, "elapsed_s": elapsed}
            yield SeatEvent(seat, PROGRESS, facts)


def shut_out(call: Call, seated: Seated, outcome: CallOutcome) -> RuntimeRefusal | None:
    """The refusal that ends a seat before any of its calls was answered."""
    if isinstance(outcome, RuntimeRefusal) and outcome.error_class in _SHUT_OUT:
        return None if seated.has_answered or call.key.step is Step.STAGE_B else outcome
    return None


async def signals_to_stop(noticed: Callable[[int], None]) -> AsyncIterator[str]:
    """The names of the signals that arrive; only in a process's main thread.

    `noticed` is called at once, also while the event loop has no time: what keeps it can look whether to give up.
    Afterwards the signals mean what they meant before, but for a SIGTERM that is already obeyed: `timeout` and service
    managers send it twice, and the second must not cut off the report.
    """
    stopping = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in stopping}
    try:
        with anyio.open_signal_receiver(*stopping) as signals:
            for number in stopping:
                signal.signal(number, lambda number, _: noticed(number))
            async for arrived in signals:
                if arrived is signal.SIGTERM:
                    before[signal.SIGTERM] = signal.SIG_IGN
                yield signal.Signals(arrived).name
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def token_to_stop(token: Cancel) -> AsyncIterator[str]:
    """One Ctrl-C when `token` is cancelled, whichever thread does it and however early."""
    cancelled = anyio.Event()
    loop = asyncio.get_running_loop()

    def wake() -> None:
        loop.call_soon_threadsafe(cancelled.set)

    with token.waking(wake):
        if not token.cancelled:
            await cancelled.wait()
        yield STOPPED_FROM_OUTSIDE


@dataclass(frozen=True, slots=True)
class Reported:
    """The run has a report; seats of rigs may still be pending."""

    report: CouncilReport | AbortedReport


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nothing more can be done without somebody's answer (exit 42)."""

    calls: tuple[Call, ...]
    seats: tuple[str, ...]


Ending = Reported | Waiting
Wish = Retried | GivenUp | Questioned


class AskUser(Protocol):
    """Puts a halted seat to the user and waits, until `cancel`; None is the end of input."""

    def __call__(self, question: UserQuestion, cancel: Cancel) -> str | None: ...


@dataclass
class Means:
    """What a conductor is handed besides the run and its seats; every default does nothing."""

    log: RunLog = field(default_factory=RunLog)
    journal: CallJournal = field(default_factory=MemoryJournal)
    desk: HostRequests | None = None
    ask_user: AskUser | None = None
    clock: Clock = field(default_factory=SystemClock)
    mask: Callable[[str], str] = str
    max_concurrency: int = DEFAULT_CONCURRENCY
    handle_signals: bool = False
    stop: Cancel | None = None


async def conduct(
    run: CouncilRun, seats: Seats, means: Means, wishes: Sequence[Wish] = ()
) -> Ending:
    """Take a run as far as it goes in this process; `wishes` are what a resuming user asks for besides.

    A seat is given up only when everything else is done and it still waits.
    """
    async with CallRunner() as runner:
        return await Conductor(run, seats, means, runner).conduct(wishes)


class Conductor:
    """One run in one process. Everything but waiting happens in the order in which it is fed."""

    def __init__(
        self, run: CouncilRun, seats: Seats, means: Means, runner: CallRunner
    ) -> None:
        self._run = run
        self._seats = seats
        self._means = means
        self._runner = runner
        self._work = ActiveCalls()
        self._posted: dict[CallKey, Call] = {}
        self._stopped: set[CallKey] = set()
        self._given_up: set[str] = set()
        self._under_way = 0
        self._ending: Ending | None = None
        self._signalled = False
        self._tasks: TaskGroup

    async def conduct(self, wishes: Sequence[Wish]) -> Ending:
        stop = self._means.stop
        with stopping_when(
            lambda: self._signalled or (stop is not None and stop.cancelled)
        ):
            try:
                return await self._conduct(wishes)
            except BaseExceptionGroup as group:
                if group.subgroup(KeyboardInterrupt) is not None:
                    raise anyio.get_cancelled_exc_class() from None  # the interrupt itself is on its way already
                first: BaseException = group
                while isinstance(first, BaseExceptionGroup):
                    first = first.exceptions[0]
                raise first from group  # what went wrong is said by its own name

    def _notice_signal(self, number: int) -> None:
        # The first one was not heeded yet: the event loop has no time, and a person loses patience.
        is_unheeded = self._signalled and self._ending is None
        if is_unheeded and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._signalled = True

    async def _conduct(self, wishes: Sequence[Wish]) -> Ending:
        async with anyio.create_task_group() as self._tasks:
            if self._means.handle_signals:
                self._tasks.start_soon(self._heed, signals_to_stop(self._notice_signal))
            if self._means.stop is not None:
                self._tasks.start_soon(self._heed, token_to_stop(self._means.stop))
            self._tasks.start_soon(self._show_progress)
            self._start(self._begin, wishes)
        assert self._ending is not None
        return self._ending

    # -- taking a run up

    async def _begin(self, wishes: Sequence[Wish]) -> None:
        """Start, or go on: what the journal knows is fed in silence, what it does not know is done."""
        earlier = self._means.journal.inputs()
        first = self._run.start(earlier[0].at if earlier else self._now())
        if not earlier:
            self._carry_out(first)
            return
        left = self._run.unfinished(
            [first, *(self._run.feed(happened) for happened in earlier)], earlier
        )
        for seat, calls in left.calls.items():
            self._start(self._sit_down_again, seat, calls)
        for seating in left.seatings:
            self._start(self._seat, seating)
        for pending in left.pending:
            self._start(self._look_for_answer, pending)
        if left.question is not None:
            self._start(self._put_question, left.question)
        for wish in wishes:
            if isinstance(wish, GivenUp):
                self._given_up.add(wish.seat)
            else:
                self._feed(wish)

    async def _sit_down_again(self, seat: str, calls: Sequence[Call]) -> None:
        """A seat that was ready in an earlier process: find its connection again, then make its calls."""
        outcome = await self._checked(seat)
        if isinstance(outcome, Ready):
            self._take_seat(outcome)
            for call in calls:
                self._place(call)
            if self._means.desk is not None and self._posted:
                for result in self._means.desk.answers(list(self._posted.values())):
                    self._posted.pop(result.key, None)
                    self._feed(result)
            return
        reason = outcome.report.skip_reason if isinstance(outcome, OwnReport) else None
        for call in calls:
            self._deliver(
                call,
                RuntimeRefusal(
                    ErrorClass.OTHER, f"{seat} no longer exists", reason=reason
                ),
                0.0,
            )

    async def _look_for_answer(self, pending: SeatPending) -> None:
        """A rig that was asked in an earlier process."""
        found = await self._runner.in_thread(
            lambda _cancel: self._seats.rig_answer(pending.seat, pending.request)
        )
        if isinstance(found, RigRejected):
            detail = f"rig_answer_rejected:{found.reason}"
            self._means.log.write(
                SeatEvent(pending.seat, "warning", {"detail": detail})
            )
        elif found is not None:
            self._take_report(found)

    # -- carrying out a turn

    def _feed(self, happened: Input) -> None:
        if self._ending is None:
            if isinstance(happened, FromSeat):
                happened = self._admit(happened)
            self._means.journal.fed(happened)
            self._carry_out(self._run.feed(happened))

    def _admit(self, happened: Said) -> Said:
        """The one door for what seats say: no secret comes in, and what was masked is said, never shown."""
        admitted, note = mask_input(happened, self._means.mask)
        if note is not None:
            self._means.log.write(note)
        return admitted

    def _carry_out(self, turn: Turn) -> None:
        for event in turn.events:
            self._means.log.write(event)
        for report in turn.seat_reports:
            self._means.log.write_seat(report)
            if (seated := self._work.seated.get(report.bridge)) is not None:
                seated.deadline.cancel()
        for key in turn.cancelled:
            self._posted.pop(key, None)
            self._stopped.add(key)  # it may still be waiting for its place
            if (running := self._work.running.get(key)) is not None:
                running.scope.cancel()
        for seating in turn.seatings:
            self._start(self._seat, seating)
        for call in turn.calls:
            self._place(call)
        if turn.question is not None:
            self._start(self._put_question, turn.question)

    def _place(self, call: Call) -> None:
        """Give the call to whoever makes it: a task, or the desk of the agent that runs us."""
        seated = self._work.seated.get(call.key.seat)
        if seated is None:
            self._start(self._sit_down_again, call.key.seat, [call])
        elif not isinstance(seated.ready.connection, HostSeat):
            self._start(self._make_call, call, seated)
        elif self._means.desk is None:
            self._deliver(
                call,
                RuntimeRefusal(
                    ErrorClass.OTHER, "no handler takes the host seat's requests"
                ),
                0.0,
            )
        else:
            self._posted[call.key] = shown = self._without_secrets(call)
            self._means.desk.post(shown)

    def _without_secrets(self, call: Call) -> Call:
        """The last look at every prompt, whoever wrote what is in it; what is left out is said, never shown."""
        prompt, kinds = without_secrets(call.prompt)
        if not kinds:
            return call
        fields = {
            "detail": f"secret_left_out:{','.join(kinds)}",
            "round": call.key.round,
        }
        self._means.log.write(SeatEvent(call.key.seat, "warning", fields))
        return replace(call, prompt=prompt)

    async def _put_question(self, question: UserQuestion) -> None:
        ask = self._means.ask_user
        answer = (
            None
            if ask is None
            else await self._runner.in_thread(lambda cancel: ask(question, cancel))
        )
        self._feed(UserAnswered(seat=question.seat, answer=answer, at=self._now()))

    # -- seats

    async def _seat(self, seating: Seating) -> None:
        if seating.number > 1:
            self._means.log.new_seating(seating.seat)
        self._settle(seating.seat, await self._checked(seating.seat))

    async def _checked(self, seat: str) -> SeatOutcome:
        self._work.checking[seat] = None
        try:
            return await self._runner.in_thread(
                lambda cancel: self._seats.check(seat, cancel)
            )
        finally:
            del self._work.checking[seat]

    def _settle(self, seat: str, outcome: SeatOutcome) -> None:
        match outcome:
            case Ready():
                self._means.log.hold(seat, self._admit_events(outcome.events))
                self._take_seat(outcome)
                self._feed(SeatReady(seat=outcome.seat, at=self._now()))
            case OwnReport():
                self._take_report(outcome)
            case Posted(request):
                self._feed(SeatPending(seat=seat, request=request, at=self._now()))

    def _take_seat(self, ready: Ready) -> None:
        places = anyio.CapacityLimiter(self._means.max_concurrency)
        seated = Seated(ready, places, anyio.CancelScope())
        self._work.seated[seated.name] = seated
        # Time spent waiting for the host does not count against its seat (council §4).
        if not isinstance(ready.connection, HostSeat):
            self._tasks.start_soon(self._keep_deadline, seated)

    async def _keep_deadline(self, seated: Seated) -> None:
        with seated.deadline:
            await anyio.sleep(seated.ready.seat.deadline_seconds)
            self._feed(DeadlineReached(seat=seated.name, at=self._now()))

    def _take_report(self, own: OwnReport) -> None:
        made = SeatReported(report=own.report, verified=own.verified, at=self._now())
        reported, note = mask_input(made, self._means.mask)
        events = self._admit_events(own.events)
        if note is not None:
            events.append(note)
        self._means.log.write_own_report(reported.report, events)
        self._feed(reported)

    def _admit_events(self, events: Sequence[SeatEvent]) -> list[SeatEvent]:
        return [mask_event(event, self._means.mask) for event in events]

    async def _seat_otherwise(
        self, seated: Seated, call: Call, refused: RuntimeRefusal
    ) -> None:
        """No call of this seat was answered and it was refused: try its next connection, else it is out."""
        if seated.shut_out:
            return
        seated.shut_out = True
        self._means.log.told(self._result(call, refused, 0.0))
        seated.deadline.cancel()
        for running in self._work.calls_of(seated.name):
            running.scope.cancel()
        outcome = await self._runner.in_thread(
            lambda _cancel: self._seats.check_again(
                seated.name, refused, seated.ready.connection
            )
        )
        self._settle(seated.name, outcome)

    # -- calls

    async def _make_call(self, call: Call, seated: Seated) -> None:
        with anyio.CancelScope() as scope:
            async with seated.places:
                if seated.shut_out or call.key in self._stopped:
                    return
                since = anyio.current_time()
                self._work.running[call.key] = Running(call, scope, since)
                shown = self._without_secrets(call)
                self._means.journal.started(
                    replace(shown, prompt=self._means.mask(shown.prompt)), self._now()
                )
                try:
                    outcome = await self._runner.carry(
                        seated.ready.connection, shown, self._ask(shown, seated)
                    )
                finally:
                    self._work.running.pop(call.key, None)
            if scope.cancel_called:
                return  # a program we ended ourselves has refused nothing
            if (refused := shut_out(call, seated, outcome)) is not None:
                await self._seat_otherwise(seated, call, refused)
                return
            seated.has_answered |= not isinstance(outcome, RuntimeRefusal)
            self._deliver(call, outcome, anyio.current_time() - since)

    def _ask(self, call: Call, seated: Seated) -> RuntimeRequest:
        return RuntimeRequest(
            prompt=call.prompt,
            workspace=self._seats.workspace(seated.ready.connection, call),
            timeout_seconds=call.timeout_seconds,
            profile=call.profile,
            model=call.key.model or seated.ready.seat.models[0],
            reasoning=seated.ready.reasoning,
            session=call.session,
            title=f"council {self._run.plan.review_id}",
            schema=schema_of(call.answer),
            schema_file=self._seats.schema_file(call.answer),
            scratch=self._seats.scratch(seated.name),
        )

    def _deliver(
        self, call: Call, outcome: CallOutcome, duration_seconds: float
    ) -> None:
        for asked in outcome.refused if isinstance(outcome, RuntimeAnswer) else ():
            fields = {
                "detail": f"request_refused:{mask_words(asked, self._means.mask).text}",
                "round": call.key.round,
            }
            self._means.log.write(SeatEvent(call.key.seat, "warning", fields))
        result = self._result(call, outcome, duration_seconds)
        self._means.log.told(result)
        self._feed(result)

    def _result(
        self, call: Call, outcome: CallOutcome, duration_seconds: float
    ) -> Result:
        at = self._now()
        mask = self._means.mask
        return self._admit(
            as_result(
                call, outcome, at=at, duration_seconds=duration_seconds, mask=mask
            )
        )

    # -- being under way, and the end

    def _start(self, work: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        self._under_way += 1
        self._tasks.start_soon(self._attend, work, arguments)

    async def _attend(
        self, work: Callable[..., Awaitable[None]], arguments: tuple[Any, ...]
    ) -> None:
        await work(*arguments)
        self._under_way -= 1
        while self._under_way == 0 and self._ending is None:
            waiting = [*self._run.waiting_for, *(key.seat for key in self._posted)]
            seat = next((seat for seat in waiting if seat in self._given_up), None)
            if seat is None:
                self._end()
            else:
                self._feed(GivenUp(seat=seat, at=self._now()))

    def _end(self) -> None:
        """Nothing is under way any more: there is a report, or somebody outside this process has to act."""
        if self._ending is None:
            # A question to the host about a finding of a report that is there already waits for its answer.
            asked = self._posted.keys() & set(self._run.outstanding)
            if self._run.report is not None and not asked:
                self._ending = Reported(self._run.report)
            else:
                self._ending = Waiting(
                    tuple(self._posted.values()), self._run.waiting_for
                )
        self._tasks.cancel_scope.cancel()

    async def _heed(self, requests_to_stop: AsyncIterator[str]) -> None:
        async for name in requests_to_stop:
            self._feed(Interrupted(signal=name, at=self._now()))
            self._end()

    async def _show_progress(self) -> None:
        while True:
            await anyio.sleep(PROGRESS_SECONDS)
            for event in self._work.progress(anyio.current_time()):
                self._means.log.write(event)

    def _now(self) -> str:
        return iso_ms(self._means.clock.now())
