"""Submit, list, show, cancel and retry the runs of a fleet, from any machine.

DBOS keeps them in Postgres as jobs of its queues, in a schema beside the record's. A
run is a chain of jobs, one for each pass (flows/fleet.py). DBOS provides queues, timers
and recovery; only this package uses its library.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qsl, urlencode, urlsplit

from bridgehead.assembly.flows.recording import record_event, withdraw_request
from bridgehead.assembly.flows.stored_values import (
    hold_to_portable_json,
    only_portable_json,
)
from bridgehead.control_plane.stores import open_store
from bridgehead.errors import ConfigError, NotFound, UserError
from bridgehead.flows.engine.run_request import RUN_KEY
from bridgehead.flows.fleet import Job, records_of
from bridgehead.flows.interfaces import FlowEvent
from bridgehead.flows.journals.base import Record, Run
from bridgehead.flows.operations.cancel import MOST_DAYS
from bridgehead.flows.operations.inspect import ListResult, StatusResult, find_run
from bridgehead.flows.operations.retry import CannotRetry, step_meant, what_failed
from bridgehead.flows.values.ids import new_flow_id, sha256_hex
from bridgehead.flows.values.times import now_text, utc_text
from bridgehead.flows.words import DEFAULT_MAX_RETRIES, RunStatus

if TYPE_CHECKING:
    from dbos import DBOSClient, EnqueueOptions, WorkflowStatus

    from bridgehead.control_plane.stores.base import Store

APPLICATION: Final = "bridgehead"
FLOW_JOB = "bridgehead.flow"
ANSWER_JOB = "bridgehead.answer"
CALL_JOB = "bridgehead.call"
SCHEDULED_JOB: Final = "bridgehead.scheduled"
POSTGRES: Final = ("postgresql://", "postgres://")
DEFAULT_QUEUE: Final = "default"
NO_ANSWER_SECONDS: Final = 10 * 365 * 86_400.0
"""How long a run without `expires=` is delayed; an answer wakes it at once."""
EXPIRY_MARGIN_SECONDS: Final = 0.05
"""Added to the delay, as an ask expires after its time, not at it."""
MOST_ATTEMPTS: Final = 3
"""How often a job is started if its worker dies each time."""
LOOKED_THROUGH: Final = 1000
PRUNED_AT_ONCE: Final = 1000
"""About how many passes are deleted at once."""
_PRUNE_LOCKS: Final = 0x62726469
_UNFINISHED: Final = {
    "DELAYED": RunStatus.WAITING,
    "ENQUEUED": RunStatus.QUEUED,
    "PENDING": RunStatus.RUNNING,
    "CANCELLED": RunStatus.CANCELLED,
}
"""The status of a run without an output, by the DBOS status of its last pass."""
_UNDER_WAY: Final = ("DELAYED", "ENQUEUED", "PENDING")
LAST_SECOND: Final = 253_402_300_799.0  # of the year 9999
_PASS_ID: Final = re.compile(r"(.+)/([1-9][0-9]{0,6})")
DAMAGED: Final = "its row in the fleet's database is damaged and was not read"
_QUEUE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def checked_queue(name: str) -> str:
    if not _QUEUE_NAME.fullmatch(name):
        raise UserError(
            f"{name!r} is not a valid queue name: use lower-case letters, digits, "
            "'.', '_', '-'"
        )
    return name


class FleetAddress:
    """A Postgres URL, in the forms that the record and DBOS need."""

    def __init__(self, url: str) -> None:
        if not url.startswith(POSTGRES):
            raise ConfigError(
                "a fleet needs a Postgres database",
                hint=(
                    "give --database postgresql://USER@HOST/DATABASE, or set "
                    "store.url to one"
                ),
            )
        try:
            import dbos  # noqa: F401

            from bridgehead.control_plane.stores.postgres import PostgresAddress
        except ImportError as error:
            raise ConfigError(
                "a fleet needs DBOS", hint="pip install 'bridgehead[fleet]'"
            ) from error
        self.record_url = url
        self.postgres = PostgresAddress.parse(url)
        self.schema = f"{self.postgres.schema}_dbos"

    @property
    def dbos_url(self) -> str:
        """Return the URL without the schema, which is the record's."""
        parts = urlsplit(self.record_url)
        query = [
            (name, value) for name, value in parse_qsl(parts.query) if name != "schema"
        ]
        return parts._replace(scheme="postgresql", query=urlencode(query)).geturl()


