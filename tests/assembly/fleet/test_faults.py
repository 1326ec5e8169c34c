"""What goes wrong in a fleet: killed workers, a database that restarts, cut connections, two versions, a poison job."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from bridgehead.assembly.flows.fleet import MOST_ATTEMPTS, FleetAddress
from bridgehead.assembly.flows.worker import Worker
from bridgehead.control_plane.records import EventFilter
from bridgehead.errors import StoreError
from bridgehead.flows.words import FLEET, RunStatus
from support.postgres import PostgresServer

from .conftest import Submit, TestFleet

pytestmark = pytest.mark.slow


def test_a_job_that_kills_its_worker_is_given_up_and_others_go_on(
    fleet: TestFleet, submit: Submit
) -> None:
    poison = submit("poison", priority=1)
    for _ in range(MOST_ATTEMPTS):
        assert fleet.worker().wait() == -9
    fleet.worker()
    healthy = submit("note", settings={"line": "healthy"})

    assert fleet.result(healthy) == "healthy"
    fleet.until_state(poison, RunStatus.FAILED)
    assert "its worker died" in str(fleet.fleet.status(poison).run.error)


def test_runs_outlive_a_restart_of_the_database_and_cut_connections(
    fleet: TestFleet, submit: Submit, postgres_server: PostgresServer
) -> None:
    fleet.worker()
    waiting, meeting = submit("release", settings={"tag": "v1"}), submit("meeting")
    question = fleet.asked(waiting)
    fleet.until(waiting, "flow.paused")
    fleet.arrived()  # one run is in the middle of a step, the other waits
    with postgres_server.admin() as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        )
    fleet.go_on("met")
    said = fleet.result(meeting)

    postgres_server.restart()
    fleet.run("answer", question.id, "after all")

    assert fleet.result(waiting) == "built v1: after all"
    key = said.split()[0]
    assert fleet.effects.count("first") == 1 and fleet.effects.count("built v1") == 1
    # A worker that lost its connection counts as gone; what it was doing may be done again, under the same key.
    assert set(fleet.effects) == {"first", "built v1", f"meet {key}"}


def test_a_worker_whose_connections_are_cut_from_the_start_wakes_its_runs_all_the_same(
    fleet: TestFleet, submit: Submit, postgres_server: PostgresServer
) -> None:
    run = submit("release", settings={"tag": "v1"})
    fleet.worker()
    with postgres_server.admin() as admin:
        for _ in range(
            100
        ):  # while it makes the connections by which it looks for answers
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dbos_transact_client'"
            )
            threading.Event().wait(0.02)
    question = fleet.asked(run)

    fleet.run("answer", question.id, "after all")

    assert fleet.result(run) == "built v1: after all"


def test_old_runs_go_on_with_the_version_they_began_with(
    fleet: TestFleet, submit: Submit, tmp_path: Path
) -> None:
    old = fleet.worker()
    begun = submit("release", settings={"tag": "v1"})
    question = fleet.asked(begun)
    fleet.until(begun, "flow.paused")
    newer = tmp_path / "newer"
    newer.mkdir()
    code = (
        (fleet.folder / "work.py")
        .read_text()
        .replace('f"built {tag}"', 'f"made {tag}"')
    )
    (newer / "work.py").write_text(
        code.replace(
            "HERE = Path(__file__).parent", f"HERE = Path({str(fleet.folder)!r})"
        )
    )
    fleet.worker(folder=newer)
    later = submit("release", settings={"tag": "v2"})
    second = fleet.asked(later)

    fleet.run("answer", question.id, "old")
    fleet.run("answer", second.id, "new")

    assert fleet.result(begun) == "built v1: old"
    assert fleet.result(later) == "made v2: new"
    assert old.poll() is None


def test_two_answers_at_once_are_one_and_two_workers_wake_one_run(
    fleet: TestFleet, submit: Submit
) -> None:
    fleet.worker()
    fleet.worker()
    run = submit("release", settings={"tag": "v1"})
    question = fleet.asked(run)
    told: list[int] = []

    def answer(text: str) -> None:
        try:
            fleet.run("answer", question.id, text)
            told.append(0)
        except AssertionError:
            told.append(1)

    both = [threading.Thread(target=answer, args=(text,)) for text in ("one", "two")]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()

    assert sorted(told) == [0, 1]
    assert fleet.result(run) in ("built v1: one", "built v1: two")
    assert fleet.effects == ["built v1"]


class UnluckyFleet:
    """A fleet whose database fails now and then, each time as another library says it."""

    def __init__(self) -> None:
        self.store = self
        self.failures: list[Exception] = [
            OperationalError(
                "SELECT 1", {}, psycopg.OperationalError("terminating connection")
            ),  # DBOS cannot connect
            StoreError("the record's server cannot be reached"),
            TimeoutError("no connection of the pool is free"),
        ]
        self.woken: list[str] = []

    def last_seq(self) -> int:
        return 6

    def waiting(self, _queue: str) -> list[Any]:
        raise_first(self.failures, 3)
        return []

    def follow(
        self, after: int, *, stop: threading.Event, where: EventFilter
    ) -> Iterator[Any]:
        raise_first(self.failures, 2)
        for seq in range(after + 1, 9):
            yield SimpleNamespace(
                seq=seq, event=SimpleNamespace(run_id=f"run-{seq}", project=f"{FLEET}x")
            )
        stop.set()

    def wake(self, run_id: str) -> None:
        if self.woken:
            raise_first(self.failures, 1)
        self.woken.append(run_id)


def raise_first(failures: list[Exception], left: int) -> None:
    if len(failures) == left:
        raise failures.pop(0)


def test_whatever_the_database_does_to_the_one_that_follows_answers_every_run_is_woken() -> (
    None
):
    said: list[str] = []
    worker = Worker(
        FleetAddress("postgresql://nobody@/nowhere"),
        {},
        "v1",
        queue="default",
        concurrency=1,
        say=said.append,
    )
    worker._fleet = fleet = UnluckyFleet()  # type: ignore[assignment]
    worker._follows.set()
    worker._follow()
    assert fleet.woken == ["run-7", "run-8"] and fleet.failures == []
    assert [line.partition(": ")[2] for line in said] == [
        "OperationalError; trying again",
        "the record's server cannot be reached; trying again",
        "TimeoutError; trying again",
    ]


def test_a_step_lasts_until_dbos_and_the_record_have_their_database_back() -> None:
    said: list[str] = []
    worker = Worker(
        FleetAddress("postgresql://nobody@/nowhere"),
        {},
        "v1",
        queue="default",
        concurrency=1,
        say=said.append,
    )
    worker._fleet = fleet = UnluckyFleet()  # type: ignore[assignment]
    del fleet.failures[2]

    def work(store: Any) -> str:
        for left in (2, 1):
            raise_first(store.failures, left)
        return "done"

    assert worker._lasting(work) == "done" and len(said) == 2
