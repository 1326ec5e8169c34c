"""A send that is killed anywhere and repeated is said once; one that ended can be said again (rigs §8, §9.5)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from bridgehead.cli.rigs import handlers, run
from bridgehead.rigs.operations import posting, send
from support.rig_bridges import Bridge, Clone

FOLLOWED = {module.__file__ for module in (handlers, posting, run, send)}
SENT = ("send", "STATE", "--thread", "demo-01", "--to", "rig-b")
# A killed send leaves a note, and the next one goes through all of them in some five lines each.
EVERY = 10  # lines


@pytest.fixture
def clone(bridge: Bridge) -> Clone:
    made = bridge.clone("a", "rig-a")
    made.rig("new", "demo-01").ok()
    made.rig("send", "REQUEST", "--thread", "demo-01", "--to", "rig-b").ok()
    return made


def run_here(
    clone: Clone, arguments: tuple[str, ...], answer: Path, last_line: int = sys.maxsize
) -> bool:
    """Run one command in a child, killed at a line of the code followed; False once it has come to its end before."""
    lines = 0

    def follow(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in FOLLOWED:
            return None
        lines += event == "line"
        if lines >= last_line:
            os.kill(os.getpid(), 9)
        return follow

    child = os.fork()
    if child == 0:
        try:
            os.chdir(clone.path)
            environment = clone.environ()
            os.environ.clear()
            os.environ.update(environment)
            out = os.open(answer, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(
                os.open(
                    answer.with_suffix(".err"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                ),
                2,
            )
            sys.stdout = os.fdopen(1, "w")
            sys.settrace(follow)
            os._exit(run.run_rig(arguments, program="rig-bridge"))
        except BaseException as error:
            os.write(2, repr(error).encode())
        finally:
            os._exit(99)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0, answer.with_suffix(".err").read_text()
    return False


def said(where: Path, clone: Clone, words: str) -> list[str]:
    return str(
        Clone(where, clone.home).git("log", "--format=%s", f"--grep={words}", "main")
    ).splitlines()


def killed(
    clone: Clone, flags: tuple[str, ...], tmp_path: Path
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Send at every step, killed there; yields what was to be said, until one comes to its end."""
    answer, line, goes_on = tmp_path / "answer", 0, True
    while goes_on:
        line += EVERY
        words = f"step-{line}-done"
        command = (*SENT, "--tldr", words, *flags)
        goes_on = run_here(clone, command, answer, line)
        if not answer.read_text():  # else its sender knows
            assert not run_here(clone, command, answer)
            assert answer.read_text().startswith("rig-bridge: sent type=STATE")
        yield words, command


@pytest.mark.parametrize("flags", [(), ("--no-push",)], ids=["pushed", "landed"])
def test_a_send_killed_at_any_step_and_repeated_is_said_once(
    bridge: Bridge, clone: Clone, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    every = list(killed(clone, flags, tmp_path))

    where = clone.path if flags else bridge.remote
    assert len(every) > 20
    assert [len(said(where, clone, words)) for words, _ in every] == [1] * len(every)
    words, command = every[-1]
    assert not run_here(clone, command, tmp_path / "answer")
    assert (
        len(said(where, clone, words)) == 2
    )  # whoever was answered and says it again means it


def test_a_sender_killed_right_after_its_answer_can_say_it_again_after_an_hour(
    bridge: Bridge, clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        posting.Outgoing, "mark", lambda self, intent: os.kill(os.getpid(), 9)
    )
    command = (*SENT, "--tldr", "the same words")
    assert run_here(clone, command, tmp_path / "answer")
    assert (tmp_path / "answer").read_text().startswith("rig-bridge: sent type=STATE")
    monkeypatch.undo()
    clone.rig(*command).ok()
    assert len(said(bridge.remote, clone, "the same words")) == 1

    monkeypatch.setattr(
        posting.Outgoing, "mark", lambda self, intent: os.kill(os.getpid(), 9)
    )
    assert run_here(clone, command, tmp_path / "answer")
    monkeypatch.undo()
    [left] = (clone.path / ".git/bridgehead/outgoing").iterdir()
    since, _, moment = left.read_text().partition(" ")
    left.write_text(f"{since} {int(moment) - 3_600_001}")
    clone.rig(*command).ok()
    assert len(said(bridge.remote, clone, "the same words")) == 3
