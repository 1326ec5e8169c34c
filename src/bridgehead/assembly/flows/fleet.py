"""The runs of a fleet, from any machine: hand in, list, look at, cancel, retry.

DBOS keeps them in Postgres as jobs of its queues, in a schema beside the record's; a run is a chain of jobs, one for
each pass (flows/fleet.py). Queues, timers and recovery are DBOS' own; of its library only this room knows.
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
"""How long a run without `expires=` is put off; an answer brings it back at once."""
EXPIRY_MARGIN_SECONDS: Final = 0.05
"""An ask expires after its time, not at it."""
MOST_ATTEMPTS: Final = 3
"""So often a job is begun whose worker dies of it."""
LOOKED_THROUGH: Final = 1000
PRUNED_AT_ONCE: Final = (
    1000  # passes, with as many runs as have them: what one statement names
)
_PRUNE_LOCKS: Final = 0x62726469
_UNFINISHED: Final = {
    "DELAYED": RunStatus.WAITING,
    "ENQUEUED": RunStatus.QUEUED,
    "PENDING": RunStatus.RUNNING,
    "CANCELLED": RunStatus.CANCELLED,
}
"""Where a run without an output stands, by what DBOS says of its last pass."""
_UNDER_WAY: Final = frozenset({"DELAYED", "ENQUEUED", "PENDING"})
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
    """A Postgres URL, as the record and as DBOS take it."""

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
        """Without the schema, which is the record's."""
        parts = urlsplit(self.record_url)
        query = [
            (name, value) for name, value in parse_qsl(parts.query) if name != "schema"
        ]
        return parts._replace(scheme="postgresql", query=urlencode(query)).geturl()


