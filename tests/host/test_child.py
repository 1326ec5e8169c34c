"""A child has an owner at every moment: a signal during its start ends and reaps it before the exception leaves."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.host import child, process, terminal
from bridgehead.host.child import SignalsHeld, end_child, run_child
from bridgehead.host.command import Command
from support.signal_steps import Stopped, children, stopped_at_every_step

SLEEP = ["sleep", "600"]


@pytest.fixture
def stoppable() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise Stopped

    before = signal.signal(signal.SIGTERM, stop)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_signal_inside_popen_leaves_no_child(
    stoppable: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moment at which the process exists and its object has not been handed out."""
    execute = subprocess.Popen._execute_child

    def execute_and_be_stopped(*arguments: object) -> None:
        execute(*arguments)
        signal.raise_signal(signal.SIGTERM)

    others = children()
    monkeypatch.setattr(subprocess.Popen, "_execute_child", execute_and_be_stopped)
    with pytest.raises(Stopped):
        run_child(SLEEP)
    assert children() <= others


def test_a_run_stopped_at_any_step_leaves_no_child() -> None:
    def run() -> None:
        run_child(["true"], stdin_bytes=b"x", stdout=subprocess.PIPE)

    assert len(list(stopped_at_every_step(run, child.__file__))) > 50


def test_a_program_stopped_at_any_step_leaves_no_child(tmp_path: Path) -> None:
    command = Command(["true"], cwd=tmp_path)

    def run() -> None:
        process.run(command, timeout_seconds=None, idle_seconds=None)

    run()  # the guardian that is started with the first run stays
    assert len(list(stopped_at_every_step(run, process.__file__))) > 30


def test_a_pager_stopped_at_any_step_is_ended(tmp_path: Path) -> None:
    with (tmp_path / "screen").open("w") as screen:

        def show() -> None:
            terminal._shown_by(["cat"], "text", screen, os.environ)

        assert (
            len(list(stopped_at_every_step(show, child.__file__, terminal.__file__)))
            > 50
        )


def test_what_arrived_is_handled_at_the_end_of_the_block(stoppable: None) -> None:
    reached = False
    with pytest.raises(Stopped), SignalsHeld():
        signal.raise_signal(signal.SIGTERM)
        reached = True
    assert reached


def test_whoever_insists_is_heard_at_once(stoppable: None) -> None:
    with pytest.raises(Stopped), SignalsHeld(only_the_first=True):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        pytest.fail("the second signal was held")


def test_a_child_gets_the_signals_that_its_starter_holds(stoppable: None) -> None:
    """Nothing is blocked or ignored in it: it ends by the signal."""
    killed = run_child([sys.executable, "-c", "import os; os.kill(os.getpid(), 15)"])
    assert killed.returncode == -signal.SIGTERM


def test_a_thread_holds_nothing_because_no_handler_runs_in_it(stoppable: None) -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    def look() -> None:
        with SignalsHeld():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_child_that_does_not_listen_is_killed() -> None:
    deaf = "import signal; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.pause()"
    started = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE)
    assert isinstance(started.stdout, io.BufferedReader)
    started.stdout.readline()
    end_child(started, grace_seconds=0.05)
    assert started.returncode == -signal.SIGKILL
    end_child(started)
