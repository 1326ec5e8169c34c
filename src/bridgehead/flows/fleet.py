"""Make one pass of a flow on a worker of a fleet.

It is the engine of `flow run`, over the records of a durable queue. A run is a chain of
passes, each a job of the queue. A pass comes by what earlier ones recorded, does what
is new, each result through `checkpoint`, and ends: at the flow's end, or waiting for
answers or a time, with nothing held meanwhile. A pass that died is repeated over its
own checkpoints, so all it decides by (the time, the answers) is one of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from bridgehead.flows.calls import (
    AskFailed,
    Attempt,
    Call,
    MatchedAnswer,
    StepFailed,
    attempts_of,
    outstanding_calls,
)
from bridgehead.flows.definition import Flow, typed_settings
from bridgehead.flows.engine.asks import Blocked, Stopped
from bridgehead.flows.engine.context import Context
from bridgehead.flows.engine.endings import error_message
from bridgehead.flows.engine.engine import plain_result, run_function
from bridgehead.flows.engine.mailbox import FiledAnswer, Mailbox
from bridgehead.flows.engine.replay import FAILED, ONE_TRY, Effort, Replay
from bridgehead.flows.engine.run_pass import RunPass
from bridgehead.flows.engine.run_request import RUN_KEY
from bridgehead.flows.engine.settlement import Rules
from bridgehead.flows.errors import FlowMistake
from bridgehead.flows.files.checkpoint_files import RunFiles
from bridgehead.flows.interfaces import Announcer
from bridgehead.flows.journals.base import Record, Run
from bridgehead.flows.values.codec import storable
from bridgehead.flows.values.ids import sha256_hex, uuid_text
from bridgehead.flows.values.times import parse_time, utc_text
from bridgehead.flows.words import CANCELLED, EXPIRED, FLEET, AttemptStatus, RunStatus
from bridgehead.host.clock import Clock

Checkpoint = Callable[[str, Callable[[], Any]], Any]
"""Returns the JSON value of `work`; in a repeated pass, that of the first time."""
Look = Callable[[Sequence[str]], Mapping[str, Mapping[str, Any]]]
"""(request ids) -> the response documents of those that have been answered."""

SHORT_SLEEP_SECONDS: Final = 1.0
"""A sleep that is not worth a pass of its own."""


class Job(NamedTuple):
    """What a pass is given: the run, and the questions it waits for."""

    run_id: str
    name: str
    settings: Mapping[str, Any]
    queue: str
    created: str
    number: int = 1
    version: str | None = None
    """The flow's version when the run began; None before its first pass."""
    priority: int = 100
    attempts: tuple[Attempt, ...] = ()
    forgets: tuple[tuple[int, str], ...] = ()
    """Pairs of a pass number and a path.

    Before that pass, the record at the path and all later ones were dropped, to be made
    again.
    """

    @property
    def id(self) -> str:
        return f"{self.run_id}/{self.number}"

    @property
    def project(self) -> str:
        """Return the project that pending items and events of the run belong to."""
        return f"{FLEET}{self.queue}"

    def run(self, status: RunStatus, updated: str, **more: Any) -> Run:
        """Return the run as a journal would keep it."""
        run = Run(
            self.run_id,
            self.name,
            self.version or "",
            "",
            self.project,
            status,
            self.settings,
            self.created,
            updated,
        )
        return run._replace(**more)

    def document(self) -> dict[str, Any]:
        return {
            **self._asdict(),
            "attempts": [list(attempt) for attempt in self.attempts],
            "forgets": list(self.forgets),
        }

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        attempts = tuple(
            Attempt(path, request, AttemptStatus(status), *others)
            for path, request, status, *others in document["attempts"]
        )
        forgets = tuple(
            (int(number), str(path)) for number, path in document["forgets"]
        )
        return cls(**{**document, "attempts": attempts, "forgets": forgets})

    def next(self, ended: PassEnd | None = None, *, forget: str | None = None) -> Self:
        """Return the pass after this one."""
        number = self.number + 1
        forget = ended.forget if ended else forget
        forgets = self.forgets if forget is None else (*self.forgets, (number, forget))
        attempts = ended.attempts if ended else self.attempts
        return self._replace(number=number, attempts=attempts, forgets=forgets)


def records_of(
    passes: Sequence[Sequence[Any]], forgets: Iterable[tuple[int, str]]
) -> dict[str, Record]:
    """Return the records of a run after these passes, from their checkpoints.

    Checkpoints that are not records are skipped.
    """
    records: dict[str, Record] = {}
    dropped_from = dict(forgets)
    for number, checkpoints in enumerate((*passes, ()), 1):
        path = dropped_from.get(number)
        if path in records:
            order = list(records)
            for later in order[order.index(path) :]:
                del records[later]
        for output in checkpoints:
            if isinstance(output, list) and len(output) == len(Record._fields):
                records[output[0]] = Record(*output)
    return records


