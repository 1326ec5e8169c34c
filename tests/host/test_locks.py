"""A lock has one holder, and ends with it."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from bridgehead.errors import LockTimeout
from bridgehead.host.clock import ManualClock
from bridgehead.host.file_errors import (
    FileFailure,
    FileMissing,
    IsSymlink,
    NotRegularFile,
)
from bridgehead.host.locks import FileLock, LockReentered, read_holder

StartScript = Callable[..., subprocess.Popen[str]]

HOLDER = """
import sys
from bridgehead.host.locks import FileLock
with FileLock(sys.argv[1], 30):
    print("held", flush=True)
    sys.stdin.read()
print("released", flush=True)
"""


def hold(started: StartScript, path: Path) -> subprocess.Popen[str]:
    child = started(HOLDER, str(path))
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def test_a_lock_is_private_and_can_be_taken_again_after_release(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    for _ in range(2):
        with FileLock(path, 0) as lock:
            assert lock.path == path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_second_process_waits_in_vain_and_learns_who_holds_the_lock(
    tmp_path: Path, started: StartScript
) -> None:
    path = tmp_path / "lock"
    child = hold(started, path)
    clock = ManualClock()
    with pytest.raises(
        LockTimeout, match=rf"held by pid {child.pid} on \S+ since .*gave up after 5 s"
    ):
        FileLock(path, 5, clock=clock).acquire()
    assert clock.monotonic() == pytest.approx(5)


def test_the_second_process_gets_the_lock_when_the_first_lets_go(
    tmp_path: Path, started: StartScript
) -> None:
    path = tmp_path / "lock"
    child = hold(started, path)
    waiting = threading.Event()

    class Announcing(ManualClock):
        def sleep(self, seconds: float) -> None:
            waiting.set()
            os.sched_yield()

    got: list[bool] = []

    def wait_for_it() -> None:
        with FileLock(path, 1, clock=Announcing()):
            got.append(True)

    waiter = threading.Thread(target=wait_for_it)
    waiter.start()
    assert waiting.wait(30)
    assert not got
    child.communicate(timeout=30)
    waiter.join(30)
    assert got == [True]


def test_kill_9_of_the_holder_releases_the_lock(
    tmp_path: Path, started: StartScript
) -> None:
    path = tmp_path / "lock"
    child = hold(started, path)
    child.send_signal(signal.SIGKILL)
    child.wait(30)
    with FileLock(path, 0):
        assert read_holder(path) is not None
        assert f"pid {os.getpid()} " in str(read_holder(path))


INCREMENT = """
import sys
from pathlib import Path
from bridgehead.host.locks import FileLock
counter = Path(sys.argv[1])
for _ in range(50):
    with FileLock(counter.with_name("lock"), 60):
        counter.write_text(str(int(counter.read_text()) + 1))
"""


def test_processes_that_count_under_the_lock_lose_no_count(
    tmp_path: Path, started: StartScript
) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    children = [started(INCREMENT, str(counter)) for _ in range(3)]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    assert counter.read_text() == "150"


@pytest.mark.parametrize("shared", [True, False], ids=["one lock object", "one each"])
def test_threads_that_count_under_the_lock_lose_no_count(
    tmp_path: Path, shared: bool
) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    lock = FileLock(tmp_path / "lock", 60)

    def count() -> None:
        for _ in range(25):
            with lock if shared else FileLock(tmp_path / "lock", 60):
                counter.write_text(str(int(counter.read_text()) + 1))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.read_text() == "100"


def test_taking_a_lock_twice_in_one_thread_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with FileLock(path, 60) as lock:
        with pytest.raises(LockReentered, match="cannot be taken twice"):
            lock.acquire()
        with pytest.raises(LockReentered):
            FileLock(path, 60).acquire()
        with pytest.raises(LockTimeout):  # it is still held after the refusals
            in_another_thread(lambda: FileLock(path, 0).acquire())
    in_another_thread(lambda: FileLock(path, 0).__enter__().release())


def in_another_thread(action: Callable[[], None]) -> None:
    raised: list[BaseException] = []

    def act() -> None:
        try:
            action()
        except LockTimeout as error:
            raised.append(error)

    thread = threading.Thread(target=act)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def test_releasing_what_is_not_held_does_nothing(tmp_path: Path) -> None:
    FileLock(tmp_path / "lock").release()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_file_replaced_before_it_was_locked_is_not_mistaken_for_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    lock = fcntl.flock
    replaced: list[Path] = []

    def replace_then_lock(handle: int, operation: int) -> None:
        if not replaced:
            replaced.append(path.rename(tmp_path / "moved away"))
        lock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", replace_then_lock)
    with FileLock(path, 60), pytest.raises(LockTimeout):
        in_another_thread(lambda: FileLock(path, 0).acquire())
    assert replaced


def test_a_link_a_fifo_or_a_missing_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(IsSymlink):
        FileLock(tmp_path / "link", 0).acquire()
    with pytest.raises(NotRegularFile):
        FileLock(tmp_path / "fifo", 0).acquire()
    with pytest.raises(FileMissing):
        FileLock(tmp_path / "missing" / "lock", 0).acquire()
    assert (tmp_path / "target").read_text() == "mine"


def test_a_file_system_without_locks_is_named_as_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(FileFailure, match="has no locks"):
        FileLock(tmp_path / "lock", 0).acquire()


def test_the_holder_is_quoted_only_if_it_looks_like_our_own_signature(
    tmp_path: Path,
) -> None:
    path = tmp_path / "lock"
    assert read_holder(path) is None
    path.write_bytes(b"\x1b[31m 12 evil\n")
    assert read_holder(path) is None
    path.write_text("12 box 2026-11-15T10:15:02.123Z\n")
    assert read_holder(path) == "pid 12 on box since 2026-11-15T10:15:02.123Z"
