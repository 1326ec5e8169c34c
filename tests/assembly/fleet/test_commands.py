"""What can be done with runs of a fleet: submitted once, later or first, cancelled, retried, scheduled, limited."""

from __future__ import annotations

import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.flows.fleet import DEFAULT_QUEUE
from bridgehead.assembly.flows.views import fleet_load
from bridgehead.assembly.flows.worker import Limit
from bridgehead.control_plane.records import PendingFilter
from bridgehead.errors import BridgeheadError
from bridgehead.flows.words import RunStatus

from .conftest import BRIDGEHEAD, Submit, TestFleet


@pytest.mark.slow
def test_runs_wait_for_their_time_and_go_by_priority(
    fleet: TestFleet, submit: Submit
) -> None:
    last = submit("note", settings={"line": "last"}, priority=300)
    later = submit(
        "note", settings={"line": "later"}, at=datetime.now(UTC) + timedelta(days=300)
    )
    first = submit("note", settings={"line": "first"}, priority=1)
    middle = submit("note", settings={"line": "middle"})
    again = submit("note", settings={"line": "again"}, key="k", priority=400)

    # The same key is the same run, whoever submits it.
    assert submit("note", settings={"line": "again"}, key="k") == again
    assert fleet.fleet.load() == {
        (DEFAULT_QUEUE, "queued"): 4,
        (DEFAULT_QUEUE, "waiting"): 1,
    }
    fleet.worker("--concurrency", "1")
    for run in (last, first, middle, again):
        fleet.until_state(run, RunStatus.COMPLETED)

    assert fleet.effects == ["first", "middle", "last", "again"]
    here = Assembly(
        fleet.folder,
        {
            "BRIDGEHEAD_STORE_URL": fleet.fleet.address.record_url,
            "HOME": str(fleet.folder),
        },
    )
    assert fleet_load(here) == {(DEFAULT_QUEUE, "waiting"): 1}
    assert fleet.fleet.submit("note", {"line": "again"}, key="k").result == "again"
    assert fleet.fleet.status(later).run.status is RunStatus.WAITING
    fleet.fleet.cancel(later)
    assert fleet.fleet.status(later).run.status is RunStatus.CANCELLED


@pytest.mark.slow
def test_a_failed_run_is_retried_and_a_waiting_one_cancelled(
    fleet: TestFleet, submit: Submit
) -> None:
    fleet.worker()
    broken, waiting = submit("breaks"), submit("release", settings={"tag": "v1"})
    fleet.until_state(broken, RunStatus.FAILED)
    question = fleet.asked(waiting)
    fleet.until_state(waiting, RunStatus.WAITING)

    shown = fleet.json("flow", "list")["flows"]
    assert {flow["flow_id"]: flow["status"] for flow in shown} == {
        broken: "failed",
        waiting: "waiting",
    }
    assert "FileNotFoundError" in fleet.fleet.status(broken).run.error
    assert "cancelled" in fleet.run("flow", "cancel", waiting)
    assert "withdrawn" in fleet.run("answer", question.id, "too late", code=1)
    (fleet.folder / "wanted").write_text("found")
    fleet.run("flow", "retry", broken)

    assert fleet.result(broken, retried=True) == "found"
    assert fleet.effects.count("first") == 1
    with pytest.raises(BridgeheadError, match="it is completed"):
        fleet.fleet.retry(broken)
    fleet.fleet.retry(waiting, "build")
    fleet.until(waiting, "pending.opened", times=2)


@pytest.mark.slow
def test_a_sleeping_run_holds_no_place_and_a_schedule_starts_runs(
    fleet: TestFleet, submit: Submit
) -> None:
    (fleet.folder / "timer.py").write_text(
        "from bridgehead.flows import flow\n"
        "@flow('tick', schedule='*/4 * * * * *')\n"
        "def tick(ctx) -> str:\n"
        "    return 'tick'\n"
    )
    fleet.worker("--concurrency", "1")
    asleep = submit("sleeper")
    fleet.until(asleep, "flow.paused")
    other = submit("note", settings={"line": "meanwhile"})
    fleet.until(other, "flow.completed")
    fleet.until(asleep, "flow.completed")

    assert fleet.effects == ["before", "meanwhile", "after"]
    ticks = fleet.first_of("flow.completed", "tick", 2)
    assert len(set(ticks)) == 2