class Fleet:
    """What a machine without a worker does with the runs of a fleet."""

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
        """Make the tables of DBOS, and hold them to portable JSON."""
        from dbos import DBOS

        if self._has_tables:
            return
        DBOS.migrate(self.address.dbos_url, schema=self.address.schema)
        hold_to_portable_json(self.address.postgres, self.address.schema)
        self._has_tables = True

    # Handing in

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
        """Hand in a run. The same key twice is one run; it is returned as it is now."""
        self.prepare()  # the first to come makes the tables
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
        self.enqueue(
            job,
            after_seconds=None if at is None else max(0.0, (at - now).total_seconds()),
        )
        return self.status(run_id).run

    def enqueue(
        self,
        job: Job,
        *,
        version: str | None = None,
        after_seconds: float | None = None,
    ) -> None:
        """Put a pass into its queue, once. Without a version, whoever has the newest takes it."""
        # What has begun goes before what is new: an answer must not wait for a backlog. DBOS takes those without first.
        first = job.priority if job.number == 1 else None
        more = {
            "priority": first,
            "app_version": version,
            "delay_seconds": after_seconds,
        }
        self.put(FLOW_JOB, job.id, job.queue, job.document(), **more)

    def put(
        self,
        kind: str,
        job_id: str,
        queue: str,
        document: Mapping[str, Any],
        **more: Any,
    ) -> None:
        """Put a job into a queue; one whose id is known is there already."""
        given = {name: value for name, value in more.items() if value is not None}
        options = {
            "workflow_name": kind,
            "queue_name": queue,
            "workflow_id": job_id,
            **given,
        }
        self.client.enqueue(cast("EnqueueOptions", options), document)

    def wake(self, run_id: str) -> None:
        """An answer has come: the run goes on now, if it waits."""
        waiting = self.client.list_workflows(
            workflow_id_prefix=f"{run_id}/",
            status="DELAYED",
            name=FLOW_JOB,
            load_input=False,
            load_output=False,
        )
        for status in waiting:
            self.client.resume_workflow(
                status.workflow_id, queue_name=status.queue_name
            )

    def waiting(self, queue: str) -> Iterator[Job]:
        """The passes of a queue that are put off; those with a damaged row are passed over."""
        for status in self._all(name=FLOW_JOB, status="DELAYED", queue_name=queue):
            job = _job_of(status)
            if job is not None:
                yield job

    def _all(self, **where: Any) -> Iterator[WorkflowStatus]:
        for place in count(0, LOOKED_THROUGH):
            page = self.client.list_workflows(
                **where, limit=LOOKED_THROUGH, offset=place
            )
            yield from page
            if len(page) < LOOKED_THROUGH:
                return

    # Looking

    def list(self, limit: int = 50) -> ListResult:
        """The runs of all queues, the latest touched first."""
        newest = list(self._newest(4 * limit).items())[:limit]
        agents: dict[str, tuple[str, ...]] = {}
        for run_id, one in newest:
            job = _job_of(one)
            if one.status == "DELAYED" and job is not None:
                asked = [str(made.document["agent_name"]) for made in job.attempts]
                agents[run_id] = tuple(asked)
        return ListResult(tuple(_run_of(one) for _, one in newest), waits_for=agents)

    def load(self) -> Counter[tuple[str, str]]:
        """How many runs of each queue a worker has, or nobody yet: by queue and worker, `queued` or `waiting`."""
        unheld = {"ENQUEUED": "queued", "DELAYED": "waiting"}
        found = self._all(
            name=FLOW_JOB,
            status=["PENDING", *unheld],
            load_input=False,
            load_output=False,
        )
        return Counter(
            (str(one.queue_name), unheld.get(one.status, str(one.executor_id)))
            for one in found
        )

    def status(self, reference: str | None) -> StatusResult:
        """One run with its steps, and what it waits for."""
        newest, job = self._find(reference)
        records = self.records(job.next())
        attempts = [made for made in job.attempts if made.path not in records]
        return StatusResult(_run_of(newest), tuple(records.values()), tuple(attempts))

    def records(self, job: Job) -> dict[str, Record]:
        """What the passes before this one recorded."""
        steps = [
            self.client.list_workflow_steps(f"{job.run_id}/{number}")
            for number in range(1, job.number)
        ]
        return records_of(
            [[step["output"] for step in made] for made in steps], job.forgets
        )

    def was_cancelled(self, job: Job) -> bool:
        found = self.client.list_workflows(workflow_ids=[job.id], load_input=False)
        # One that is not there was pruned since.
        return not found or found[0].status == "CANCELLED"

    def knows(self, reference: str | None) -> bool:
        try:
            return bool(self._find(reference))
        except NotFound:
            return False

    def _newest(self, limit: int, **where: Any) -> dict[str, WorkflowStatus]:
        """The last pass of each run."""
        found: dict[str, WorkflowStatus] = {}
        for one in self.client.list_workflows(
            name=FLOW_JOB, sort_desc=True, limit=limit, **where
        ):
            run_id, number = _pass_of(one.workflow_id)
            if run_id not in found or number > _pass_of(found[run_id].workflow_id)[1]:
                found[run_id] = one
        return found

    def _find(self, reference: str | None) -> tuple[WorkflowStatus, Job]:
        found = (
            self._newest(LOOKED_THROUGH, workflow_id_prefix=f"{reference}/")
            if reference
            else {}
        )
        if not found:
            found = self._newest(LOOKED_THROUGH)
        runs = [_run_of(one) for one in found.values()]
        run = find_run(runs, reference, "the fleet")
        newest = found[run.id]
        return newest, _job_of(newest) or _unreadable_job(newest)

    # Changing

    def cancel(self, reference: str) -> Run:
        """End a run: its job is cancelled, its questions are withdrawn."""
        newest, job = self._find(reference)
        run = _run_of(newest)
        if run.status.ended:
            raise UserError(
                f"{run.id} has already ended ({run.status}); there is nothing to cancel"
            )
        self.client.cancel_workflow(newest.workflow_id)
        last, later = self._find(run.id)
        if last.workflow_id != newest.workflow_id:  # it went on meanwhile
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
        """Go on with a run that failed, on a worker with the newest code; its records are kept."""
        with self._no_pruning():
            newest, job = self._find(reference)
            run = _run_of(newest)
            if run.status is not RunStatus.FAILED and not (
                run.status is RunStatus.CANCELLED and from_step
            ):
                way = f"bridgehead flow status {run.id} shows its state"
                raise CannotRetry(run, f"it is {run.status.value}", way)
            records = tuple(self.records(job.next()).values())
            if from_step is None:
                self.enqueue(job.next(forget=what_failed(records, run.error or "")))
            else:
                # What was asked after the step may not be asked again.
                self.enqueue(
                    job.next(forget=step_meant(records, from_step, run.id))._replace(
                        attempts=()
                    )
                )
            return self.status(run.id).run

    def prune(
        self, days: float, *, failed: bool = False, dry_run: bool = False
    ) -> Iterator[Run]:
        """Delete runs that ended so long ago, with all the record knows of them; each that is or would be deleted.

        DBOS deletes nothing by itself. Failed runs, which could be retried, go only with `failed`.
        """
        now = datetime.now(UTC)
        before = now - timedelta(days=min(days, MOST_DAYS))
        old = {
            "completed_before": before.isoformat(),
            "load_input": False,
            "load_output": False,
        }
        last: dict[str, int] = {}
        for one in self._all(name=FLOW_JOB, **old):
            run_id, number = _pass_of(one.workflow_id)
            last[run_id] = max(number, last.get(run_id, 0))
        while last:
            some: dict[str, int] = {}
            while last and sum(some.values()) < PRUNED_AT_ONCE:
                some.update([last.popitem()])
            with self._no_pruning():
                ended = self._ended(some, utc_text(before), failed=failed)
                if ended and not dry_run:
                    self._delete(ended)
            for run, _ in ended:
                yield run
        # Of a time that has just come, another worker may not know yet that it was seen to.
        old["completed_before"] = min(before, now - timedelta(days=1)).isoformat()
        if not dry_run:
            self.client.delete_workflows(
                [one.workflow_id for one in self._all(name=SCHEDULED_JOB, **old)]
            )

    def _delete(self, ended: Sequence[tuple[Run, Sequence[str]]]) -> None:
        self.store.forget_runs([run.id for run, _ in ended])
        job_ids: list[str] = []
        for _, jobs in ended:
            job_ids += jobs
        self.client.delete_workflows(job_ids)

    def _ended(
        self, last: Mapping[str, int], before: str, *, failed: bool
    ) -> Sequence[tuple[Run, Sequence[str]]]:
        """Return the runs that are over, with the ids of all their jobs.

        `last` names runs, and the number up to which their passes have ended.
        """
        newest: dict[str, WorkflowStatus] = {}
        jobs: dict[str, list[str]] = {}
        run_ids: dict[str, str] = {}
        """By the id of a job that answers a question, the run that asked it."""
        for status in self._passes(last):
            job = _job_of(status) or _unreadable_job(status)
            newest[job.run_id] = status
            jobs.setdefault(job.run_id, []).append(status.workflow_id)
            for attempt in job.attempts:
                for job_id in _answering_jobs(attempt.request_id):
                    run_ids[job_id] = job.run_id
        for status in self._with_ids(list(run_ids)):
            run_id = run_ids[status.workflow_id]
            jobs[run_id].append(status.workflow_id)
            if status.status in _UNDER_WAY:
                newest.pop(run_id, None)  # a handler at work is let finish
        runs = [_run_of(status) for status in newest.values()]
        return [
            (run, jobs[run.id])
            for run in runs
            if run.is_over_since(before, failed=failed)
        ]

    def _passes(self, last: Mapping[str, int]) -> Sequence[WorkflowStatus]:
        """Return the passes of runs, the first ones first, and one beyond the last."""
        ids: list[str] = []
        for run_id, most in last.items():
            ids += [f"{run_id}/{number}" for number in range(1, most + 2)]
        found = self.client.list_workflows(workflow_ids=ids)
        return sorted(found, key=lambda status: _pass_of(status.workflow_id)[1])

    def _with_ids(self, ids: Sequence[str]) -> Sequence[WorkflowStatus]:
        if not ids:
            return ()
        return self.client.list_workflows(workflow_ids=[*ids], load_input=False)

    @contextmanager
    def _no_pruning(self) -> Iterator[None]:
        """Whoever deletes runs, or brings an ended one back, does so alone."""
        import psycopg

        with psycopg.connect(**self.address.postgres.parameters) as connection:  # type: ignore[arg-type]
            connection.execute(
                "SELECT pg_advisory_xact_lock(%s, hashtext(%s))",
                [_PRUNE_LOCKS, self.address.schema],
            )
            yield


