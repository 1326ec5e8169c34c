"""A run survives ordinary life: what failed is retried with everything recorded, a second run begins at a step."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from bridgehead.flows import Context, Flow, StepFailed
from bridgehead.flows.engine.replay import Effort
from bridgehead.flows.errors import FlowFailed, FlowMistake, HasFailed
from bridgehead.flows.journals.base import Record
from bridgehead.flows.operations.retry import step_meant, what_failed
from bridgehead.host.clock import SystemClock, time_limit
from flows.support.flow_processes import Shell, shell_in

PROGRAM = """
import os
from bridgehead.flows import flow, main

def said(word):
    with open("log.txt", "a") as log:
        log.write(word + "\\n")
    return word

def publish():
    said("publish")
    if not os.path.exists("online"):
        raise ConnectionError("no network")
    return "published"

@flow("release")
def release(ctx, tag: str):
    ctx.step("build", said, "build")
    notes = ctx.ask("notes", agent="writer", prompt=f"Write release notes for {tag}.")
    return f"{notes} {ctx.step('publish', publish)}"

if __name__ == "__main__":
    raise SystemExit(main(release))
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = shell_in(tmp_path)
    made.write("release.py", PROGRAM)
    return made


def log(shell: Shell) -> list[str]:
    return (shell.root / "log.txt").read_text().split()


def failed_release(shell: Shell) -> str:
    assert shell.flow("run", "release.py", "--tag", "v1").code == 42
    shell.flow("respond", "--response", "paid for")
    failed = shell.flow("resume")
    assert failed.code == 1 and "ConnectionError: no network" in failed.err
    flow_id: str = json.loads(shell.flow("status", "--json").out)["flow_id"]
    assert f"bridgehead flow retry {flow_id}" in failed.err
    return flow_id


def test_a_run_whose_step_raised_goes_on_with_everything_recorded(shell: Shell) -> None:
    flow_id = failed_release(shell)
    refused = shell.flow("resume")
    assert refused.code == 1
    assert (
        "is not paused, it failed" in refused.err
        and f"flow retry {flow_id}" in refused.err
    )

    again = shell.flow("retry", flow_id)
    assert again.code == 1 and "no network" in again.err
    (shell.root / "online").touch()
    done = shell.flow("retry", flow_id[-4:], "--json")
    assert (done.code, json.loads(done.out)["result"]) == (0, "paid for published")
    assert json.loads(done.out)["flow_id"] == flow_id
    assert log(shell) == ["build", "publish", "publish", "publish"]
    assert json.loads(shell.flow("status", "--json").out)["error"] is None

    over = shell.flow("retry", flow_id)
    assert over.code == 1 and f"flow fork {flow_id} --from STEP" in over.err


def test_a_retry_from_a_step_does_it_and_all_after_it_again(shell: Shell) -> None:
    flow_id = failed_release(shell)
    (shell.root / "online").touch()
    unknown = shell.flow("retry", flow_id, "--from", "bild")
    assert (
        unknown.code == 1
        and "recorded no step 'bild'" in unknown.err
        and "build#0" in unknown.err
    )
    assert shell.flow("retry", flow_id, "--from", "notes").code == 42
    shell.flow("respond", "--response", "better")
    assert shell.flow("resume").out == "better published\n"
    assert log(shell).count("build") == 1


def test_a_fork_is_a_second_run_with_what_was_recorded_before_the_step(
    shell: Shell,
) -> None:
    first = failed_release(shell)
    (shell.root / "online").touch()
    done = shell.flow("fork", first, "--from", "publish", "--json")
    assert (done.code, json.loads(done.out)["result"]) == (0, "paid for published")
    listed = {
        run["flow_id"]: run["status"]
        for run in json.loads(shell.flow("list", "--json").out)["flows"]
    }
    assert listed == {first: "failed", json.loads(done.out)["flow_id"]: "completed"}
    assert log(shell).count("build") == 1


def test_a_retry_beside_a_paused_run_is_refused(shell: Shell) -> None:
    first = failed_release(shell)
    assert shell.flow("run", "release.py", "--tag", "v2").code == 42
    for words in (("retry", first), ("fork", first, "--from", "build")):
        refused = shell.flow(*words)
        assert refused.code == 1 and "bridgehead flow cancel" in refused.err


