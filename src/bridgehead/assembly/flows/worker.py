"""A worker of a fleet: takes runs from a queue, carries out one pass of each, brings
runs back when answers come.

DBOS recovers the jobs of a worker that is gone, but has to be told that it is gone.
Each worker holds an advisory lock in the database as long as it lives; who gets the
lock of another one knows that it does not.
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

    from bridgehead.control_plane.stores.base import Store

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
"""So the server notices within seconds that a worker's machine is gone, and frees its
lock.
"""

_LIMIT: Final = re.compile(
    r"([^=]+)=(?:([1-9][0-9]{0,5})(?![0-9/]),?)?(?:([1-9][0-9]{0,8})/([smh]))?"
)
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}

T = TypeVar("T")


class Limit(NamedTuple):
    """How much of an agent or a handler the whole fleet uses at once and in a time.

    A queue of its own keeps it.
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
        """`writer=2`, `writer=30/m` or `runtime:codex=4,60/m`."""
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
    """The flows a worker in `folder` serves, by name, and the version of their code: a
    digest of its Python files.
    """
    found: dict[str, Flow] = {}
    files = sorted([*folder.glob("*.py"), *folder.glob("flows/*.py")])
    for file in files:
        if b"bridgehead" in file.read_bytes():
            for flow in flows_in(file):
                if flow.schedule:
                    refuse_incomplete(flow, defaults_of(flow))
                if found.setdefault(flow.name, flow) is not flow:
                    raise UserError(
                        f"{folder} has two flows named {flow.name}",
                        hint="rename one of them",
                    )
    if not found:
        raise UserError(
            f"no flow was found in {folder} or {folder}/flows",
            hint="start the worker with --dir DIRECTORY",
        )
    code = "\n".join(
        f"{file.relative_to(folder)} {sha256_hex(file.read_bytes())}" for file in files
    )
    return {"ask": find_flow("ask", folder)[0], **found}, sha256_hex(code.encode())[:12]