class PassEnd(NamedTuple):
    """How a pass ended."""

    status: RunStatus
    result: Any = None
    error: str | None = None
    attempts: tuple[Attempt, ...] = ()
    """All attempts of the questions that are open."""
    settled: tuple[tuple[str, str], ...] = ()
    """The id and status of requests that need no answer any more."""
    wake: datetime | None = None
    """When the run continues even without an answer."""
    forget: str | None = None

    @property
    def open_requests(self) -> tuple[Attempt, ...]:
        return tuple(attempt for attempt in self.attempts if attempt.outstanding)


class FleetReplay(Replay):
    """Records each result as a checkpoint of the fleet.

    A step runs inside a checkpoint, which keeps its result or that it failed.
    """

    in_order = True

    def __init__(
        self,
        flow_id: str,
        clock: Clock,
        records: dict[str, Record],
        checkpoint: Checkpoint,
    ) -> None:
        self._begin(flow_id, clock, dict(records))
        self._checkpoint = checkpoint
        self._inside = False

    def perform(
        self,
        path: str,
        kind: str,
        input_sha: str | None,
        work: Callable[[], Any],
        effort: Effort = ONE_TRY,
    ) -> Record:
        def perform_step() -> list[Any]:
            self._inside = True
            try:
                return list(
                    super(FleetReplay, self).perform(
                        path, kind, input_sha, work, effort
                    )
                )
            except StepFailed:
                return list(self._records[path])
            finally:
                self._inside = False

        record = Record(*self._checkpoint(path, perform_step))
        if not self.is_recorded(path):
            self._remember(record)  # an earlier attempt at this pass made it
        if record.status == FAILED:
            raise StepFailed(path, *json.loads(record.error or "[]"))
        return record

    def complete(self, record: Record, attempts: Sequence[Attempt]) -> None:
        self._append(record)

    def _append(self, record: Record) -> Record:
        if not self._inside:
            self._checkpoint(record.path, lambda: list(record))
        self._remember(record)
        return record

    def _forget_from(self, path: str) -> None:
        raise FlowMistake(
            f"{path}: on_change='rerun' cannot be used on a fleet; retry the run from "
            "there"
        )


class AnswersGiven(Mailbox):
    """The answers in the shared record; all requests count as handed out."""

    def __init__(self, job: Job, answers: Mapping[str, Mapping[str, Any]]) -> None:
        self._project = job.project
        self.answers = {}
        for attempt in job.attempts:
            document = answers.get(attempt.request_id)
            if document is not None:
                matched = MatchedAnswer(attempt, document)
                self.answers[attempt.path] = FiledAnswer(matched, Path())

    root = property(lambda self: self._project)
    response_file = property(lambda self: "")

    def holds(self, request_id: str) -> bool:
        return True

    def reject(self, call_path: str, reason: str) -> None:
        self.answers.pop(call_path, None)

    def clear(self, call_path: str, request_ids: Iterable[str]) -> None:
        self.answers.pop(call_path, None)

    def refuse_unsupported_request(self) -> None:
        """Do nothing: there is no request file."""


class FleetPass(RunPass):
    """A pass with a fixed time, which ends for a long sleep and frees its worker."""

    def __init__(self, *, now: datetime, **inputs: Any) -> None:
        super().__init__(**inputs)
        self._moment = now
        self.wake: datetime | None = None

    def moment(self) -> datetime:
        return self._moment

    def sleep_until(self, end: datetime) -> None:
        if (end - self._moment).total_seconds() <= SHORT_SLEEP_SECONDS:
            super().sleep_until(end)
            return
        self.wake = end if self.wake is None else min(end, self.wake)
        self.open_blocks += 1
        raise Blocked(())


