"""Several processes and clones send at once: nothing is lost, nothing arrives twice, nobody has to repair."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bridgehead.errors import LockTimeout
from bridgehead.host.locks import FileLock
from bridgehead.rigs.repositories.git import clone as clone_module
from bridgehead.rigs.repositories.git.clone import Clone
from bridgehead.rigs.repositories.git.repository import GitRepository
from rigs.support.git_world import World

PROGRAM = Path(__file__).parent / "programs/send_many.py"


def start(clone: Path, rig: str, number: int, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(PROGRAM), str(clone), rig, str(number), *options]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def contents_on_remote(world: World) -> list[str]:
    names = world.git(
        "ls-tree", "-r", "--name-only", "-z", "main", at=world.remote
    ).split("\0")[:-1]
    return [
        world.git("cat-file", "blob", f"main:{name}", at=world.remote).strip()
        for name in names
    ]


def test_processes_of_one_clone_take_turns_and_names(world, clone):
    (clone / "demo-01").mkdir()
    running = [start(clone, f"rig-{n}", 4, "no-push") for n in range(3)]
    printed = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], printed
    paths = [line.split()[2] for out, _ in printed for line in out.splitlines()]
    assert len(set(paths)) == 12
    assert world.porcelain(clone) == []
    commits = world.git(
        "log", "--format=", "--name-only", "origin/main..HEAD", at=clone
    ).split()
    assert sorted(commits) == sorted(paths), "one commit each, one file each"


def test_two_clones_that_race_end_with_everything_on_the_remote_once(
    world, clone, other_clone
):
    for place in (clone, other_clone):
        (place / "demo-01").mkdir()
    running = [
        start(clone, "a1", 3),
        start(other_clone, "b1", 3),
        start(other_clone, "b2", 3),
    ]
    printed = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], printed
    expected = sorted(
        f"{rig} {count}" for rig in ("a1", "b1", "b2") for count in range(3)
    )
    assert sorted(contents_on_remote(world)) == expected
    linear = world.git("rev-list", "--merges", "main", at=world.remote)
    assert linear == ""
    for place in (clone, other_clone):
        assert world.porcelain(place) == []


def test_linked_worktrees_share_the_lock(world, clone):
    world.git("worktree", "add", "-q", "-b", "wt", "../wt", at=clone)
    worktree = world.base / "wt"
    refusals: list[BaseException] = []

    def try_the_other() -> None:
        try:
            with Clone(clone).lock(timeout_seconds=0.0):
                pytest.fail("both hold the lock")
        except LockTimeout as refusal:
            refusals.append(refusal)

    with GitRepository(worktree).lock():
        other = threading.Thread(target=try_the_other)
        other.start()
        other.join()
    assert len(refusals) == 1


@pytest.mark.slow
def test_random_kills_lose_nothing_that_was_reported_and_duplicate_nothing(
    world, clone, other_clone
):
    for place in (clone, other_clone):
        (place / "demo-01").mkdir()
    reported: list[str] = []
    for attempt in range(12):
        running = [start(clone, f"a{attempt}", 3), start(other_clone, f"b{attempt}", 3)]
        doomed = running[attempt % 2]
        assert doomed.stdout is not None
        for _ in range(attempt % 3):
            reported.append(doomed.stdout.readline())
        doomed.kill()
        for process in running:
            out, _ = process.communicate()
            reported += out.splitlines(keepends=True)
    for place in (clone, other_clone):
        final = start(place, "last", 1)
        out, errors = final.communicate()
        assert final.returncode == 0, errors
        reported += out.splitlines(keepends=True)
        assert world.porcelain(place) == []
    arrived = contents_on_remote(world)
    claimed = [" ".join(line.split()[:2]) for line in reported if line.endswith("\n")]
    assert set(claimed) <= set(arrived)
    assert len([text for text in arrived if not text.startswith("last")]) == len(
        {text for text in arrived if not text.startswith("last")}
    )


def test_a_waiting_command_gives_up_on_one_holder_but_not_on_a_queue(
    clone: Path, monkeypatch
) -> None:
    holders = iter(["pid 1", "pid 2", "pid 3", "pid 3"])
    tried: list[str] = []

    def refuse(lock: FileLock) -> None:
        tried.append(str(lock.path))
        raise LockTimeout(str(lock.path), 0.1)

    monkeypatch.setattr(clone_module, "read_holder", lambda path: next(holders))
    monkeypatch.setattr(FileLock, "acquire", refuse)

    with pytest.raises(LockTimeout), Clone(clone).lock():
        pass
    assert len(tried) == 3