@pytest.mark.slow
def test_a_handler_answers_within_the_limits_of_the_fleet(
    fleet: TestFleet, submit: Submit
) -> None:
    """Each call notes how many were at work: with a limit of one, never more, on however many workers."""
    (fleet.folder / "agent").write_text(
        "import os, sys\n"
        "mine = f'busy-{os.getpid()}'\n"
        "open(mine, 'x').close()\n"
        "busy = len([name for name in os.listdir() if name.startswith('busy-')])\n"
        "with open('calls', 'a') as calls: calls.write(f'{busy}\\n')\n"
        "os.unlink(mine)\n"
        "print('noted', sys.stdin.read().split()[-1])\n"
    )
    handler = f"cmd:{sys.executable} agent"
    options = (
        "--handler",
        handler,
        "--limit",
        "writer=1",
        "--limit",
        f"{handler}=1,1000/m",
        "--concurrency",
        "4",
    )
    fleet.worker(*options)
    fleet.worker(*options)
    runs = [submit("release", settings={"tag": f"v{number}"}) for number in range(4)]

    assert [fleet.result(run) for run in runs] == [
        f"built v{number}: noted v{number}.\n" for number in range(4)
    ]
    assert (fleet.folder / "calls").read_text().split() == ["1"] * 4


def names_of(fleet: TestFleet, run: str) -> str:
    """What rows about a run name: the run, or a question it asked."""
    asked = fleet.store.pending(PendingFilter(states=(), run_id=run))
    return "|".join((run, *(item.question.key for item in asked)))


def rows_about(fleet: TestFleet, names: str) -> dict[str, int]:
    """How many rows of each table, DBOS' and the record's, name one of these."""
    found = {}
    with fleet.store_connection() as connection:
        tables = connection.execute(
            "SELECT table_schema || '.' || table_name FROM information_schema.tables"
            " WHERE table_schema IN (%s, %s) AND table_type = 'BASE TABLE'",
            [fleet.fleet.address.schema, fleet.fleet.address.postgres.schema],
        ).fetchall()
        for (table,) in tables:
            count = connection.execute(
                f"SELECT count(*) FROM {table} AS t WHERE t::text ~ %s", [names]
            ).fetchone()[0]
            found |= {table: count} if count else {}
    return found


@pytest.mark.slow
def test_ended_runs_are_pruned_with_every_row_and_others_stay_whole(
    fleet: TestFleet, submit: Submit
) -> None:
    (fleet.folder / "agent").write_text("print('by an agent')\n")
    fleet.worker("--queue", "asked", "--handler", f"cmd:{sys.executable} agent")
    worker = fleet.worker()
    done, broken = submit("note", settings={"line": "done"}, key="k"), submit("breaks")
    answered = submit("release", settings={"tag": "v1"}, queue="asked")
    dropped, waiting = (
        submit("release", settings={"tag": "v2"}),
        submit("release", settings={"tag": "v3"}),
    )
    fleet.asked(dropped)
    question = fleet.asked(waiting)
    for run, state in (
        (done, RunStatus.COMPLETED),
        (answered, RunStatus.COMPLETED),
        (broken, RunStatus.FAILED),
        (dropped, RunStatus.WAITING),
        (waiting, RunStatus.WAITING),
    ):
        fleet.until_state(run, state)
    fleet.run("flow", "cancel", dropped)
    names = {
        run: names_of(fleet, run) for run in (done, answered, dropped, broken, waiting)
    }
    before = {run: rows_about(fleet, names[run]) for run in names}
    assert all(len(rows) > 4 for rows in before.values()), before

    would = fleet.json("flow", "prune", "--days", "0", "--dry-run")["forgotten"]
    assert sorted(would) == sorted([done, answered, dropped])
    assert rows_about(fleet, names[answered]) == before[answered]
    assert fleet.json("flow", "prune", "--days", "1")["forgotten"] == []
    assert sorted(fleet.json("flow", "prune", "--days", "0")["forgotten"]) == sorted(
        would
    )

    after = {run: rows_about(fleet, names[run]) for run in names}
    assert after == {**before, **{run: {} for run in would}}
    assert {flow["flow_id"] for flow in fleet.json("flow", "list")["flows"]} == {
        broken,
        waiting,
    }
    assert fleet.fleet.submit("note", {"line": "again"}, key="k").id == done
    fleet.until_state(done, RunStatus.COMPLETED)
    assert fleet.effects.count("again") == 1
    fleet.run("answer", question.id, "late")
    assert fleet.result(waiting) == "built v3: late"
    (fleet.folder / "wanted").write_text("found")
    fleet.run("flow", "retry", broken)
    assert fleet.result(broken, retried=True) == "found"
    assert fleet.effects.count("first") == 1

    # And by themselves, where the setting says so.
    fleet.kill(worker)
    fleet.environ["BRIDGEHEAD_FLOWS_KEEP_DAYS"] = "0.000001"
    fleet.worker()
    while fleet.json("flow", "list")["flows"]:
        threading.Event().wait(0.2)
    assert [rows_about(fleet, names[run]) for run in names] == [{}] * 5


