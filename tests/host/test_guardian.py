"""What we started ends when we end, however that comes about."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
import termios
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from bridgehead.host.family import living_processes
from bridgehead.host.guardian import Guardian
from support.forked_child import in_child

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="runs are found in /proc"
)

# A program with a child in a session of its own, both deaf to signals; each says its process id.
AGENT = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
child = os.fork()
if child == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
with open(sys.argv[1], "a") as told:
    told.write(f"{os.getpid()}\\n")
time.sleep(600)
"""
# Whoever runs the tests may ignore hang-ups (nohup); the process that is to be hung up on does not.
OWNER = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from bridgehead.host.command import Command
from bridgehead.host.process import run
run(Command([sys.executable, "-c", sys.argv[1], sys.argv[2]]), timeout_seconds=None, idle_seconds=None)
"""
PATIENCE_SECONDS = 60.0


@pytest.fixture
def owner(
    tmp_path: Path, started: Callable[..., subprocess.Popen[str]]
) -> tuple[subprocess.Popen[str], list[int]]:
    """A process that runs an agent, and handles on the agent and its grandchild."""
    told = tmp_path / "told"
    os.mkfifo(told)
    process = started(OWNER, AGENT, str(told))
    return process, handles_on_two(told)


def handles_on_two(told: Path) -> list[int]:
    """Handles on the two processes that say their ids; opened for writing too, so that it never ends between them."""
    with os.fdopen(os.open(told, os.O_RDWR), closefd=True) as lines:
        return [os.pidfd_open(int(lines.readline())) for _ in range(2)]


def wait_for_the_end(handles: list[int]) -> None:
    """Each handle becomes readable when its process ends; the limit only keeps a broken test from hanging."""
    for handle in handles:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        assert poll.poll(PATIENCE_SECONDS * 1000), "still alive"
        os.close(handle)


def test_nothing_outlives_a_process_group_that_was_killed(tmp_path: Path) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, AGENT, str(told)], start_new_session=True
    )
    handles = handles_on_two(told)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE_SECONDS)

    wait_for_the_end(handles)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_nothing_outlives_an_owner_that_could_not_clean_up(
    owner: tuple[subprocess.Popen[str], list[int]], number: signal.Signals
) -> None:
    process, handles = owner
    process.send_signal(number)
    process.wait(PATIENCE_SECONDS)

    wait_for_the_end(handles)


def test_nothing_outlives_a_terminal_that_is_closed(tmp_path: Path) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    leader, terminal = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, AGENT, str(told)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: __import__("fcntl").ioctl(
            0, __import__("termios").TIOCSCTTY, 0
        ),
    )
    os.close(terminal)
    handles = handles_on_two(told)

    os.close(leader)
    assert process.wait(PATIENCE_SECONDS) == -signal.SIGHUP
    wait_for_the_end(handles)


SIGNING = """
import sys
from bridgehead.rigs.repositories.git.clone import Clone
from bridgehead.rigs.repositories.git.envelope_commit import ask_for_commit
clone = Clone(sys.argv[1])
signer = ("gpg.format=ssh", "gpg.ssh.program=" + sys.argv[2], "user.signingkey=key::ssh-ed25519 AAAA")
clone.git.extra_options = tuple(word for setting in signer for word in ("-c", setting))
tree = clone.git.read("mktree", stdin=b"").text.strip()
names = {name: "x" for name in "GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL".split()}
ask_for_commit(clone, tree, None, "said", names, sign=True)
"""


def test_a_signer_does_not_outlive_who_asked_it(
    tmp_path: Path, started: Callable[..., subprocess.Popen[str]]
) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    signer = tmp_path / "signer"
    signer.write_text(
        f"#!{sys.executable}\nimport sys\nsys.argv[1:] = [{str(told)!r}]\n{AGENT}"
    )
    signer.chmod(0o755)
    subprocess.run(["git", "init", "-q", str(tmp_path / "clone")], check=True)
    process = started(SIGNING, str(tmp_path / "clone"), str(signer))
    handles = handles_on_two(told)
    process.kill()
    process.wait(PATIENCE_SECONDS)

    wait_for_the_end(handles)


def test_a_run_that_has_ended_is_forgotten_and_others_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the guardian would end is told by a stand-in for the Python it starts."""
    wrote = tmp_path / "ended"
    os.mkfifo(wrote)
    stand_in = tmp_path / "python"
    stand_in.write_text(f'#!/bin/sh\nshift 4\necho "$@" > {wrote}\n')
    stand_in.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(stand_in))
    ids = [uuid.uuid4().hex for _ in range(3)]
    ours = Guardian()
    with ours.watching(ids[0]):
        pass
    first, second = ours.watching(ids[1]), ours.watching(ids[2])
    first.__enter__()
    with second:
        pass
    assert ours._pipe is not None
    os.close(ours._pipe)

    assert wrote.read_text().split() == [ids[1]]
    ours._pipe = None
    first.__exit__(None, None, None)


def test_a_guardian_that_was_ended_is_replaced() -> None:
    ours = Guardian()
    with ours.watching("a"):
        before = ours._pipe
    assert before is not None
    os.close(before)
    reader, writer = os.pipe()
    os.close(reader)  # nobody reads any more
    ours._pipe = writer

    with ours.watching("b"):
        assert ours._pipe is not None
        assert os.write(ours._pipe, b"+c\n") == 3


def children() -> set[int]:
    return {
        entry.pid
        for listed in living_processes()
        for entry in listed
        if entry.parent == os.getpid()
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_guardian_ends_by_its_pipe_and_not_by_a_signal(
    number: signal.Signals,
) -> None:
    before, ours = children(), Guardian()
    with ours.watching("a"):
        pass
    [guardian] = children() - before
    assert ours._pipe is not None
    # It sets its traps before it reads, so it has them when nothing is left in the pipe.
    unread = bytearray(4)
    while fcntl.ioctl(ours._pipe, termios.FIONREAD, unread) == 0 and any(unread):
        os.sched_yield()
    os.kill(guardian, number)
    os.close(ours._pipe)
    ours._pipe = None
    assert os.waitstatus_to_exitcode(os.waitpid(guardian, 0)[1]) == 0


def test_a_forked_process_has_a_guardian_of_its_own() -> None:
    ours = Guardian()
    with ours.watching("a"):
        pipe = ours._pipe

        def watch() -> None:
            with ours.watching("b"):
                assert ours._owner == os.getpid()

        in_child(watch)
        assert (ours._owner, ours._pipe) == (os.getpid(), pipe)
