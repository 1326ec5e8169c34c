"""Files are written whole or not at all, and nothing is reached through a symbolic link."""

from __future__ import annotations

import errno
import os
import signal
import socket
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from bridgehead.errors import FileError
from bridgehead.host import directories
from bridgehead.host.file_errors import (
    AccessDenied,
    DiskFull,
    FileFailure,
    FileMissing,
    FileTaken,
    FileTooLarge,
    IsSymlink,
    NotDirectory,
    NotRegularFile,
    OutsideRoot,
    ReadOnlyFileSystem,
    UnusablePath,
    translated,
)
from bridgehead.host.files import (
    append_line,
    opened_regular,
    read_bounded,
    write_atomic,
)

RunScript = Callable[..., subprocess.CompletedProcess[str]]
StartScript = Callable[..., subprocess.Popen[str]]

needs_ordinary_user = pytest.mark.skipif(
    os.geteuid() == 0, reason="root ignores permission bits"
)


def names_in(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- writing


def test_a_file_is_replaced_and_no_temporary_file_stays(tmp_path: Path) -> None:
    target = tmp_path / "state.json"
    write_atomic(target, b"old")
    write_atomic(target, "neu: größer\n")
    assert target.read_bytes() == "neu: größer\n".encode()
    assert names_in(tmp_path) == ["state.json"]


def test_a_private_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    target = tmp_path / "token"
    target.write_text("loose")
    target.chmod(0o644)
    write_atomic(target, "tight", private=True)
    assert permissions(target) == 0o600


def test_a_rewritten_file_keeps_its_permissions_without_special_bits(
    tmp_path: Path,
) -> None:
    target = tmp_path / "script"
    target.write_text("old")
    target.chmod(0o4750)
    write_atomic(target, "new")
    assert permissions(target) == 0o750


def test_a_new_file_follows_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomic(tmp_path / "report.md", "text")
    finally:
        os.umask(before)
    assert permissions(tmp_path / "report.md") == 0o640


def test_an_exclusive_write_refuses_a_file_that_exists(tmp_path: Path) -> None:
    target = tmp_path / "envelope.md"
    write_atomic(target, "first", exclusive=True)
    with pytest.raises(FileTaken, match="already exists"):
        write_atomic(target, "second", exclusive=True)
    assert target.read_text() == "first"
    assert names_in(tmp_path) == ["envelope.md"]


def test_of_many_exclusive_writers_exactly_one_wins(tmp_path: Path) -> None:
    target = tmp_path / "answer.json"
    start = threading.Barrier(8)
    outcomes: list[str] = []

    def write(number: int) -> None:
        start.wait()
        try:
            write_atomic(target, f"writer {number}", exclusive=True)
        except FileTaken:
            outcomes.append("taken")
        else:
            outcomes.append(f"writer {number}")

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert outcomes.count("taken") == 7
    assert target.read_text() in outcomes
    assert names_in(tmp_path) == ["answer.json"]


def test_a_name_as_long_as_the_file_system_allows_can_be_written(
    tmp_path: Path,
) -> None:
    target = tmp_path / ("ä" * 127)
    write_atomic(target, "x")
    assert target.read_text() == "x"


def test_a_name_longer_than_the_file_system_allows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusablePath):
        write_atomic(tmp_path / ("a" * 300), "x")
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("name", ["nul\0inside", "..", "."])
def test_a_path_that_names_no_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileError, match="was not written"):
        write_atomic(
            f"{tmp_path}/sub/{name}" if name == "nul\0inside" else f"{tmp_path}/{name}",
            "x",
        )
    assert names_in(tmp_path) == []


def test_text_that_is_not_unicode_changes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "report.md"
    write_atomic(target, "old")
    with pytest.raises(FileFailure, match="surrogate"):
        write_atomic(target, "half \ud800 pair")
    assert target.read_text() == "old"


def test_writing_into_a_missing_directory_names_the_directory(tmp_path: Path) -> None:
    with pytest.raises(FileMissing, match="missing was not opened: it does not exist"):
        write_atomic(tmp_path / "missing" / "file", "x")
    target = tmp_path / "missing" / "file"
    found = pytest.raises(
        FileMissing, match="file was not written: its directory does not exist"
    )
    with found, translated(target, "written"):
        target.touch()


