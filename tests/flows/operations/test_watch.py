"""Answers bring a run back: `flow watch`, and the dashboard while it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bridgehead.flows import Context, Flow, RunInputs
from bridgehead.flows.calls import Reply
from bridgehead.flows.files.root import DRIVER_LOCK, FlowRoot
from bridgehead.flows.operations.drive import (
    FIRST_PATIENCE_SECONDS,
    WaitingRun,
    Watch,
    Watched,
    ready_in,
)
from bridgehead.flows.operations.respond import RespondRequest, respond
from flows.support.flow_processes import BRIDGEHEAD, Shell, shell_in


def one_question(ctx: Context) -> str:
    return str(ctx.ask("q", agent="a", prompt="?", expires=3600))


FLOW = Flow("demo", "1", one_question)


@pytest.fixture
def paused(flow_project: Any) -> Any:
    flow_project.run(FLOW, source="demo.py:demo")
    return flow_project


def ready(project: Any, ids: frozenset[str] | None = None) -> WaitingRun | None:
    return ready_in(Watched(project.root, ids), RunInputs(clock=project.clock))


def test_a_run_is_ready_when_an_answer_has_arrived_in_a_file_or_in_the_journal(
    paused: Any,
) -> None:
    assert ready(paused) is None
    paused.put_response(b'{"request_id": "0f8b2c1e-6a57-4d0e-9b1c-2f6d7a8e9c01"}')
    assert ready(paused) is None
    paused.answer("yes")
    assert ready(paused) is not None
    paused.response_path.unlink()
    assert ready(paused) is None
    respond(RespondRequest(paused.root, Reply(text="x")), RunInputs(clock=paused.clock))
    paused.response_path.unlink()
    assert ready(paused) is not None


def test_a_run_is_ready_when_an_ask_of_it_has_expired(paused: Any) -> None:
    paused.clock.advance(3601)
    assert ready(paused) is not None


def test_nobody_resumes_what_is_driven_or_what_the_user_did_not_start(
    paused: Any,
) -> None:
    paused.answer("yes")
    with FlowRoot(paused.root).locked(DRIVER_LOCK):
        assert ready(paused) is None
    assert ready(paused, frozenset({"flow-20260101-000000-abcd"})) is None
    found = ready(paused)
    assert found is not None and ready(paused, frozenset({found.run.id})) is not None


def test_a_run_that_does_not_get_on_is_left_alone_for_longer_and_longer(
    paused: Any,
) -> None:
    tried: list[str] = []

    def refused(waiting: WaitingRun) -> bool:
        tried.append(waiting.run.id)
        return False

    watch = Watch(
        lambda: [Watched(paused.root)], refused, RunInputs(clock=paused.clock)
    )

    def look() -> int:
        watch.look()
        watch.wait()
        return len(tried)

    assert look() == 0
    paused.answer("yes")
    assert [look(), look()] == [1, 1]
    paused.clock.advance(FIRST_PATIENCE_SECONDS)
    assert [look(), look()] == [2, 2]
    paused.clock.advance(FIRST_PATIENCE_SECONDS)
    assert look() == 2
    paused.clock.advance(FIRST_PATIENCE_SECONDS)
    assert look() == 3


def test_whoever_answered_may_resume_it_first(paused: Any) -> None:
    tried: list[WaitingRun] = []
    inputs = RunInputs(clock=paused.clock)
    watch = Watch(
        lambda: [Watched(paused.root)],
        lambda run: not tried.append(run),
        inputs,
        patience_seconds=3,
    )
    paused.answer("yes")
    watch.look()
    assert tried == []
    paused.clock.advance(3)
    watch.look()
    watch.wait()
    assert len(tried) == 1


PROGRAM = """
from bridgehead.flows import flow, main

@flow("release")
def release(ctx, tag: str):
    notes = ctx.ask("notes", agent="writer", prompt=f"Notes for {tag}?")
    {body}
    return f"{tag}: {notes}"

if __name__ == "__main__":
    raise SystemExit(main(release))
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = shell_in(tmp_path)
    made.write("release.py", PROGRAM.replace("{body}", "pass"))
    assert made.flow("run", "release.py", "--tag", "v1").code == 42
    return made