def test_a_handler_that_cannot_start_leaves_the_run_paused(shell: Shell) -> None:
    command = ("--", sys.executable, "release.py", "--tag", "v1")
    driven = shell.flow("drive", "--handler", "cmd:cluade -p", *command)
    assert driven.code not in (0, 42)
    assert "cluade could not be started" in driven.err and "stays paused" in driven.err
    assert json.loads(shell.flow("status", "--json").out)["status"] == "waiting"
    (shell.root / "online").touch()
    assert (
        shell.flow("drive", "--handler", "cmd:sed s/.*/fine/", *command).out
        == "fine published\n"
    )
    assert log(shell).count("build") == 1


def test_help_shows_an_example_of_each(shell: Shell) -> None:
    assert (
        "bridgehead flow retry 4f2a --from build" in shell.flow("retry", "--help").out
    )
    assert "bridgehead flow fork 4f2a --from build" in shell.flow("fork", "--help").out


def record(path: str, status: str = "completed") -> Record:
    return Record(path, "step", None, status, None, None, "", "")


def test_what_failed_is_what_the_error_names_or_what_came_last() -> None:
    done, bad, tidy = record("a#0"), record("b#0", "failed"), record("tidy#0")
    assert what_failed([done, bad], "StepFailed: step b#0 raised OSError: x") == "b#0"
    assert what_failed([done, bad], "RuntimeError: wrapped") == "b#0"
    assert (
        what_failed([done, bad, tidy], "StepFailed: step b#0 raised OSError: x")
        == "b#0"
    )
    assert what_failed([done, bad, tidy], "ValueError: of the flow itself") is None
    assert what_failed([], "ValueError") is None


def test_a_step_is_named_by_its_path_or_by_what_it_is_called() -> None:
    records = [record("a#0"), record("s#0/b#0"), record("s#0/c#0"), record("c#0")]
    assert step_meant(records, "a", "f") == "a#0"
    assert step_meant(records, "s#0", "f") == "s#0/b#0"
    with pytest.raises(Exception, match="several steps of f are called 'c'"):
        step_meant(records, "c", "f")


def test_an_answer_that_came_before_another_branch_failed_is_not_lost(
    flow_project: Any,
) -> None:
    broken = [True]

    def first(ctx: Context) -> str:
        return str(ctx.ask("first", agent="a", prompt="1?"))

    def second(ctx: Context) -> str:
        answer: str = ctx.ask("second", agent="b", prompt="2?")
        return answer

    def breaks() -> str:
        if broken[0]:
            raise OSError("once")
        return "whole"

    def work(ctx: Context) -> list[Any]:
        return ctx.gather(
            lambda branch: (first(branch), branch.step("breaks", breaks)), second
        )

    flow = Flow("demo", "1", work)
    flow_project.run(flow)
    flow_project.answer("one")
    # The answer to the second question lies ready, too, when the first branch fails.
    from bridgehead.flows.files.root import FlowRoot
    from bridgehead.flows.journals.sqlite import SqliteJournal

    with SqliteJournal(FlowRoot.open(flow_project.root).journal) as journal:
        run = journal.runs()[0]
        asked = {
            attempt.path: attempt.request_id for attempt in journal.attempts(run.id)
        }
    inbox = flow_project.private / "inbox"
    inbox.mkdir()
    first_answer = json.loads(flow_project.response_path.read_bytes())
    (inbox / "x.json").write_text(json.dumps(first_answer))
    flow_project.answer("two", request_id=asked["gather#0/branch#1/second#0"])
    with pytest.raises(FlowFailed, match="OSError: once"):
        flow_project.resume(flow)
    with pytest.raises(HasFailed):
        flow_project.resume(flow)
    broken[0] = False
    with SqliteJournal(FlowRoot.open(flow_project.root).journal) as journal:
        journal.reopen(run.id, at=run.updated, path="gather#0/branch#0/breaks#0")
    assert flow_project.resume(flow).result == [["one", "whole"], "two"]


def test_a_step_is_tried_again_after_growing_waits(flow_project: Any) -> None:
    at: list[float] = []

    def flaky() -> str:
        at.append(flow_project.clock.monotonic())
        if len(at) < 4:
            raise OSError("busy")
        return "done"

    work = Flow("demo", "1", lambda ctx: ctx.step("flaky", flaky, retries=3, backoff=2))
    assert flow_project.run(work).result == "done"
    assert at == [0, 2, 6, 14]
    assert Effort(backoff_seconds=10).wait_before(50) == 300