class Worker:
    """One process of a fleet.

    `start` returns when it takes jobs; `stop` lets running passes end.
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
        """`handler`: who answers what flows ask, by the name it was made from.

        Without one, anybody may.
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
        self._hop = ThreadPoolExecutor(thread_name_prefix="checkpoint")

    def start(self) -> None:
        from dbos import DBOS, DBOSConfig
        from dbos._queue import QueueRateLimit

        config = DBOSConfig(
            name=APPLICATION,
            system_database_url=self._address.dbos_url,
            dbos_system_schema=self._address.schema,
            serializer=only_portable_json(),
            application_version=self._version,
            executor_id=self.id,
            log_level="CRITICAL",
            scheduler_polling_interval_sec=5.0,
            # nothing here uses DBOS' messages; by default it looks 100 times a second
            notification_coalesce_sec=1.0,
        )
        # says in plain words when the server cannot be reached
        self._fleet.store.last_seq()
        self._fleet.prepare()
        alive = self._hold_lock()
        DBOS(config=config)

        @DBOS.workflow(name=FLOW_JOB, max_recovery_attempts=MOST_ATTEMPTS - 1)
        def one_pass(document: dict[str, Any]) -> dict[str, Any]:
            return self._pass(document)

        @DBOS.workflow(name=ANSWER_JOB, max_recovery_attempts=MOST_ATTEMPTS - 1)
        def answer(document: dict[str, Any]) -> None:
            self._answer(document)

        @DBOS.workflow(name=CALL_JOB, max_recovery_attempts=MOST_ATTEMPTS - 1)
        def call(document: dict[str, Any]) -> list[Any]:
            return self._call(document)

        @DBOS.workflow(name=SCHEDULED_JOB)
        def scheduled(at: Any, name: str) -> None:
            self._checkpoint("submit", lambda: self._submit(name, str(at)))

        agents = [f"{self._queue}.agents"] if self._handler else []
        DBOS.listen_queues(
            [self._queue, *agents, *(limit.queue for limit in self._limits.values())]
        )
        DBOS.launch()
        for queue in (self._queue, *agents):
            DBOS.register_queue(
                queue,
                worker_concurrency=self._concurrency,
                polling_interval_sec=QUEUE_POLL_SECONDS,
            )
        for limit in self._limits.values():
            rate = limit.rate and QueueRateLimit(
                limit=limit.rate[0], period=limit.rate[1]
            )
            most = limit.concurrency
            poll = QUEUE_POLL_SECONDS
            DBOS.register_queue(
                limit.queue,
                global_concurrency=most,
                limiter=rate,
                polling_interval_sec=poll,
            )
        if DBOS.get_latest_application_version()["version_name"] == self._version:
            self._schedule(scheduled)
        threading.Thread(target=self._follow, daemon=True).start()
        threading.Thread(target=self._stay_alive, args=(alive,), daemon=True).start()
        if self._keep_days:
            threading.Thread(target=self._prune, daemon=True).start()

    def stop(self) -> None:
        from dbos import DBOS

        self._stopping.set()
        DBOS.destroy(workflow_completion_timeout_sec=30)
        self._fleet.close()

    # One pass

    def _pass(self, document: dict[str, Any]) -> dict[str, Any]:
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
        """A DBOS step.

        An `async def` flow has a loop in this thread, where DBOS would refuse it: so in
        another one.
        """
        from dbos import DBOS

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return DBOS.run_step({"name": name}, work)
        here = contextvars.copy_context()
        return self._hop.submit(
            lambda: here.run(lambda: DBOS.run_step({"name": name}, work))
        ).result()

    def _note(self, store: Store, job: Job, ended: PassEnd) -> None:
        """Tell the record where the run stands.

        A waiting one is put off until an answer or its time comes.

        Everything here may be done twice: a worker may die in the middle of it.
        """
        for request_id, status in ended.settled:
            if status == AttemptStatus.COMPLETED:
                continue  # its item was answered, and stays so
            withdraw_request(
                store,
                request_id,
                job.project,
                f"the flow's request is settled: {status}",
            )
        for attempt in ended.open_requests:
            deadline = utc_text(attempt.deadline)
            store.open_pending(
                question_of(
                    OpenRequest(
                        job.run_id, job.name, job.project, attempt.document, deadline
                    )
                )
            )
        record_event(store, _event(job, ended, utc_text(self._clock.now())))
        if ended.status is not RunStatus.WAITING:
            return
        after = delay_before(ended.wake, self._clock.now())
        self._fleet.enqueue(job.next(ended), version=self._version, after_seconds=after)
        if self._fleet.was_cancelled(job):
            self._fleet.cancel(job.run_id)  # while this pass was put off
            return
        known = {attempt.request_id for attempt in job.attempts}
        for attempt in ended.open_requests:
            # What the handler's own answer opened again is not put to it again:
            # somebody has to look at that.
            is_new = attempt.request_id not in known and attempt.path != ended.forget
            for_person = is_person(attempt.document.get("agent_name"))
            if self._handler and is_new and not for_person:
                self._ask_handler(attempt.document, job.project)
        if self._answers(job, [attempt.request_id for attempt in ended.open_requests]):
            self._fleet.wake(job.run_id)

    def _answers(self, job: Job, request_ids: Sequence[str]) -> dict[str, Any]:
        def look(store: Store) -> dict[str, Any]:
            found = {}
            for request_id in request_ids:
                item = item_of(store, request_id, job.project)
                if (
                    item
                    and item.state is PendingState.ANSWERED
                    and item.answer is not None
                ):
                    reply = response_to(item.question, item.answer).reply
                    found[request_id] = response_document(
                        request_id, reply, item.answer.at
                    )
            return found

        return self._lasting(look)

    def _lasting(self, work: Callable[[Store], T]) -> T:
        """Done when the database lets us: a server that restarts is no reason to fail a
        run.
        """
        from sqlalchemy.exc import InterfaceError, OperationalError  # what DBOS raises

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
        """Put a question into the queue of its agent, of its handler, or of the first
        for a place in the second.
        """
        assert self._handler is not None
        limits = [
            self._limits.get(name)
            for name in (str(request["agent_name"]), self._handler[0])
        ]
        queues = [limit.queue for limit in limits if limit is not None] or [
            f"{self._queue}.agents"
        ]
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
        from dbos import DBOS

        request_id = str(document["request"]["request_id"])
        for attempt in range(DEFAULT_MAX_RETRIES + 1):
            if attempt:
                DBOS.sleep(backoff_before(attempt))
            status, *said = self._called(document, f"call/{request_id}/{attempt}")
            reply = Reply(RequestStatus(status), *said)
            if reply.error_type not in RETRIED:
                break
        self._checkpoint(
            "answer",
            lambda: self._lasting(lambda store: self._give(store, document, reply)),
        )

    def _called(self, document: Mapping[str, Any], job_id: str) -> list[Any]:
        """What the handler said.

        Where it has a limit besides its agent's, in its turn.
        """
        if document["inner"] is None:
            return self._call(document)

        def waited() -> Any:
            self._fleet.put(
                CALL_JOB, job_id, document["inner"], document, app_version=self._version
            )
            handle: Any = self._fleet.client.retrieve_workflow(job_id)
            return handle.get_result(polling_interval_sec=QUEUE_POLL_SECONDS)

        made: list[Any] = self._checkpoint("call", waited)
        return made

    def _call(self, document: Mapping[str, Any]) -> list[Any]:
        assert self._handler is not None
        handler = self._handler[1]
        request = AgentRequest.from_dict(dict(document["request"]))

        def said() -> list[Any]:
            files = CheckpointFiles(FlowRoot.open(self._folder), self._clock)
            reply = handler.answer(request, files)
            assert reply is not None
            return [reply.status.value, *reply[1:]]

        made: list[Any] = self._checkpoint("call", said)
        return made

    def _give(self, store: Store, document: Mapping[str, Any], reply: Reply) -> None:
        assert self._handler is not None
        success = reply.status is RequestStatus.SUCCESS
        status = AnswerStatus.SUCCESS if success else AnswerStatus.ERROR
        message = None if success else reply.message or reply.status.value
        answer = Answer(
            status=status, text=reply.text, message=message, by=self._handler[0]
        )
        try:
            item = store.pending_item(
                key_of(str(document["request"]["request_id"]), document["project"])
            )
            store.answer_pending(item.id, answer)
        except UserError as error:
            self._say(f"an answer was refused: {error.message}")

    # Schedules

    def _schedule(self, starts: Callable[[Any, str], None]) -> None:
        """The flows of the newest code decide what is started when."""
        from dbos import DBOS, ScheduleInput

        ours = {
            flow.name: flow.schedule for flow in self._flows.values() if flow.schedule
        }
        for known in DBOS.list_schedules():
            name = known["schedule_name"]
            if (
                name.startswith(f"{self._queue}/")
                and name.partition("/")[2] not in ours
            ):
                DBOS.delete_schedule(name)
        DBOS.apply_schedules(
            [
                ScheduleInput(
                    schedule_name=f"{self._queue}/{name}",
                    workflow_fn=starts,
                    schedule=cron,
                    context=name,
                    queue_name=self._queue,
                )
                for name, cron in ours.items()
            ]
        )

    def _submit(self, name: str, at: str) -> str:
        settings = defaults_of(self._flows[name])
        return self._fleet.submit(
            name, settings, queue=self._queue, key=f"schedule {at}"
        ).id

    # Bringing runs back

    def _follow(self) -> None:
        """Wake runs as their answers are recorded, first those whose answers came while
        nobody did. One worker does.
        """
        wanted = EventFilter(kinds=("pending.answered",), parts=(Part.FLOWS,))
        after: int | None = None
        self._follows.wait()
        while not self._stopping.is_set():
            try:
                if after is None:
                    newest = self._fleet.store.last_seq()
                    self._wake_answered()
                    after = newest
                for event in self._fleet.store.follow(
                    after, stop=self._stopping, where=wanted
                ):
                    if event.event.run_id and event.event.project.startswith(FLEET):
                        self._fleet.wake(event.event.run_id)
                    after = event.seq
            except Exception as error:
                # DBOS', the record's or the connection's: nobody else wakes these runs
                self._say(f"answers cannot be followed: {_why(error)}; trying again")
                self._stopping.wait(FIRST_PAUSE_SECONDS)

    def _wake_answered(self) -> None:
        for job in self._fleet.waiting(self._queue):
            if self._answers(job, [made.request_id for made in job.attempts]):
                self._fleet.wake(job.run_id)

    def _prune(self) -> None:
        """Delete what ended long ago, as the setting flows.keep_days says.

        The worker that follows answers does.
        """
        self._follows.wait()
        while not self._stopping.is_set():
            try:
                deque(self._fleet.prune(self._keep_days), maxlen=0)
            except Exception as error:
                # DBOS', the record's or the connection's: in an hour there is another
                # chance
                self._say(
                    f"old runs were not deleted: {type(error).__name__}; trying again "
                    "in an hour"
                )
            self._stopping.wait(PRUNE_SECONDS)

    # Who is alive

    def _hold_lock(self) -> psycopg.Connection[Any]:
        import psycopg

        options = {**self._address.postgres.parameters}
        options["options"] = f"{options.get('options', '')} {_KEEPALIVE}".strip()
        connection = psycopg.connect(**options, autocommit=True)  # type: ignore[arg-type]
        connection.execute(
            "SELECT pg_advisory_lock(%s, hashtext(%s))", [_ALIVE_LOCKS, self.id]
        )
        return connection

    def _stay_alive(self, alive: psycopg.Connection[Any]) -> None:
        """Hold our lock, and recover the jobs of those who hold theirs no more.

        Of each version one worker does.
        """
        from dbos import DBOS

        recovers = False
        follower, recoverer = (
            f"{self._address.schema} {name}" for name in (self._queue, self._version)
        )
        while True:
            try:
                if alive.closed:
                    alive = self._hold_lock()
                    recovers = False
                if not self._follows.is_set() and _got_lock(
                    alive, _FOLLOWER_LOCKS, follower
                ):
                    self._follows.set()
                recovers = recovers or _got_lock(alive, _RECOVERY_LOCKS, recoverer)
                running = []
                if recovers:
                    running = self._fleet.client.list_workflows(
                        status="PENDING",
                        app_version=self._version,
                        load_input=False,
                        load_output=False,
                    )
                for other in {one.executor_id for one in running if one.executor_id} - {
                    self.id
                }:
                    if _is_gone(alive, other):
                        self._say(
                            f"worker {other} stopped responding; another worker takes "
                            "over its runs"
                        )
                        DBOS._recover_pending_workflows([other])
            except Exception as error:  # as above
                self._say(
                    f"the database cannot be reached: {_why(error)}; trying again"
                )
                alive.close()
            if self._stopping.wait(ALIVE_SECONDS):
                self._follows.set()
                alive.close()
                return


def _why(error: Exception) -> str:
    return error.message if isinstance(error, BridgeheadError) else type(error).__name__


def _got_lock(connection: psycopg.Connection[Any], space: int, name: str) -> bool:
    row = connection.execute(
        "SELECT pg_try_advisory_lock(%s, hashtext(%s))", [space, name]
    ).fetchone()
    return row is not None and bool(row[0])


def _is_gone(connection: psycopg.Connection[Any], worker: str) -> bool:
    if not _got_lock(connection, _ALIVE_LOCKS, worker):
        return False
    connection.execute(
        "SELECT pg_advisory_unlock(%s, hashtext(%s))", [_ALIVE_LOCKS, worker]
    )
    return True


def _event(job: Job, ended: PassEnd, at: str) -> FlowEvent:
    kind = "paused" if ended.status is RunStatus.WAITING else ended.status.value
    run = job.run(ended.status, at)
    facts: dict[str, Any] = {
        "waits_for": [str(made.document["agent_name"]) for made in ended.open_requests]
    }
    if ended.error is not None:
        facts["error"] = ended.error
    return FlowEvent(f"{job.id}/flow.{kind}", f"flow.{kind}", run, at, facts)