def read_until(running: subprocess.Popen[bytes], wanted: bytes) -> bytes:
    said = b""
    assert running.stderr is not None
    for line in running.stderr:
        said += line
        if wanted in line:
            return said
    raise AssertionError(said)


def test_one_look_resumes_what_was_answered_and_ends(shell: Shell) -> None:
    nothing = shell.flow("watch", "--once")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "")
    shell.flow("respond", "--response", "faster")
    done = shell.flow("watch", "--once", cwd=shell.home)
    assert (done.code, done.out) == (0, "v1: faster\n"), done.err
    assert done.err.splitlines()[0].endswith("resuming") and "has ended" in done.err
    assert "completed" in shell.flow("status").out


def test_a_program_that_was_started_elsewhere_is_found_again(
    shell: Shell, tmp_path: Path
) -> None:
    apart = tmp_path / "apart"
    apart.mkdir()
    started = shell.run(
        sys.executable, "release.py", "--tag", "v2", "--dir", str(apart)
    )
    assert started.code == 42
    shell.flow("respond", "--dir", str(apart), "--response", "smaller")
    assert (
        shell.flow("watch", "--once", "--dir", str(apart), cwd=shell.home).out
        == "v2: smaller\n"
    )


def test_a_run_that_is_refused_says_why_and_stays_as_it_was(shell: Shell) -> None:
    shell.flow("respond", "--response", "faster")
    shell.write(
        "release.py",
        PROGRAM.replace("{body}", "pass").replace("Notes for", "Words for"),
    )
    refused = shell.flow("watch", "--once")
    assert (
        refused.code == 0
        and "could not continue" in refused.err
        and "another question" in refused.err
    )
    shell.write("release.py", PROGRAM.replace("{body}", "pass"))
    assert shell.flow("watch", "--once").out == "v1: faster\n"


def test_a_watch_goes_on_until_ctrl_c_and_takes_what_it_started_with_it(
    shell: Shell,
) -> None:
    body = 'ctx.step("hang", lambda: (open("pid", "w").write(str(__import__("os").getpid())), open("pipe").read()))'
    shell.write("release.py", PROGRAM.replace("{body}", body))
    os.mkfifo(shell.root / "pipe")
    with shell.start(str(BRIDGEHEAD), "flow", "watch") as watch:
        read_until(watch, b"watching for answers")
        shell.flow("respond", "--response", "faster")
        read_until(watch, b"resuming")
        with open(shell.root / "pipe", "wb"):  # opened when the step has come to it
            pid = int((shell.root / "pid").read_text())
            watch.send_signal(signal.SIGINT)
            _, rest = watch.communicate(timeout=120)
    assert watch.returncode == 130
    assert b"was stopped" in rest
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    shell.write(
        "release.py", PROGRAM.replace("{body}", 'ctx.step("hang", lambda: None)')
    )
    assert shell.flow("resume").out == "v1: faster\n"


def test_the_dashboard_resumes_flows_while_it_runs_unless_told_not_to(
    shell: Shell,
) -> None:
    with shell.start(str(BRIDGEHEAD), "web", "--port", "0") as web:
        read_until(web, b"Ctrl-C stops")
        shell.flow("respond", "--response", "faster")
        read_until(web, b"has ended")
        web.send_signal(signal.SIGINT)
        web.communicate(timeout=120)
    assert "completed" in shell.flow("status").out
    assert "--no-auto" in shell.run(str(BRIDGEHEAD), "web", "--help").out


def test_a_record_that_others_write_to_starts_no_programs(shell: Shell) -> None:
    told = {
        **shell.environ(),
        "BRIDGEHEAD_STORE_URL": "postgresql://nobody@127.0.0.1:1/none",
    }
    words = [str(BRIDGEHEAD), "flow", "watch", "--once"]
    refused = subprocess.run(
        words, cwd=shell.root, env=told, capture_output=True, text=True, check=False
    )
    assert (refused.returncode, "the record is shared" in refused.stderr) == (1, True)
    shell.flow("respond", "--response", "faster")
    named = subprocess.run(
        [*words, "--dir", "."],
        cwd=shell.root,
        env=told,
        capture_output=True,
        check=False,
    )
    assert named.stdout == b"v1: faster\n"