class Fleet:
    """The runs of a fleet, as seen from any machine."""

    def __init__(self, address: FleetAddress) -> None:
        self.address = address
        self._has_tables = False

    @cached_property
    def client(self) -> DBOSClient:
        from dbos import DBOSClient

        return DBOSClient(
            system_database_url=self.address.dbos_url,
            dbos_system_schema=self.address.schema,
            serializer=only_portable_json(),
            application_name=APPLICATION,
        )

    @cached_property
    def store(self) -> Store:
        return open_store(self.address.record_url)

    def close(self) -> None:
        if "client" in vars(self):
            self.client.destroy()
        if "store" in vars(self):
            self.store.close()

    def prepare(self) -> None:
        """Create the tables of DBOS, and restrict them to portable JSON."""
        from dbos import DBOS

        if self._has_tables:
            return
        DBOS.migrate(self.address.dbos_url, schema=self.address.schema)
        hold_to_portable_json(self.address.postgres, self.address.schema)
        self._has_tables = True

    # Submitting

    def submit(
        self,
        name: str,
        settings: Mapping[str, Any],
        *,
        queue: str = DEFAULT_QUEUE,
        key: str | None = None,
        priority: int = 100,
        at: datetime | None = None,
    ) -> Run:
        """Submit a run; if a run has the key already, return that one."""
        self.prepare()  # the first submission creates the tables
        now = datetime.now(UTC)
        run_id = f"{new_flow_id(now)}{os.urandom(4).hex()}"
        if key is not None:
            run_id = f"flow-{name}-{sha256_hex(f'{name} {key}'.encode())[:16]}"
            settings = {**settings, RUN_KEY: key}
        job = Job(
            run_id,
            name,
            settings,
            checked_queue(queue),
            utc_text(now),
            priority=priority,
        )
        after = None
        if at is not None:
            after = max(0.0, (at - now).total_seconds())
        self.enqueue(job, after_seconds=after)
        return self.status(run_id).run

    def enqueue(
        self,
        job: Job,
        *,
        version: str | None = None,
        after_seconds: float | None = None,
    ) -> None:
        """Put a pass into its queue, unless it is there already.

        Without a version, a worker with the newest one takes it.
        """
        # Runs that have begun come before new ones, so that an answer does not wait for
        # a backlog. DBOS takes jobs without a priority first.
        self.put(
            FLOW_JOB,
            job.id,
            job.queue,
            job.document(),
            priority=job.priority if job.number == 1 else None,
            app_version=version,
            delay_seconds=after_seconds,
        )

    def put(
        self,
        kind: str,
        job_id: str,
        queue: str,
        document: Mapping[str, Any],
        **more: Any,
    ) -> None:
        """Put a job into a queue, unless there is one with its id."""
        options = {
            "workflow_name": kind,
            "queue_name": queue,
            "workflow_id": job_id,
        }
        for name, value in more.items():
            if value is not None:
                options[name] = value
        self.client.enqueue(cast("EnqueueOptions", options), document)

    def wake(self, run_id: str) -> None:
        """Continue a run now, if it waits."""
        waiting = self.client.list_workflows(
            workflow_id_prefix=f"{run_id}/",
            status="DELAYED",
            name=FLOW_JOB,
            load_input=False,
            load_output=False,
        )
        for job in waiting:
            self.client.resume_workflow(job.workflow_id, queue_name=job.queue_name)

    def waiting(self, queue: str) -> Iterator[Job]:
        """Yield the passes of a queue that are delayed; skip damaged rows."""
        for row in self._all(name=FLOW_JOB, status="DELAYED", queue_name=queue):
            job = _job_of(row)
            if job is not None:
                yield job

    def _all(self, **where: Any) -> Iterator[WorkflowStatus]:
        for offset in count(0, LOOKED_THROUGH):
            page = self.client.list_workflows(
                **where, limit=LOOKED_THROUGH, offset=offset
            )
            yield from page
            if len(page) < LOOKED_THROUGH:
                return

    # Looking

    def list(self, limit: int = 50) -> ListResult:
        """Return the runs of all queues, the most recently changed first."""
        newest = list(self._newest(4 * limit).items())[:limit]
        agents: dict[str, tuple[str, ...]] = {}
        for run_id, row in newest:
            job = _job_of(row)
            if row.status == "DELAYED" and job is not None:
                agents[run_id] = tuple(
                    str(attempt.document["agent_name"]) for attempt in job.attempts
                )
        return ListResult(tuple(_run_of(row) for _, row in newest), waits_for=agents)

    def load(self) -> Counter[tuple[str, str]]:
        """Count the runs of each queue by who has them.

        The keys are a queue and a worker, or `queued` or `waiting` for runs that no
        worker has.
        """
        without_worker = {"ENQUEUED": "queued", "DELAYED": "waiting"}
        rows = self._all(
            name=FLOW_JOB,
            status=["PENDING", *without_worker],
            load_input=False,
            load_output=False,
        )
        return Counter(
            (str(row.queue_name), without_worker.get(row.status, str(row.executor_id)))
            for row in rows
        )

    def status(self, reference: str | None) -> StatusResult:
        """Return a run with its steps and what it waits for."""
        newest, job = self._find(reference)
        records = self.records(job.next())
        attempts = [attempt for attempt in job.attempts if attempt.path not in records]
        return StatusResult(_run_of(newest), tuple(records.values()), tuple(attempts))

    def records(self, job: Job) -> dict[str, Record]:
        """Return what the passes before this one recorded."""
        outputs = []
        for number in range(1, job.number):
            steps = self.client.list_workflow_steps(f"{job.run_id}/{number}")
            outputs.append([step["output"] for step in steps])
        return records_of(outputs, job.forgets)

    def was_cancelled(self, job: Job) -> bool:
        found = self.client.list_workflows(workflow_ids=[job.id], load_input=False)
        # A job that is not there has been pruned.
        return not found or found[0].status == "CANCELLED"

    def knows(self, reference: str | None) -> bool:
        try:
            return bool(self._find(reference))
        except NotFound:
            return False

    def _newest(self, limit: int, **where: Any) -> dict[str, WorkflowStatus]:
        """Return the last pass of each run, by run."""
        rows = self.client.list_workflows(
            name=FLOW_JOB, sort_desc=True, limit=limit, **where
        )
        last: dict[str, WorkflowStatus] = {}
        for row in rows:
            run_id, number = _pass_of(row.workflow_id)
            if run_id not in last or number > _pass_of(last[run_id].workflow_id)[1]:
                last[run_id] = row
        return last

    def _find(self, reference: str | None) -> tuple[WorkflowStatus, Job]:
        """Return the last pass of the run that `reference` names, and its job."""
        found: dict[str, WorkflowStatus] = {}
        if reference:
            found = self._newest(LOOKED_THROUGH, workflow_id_prefix=f"{reference}/")
        if not found:
            found = self._newest(LOOKED_THROUGH)
        runs = [_run_of(row) for row in found.values()]
        run = find_run(runs, reference, "the fleet")
        newest = found[run.id]
        return newest, _job_of(newest) or _unreadable_job(newest)

    # Changing

    def cancel(self, reference: str) -> Run:
        """Cancel a run and withdraw its questions."""
        newest, job = self._find(reference)
        run = _run_of(newest)
        if run.status.ended:
            raise UserError(
                f"{run.id} has already ended ({run.status}); there is nothing to cancel"
            )
        self.client.cancel_workflow(newest.workflow_id)
        last, later = self._find(run.id)
        if last.workflow_id != newest.workflow_id:  # it continued meanwhile
            newest = last
            job = later
            self.client.cancel_workflow(newest.workflow_id)
        for attempt in job.attempts:
            withdraw_request(
                self.store, attempt.request_id, job.project, "the run was cancelled"
            )
        ended = run._replace(status=RunStatus.CANCELLED, updated=now_text())
        record_event(
            self.store,
            FlowEvent(
                f"{run.id}/flow.cancelled", "flow.cancelled", ended, ended.updated
            ),
        )
        return ended

    def retry(self, reference: str, from_step: str | None = None) -> Run:
        """Continue a run that failed, on a worker with the newest code.

        Its records are kept.
        """
        with self._no_pruning():
            newest, job = self._find(reference)
            run = _run_of(newest)
            failed = run.status is RunStatus.FAILED
            cancelled = run.status is RunStatus.CANCELLED
            if not failed and not (cancelled and from_step):
                way = f"bridgehead flow status {run.id} shows its state"
                raise CannotRetry(run, f"it is {run.status.value}", way)
            records = tuple(self.records(job.next()).values())
            if from_step is None:
                following = job.next(forget=what_failed(records, run.error or ""))
            else:
                following = job.next(forget=step_meant(records, from_step, run.id))
                # The run may not ask what it asked after that step.
                following = following._replace(attempts=())
            self.enqueue(following)
            return self.status(run.id).run

    def prune(
        self, days: float, *, failed: bool = False, dry_run: bool = False
    ) -> Iterator[Run]:
        """Delete runs that ended more than `days` ago, with their part of the record.

        Yield each run that is deleted, or would be. DBOS deletes nothing by itself.
        Failed runs, which could be retried, go only with `failed`.
        """
        now = datetime.now(UTC)
        before = now - timedelta(days=min(days, MOST_DAYS))
        last = self._last_passes(before)
        while last:
            batch: dict[str, int] = {}
            while last and sum(batch.values()) < PRUNED_AT_ONCE:
                run_id, number = last.popitem()
                batch[run_id] = number
            with self._no_pruning():
                ended = self._ended(batch, utc_text(before), failed=failed)
                if ended and not dry_run:
                    self._delete(ended)
            yield from (run for run, _ in ended)
        if not dry_run:
            # Recent ones are kept: another worker may not have noticed yet that their
            # schedule was handled.
            self._delete_schedule_jobs(min(before, now - timedelta(days=1)))

    def _last_passes(self, before: datetime) -> dict[str, int]:
        """Return the number of the last pass of each run that ended before a time."""
        last: dict[str, int] = {}
        for row in self._completed(FLOW_JOB, before):
            run_id, number = _pass_of(row.workflow_id)
            last[run_id] = max(number, last.get(run_id, 0))
        return last

    def _completed(self, kind: str, before: datetime) -> Iterator[WorkflowStatus]:
        return self._all(
            name=kind,
            completed_before=before.isoformat(),
            load_input=False,
            load_output=False,
        )

    def _delete(self, ended: Sequence[tuple[Run, Sequence[str]]]) -> None:
        """Delete runs with their jobs, from the record first."""
        job_ids: list[str] = []
        for _, ids in ended:
            job_ids.extend(ids)
        self.store.forget_runs([run.id for run, _ in ended])
        self.client.delete_workflows(job_ids)

    def _delete_schedule_jobs(self, before: datetime) -> None:
        rows = self._completed(SCHEDULED_JOB, before)
        self.client.delete_workflows([row.workflow_id for row in rows])

    def _ended(
        self, last: Mapping[str, int], before: str, *, failed: bool
    ) -> Sequence[tuple[Run, Sequence[str]]]:
        """Return the runs that are over, each with the ids of all its jobs.

        `last` gives for each run the last pass that is known to have ended.
        """
        newest: dict[str, WorkflowStatus] = {}
        jobs: dict[str, list[str]] = {}
        run_of_job: dict[str, str] = {}
        for row in self._passes_up_to(last):
            job = _job_of(row) or _unreadable_job(row)
            newest[job.run_id] = row
            jobs.setdefault(job.run_id, []).append(row.workflow_id)
            for attempt in job.attempts:
                for job_id in _answering_jobs(attempt.request_id):
                    run_of_job[job_id] = job.run_id
        for row in self._jobs_with_ids(list(run_of_job)):
            run_id = run_of_job[row.workflow_id]
            jobs[run_id].append(row.workflow_id)
            if row.status in _UNDER_WAY:
                newest.pop(run_id, None)  # a handler at work may finish
        runs = [_run_of(row) for row in newest.values()]
        return [
            (run, jobs[run.id])
            for run in runs
            if run.is_over_since(before, failed=failed)
        ]

    def _passes_up_to(self, last: Mapping[str, int]) -> Sequence[WorkflowStatus]:
        """Return the passes of these runs in their order, and one after the last."""
        ids: list[str] = []
        for run_id, number in last.items():
            ids.extend(f"{run_id}/{each}" for each in range(1, number + 2))
        rows = self.client.list_workflows(workflow_ids=ids)
        return sorted(rows, key=lambda row: _pass_of(row.workflow_id)[1])

    def _jobs_with_ids(self, ids: Sequence[str]) -> Sequence[WorkflowStatus]:
        # Without ids, DBOS would list every job.
        if not ids:
            return ()
        return self.client.list_workflows(workflow_ids=[*ids], load_input=False)

    @contextmanager
    def _no_pruning(self) -> Iterator[None]:
        """Hold the lock under which runs are deleted, or ended ones retried."""
        import psycopg

        with psycopg.connect(**self.address.postgres.parameters) as connection:  # type: ignore[arg-type]
            connection.execute(
                "SELECT pg_advisory_xact_lock(%s, hashtext(%s))",
                [_PRUNE_LOCKS, self.address.schema],
            )
            yield