def test_a_step_that_takes_too_long_has_failed(flow_project: Any) -> None:
    def slow() -> None:
        flow_project.clock.advance(6)

    def work(ctx: Context) -> str:
        try:
            ctx.step("slow", slow, timeout=5, retries=1)
        except StepFailed as failed:
            return failed.error_type
        return "in time"

    assert flow_project.run(Flow("demo", "1", work)).result == "TimeoutError"


def test_a_step_that_hangs_is_interrupted() -> None:
    with (
        pytest.raises(TimeoutError, match=r"longer than 0\.01 s"),
        time_limit(SystemClock(), 0.01),
    ):
        threading.Event().wait()


@pytest.mark.parametrize("how", [{"retries": -1}, {"backoff": -1}, {"timeout": 0}])
def test_a_senseless_effort_is_a_mistake(
    flow_project: Any, how: dict[str, Any]
) -> None:
    with pytest.raises(
        (FlowFailed, FlowMistake), match=r"step s#0: (retries|a timeout)"
    ):
        flow_project.run(Flow("demo", "1", lambda ctx: ctx.step("s", lambda: 1, **how)))


def test_a_missing_agent_leaves_the_question_open(flow_project: Any) -> None:
    flow = Flow("demo", "1", lambda ctx: ctx.ask("q", agent="a", prompt="?"))
    flow_project.run(flow)
    flow_project.answer(
        None, status="error", error_type="AGENT_NOT_FOUND", error_message="who?"
    )
    with pytest.raises(FlowFailed, match="AGENT_NOT_FOUND: who") as failed:
        flow_project.resume(flow)
    assert "--on-missing-agent=fallback" in failed.value.hint
    assert not flow_project.response_path.exists()
    flow_project.answer("here")
    assert flow_project.resume(flow).result == "here"


def test_the_same_id_joins_the_run_and_then_gives_its_result(shell: Shell) -> None:
    (shell.root / "online").touch()
    started = ("run", "release.py", "--tag", "v1", "--id", "release-v1")
    assert (
        shell.flow(*started, "--resume").code == 42
    )  # nothing is there yet, and that is no error
    assert shell.flow(*started).code == 42
    other = shell.flow("run", "release.py", "--tag", "v1", "--id", "another")
    assert other.code == 1 and "the run with the id 'another'" in other.err
    shell.flow("respond", "--response", "notes")
    for _ in range(2):
        done = shell.flow(*started, "--json")
        assert (done.code, json.loads(done.out)["result"]) == (0, "notes published")
    assert log(shell) == ["build", "publish"]
    assert len(json.loads(shell.flow("list", "--json").out)["flows"]) == 1
    differs = shell.flow("run", "release.py", "--tag", "v2", "--id", "release-v1")
    assert differs.code == 1 and "with tag 'v1'" in differs.err
    assert (
        shell.flow("run", "release.py", "--tag", "v2", "--id", "release-v2").code == 42
    )


def test_the_id_of_a_failed_run_offers_the_retry(shell: Shell) -> None:
    started = ("run", "release.py", "--tag", "v1", "--id", "k")
    shell.flow(*started)
    shell.flow("respond", "--response", "notes")
    assert shell.flow(*started).code == 1
    refused = shell.flow(*started)
    assert refused.code == 1 and "bridgehead flow retry flow-" in refused.err
    assert log(shell) == ["build", "publish"]


def test_a_killed_run_is_not_shown_as_running(shell: Shell) -> None:
    shell.write(
        "killed.py",
        "import os, signal\n"
        "from bridgehead.flows import flow\n"
        "def die():\n"
        "    if not os.path.exists('online'): os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return 'alive'\n"
        "@flow('killed')\n"
        "def killed(ctx): return ctx.step('die', die)\n",
    )
    assert shell.flow("run", "killed.py").code == -9
    assert json.loads(shell.flow("status", "--json").out)["status"] == "interrupted"
    assert (
        "interrupted" in shell.flow("list").out
        and "running" not in shell.flow("list").out
    )
    (shell.root / "online").touch()
    assert shell.flow("resume").out == "alive\n"