@needs_ordinary_user
def test_a_directory_without_write_permission_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(AccessDenied, match="permission denied"):
        write_atomic(tmp_path / "file", "x")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.ENOSPC, DiskFull),
        (errno.EDQUOT, DiskFull),
        (errno.EROFS, ReadOnlyFileSystem),
        (errno.EACCES, AccessDenied),
        (errno.EIO, FileFailure),
    ],
)
@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_a_failing_system_call_leaves_the_old_content_and_a_clear_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    kind: type[FileError],
    call: str,
) -> None:
    target = tmp_path / "state.json"
    write_atomic(target, "old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    with (
        monkeypatch.context() as patched,
        pytest.raises(kind, match=r"state\.json was not written"),
    ):
        patched.setattr(os, call, fail)
        write_atomic(target, "new")
    assert target.read_text() == "old"
    assert names_in(tmp_path) == ["state.json"]


def test_a_file_system_that_cannot_sync_directories_is_put_up_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def refuse_directories(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        sync(handle)

    monkeypatch.setattr(os, "fsync", refuse_directories)
    write_atomic(tmp_path / "file", "x")
    assert (tmp_path / "file").read_text() == "x"


def test_a_directory_that_fails_to_sync_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def fail_for_directories(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        sync(handle)

    monkeypatch.setattr(os, "fsync", fail_for_directories)
    with pytest.raises(FileFailure):
        write_atomic(tmp_path / "file", "x")


@pytest.mark.parametrize(
    ("exclusive", "placed"), [(False, ["rename"]), (True, ["link", "unlink"])]
)
def test_content_is_on_the_disk_before_it_takes_its_place_and_the_place_before_we_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exclusive: bool, placed: list[str]
) -> None:
    calls: list[str] = []

    def note(name: str) -> None:
        real = getattr(os, name)

        def call(*arguments: object, **options: object) -> object:
            is_directory = name == "fsync" and stat.S_ISDIR(
                os.fstat(arguments[0]).st_mode
            )  # type: ignore[arg-type]
            calls.append("fsync directory" if is_directory else name)
            return real(*arguments, **options)

        monkeypatch.setattr(os, name, call)

    for name in ("write", "fsync", "rename", "link", "unlink"):
        note(name)
    write_atomic(tmp_path / "state.json", "x", exclusive=exclusive)
    assert calls == ["write", "fsync", *placed, "fsync directory"]


LIMITED_WRITER = """
import resource, sys
from bridgehead.host.files import append_line, write_atomic
from bridgehead.host.file_errors import DiskFull
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
try:
    {call}
except DiskFull as error:
    print(error)
"""


def test_running_out_of_space_in_the_middle_keeps_the_old_file(
    tmp_path: Path, run_script: RunScript
) -> None:
    target = tmp_path / "state.json"
    target.write_text("old")
    ended = run_script(
        LIMITED_WRITER.format(call="write_atomic(sys.argv[1], b'x' * 10000)"),
        str(target),
    )
    assert "exhausted" in ended.stdout, ended.stderr
    assert target.read_text() == "old"
    assert names_in(tmp_path) == ["state.json"]


def test_a_line_torn_by_a_full_disk_does_not_spoil_the_next_one(
    tmp_path: Path, run_script: RunScript
) -> None:
    log = tmp_path / "events.jsonl"
    ended = run_script(
        LIMITED_WRITER.format(call="append_line(sys.argv[1], 'x' * 5000)"), str(log)
    )
    assert "exhausted" in ended.stdout, ended.stderr
    append_line(log, "whole")
    assert log.read_text().splitlines() == ["x" * 4096, "whole"]


# --- killed while writing

KILLED_WRITER = """
import os, signal, sys
from bridgehead.host.files import write_atomic

target, step, moment, exclusive = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4] == "exclusive"
taken = 0

def crash_at(name):
    real = getattr(os, name)
    def call(*arguments, **options):
        global taken
        taken += 1
        if taken != step:
            return real(*arguments, **options)
        try:
            if moment == "half" and name == "write":
                real(arguments[0], arguments[1][: len(arguments[1]) // 2])
            elif moment == "after":
                real(*arguments, **options)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    setattr(os, name, call)

for name in ("open", "listdir", "stat", "fstat", "fchmod", "write", "fsync", "close", "rename", "link", "unlink"):
    crash_at(name)
write_atomic(target, b"new" * 1000, private=True, exclusive=exclusive)
print(taken)
"""


@pytest.mark.parametrize("moment", ["before", "half", "after"])
@pytest.mark.parametrize("way", ["replacing", "exclusive"])
def test_a_writer_killed_at_any_step_leaves_the_old_content_or_the_new(
    tmp_path: Path, run_script: RunScript, moment: str, way: str
) -> None:
    contents = set()
    for step in range(1, 40):
        target = tmp_path / str(step) / "state.json"
        target.parent.mkdir()
        if way == "replacing":
            target.write_bytes(b"old")
        ended = run_script(KILLED_WRITER, str(target), str(step), moment, way)
        contents.add(target.read_bytes() if target.exists() else None)
        if ended.returncode == 0:
            assert int(ended.stdout) < step
            break
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        if way == "replacing":
            write_atomic(target, "next")
            assert target.read_text() == "next"
    else:
        pytest.fail("the writer never finished")
    assert contents == {b"old" if way == "replacing" else None, b"new" * 1000}


def test_leftovers_of_killed_writers_are_removed_after_an_hour(tmp_path: Path) -> None:
    stale = tmp_path / ".state.json.4711.0123456789abcdef.tmp"
    fresh = tmp_path / ".state.json.4711.fedcba9876543210.tmp"
    journal = tmp_path / ".record.db.4711.0123456789abcdef.tmp-journal"
    foreign = tmp_path / "notes.tmp"
    for path in (stale, fresh, journal, foreign):
        path.write_text("half")
    for path in (stale, journal, foreign):
        os.utime(path, (1, 1))
    write_atomic(tmp_path / "other.json", "x")
    assert names_in(tmp_path) == [fresh.name, "notes.tmp", "other.json"]


# --- links and things that are not files


def test_a_link_in_the_place_of_the_file_is_refused_and_its_target_untouched(
    tmp_path: Path,
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(outside)
    for attempt in (
        lambda: write_atomic(link, "stolen"),
        lambda: write_atomic(link, "stolen", exclusive=True),
        lambda: append_line(link, "stolen"),
        lambda: read_bounded(link, 100),
    ):
        with pytest.raises(IsSymlink, match="symbolic link"):
            attempt()
    assert outside.read_text() == "mine"
    assert link.is_symlink()


def test_a_dangling_link_is_refused_and_its_target_not_made(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(IsSymlink):
        append_line(link, "x")
    assert names_in(tmp_path) == ["link"]


def test_below_a_root_no_directory_on_the_way_may_be_a_link(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "real").mkdir(parents=True)
    (outside / "deep").mkdir(parents=True)
    (outside / "deep" / "file").write_text("mine")
    (root / "real" / "way").symlink_to(outside)
    target = root / "real" / "way" / "deep" / "file"
    for attempt in (
        lambda: write_atomic(target, "stolen", root=root),
        lambda: append_line(target, "stolen", root=root),
        lambda: read_bounded(target, 100, root=root),
        lambda: directories.make_dir(target.parent / "new", root=root),
        lambda: directories.make_private_dir(target.parent / "new", root=root),
    ):
        with pytest.raises(IsSymlink, match="way was not"):
            attempt()
    assert (outside / "deep" / "file").read_text() == "mine"
    assert names_in(outside / "deep") == ["file"]


def test_above_the_root_a_link_is_the_users_own_affair(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "disk")
    write_atomic(tmp_path / "home" / "file", "x", root=tmp_path / "home")
    assert read_bounded(tmp_path / "home" / "file", 10, root=tmp_path / "home") == b"x"


@pytest.mark.parametrize(
    "path", ["../file", "sub/../../file", "sub/../file", "/etc/hostname"]
)
def test_a_path_that_leaves_its_root_is_refused(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    for attempt in (
        lambda: write_atomic(root / path, "x", root=root),
        lambda: read_bounded(root / path, 10, root=root),
    ):
        with pytest.raises(OutsideRoot):
            attempt()
    assert names_in(tmp_path) == ["root"]


def test_a_file_on_the_way_is_called_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotDirectory):
        write_atomic(tmp_path / "file" / "below", "y", root=tmp_path)


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(path.parent)  # the path of a socket may be too long otherwise
        listener.bind(path.name)


@pytest.mark.parametrize(
    "make", [make_fifo, make_socket, Path.mkdir], ids=["fifo", "socket", "directory"]
)
def test_what_is_not_a_regular_file_is_refused_without_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "thing"
    make(target)
    for attempt in (
        lambda: write_atomic(target, "x"),
        lambda: append_line(target, "x"),
        lambda: read_bounded(target, 100),
    ):
        with pytest.raises(NotRegularFile, match="not a regular file"):
            attempt()


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/null"])
def test_devices_are_refused(device: str) -> None:
    with pytest.raises(NotRegularFile):
        read_bounded(device, 100)
    with pytest.raises(NotRegularFile):
        append_line(device, "x")


def test_a_fifo_that_takes_the_files_place_after_the_check_does_not_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "response.json"
    target.write_text("{}")
    look = os.stat

    def look_then_swap(*arguments: object, **options: object) -> os.stat_result:
        found = look(*arguments, **options)  # type: ignore[arg-type]
        target.unlink(missing_ok=True)
        os.mkfifo(target)
        return found

    monkeypatch.setattr(os, "stat", look_then_swap)
    with pytest.raises(NotRegularFile):
        read_bounded(target, 100)


@pytest.mark.parametrize("attempt", ["read", "append"])
def test_a_link_that_takes_the_files_place_after_the_check_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempt: str
) -> None:
    target, secret = tmp_path / "response.json", tmp_path / "secret"
    target.write_text("{}")
    secret.write_text("secret")
    look = os.stat

    def look_then_swap(*arguments: object, **options: object) -> os.stat_result:
        found = look(*arguments, **options)  # type: ignore[arg-type]
        target.unlink(missing_ok=True)
        target.symlink_to(secret)
        return found

    monkeypatch.setattr(os, "stat", look_then_swap)
    with pytest.raises(IsSymlink):
        if attempt == "read":
            read_bounded(target, 100)
        else:
            append_line(target, "x")
    assert secret.read_text() == "secret"


# --- reading


def test_a_file_of_exactly_the_limit_is_read_and_one_byte_more_refused(
    tmp_path: Path,
) -> None:
    target = tmp_path / "body"
    target.write_bytes(b"x" * 100)
    assert read_bounded(target, 100) == b"x" * 100
    with pytest.raises(FileTooLarge, match="larger than 99 bytes"):
        read_bounded(target, 99)


def test_a_file_that_grows_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "body"
    target.write_bytes(b"x" * 10)
    read = os.read

    def grow_then_read(handle: int, count: int) -> bytes:
        with target.open("ab") as growing:
            growing.write(b"y" * 10)
        return read(handle, count)

    monkeypatch.setattr(os, "read", grow_then_read)
    with pytest.raises(FileTooLarge):
        read_bounded(target, 15)


def test_a_missing_file_is_its_own_error(tmp_path: Path) -> None:
    with pytest.raises(FileMissing, match="was not read: it does not exist"):
        read_bounded(tmp_path / "nothing", 10)


def test_an_opened_file_can_be_judged_by_its_owner_and_links(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("x")
    target.with_name("second").hardlink_to(target)
    with opened_regular(target) as handle:
        assert (os.fstat(handle).st_uid, os.fstat(handle).st_nlink) == (os.geteuid(), 2)


def test_no_handle_stays_open_whatever_happens(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    before = len(names_in(Path("/dev/fd")))
    for path in (
        tmp_path / "link" / "x",
        tmp_path / "none",
        tmp_path / ".." / "x",
        tmp_path / "none" / "x",
    ):
        for attempt in (
            lambda path=path: write_atomic(path, "x", root=tmp_path, exclusive=True),
            lambda path=path: read_bounded(path, 0, root=tmp_path),
        ):
            try:
                attempt()
            except FileError:
                continue
    assert len(names_in(Path("/dev/fd"))) == before


# --- appending


def test_lines_are_appended_in_order(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    append_line(log, "one")
    append_line(log, b"two")
    assert log.read_text() == "one\ntwo\n"


def test_a_line_with_a_line_break_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line break"):
        append_line(tmp_path / "log", "one\ntwo")
    assert names_in(tmp_path) == []


def test_an_unfinished_last_line_is_closed_before_the_next(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    log.write_text('{"event": "torn')
    append_line(log, "{}")
    assert log.read_text() == '{"event": "torn\n{}\n'


def test_a_line_still_being_written_by_another_process_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "events.jsonl"
    log.write_text("begun")

    def let_the_other_finish(handle: int, operation: int) -> None:
        with log.open("a") as other:
            other.write(" and ended\n")

    monkeypatch.setattr("fcntl.flock", let_the_other_finish)
    append_line(log, "next")
    assert log.read_text() == "begun and ended\nnext\n"


APPENDER = """
import sys
from bridgehead.host.files import append_line
for number in range(200):
    append_line(sys.argv[1], sys.argv[2] * 3000 + str(number))
"""


def test_lines_of_several_processes_never_mix(
    tmp_path: Path, started: StartScript
) -> None:
    log = tmp_path / "events.jsonl"
    children = [started(APPENDER, str(log), letter) for letter in "abc"]
    assert [child.wait(timeout=60) for child in children] == [0, 0, 0]
    expected = sorted(
        letter * 3000 + str(number) for letter in "abc" for number in range(200)
    )
    assert sorted(log.read_text().splitlines()) == expected