def has_begun(url: str) -> bool:
    """Return whether the database has a fleet; raise if it cannot be reached."""
    if not url.startswith(POSTGRES):
        return False
    import psycopg

    from bridgehead.control_plane.stores.failures import ServerUnreachable
    from bridgehead.control_plane.stores.postgres import PostgresAddress

    address = PostgresAddress.parse(url)
    try:
        with psycopg.connect(**address.parameters) as connection:  # type: ignore[arg-type]
            row = connection.execute(
                "SELECT to_regclass(%s)", [f"{address.schema}_dbos.workflow_status"]
            ).fetchone()
    except psycopg.Error as error:
        raise ServerUnreachable(address.where, type(error).__name__) from None
    return row is not None and row[0] is not None


@contextmanager
def open_fleet(url: str) -> Iterator[Fleet]:
    fleet = Fleet(FleetAddress(url))
    try:
        fleet.store.last_seq()  # raises a clear error if the server cannot be reached
        yield fleet
    finally:
        fleet.close()


def delay_before(wake: datetime | None, now: datetime) -> float:
    """Return by how many seconds a waiting run is delayed."""
    if wake is None:
        return NO_ANSWER_SECONDS
    return max(
        0.0, (wake - now + timedelta(seconds=EXPIRY_MARGIN_SECONDS)).total_seconds()
    )