class Settled(Announcer):
    """Notes the requests that need no answer any more."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []

    def settled(self, request_id: str, root: str, status: str) -> None:
        self.requests.append((request_id, status))


def run_pass(
    flow: Flow,
    job: Job,
    records: dict[str, Record],
    checkpoint: Checkpoint,
    look: Look,
    clock: Clock,
) -> PassEnd:
    """Run the flow from its records to its end or its next wait."""
    if flow.keeps_state_file:
        return PassEnd(
            RunStatus.FAILED,
            error=f"flow {flow.name} needs project files; use: bridgehead flow run",
        )
    if job.version is not None and not flow.can_resume(job.version):
        wrong = (
            f"it was begun by version {job.version} of flow {flow.name}, this is "
            f"{flow.version}"
        )
        return PassEnd(RunStatus.FAILED, error=wrong)
    request_ids = [attempt.request_id for attempt in job.attempts]
    begun = checkpoint(
        "begin",
        lambda: {
            "now": utc_text(clock.now()),
            "answers": dict(look(request_ids)) if request_ids else {},
        },
    )
    now = parse_time(begun["now"])
    assert now is not None
    announcer = Settled()
    numbers = count(1)
    present = FleetPass(
        now=now,
        replay=FleetReplay(job.run_id, clock, records, checkpoint),
        mailbox=AnswersGiven(job, begun["answers"]),
        rules=Rules(contract=flow.contract),
        clock=clock,
        run_files=RunFiles(),
        attempts=[tried for tried in job.attempts if tried.path not in records],
        actions=[],
        announcer=announcer,
        new_id=lambda: _request_id(job, next(numbers)),
        run_function=run_function,
    )
    ended = _ended(flow, job, present)
    return ended._replace(settled=(*announcer.requests, *ended.settled))


def _request_id(job: Job, number: int) -> str:
    """Return the id of a request; it is the same if the pass is repeated."""
    return uuid_text(bytes.fromhex(sha256_hex(f"{job.id} {number}".encode())[:32]))


def _ended(flow: Flow, job: Job, present: FleetPass) -> PassEnd:
    """Run the flow's function, and return how the pass ended."""
    try:
        return _completed(flow, job, present)
    except Blocked as blocked:
        return _waiting(present, blocked)
    except Stopped as stopped:
        return _stopped(job, present, stopped)
    except AskFailed as error:
        was_asked = any(attempt.path == error.path for attempt in job.attempts)
        if error.failure.reason == EXPIRED or not was_asked:
            return _failed(present, error)
        return _asked_again(job, present, error.path, str(error))
    except (Exception, SystemExit) as error:
        return _failed(present, error)


def _completed(flow: Flow, job: Job, present: FleetPass) -> PassEnd:
    settings = {name: value for name, value in job.settings.items() if name != RUN_KEY}
    returned = run_function(flow, Context(present), typed_settings(flow, settings))
    if present.open_blocks:
        raise FlowMistake("the flow caught its own pause; let BaseException pass")
    present.refuse_unvisited()
    return PassEnd(
        RunStatus.COMPLETED,
        result=plain_result(flow, returned),
        settled=_withdrawn(present, "the run has ended"),
    )


def _stopped(job: Job, present: FleetPass, stopped: Stopped) -> PassEnd:
    if stopped.failure.reason == CANCELLED:
        return PassEnd(
            RunStatus.CANCELLED,
            error=str(stopped.failure),
            settled=_withdrawn(present, CANCELLED),
        )
    path = stopped.attempts[-1].path
    return _asked_again(job, present, path, str(stopped.failure))


def _waiting(present: FleetPass, blocked: Blocked) -> PassEnd:
    calls = []
    for waiting in blocked.calls:
        call = waiting.call
        if call.current.status is AttemptStatus.QUEUED:
            call = call.with_current(call.current.issued(present.moment()))
        calls.append(call)
    return _until(present, calls)


def _until(present: FleetPass, calls: Sequence[Call], **more: Any) -> PassEnd:
    """Return the end of a pass that waits for these calls.

    The run continues when an answer comes, an ask expires or a sleep is over.
    """
    attempts = tuple(attempts_of(calls))
    settled = tuple(
        (attempt.request_id, attempt.status.value)
        for attempt in attempts
        if not attempt.outstanding
    )
    ends = [call.current.expires_at for call in calls]
    ends.append(present.wake)
    wake = min((end for end in ends if end is not None), default=None)
    return PassEnd(
        RunStatus.WAITING, attempts=attempts, settled=settled, wake=wake, **more
    )


def _asked_again(job: Job, present: FleetPass, path: str, error: str) -> PassEnd:
    """Ask again under a new id, because the flow needs an answer it can use."""
    earlier = next(attempt for attempt in job.attempts if attempt.path == path)
    document = {**earlier.document, "request_id": _request_id(job, 0)}
    request = Attempt(path, document, AttemptStatus.PENDING).issued(present.moment())
    calls = [Call(path, (request,))]
    for call in outstanding_calls(job.attempts).values():
        if call.path in present.calls and call.path != path:
            calls.append(call)
    return _until(present, calls, error=storable(error), forget=path)


def _failed(present: FleetPass, error: BaseException) -> PassEnd:
    return PassEnd(
        RunStatus.FAILED,
        error=error_message(error),
        settled=_withdrawn(present, "the run failed"),
    )


def _withdrawn(present: FleetPass, status: str) -> tuple[tuple[str, str], ...]:
    """Return the open questions with the status they get, as the run has ended."""
    return tuple((call.current.request_id, status) for call in present.calls.values())
