"""Runs on a fleet, with real workers and a real Postgres: to their end, over pauses, past killed workers."""

from __future__ import annotations

import pytest

from bridgehead.contract.pending import Answer
from bridgehead.flows.words import RunStatus

from .conftest import Submit, TestFleet

pytestmark = pytest.mark.slow


def test_a_run_pauses_for_its_answer_without_a_worker_and_ends_with_it(
    fleet: TestFleet,
) -> None:
    fleet.worker("--concurrency", "1")
    first = fleet.json("flow", "submit", "work.py:release", "--tag", "v1")["flow_id"]
    second = fleet.json("flow", "submit", "work.py:release", "--tag", "v2")["flow_id"]

    # One run at a time: the second could not ask while the first waits if waiting took a place.
    questions = {run: fleet.asked(run) for run in (first, second)}
    for run in (first, second):
        fleet.until_state(run, RunStatus.WAITING)
    listed = {
        flow["flow_id"]: flow["status"] for flow in fleet.json("flow", "list")["flows"]
    }
    assert listed == {first: "waiting", second: "waiting"}
    assert "Write release notes for v2." in fleet.run("pending")
    fleet.run("answer", questions[second].id, "it is faster")

    assert fleet.result(second) == "built v2: it is faster"
    status = fleet.json("flow", "status", second)
    assert (status["status"], [step["path"] for step in status["steps"]]) == (
        "completed",
        ["build#0", "notes#0"],
    )
    assert (
        fleet.json("flow", "status", first[-12:])["outstanding"][0]["agent_name"]
        == "writer"
    )
    assert sorted(fleet.effects) == ["built v1", "built v2"]


def test_the_runs_of_a_killed_worker_go_on_elsewhere_with_all_they_recorded(
    fleet: TestFleet, submit: Submit
) -> None:
    workers = {process.pid: process for process in (fleet.worker(), fleet.worker())}
    run = submit("meeting")
    died = fleet.arrived()
    fleet.kill(workers[died])

    survivor = fleet.arrived()
    fleet.go_on("met")

    assert survivor != died
    key, said = fleet.result(run).split()
    # Each effect at least once, and an interrupted one again under the same key; what was recorded is not repeated.
    assert fleet.effects == ["first", f"meet {key}", f"meet {key}"]
    assert said == "met"


def test_an_answer_given_while_no_worker_lives_is_taken_up_by_the_next(
    fleet: TestFleet, submit: Submit
) -> None:
    worker = fleet.worker()
    run = submit("release", settings={"tag": "v1"})
    question = fleet.asked(run)
    fleet.until(run, "flow.paused")
    fleet.kill(worker)
    fleet.run("answer", question.id, "late")

    fleet.worker()

    assert fleet.result(run) == "built v1: late"
    assert not (fleet.folder / ".bridgehead").exists()


def test_an_answer_that_does_not_fit_is_refused_when_it_is_given(
    fleet: TestFleet, submit: Submit
) -> None:
    (fleet.folder / "more.py").write_text(
        "from bridgehead.flows import flow\n"
        "@flow('count')\n"
        "def count(ctx) -> int:\n"
        "    return ctx.ask('number', agent='counter', prompt='How many?', result=int)\n"
    )
    fleet.worker()
    run = submit("count")
    question = fleet.asked(run)

    assert "the answer was refused" in fleet.run("answer", question.id, "many", code=1)
    fleet.run("answer", question.id, "3")

    assert fleet.result(run) == 3


def test_a_job_names_a_flow_of_the_worker_s_folder_and_brings_no_code(
    fleet: TestFleet, submit: Submit
) -> None:
    outside = fleet.folder.parent / "outside.py"
    outside.write_text((fleet.folder / "work.py").read_text())
    fleet.worker()
    foreign = [
        submit(name) for name in (str(outside), "../outside", "outside:release", "os")
    ]
    ours = submit("note", settings={"line": "ours"})

    assert fleet.result(ours) == "ours"
    for run in foreign:
        fleet.until_state(run, RunStatus.FAILED)
        assert "has a flow" in str(fleet.fleet.status(run).run.error)
    with fleet.store_connection() as connection:
        kinds = connection.execute(
            f"SELECT DISTINCT serialization FROM {fleet.fleet.address.schema}.workflow_status"
        )
        assert {kind for (kind,) in kinds} <= {"portable_json", None}
    assert fleet.effects == ["ours"]


def test_an_async_flow_runs_on_a_worker(fleet: TestFleet, submit: Submit) -> None:
    (fleet.folder / "more.py").write_text(
        "import asyncio\n"
        "from bridgehead.flows import asking, flow\n"
        "async def double(number):\n"
        "    await asyncio.sleep(0)\n"
        "    return 2 * number\n"
        "async def one(ctx, number):\n"
        "    return await ctx.step('double', double, number)\n"
        "@flow('both')\n"
        "async def both(ctx):\n"
        "    made = await ctx.map('many', one, [1, 2])\n"
        "    said = await ctx.gather(*(asking(word, agent='a', prompt=word) for word in ('left', 'right')))\n"
        "    return [*made, *said, len(ctx.uuid())]\n"
    )
    fleet.worker()
    run = submit("both")
    fleet.until(run, "pending.opened", times=2)
    for item in fleet.store.pending():
        fleet.store.answer_pending(
            item.id, Answer(text=item.question.prompt.upper(), by="test")
        )

    assert fleet.result(run) == [2, 4, "LEFT", "RIGHT", 36]