@pytest.mark.slow
def test_a_run_that_was_put_back_is_not_pruned_with_the_failed_ones(
    fleet: TestFleet, submit: Submit
) -> None:
    """Its last pass that ended failed; the next one waits in the queue, for a worker."""
    worker = fleet.worker()
    run = submit("breaks")
    fleet.until_state(run, RunStatus.FAILED)
    fleet.kill(worker)
    fleet.run("flow", "retry", run)

    assert fleet.json("flow", "prune", "--days", "0", "--failed")["forgotten"] == []
    assert [flow["flow_id"] for flow in fleet.json("flow", "list")["flows"]] == [run]


@pytest.mark.slow
def test_a_run_is_not_pruned_while_a_handler_answers_for_it(
    fleet: TestFleet, submit: Submit
) -> None:
    """A cancelled run has ended, the call of its agent has not: it is let finish, and the next time all goes."""
    (fleet.folder / "agent").write_text(
        "open('a.here', 'w').write('1')\nprint(open('a.go').read())\n"
    )
    fleet.worker("--handler", f"cmd:{sys.executable} agent")
    run = submit("release", settings={"tag": "v1"})
    fleet.until(run, "pending.opened")
    fleet.arrived()
    fleet.until_state(run, RunStatus.WAITING)
    fleet.run("flow", "cancel", run)
    names = names_of(fleet, run)

    assert fleet.json("flow", "prune", "--days", "0")["forgotten"] == []
    fleet.go_on("late")
    while not fleet.json("flow", "prune", "--days", "0")["forgotten"]:
        threading.Event().wait(0.2)
    assert rows_about(fleet, names) == {}


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("writer=2", Limit("writer", 2)),
        ("writer=30/m", Limit("writer", None, (30, 60.0))),
        ("runtime:codex=4,60/h", Limit("runtime:codex", 4, (60, 3600.0))),
    ],
)
def test_limits_are_read(text: str, limit: Limit) -> None:
    assert Limit.parse(text) == limit


@pytest.mark.parametrize(
    "text",
    ["writer", "writer=", "writer=0", "writer=2/d", "writer=2,3", "=2", "writer=-1"],
)
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(BridgeheadError, match="limit"):
        Limit.parse(text)


def test_what_a_fleet_needs_is_said_in_plain_words(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        "from bridgehead.flows import flow\n@flow('one')\ndef one(ctx): ...\n"
    )
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}

    def said(*words: str) -> str:
        done = subprocess.run(
            [BRIDGEHEAD, *words],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode in (1, 2), "internal error" in done.stderr) == (
            True,
            False,
        ), done.stderr
        return done.stderr

    nowhere = ("--database", "postgresql://bridgehead@127.0.0.1:9/none")
    assert "a fleet needs a Postgres database" in said("flow", "submit", "one.py")
    assert "cannot be reached" in said("flow", "submit", "one.py", *nowhere)
    assert "cannot be reached" in said("worker", *nowhere)
    assert "has no option --tag" in said(
        "flow", "submit", "one.py", "--tag", "v1", *nowhere
    )
    assert "not a time" in said("flow", "submit", "one.py", "--at", "noon", *nowhere)
    (tmp_path / "one.py").unlink()
    assert "no flow was found" in said("worker", *nowhere)
