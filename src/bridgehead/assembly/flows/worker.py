"""Run a worker of a fleet: take runs from a queue and carry out one pass of each.

A worker also brings runs back when their answers come. DBOS recovers the jobs of a
worker that is gone, but somebody has to tell it so. Each worker holds an advisory lock
in the database while it lives; whoever gets another worker's lock knows that it is
gone.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from bridgehead.assembly.flows.fleet import (
    ANSWER_JOB,
    APPLICATION,
    CALL_JOB,
    FLOW_JOB,
    MOST_ATTEMPTS,
    SCHEDULED_JOB,
    Fleet,
    FleetAddress,
    checked_queue,
    delay_before,
)
from bridgehead.assembly.flows.recording import (
    item_of,
    key_of,
    record_event,
    withdraw_request,
)
from bridgehead.assembly.flows.recovery import recovery_of_dbos
from bridgehead.assembly.flows.stored_values import only_portable_json
from bridgehead.contract.pending import Answer
from bridgehead.contract.record_words import (
    AnswerStatus,
    Part,
    PendingState,
    is_person,
)
from bridgehead.control_plane.records import EventFilter
from bridgehead.errors import BridgeheadError, StoreError, UserError
from bridgehead.flows.calls import Reply
from bridgehead.flows.definition import Flow, defaults_of, refuse_incomplete
from bridgehead.flows.discovery import find_flow, flows_in
from bridgehead.flows.engine.settlement import RETRIED
from bridgehead.flows.files.agent_files import AgentRequest
from bridgehead.flows.files.checkpoint_files import CheckpointFiles
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.fleet import Job, PassEnd, run_pass
from bridgehead.flows.handlers import Handler
from bridgehead.flows.interfaces import FlowEvent, OpenRequest
from bridgehead.flows.operations.drive import backoff_before
from bridgehead.flows.operations.pending_items import question_of, response_to
from bridgehead.flows.operations.respond import response_document
from bridgehead.flows.values.ids import sha256_hex
from bridgehead.flows.values.times import utc_text
from bridgehead.flows.words import (
    DEFAULT_MAX_RETRIES,
    FLEET,
    AttemptStatus,
    RequestStatus,
    RunStatus,
)
from bridgehead.host.clock import SystemClock

if TYPE_CHECKING:
    import psycopg
    from dbos import DBOSConfig

    from bridgehead.control_plane.stores.base import Store
    from bridgehead.flows.calls import Attempt

QUEUE_POLL_SECONDS: Final = 0.25
ALIVE_SECONDS: Final = 2.0
PRUNE_SECONDS: Final = 3600.0
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
_ALIVE_LOCKS = 0x62726467
_FOLLOWER_LOCKS = 0x62726468
_RECOVERY_LOCKS = 0x6272646A
_KEEPALIVE: Final = (
    "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3"
)
"""The server notices within seconds that a worker's machine is gone, and frees its
lock.
"""

_LIMIT: Final = re.compile(
    r"([^=]+)=(?:([1-9][0-9]{0,5})(?![0-9/]),?)?(?:([1-9][0-9]{0,8})/([smh]))?"
)
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}

T = TypeVar("T")


class Limit(NamedTuple):
    """How much of an agent or a handler the whole fleet may use.

    `concurrency` limits the calls at one time, `rate` the calls in a period. Each limit
    has a queue of its own.
    """

    name: str
    concurrency: int | None = None
    rate: tuple[int, float] | None = None
    """(calls, seconds)."""

    @property
    def queue(self) -> str:
        return f"limit.{self.name}"

    @classmethod
    def parse(cls, text: str) -> Limit:
        """Read a limit such as `writer=2`, `writer=30/m` or `runtime:codex=4,60/m`."""
        found = _LIMIT.fullmatch(text)
        if found is None:
            raise UserError(
                f"{text!r} is not a limit",
                hint="write NAME=CALLS, NAME=CALLS/s (m, h) or both: writer=2,30/m",
            )
        name, at_once, most, unit = found.groups()
        rate = (int(most), _SECONDS[unit]) if most else None
        if rate is None and at_once is None:
            raise UserError(
                f"{text!r} contains no limit", hint="write NAME=CALLS or NAME=CALLS/m"
            )
        return cls(name, int(at_once) if at_once else None, rate)


class FlowFailedHere(Exception):
    """How a pass tells DBOS that its run has failed."""


def flows_of(folder: Path) -> tuple[dict[str, Flow], str]:
    """Return the flows that a worker in `folder` serves, by name, and their version.

    The version is a digest of the folder's Python files.
    """
    files = sorted([*folder.glob("*.py"), *folder.glob("flows/*.py")])
    found = _flows_by_name(files, folder)
    if not found:
        raise UserError(
            f"no flow was found in {folder} or {folder}/flows",
            hint="start the worker with --dir DIRECTORY",
        )
    ask, _ = find_flow("ask", folder)
    digests = "\n".join(
        f"{file.relative_to(folder)} {sha256_hex(file.read_bytes())}" for file in files
    )
    return {"ask": ask, **found}, sha256_hex(digests.encode())[:12]


def _flows_by_name(files: Sequence[Path], folder: Path) -> dict[str, Flow]:
    """Return the flows in `files`, and refuse two of the same name."""
    found: dict[str, Flow] = {}
    for file in files:
        if b"bridgehead" not in file.read_bytes():
            continue
        for flow in flows_in(file):
            if flow.schedule:
                refuse_incomplete(flow, defaults_of(flow))
            if found.setdefault(flow.name, flow) is not flow:
                raise UserError(
                    f"{folder} has two flows named {flow.name}",
                    hint="rename one of them",
                )
    return found


class Worker:
    """One process of a fleet.

    `start` returns once the worker takes jobs; `stop` lets running passes end.
    """

    def __init__(
        self,
        address: FleetAddress,
        flows: Mapping[str, Flow],
        version: str,
        *,
        queue: str,
        concurrency: int,
        say: Callable[[str], None],
        handler: tuple[str, Handler] | None = None,
        limits: Sequence[Limit] = (),
        folder: Path | None = None,
        keep_days: float = 0,
    ) -> None:
        """Prepare a worker; `handler` is a name and who answers what flows ask.

        Without a handler, anybody may answer.
        """
        self._address = address
        self._flows = flows
        self._version = version
        self._queue = checked_queue(queue)
        self._concurrency = concurrency
        self._say = say
        self._handler = handler
        self._limits = {limit.name: limit for limit in limits}
        self._folder = folder or Path.cwd()
        self._keep_days = keep_days
        self.id = f"{socket.gethostname()}-{os.getpid()}-{os.urandom(2).hex()}"
        self._fleet = Fleet(address)
        self._clock = SystemClock()
        self._stopping = threading.Event()
        self._follows = threading.Event()
        self._step_threads = ThreadPoolExecutor(thread_name_prefix="checkpoint")

    def start(self) -> None:
        """Connect to the fleet and take jobs in the background."""
        from dbos import DBOS

        # The first use says in plain words when the server cannot be reached.
        self._fleet.store.last_seq()
        recovery_of_dbos()  # refused now rather than when a worker has died
        self._fleet.prepare()
        alive = self._hold_lock()
        DBOS(config=self._dbos_config())
        start_scheduled_flow = self._register_jobs()
        DBOS.listen_queues(
            [*self._own_queues(), *(limit.queue for limit in self._limits.values())]
        )
        DBOS.launch()
        self._register_queues()
        if DBOS.get_latest_application_version()["version_name"] == self._version:
            self._schedule(start_scheduled_flow)
        threading.Thread(target=self._follow, daemon=True).start()
        threading.Thread(target=self._stay_alive, args=(alive,), daemon=True).start()
        if self._keep_days:
            threading.Thread(target=self._prune, daemon=True).start()

    def _dbos_config(self) -> DBOSConfig:
        return {
            "name": APPLICATION,
            "system_database_url": self._address.dbos_url,
            "dbos_system_schema": self._address.schema,
            "serializer": only_portable_json(),
            "application_version": self._version,
            "executor_id": self.id,
            "log_level": "CRITICAL",
            "scheduler_polling_interval_sec": 5.0,
            # We never use DBOS' messages, and by default it looks for them 100 times a
            # second.
            "notification_coalesce_sec": 1.0,
        }

    def _register_jobs(self) -> Callable[[Any, str], None]:
        """Register every kind of job; return the one that starts a scheduled flow."""
        from dbos import DBOS

        most_recoveries = MOST_ATTEMPTS - 1

        @DBOS.workflow(name=FLOW_JOB, max_recovery_attempts=most_recoveries)
        def carry_out_pass(document: dict[str, Any]) -> dict[str, Any]:
            return self._pass(document)

        @DBOS.workflow(name=ANSWER_JOB, max_recovery_attempts=most_recoveries)
        def answer(document: dict[str, Any]) -> None:
            self._answer(document)

        @DBOS.workflow(name=CALL_JOB, max_recovery_attempts=most_recoveries)
        def call(document: dict[str, Any]) -> list[Any]:
            return self._call(document)

        @DBOS.workflow(name=SCHEDULED_JOB)
        def start_scheduled_flow(at: Any, name: str) -> None:
            self._checkpoint("submit", lambda: self._submit(name, str(at)))

        return start_scheduled_flow

    def _own_queues(self) -> list[str]:
        """Return the queues of this worker, without those that limits have."""
        if self._handler is None:
            return [self._queue]
        return [self._queue, f"{self._queue}.agents"]

    def _register_queues(self) -> None:
        from dbos import DBOS

        for queue in self._own_queues():
            DBOS.register_queue(
                queue,
                worker_concurrency=self._concurrency,
                polling_interval_sec=QUEUE_POLL_SECONDS,
            )
        for limit in self._limits.values():
            if limit.rate is None:
                DBOS.register_queue(
                    limit.queue,
                    global_concurrency=limit.concurrency,
                    polling_interval_sec=QUEUE_POLL_SECONDS,
                )
                continue
            calls, seconds = limit.rate
            DBOS.register_queue(
                limit.queue,
                global_concurrency=limit.concurrency,
                limiter={"limit": calls, "period": seconds},
                polling_interval_sec=QUEUE_POLL_SECONDS,
            )

    def stop(self) -> None:
        """Take no more jobs, and give running passes half a minute to end."""
        from dbos import DBOS

        self._stopping.set()
        DBOS.destroy(workflow_completion_timeout_sec=30)
        self._fleet.close()

    # One pass

    def _pass(self, document: dict[str, Any]) -> dict[str, Any]:
        """Carry out one pass of a run and return how it ended."""
        job = Job.read(document)
        flow = self._flows.get(job.name)
        if flow is None:
            raise FlowFailedHere(
                f"no worker of version {self._version} has a flow {job.name!r}"
            )
        job = job._replace(version=job.version or flow.version)
        records = self._fleet.records(job)
        ended = run_pass(
            flow,
            job,
            records,
            self._checkpoint,
            lambda ids: self._answers(job, ids),
            self._clock,
        )
        self._checkpoint(
            ended.status.value,
            lambda: self._lasting(lambda store: self._note(store, job, ended)),
        )
        if ended.status is RunStatus.FAILED:
            raise FlowFailedHere(ended.error)
        return {
            "status": ended.status.value,
            "result": ended.result,
            "error": ended.error,
            "version": flow.version,
        }

    def _checkpoint(self, name: str, work: Callable[[], Any]) -> Any:
        """Do `work` as a DBOS step.

        DBOS refuses a step in a thread that runs an event loop, as the thread of an
        `async def` flow does: then the step runs in another thread.
        """
        from dbos import DBOS

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return DBOS.run_step({"name": name}, work)
        context = contextvars.copy_context()
        step = partial(DBOS.run_step, {"name": name}, work)
        return self._step_threads.submit(context.run, step).result()

    def _note(self, store: Store, job: Job, ended: PassEnd) -> None:
        """Record where the run stands, and put off a run that waits.

        Everything here may happen twice: a worker may die in the middle of it.
        """
        self._update_questions(store, job, ended)
        record_event(store, _event(job, ended, utc_text(self._clock.now())))
        if ended.status is not RunStatus.WAITING:
            return
        after = delay_before(ended.wake, self._clock.now())
        self._fleet.enqueue(job.next(ended), version=self._version, after_seconds=after)
        if self._fleet.was_cancelled(job):
            # Somebody cancelled the run before its next pass existed.
            self._fleet.cancel(job.run_id)
            return
        for attempt in _questions_for_handler(job, ended):
            self._ask_handler(attempt.document, job.project)
        if self._answers(job, [attempt.request_id for attempt in ended.open_requests]):
            self._fleet.wake(job.run_id)

    def _update_questions(self, store: Store, job: Job, ended: PassEnd) -> None:
        """Withdraw the questions that are settled, and open the new ones."""
        for request_id, status in ended.settled:
            if status == AttemptStatus.COMPLETED:
                continue  # its item was answered, and stays so
            reason = f"the flow's request is settled: {status}"
            withdraw_request(store, request_id, job.project, reason)
        for attempt in ended.open_requests:
            request = OpenRequest(
                job.run_id,
                job.name,
                job.project,
                attempt.document,
                utc_text(attempt.deadline),
            )
            store.open_pending(question_of(request))

    def _answers(self, job: Job, request_ids: Sequence[str]) -> dict[str, Any]:
        """Return the recorded answers to these requests, by request."""
        return self._lasting(
            lambda store: _recorded_answers(store, job.project, request_ids)
        )

    def _lasting(self, work: Callable[[Store], T]) -> T:
        """Do `work` on the record, and try again while the database is away.

        A server that restarts is no reason to fail a run.
        """
        # DBOS raises the errors of SQLAlchemy.
        from sqlalchemy.exc import InterfaceError, OperationalError

        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return work(self._fleet.store)
            except (StoreError, OperationalError, InterfaceError) as error:
                if self._stopping.is_set():
                    raise
                self._say(f"the record cannot be used: {_why(error)}; trying again")
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    # Answering

    def _ask_handler(self, request: Mapping[str, Any], project: str) -> None:
        """Put a question into the queue that limits its agent or the handler.

        If both have a limit, the job waits for the agent's turn first and then, in
        `_called`, for the handler's.
        """
        if self._handler is None:
            return
        limited_names = (str(request["agent_name"]), self._handler[0])
        queues = [
            self._limits[name].queue for name in limited_names if name in self._limits
        ]
        if not queues:
            queues = [f"{self._queue}.agents"]
        document = {
            "request": request,
            "project": project,
            "inner": queues[1] if len(queues) > 1 else None,
        }
        self._fleet.put(
            ANSWER_JOB,
            f"answer/{request['request_id']}",
            queues[0],
            document,
            app_version=self._version,
        )

    def _answer(self, document: Mapping[str, Any]) -> None:
        """Get a question answered by the handler, and record the answer."""
        from dbos import DBOS

        request_id = str(document["request"]["request_id"])
        for attempt in range(DEFAULT_MAX_RETRIES + 1):
            if attempt:
                DBOS.sleep(backoff_before(attempt))
            status, *rest = self._called(document, f"call/{request_id}/{attempt}")
            reply = Reply(RequestStatus(status), *rest)
            if reply.error_type not in RETRIED:
                break
        self._checkpoint(
            "answer",
            lambda: self._lasting(lambda store: self._give(store, document, reply)),
        )

    def _called(self, document: Mapping[str, Any], job_id: str) -> list[Any]:
        """Return the handler's reply, after its turn in the handler's own limit."""
        if document["inner"] is None:
            return self._call(document)
        reply: list[Any] = self._checkpoint(
            "call", lambda: self._call_elsewhere(document, job_id)
        )
        return reply

    def _call_elsewhere(self, document: Mapping[str, Any], job_id: str) -> Any:
        """Put the call into the handler's queue and wait for its result."""
        self._fleet.put(
            CALL_JOB, job_id, document["inner"], document, app_version=self._version
        )
        handle: Any = self._fleet.client.retrieve_workflow(job_id)
        return handle.get_result(polling_interval_sec=QUEUE_POLL_SECONDS)

    def _call(self, document: Mapping[str, Any]) -> list[Any]:
        """Return the handler's reply as a list, which DBOS can store."""
        reply: list[Any] = self._checkpoint(
            "call", lambda: self._reply_of_handler(document["request"])
        )
        return reply

    def _reply_of_handler(self, request: Mapping[str, Any]) -> list[Any]:
        assert self._handler is not None
        _, handler = self._handler
        files = CheckpointFiles(FlowRoot.open(self._folder), self._clock)
        reply = handler.answer(AgentRequest.from_dict(dict(request)), files)
        assert reply is not None
        return [reply.status.value, *reply[1:]]

    def _give(self, store: Store, document: Mapping[str, Any], reply: Reply) -> None:
        """Record the handler's reply as the answer to the question."""
        assert self._handler is not None
        handler_name, _ = self._handler
        if reply.status is RequestStatus.SUCCESS:
            status = AnswerStatus.SUCCESS
            message = None
        else:
            status = AnswerStatus.ERROR
            message = reply.message or reply.status.value
        answer = Answer(
            status=status, text=reply.text, message=message, by=handler_name
        )
        request_id = str(document["request"]["request_id"])
        try:
            item = store.pending_item(key_of(request_id, document["project"]))
            store.answer_pending(item.id, answer)
        except UserError as error:
            self._say(f"an answer was refused: {error.message}")

    # Schedules

    def _schedule(self, start_flow: Callable[[Any, str], None]) -> None:
        """Replace the schedules of this queue by those of the present flows.

        Only a worker with the newest code does this.
        """
        from dbos import DBOS, ScheduleInput

        schedules = {
            flow.name: flow.schedule for flow in self._flows.values() if flow.schedule
        }
        for known in DBOS.list_schedules():
            schedule_name = known["schedule_name"]
            queue, _, flow_name = schedule_name.partition("/")
            if queue == self._queue and flow_name not in schedules:
                DBOS.delete_schedule(schedule_name)
        DBOS.apply_schedules(
            [
                ScheduleInput(
                    schedule_name=f"{self._queue}/{name}",
                    workflow_fn=start_flow,
                    schedule=cron,
                    context=name,
                    queue_name=self._queue,
                )
                for name, cron in schedules.items()
            ]
        )

    def _submit(self, name: str, at: str) -> str:
        """Submit a scheduled flow with its default settings; return the run's id."""
        settings = defaults_of(self._flows[name])
        run = self._fleet.submit(
            name, settings, queue=self._queue, key=f"schedule {at}"
        )
        return run.id

    # Bringing runs back

    def _follow(self) -> None:
        """Wake runs as their answers are recorded; one worker of a queue does this.

        It begins with the runs whose answers came while no worker followed.
        """
        answers = EventFilter(kinds=("pending.answered",), parts=(Part.FLOWS,))
        after: int | None = None
        self._follows.wait()
        while not self._stopping.is_set():
            try:
                if after is None:
                    newest = self._fleet.store.last_seq()
                    self._wake_answered()
                    after = newest
                for recorded in self._fleet.store.follow(
                    after, stop=self._stopping, where=answers
                ):
                    event = recorded.event
                    if event.run_id and event.project.startswith(FLEET):
                        self._fleet.wake(event.run_id)
                    after = recorded.seq
            except Exception as error:  # nobody else wakes these runs
                # DBOS, the record or the connection may have raised it.
                self._say(f"answers cannot be followed: {_why(error)}; trying again")
                self._stopping.wait(FIRST_PAUSE_SECONDS)

    def _wake_answered(self) -> None:
        for job in self._fleet.waiting(self._queue):
            if self._answers(job, [attempt.request_id for attempt in job.attempts]):
                self._fleet.wake(job.run_id)

    def _prune(self) -> None:
        """Delete what ended long ago, as the setting flows.keep_days says.

        The worker that follows answers does this.
        """
        self._follows.wait()
        while not self._stopping.is_set():
            try:
                deque(self._fleet.prune(self._keep_days), maxlen=0)
            except Exception as error:
                # DBOS, the record or the connection may have raised it; there is
                # another chance in an hour.
                self._say(
                    f"old runs were not deleted: {type(error).__name__}; trying again "
                    "in an hour"
                )
            self._stopping.wait(PRUNE_SECONDS)

    # Who is alive

    def _hold_lock(self) -> psycopg.Connection[Any]:
        """Return a connection that holds this worker's lock."""
        import psycopg

        options = {**self._address.postgres.parameters}
        options["options"] = f"{options.get('options', '')} {_KEEPALIVE}".strip()
        connection = psycopg.connect(**options, autocommit=True)  # type: ignore[arg-type]
        connection.execute(
            "SELECT pg_advisory_lock(%s, hashtext(%s))", [_ALIVE_LOCKS, self.id]
        )
        return connection

    def _stay_alive(self, alive: psycopg.Connection[Any]) -> None:
        """Hold our lock, and recover the jobs of workers that lost theirs.

        One worker of a queue follows answers, and one of a version recovers jobs.
        """
        recovers = False
        follower = f"{self._address.schema} {self._queue}"
        recoverer = f"{self._address.schema} {self._version}"
        while True:
            try:
                if alive.closed:
                    alive = self._hold_lock()
                    recovers = False
                follows = self._follows.is_set()
                if follows or _got_lock(alive, _FOLLOWER_LOCKS, follower):
                    self._follows.set()
                recovers = recovers or _got_lock(alive, _RECOVERY_LOCKS, recoverer)
                if recovers:
                    self._recover_jobs(alive)
            except Exception as error:
                # DBOS, the record or the connection may have raised it.
                self._say(
                    f"the database cannot be reached: {_why(error)}; trying again"
                )
                alive.close()
            if self._stopping.wait(ALIVE_SECONDS):
                self._follows.set()
                alive.close()
                return

    def _recover_jobs(self, alive: psycopg.Connection[Any]) -> None:
        """Let DBOS start the jobs of workers that are gone once more."""
        running = self._fleet.client.list_workflows(
            status="PENDING",
            app_version=self._version,
            load_input=False,
            load_output=False,
        )
        workers = {job.executor_id for job in running if job.executor_id}
        for worker in workers - {self.id}:
            if _is_gone(alive, worker):
                self._say(
                    f"worker {worker} stopped responding; another worker takes "
                    "over its runs"
                )
                recover = recovery_of_dbos()
                recover([worker])