def has_begun(url: str) -> bool:
    """Whether the database has a fleet; one that cannot be reached is a StoreError."""
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
        fleet.store.last_seq()  # says in plain words when the server cannot be reached
        yield fleet
    finally:
        fleet.close()


def delay_before(wake: datetime | None, now: datetime) -> float:
    """How long a waiting run is put off."""
    if wake is None:
        return NO_ANSWER_SECONDS
    return max(
        0.0, (wake - now + timedelta(seconds=EXPIRY_MARGIN_SECONDS)).total_seconds()
    )


def _answering_jobs(request_id: str) -> list[str]:
    """Return the ids that jobs answering a request may have."""
    ids = [f"answer/{request_id}"]
    for attempt in range(DEFAULT_MAX_RETRIES + 1):
        ids.append(f"call/{request_id}/{attempt}")
    return ids


def _pass_of(job_id: str) -> tuple[str, int]:
    """Return the run and the number of the pass that an id names; 0 for an id that names none."""
    found = _PASS_ID.fullmatch(job_id)
    return (found[1], int(found[2])) if found else (job_id, 0)


def _job_of(status: WorkflowStatus) -> Job | None:
    """Return the job in a row; None for a row that is damaged."""
    try:
        job = Job.read(cast("Mapping[str, Any]", status.input)["args"][0])
        texts = [job.run_id, job.name, job.queue, job.created, job.version or ""]
        for attempt in job.attempts:
            texts += [attempt.document["request_id"], attempt.document["agent_name"]]
    except (AttributeError, LookupError, TypeError, ValueError):
        return None
    is_named = status.workflow_id == job.id and isinstance(job.number, int)
    is_typed = isinstance(job.settings, Mapping) and all(
        isinstance(text, str) for text in texts
    )
    return job if is_named and is_typed else None


