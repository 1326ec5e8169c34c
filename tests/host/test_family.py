"""A family is found by its mark, also through a run inside a run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bridgehead.host import family as family_module
from bridgehead.host.family import Family, find_process
from bridgehead.host.guardian import MARK

SLEEPER = "import os, time; os.setsid(); print('up', flush=True); time.sleep(600)"


def marked_sleeper(family: Family) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-c", SLEEPER],
        stdout=subprocess.PIPE,
        env={MARK: family.mark()},
    )
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    return child


def test_every_run_has_a_mark_of_its_own() -> None:
    assert Family().run_id != Family().run_id


def test_a_marked_process_is_killed_although_nobody_named_a_leader() -> None:
    family = Family()
    child = marked_sleeper(family)
    assert family.kill() == 1
    assert child.wait(30) == -signal.SIGKILL


def test_an_outer_run_kills_what_an_inner_run_started_and_not_the_reverse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outer = Family()
    monkeypatch.setenv(MARK, outer.mark())
    inner = Family()
    assert inner.mark() == f"{outer.run_id}:{inner.run_id}"
    of_inner = marked_sleeper(inner)
    of_sibling = marked_sleeper(Family())
    assert inner.kill() == 1
    assert of_inner.wait(30) == -signal.SIGKILL
    assert of_sibling.poll() is None
    assert outer.kill() == 1
    assert of_sibling.wait(30) == -signal.SIGKILL


def test_a_remembered_process_is_killed_although_its_parent_is_gone() -> None:
    source = f"""
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {SLEEPER!r}], stdout=subprocess.PIPE, env={{}})
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""
    family = Family()
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", source], stdin=pipe, stdout=pipe, start_new_session=True
    ) as leader:
        assert leader.stdin is not None
        assert leader.stdout is not None
        grandchild = int(leader.stdout.readline())
        family.set_leader(leader.pid)
        family.remember()
        leader.stdin.close()
        os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)
        assert find_process(grandchild) is not None
        assert family.kill() == 1
    assert find_process(grandchild) is None


def processes(folder: Path, *entries: tuple[int, int, int]) -> None:
    """Write a process table: pid, session and birth of each."""
    shutil.rmtree(folder, ignore_errors=True)
    for pid, session, born in entries:
        (folder / str(pid)).mkdir(parents=True)
        fields = " ".join(["S", "1", "0", str(session), *["0"] * 15, str(born), "0"])
        (folder / str(pid) / "stat").write_text(f"{pid} (x) {fields}")


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """Who is killed in a process table that is a folder; nothing real is touched."""
    noted: list[int] = []
    monkeypatch.setattr(family_module, "PROC", str(tmp_path / "proc"))
    monkeypatch.setattr(os, "kill", lambda pid, _number: noted.append(pid))
    monkeypatch.setattr(os, "killpg", lambda *_: None)
    monkeypatch.setattr(family_module, "_RESCAN_SECONDS", 0.0)
    monkeypatch.setattr(family_module, "GIVE_UP_SECONDS", 0.2)
    return noted


def test_a_process_id_that_is_used_again_belongs_to_somebody_else(
    killed: list[int], tmp_path: Path
) -> None:
    table, family = tmp_path / "proc", Family()
    processes(table, (4001, 4001, 100), (4002, 4001, 110))
    family.set_leader(4001)
    family.remember()
    # The child ended, and its number went to a stranger; an older stranger leads a session of the leader's number.
    processes(table, (4002, 4002, 900), (4003, 4001, 50))
    assert family.kill() == 0
    assert killed == []
    processes(table, (4002, 4001, 110))
    family.kill()
    assert set(killed) == {4002}


def test_we_are_not_of_the_family_we_kill(killed: list[int], tmp_path: Path) -> None:
    table, family = tmp_path / "proc", Family()
    processes(table, (4001, 4001, 100), (os.getpid(), 4001, 200))
    family.set_leader(4001)
    family.kill()
    assert set(killed) == {4001}


def test_who_is_born_while_the_others_are_killed_is_killed_too(
    killed: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, family = tmp_path / "proc", Family()
    processes(table, (4001, 4001, 100), (4002, 4001, 110))
    family.set_leader(4001)
    generations = [((4003, 4001, 120),), ()]

    def kill(pid: int, _number: int) -> None:
        killed.append(pid)
        if pid in (4002, 4003):
            processes(table, *generations.pop(0))

    monkeypatch.setattr(os, "kill", kill)
    table.joinpath("4001").rename(tmp_path / "gone")
    assert family.kill() == 2
    assert killed == [4002, 4003]


def test_signalling_a_family_without_a_leader_or_with_a_dead_one_does_nothing() -> None:
    family = Family()
    family.signal(signal.SIGKILL)
    with subprocess.Popen([sys.executable, "-c", ""], start_new_session=True) as leader:
        family.set_leader(leader.pid)
        leader.wait()
        family.signal(signal.SIGTERM)
    assert leader.returncode == 0


def test_a_member_that_may_not_be_killed_is_given_up_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    family = Family()
    child = marked_sleeper(family)
    attempts: list[int] = []

    def refuse(pid: int, number: int) -> None:
        attempts.append(pid)
        raise PermissionError

    with monkeypatch.context() as patched:
        patched.setattr(os, "kill", refuse)
        assert family.kill() == 0
    assert attempts == [child.pid]
    child.kill()
    child.wait(30)