def _questions_for_handler(job: Job, ended: PassEnd) -> list[Attempt]:
    """Return the questions of this pass that a handler may answer."""
    known = {attempt.request_id for attempt in job.attempts}
    questions = []
    for attempt in ended.open_requests:
        is_new = attempt.request_id not in known
        # The handler's own answer made the flow ask this once more: a person has to
        # look at it.
        was_rejected = attempt.path == ended.forget
        for_person = is_person(attempt.document.get("agent_name"))
        if is_new and not was_rejected and not for_person:
            questions.append(attempt)
    return questions


def _recorded_answers(
    store: Store, project: str, request_ids: Sequence[str]
) -> dict[str, Any]:
    """Return the documents of those requests that were answered."""
    found = {}
    for request_id in request_ids:
        item = item_of(store, request_id, project)
        if item is None or item.state is not PendingState.ANSWERED:
            continue
        if item.answer is None:
            continue
        reply = response_to(item.question, item.answer).reply
        found[request_id] = response_document(request_id, reply, item.answer.at)
    return found


def _why(error: Exception) -> str:
    return error.message if isinstance(error, BridgeheadError) else type(error).__name__


def _got_lock(connection: psycopg.Connection[Any], space: int, name: str) -> bool:
    """Take a lock if nobody else has it; return whether it is ours."""
    row = connection.execute(
        "SELECT pg_try_advisory_lock(%s, hashtext(%s))", [space, name]
    ).fetchone()
    return row is not None and bool(row[0])


def _is_gone(connection: psycopg.Connection[Any], worker: str) -> bool:
    """Return whether a worker holds its lock no longer."""
    if not _got_lock(connection, _ALIVE_LOCKS, worker):
        return False
    connection.execute(
        "SELECT pg_advisory_unlock(%s, hashtext(%s))", [_ALIVE_LOCKS, worker]
    )
    return True


def _event(job: Job, ended: PassEnd, at: str) -> FlowEvent:
    kind = "paused" if ended.status is RunStatus.WAITING else ended.status.value
    run = job.run(ended.status, at)
    agents = [str(attempt.document["agent_name"]) for attempt in ended.open_requests]
    facts: dict[str, Any] = {"waits_for": agents}
    if ended.error is not None:
        facts["error"] = ended.error
    return FlowEvent(f"{job.id}/flow.{kind}", f"flow.{kind}", run, at, facts)
