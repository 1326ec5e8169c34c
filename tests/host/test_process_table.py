"""Processes are told apart by pid and birth, and found by parents and environment."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.host import family
from bridgehead.host.family import (
    ProcessEntry,
    find_process,
    has_variable,
    living_processes,
    with_descendants,
)

everybody = itertools.chain.from_iterable
WAIT = "import sys; print('up', flush=True); sys.stdin.read()"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A Python program, alive until the end of the test."""
    with subprocess.Popen(
        [sys.executable, "-c", WAIT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"MARKER": "one:two:three", "OTHER": "four"},
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_child_is_listed_with_its_parent_and_session(
    child: subprocess.Popen[bytes],
) -> None:
    [entry] = [
        entry for entry in everybody(living_processes()) if entry.pid == child.pid
    ]
    assert (entry.parent, entry.session) == (os.getpid(), os.getsid(0))
    assert find_process(child.pid) == entry


def test_without_proc_ps_lists_the_same_child(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(family, "PROC", str(tmp_path / "none"))
    [entry] = [
        entry for entry in everybody(living_processes()) if entry.pid == child.pid
    ]
    assert (entry.parent, entry.session, entry.born) == (os.getpid(), os.getpgid(0), 0)
    assert find_process(child.pid) is None
    assert not has_variable(entry, "MARKER", "one")


def test_without_proc_and_ps_nobody_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(family, "PROC", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list(living_processes()) == [[]]


def test_a_zombie_is_not_alive(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert find_process(child.pid) is None
    assert child.pid not in [entry.pid for entry in everybody(living_processes())]


def test_a_name_with_parentheses_and_blanks_is_read_past(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "77").mkdir()
    fields = " ".join(["S", "11", "22", "33", *["0"] * 15, "4444", "0"])
    (tmp_path / "77" / "stat").write_text(f"77 (a ) Z 1 (b) {fields}")
    monkeypatch.setattr(family, "PROC", str(tmp_path))
    [[entry]] = living_processes()
    assert (entry, entry.parent, entry.session) == (
        ProcessEntry(77, 4444, 11, 33),
        11,
        33,
    )


def test_who_comes_while_the_list_is_read_is_listed_after_it(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    born: list[subprocess.Popen[bytes]] = []

    def fork_first(pid: int) -> ProcessEntry | None:
        if not born:
            born.append(
                subprocess.Popen([sys.executable, "-c", WAIT], stdin=subprocess.PIPE)
            )
        return find_process(pid)

    monkeypatch.setattr(family, "find_process", fork_first)
    lists = [{entry.pid for entry in listed} for listed in living_processes()]
    with born[0] as late:
        late.kill()
    assert child.pid in lists[0]
    assert late.pid not in lists[0]
    assert late.pid in set().union(*lists[1:])


def test_a_machine_where_somebody_always_comes_is_not_listed_for_ever(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def one_more(pid: int) -> None:
        (tmp_path / str(pid + 1)).mkdir()

    monkeypatch.setattr(family, "PROC", str(tmp_path))
    monkeypatch.setattr(family, "find_process", one_more)
    one_more(0)
    assert 1 < len(list(living_processes())) < 1_000


def test_two_processes_with_one_pid_are_not_the_same() -> None:
    assert ProcessEntry(7, 100, parent=1, session=7) == ProcessEntry(
        7, 100, parent=5, session=7
    )
    assert ProcessEntry(7, 100, parent=1, session=7) != ProcessEntry(
        7, 200, parent=1, session=7
    )


@pytest.mark.parametrize(
    ("variable", "value", "found"),
    [
        ("MARKER", "two", True),
        ("MARKER", "four", False),
        ("OTHER", "four", True),
        ("MARK", "ER=one", False),
        ("ABSENT", "", False),
    ],
)
def test_a_mark_is_looked_for_in_its_own_variable(
    child: subprocess.Popen[bytes], variable: str, value: str, found: bool
) -> None:
    entry = find_process(child.pid)
    assert entry is not None
    assert has_variable(entry, variable, value) is found


def test_processes_of_another_user_or_gone_ones_carry_no_mark(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = find_process(child.pid)
    assert entry is not None
    with monkeypatch.context() as patched:
        owner = os.geteuid()
        patched.setattr(os, "geteuid", lambda: owner + 1)
        assert not has_variable(entry, "MARKER", "one")
    assert not has_variable(
        ProcessEntry(2**22 + 1, 1, 1, 1), "MARKER", uuid.uuid4().hex
    )


def test_descendants_are_collected_through_all_generations() -> None:
    table = [
        ProcessEntry(pid, 1, parent, 0)
        for pid, parent in [(10, 1), (11, 10), (12, 11), (13, 1), (14, 12), (15, 13)]
    ]
    assert {entry.pid for entry in with_descendants(table, {10})} == {10, 11, 12, 14}
    assert {entry.pid for entry in with_descendants(table, {11, 13})} == {
        11,
        12,
        13,
        14,
        15,
    }
    assert with_descendants(table, set()) == set()


def test_a_circle_of_parents_ends() -> None:
    table = [ProcessEntry(10, 1, 11, 0), ProcessEntry(11, 1, 10, 0)]
    assert len(with_descendants(table, {10})) == 2