def _unreadable_job(status: WorkflowStatus) -> Job:
    """Return what is known of a pass without reading its values."""
    run_id, number = _pass_of(status.workflow_id)
    queue = status.queue_name or DEFAULT_QUEUE
    created = _moment(status.created_at)
    return Job(run_id, "", {}, queue, created, number=number)


def _run_of(status: WorkflowStatus) -> Run:
    """Return a run as journals keep it, from its last pass; `damaged` where that cannot be read."""
    job = _job_of(status)
    output: object = status.output or {}
    moved = _moment(status.updated_at)
    if job is None or not isinstance(output, dict):
        unread = (job or _unreadable_job(status)).run(RunStatus.DAMAGED, moved)
        return unread._replace(error=DAMAGED)
    version = job.version or output.get("version", "")
    if status.status in _UNFINISHED:
        return job.run(_UNFINISHED[status.status], moved, version=version)
    if status.status == "SUCCESS":
        if output.get("status") not in list(RunStatus):
            return job.run(RunStatus.DAMAGED, moved, error=DAMAGED)
        state = RunStatus(output["status"])
        error = output.get("error")
    else:
        gone = (
            f"its worker died {MOST_ATTEMPTS} times; it is not restarted automatically"
        )
        state = RunStatus.FAILED
        error = str(status.error) if status.status == "ERROR" else gone
    return job.run(
        state, moved, version=version, result=output.get("result"), error=error
    )


def _moment(milliseconds: int | None) -> str:
    seconds = min(max((milliseconds or 0) / 1000, 0.0), LAST_SECOND)
    return utc_text(datetime.fromtimestamp(seconds, UTC))