def _answering_jobs(request_id: str) -> list[str]:
    """Return the ids of the jobs that may have answered a request."""
    calls = range(DEFAULT_MAX_RETRIES + 1)
    return [f"answer/{request_id}", *(f"call/{request_id}/{call}" for call in calls)]


def _pass_of(job_id: str) -> tuple[str, int]:
    """Return the run and the number of a pass from its id; number 0 if it is none."""
    found = _PASS_ID.fullmatch(job_id)
    return (found[1], int(found[2])) if found else (job_id, 0)


def _job_of(status: WorkflowStatus) -> Job | None:
    """Return the job in a row; None if the row is damaged."""
    try:
        job = Job.read(cast("Mapping[str, Any]", status.input)["args"][0])
        texts = [job.run_id, job.name, job.queue, job.created, job.version or ""]
        for attempt in job.attempts:
            texts.append(attempt.document["request_id"])
            texts.append(attempt.document["agent_name"])
    except (AttributeError, LookupError, TypeError, ValueError):
        return None
    has_whole_number = isinstance(job.number, int)
    has_settings = isinstance(job.settings, Mapping)
    has_texts = all(isinstance(text, str) for text in texts)
    is_whole = has_whole_number and has_settings and has_texts
    return job if is_whole and status.workflow_id == job.id else None


def _unreadable_job(status: WorkflowStatus) -> Job:
    """Return a job with what is known of a pass whose row is damaged."""
    run_id, number = _pass_of(status.workflow_id)
    queue = status.queue_name or DEFAULT_QUEUE
    created = _moment(status.created_at)
    return Job(run_id, "", {}, queue, created, number=number)


def _run_of(status: WorkflowStatus) -> Run:
    """Return a run as a journal would keep it, from its last pass.

    Its status is `damaged` if that pass cannot be read.
    """
    job = _job_of(status)
    output: object = status.output or {}
    updated = _moment(status.updated_at)
    if job is None or not isinstance(output, dict):
        unread = (job or _unreadable_job(status)).run(RunStatus.DAMAGED, updated)
        return unread._replace(error=DAMAGED)
    version = job.version or output.get("version", "")
    if status.status in _UNFINISHED:
        return job.run(_UNFINISHED[status.status], updated, version=version)
    if status.status == "SUCCESS":
        if output.get("status") not in list(RunStatus):
            return job.run(RunStatus.DAMAGED, updated, error=DAMAGED)
        state = RunStatus(output["status"])
        error = output.get("error")
    else:
        state = RunStatus.FAILED
        error = (
            f"its worker died {MOST_ATTEMPTS} times; it is not restarted automatically"
        )
        if status.status == "ERROR":
            error = str(status.error)
    return job.run(
        state, updated, version=version, result=output.get("result"), error=error
    )


def _moment(milliseconds: int | None) -> str:
    seconds = min(max((milliseconds or 0) / 1000, 0.0), LAST_SECOND)
    return utc_text(datetime.fromtimestamp(seconds, UTC))
