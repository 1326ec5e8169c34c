"""Files in the root are hostile until proven otherwise."""

from __future__ import annotations

import os
import socket
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bridgehead.errors import FileError
from bridgehead.flows.files.checkpoint_files import SIZE_LIMITS, CheckpointFiles, Unsafe
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.words import RESPONSE_FILE
from bridgehead.host.clock import ManualClock


@pytest.fixture
def files(flow_project: Any) -> CheckpointFiles:
    root = FlowRoot.open(flow_project.root)
    root.prepare()
    return CheckpointFiles(root, ManualClock(datetime.now(UTC)))


def reason(found: object) -> str:
    assert isinstance(found, Unsafe), found
    return found.reason


def test_a_missing_file_is_no_file(files: CheckpointFiles) -> None:
    assert files.read(files.request_path) is None


def test_links_pipes_sockets_and_directories_are_not_read(
    files: CheckpointFiles, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("secret")
    path = files.request_path
    path.symlink_to(tmp_path / "secret")
    assert "symbolic link" in reason(files.read(path))
    path.unlink()
    path.hardlink_to(tmp_path / "secret")
    assert "more than one link" in reason(files.read(path))
    path.unlink()
    os.mkfifo(path)
    assert "not a regular file" in reason(files.read(path))
    path.unlink()
    path.mkdir()
    assert isinstance(files.read(path), Unsafe)
    path.rmdir()
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(path.parent)
        try:
            listener.bind(path.name)
        finally:
            os.chdir(here)
        assert isinstance(files.read(path), Unsafe)


def test_a_file_at_the_limit_is_read_and_one_byte_more_is_not(
    files: CheckpointFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SIZE_LIMITS, RESPONSE_FILE, 1000)
    files.response_path.write_bytes(b"x" * 1000)
    assert files.read(files.response_path) == b"x" * 1000
    files.response_path.write_bytes(b"x" * 1001)
    assert "too_large" in reason(files.read(files.response_path))


def test_a_file_of_another_owner_is_not_believed(files: CheckpointFiles) -> None:
    files.response_path.write_bytes(b"{}")
    found = files.read(files.response_path, owners=frozenset({os.geteuid() + 1}))
    assert "foreign_owner" in reason(found)
    assert isinstance(found, Unsafe) and found.uid == os.geteuid()


def test_a_half_written_answer_is_given_time(
    files: CheckpointFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.response_path.write_bytes(b'{"request_id"')
    naps: list[float] = []

    def finish_writing(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            files.response_path.write_bytes(b'{"request_id": "x"}')

    monkeypatch.setattr(files.clock, "sleep", finish_writing)
    assert files.read_response(files.response_path) == b'{"request_id": "x"}'
    assert naps == [0.2, 0.2, 0.2]


def test_patience_ends_after_five_tries_and_is_not_for_old_files(
    files: CheckpointFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps: list[float] = []
    monkeypatch.setattr(files.clock, "sleep", naps.append)
    files.response_path.write_bytes(b"{")
    assert files.read_response(files.response_path) == b"{"
    assert len(naps) == 5
    os.utime(files.response_path, (0, 0))
    files.read_response(files.response_path)
    assert len(naps) == 5


def test_files_are_written_privately_and_never_through_a_link(
    files: CheckpointFiles, tmp_path: Path
) -> None:
    files.write(files.request_path, {"ü": 1})
    assert files.request_path.read_bytes() == b'{\n  "\\u00fc": 1\n}'
    assert stat.S_IMODE(files.request_path.stat().st_mode) == 0o600
    (tmp_path / "victim").write_text("untouched")
    files.request_path.unlink()
    files.request_path.symlink_to(tmp_path / "victim")
    with pytest.raises(FileError):
        files.write(files.request_path, {})
    assert (tmp_path / "victim").read_text() == "untouched"


def test_a_removal_is_durable_before_we_go_on(
    files: CheckpointFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that comes back after a power cut would be asked again."""
    files.write(files.request_path, {"request_id": "x"})
    steps: list[str] = []
    sync, unlink = os.fsync, Path.unlink

    def note_sync(handle: int) -> None:
        steps.append(f"sync {Path(f'/proc/self/fd/{handle}').readlink()}")
        sync(handle)

    def note_unlink(path: Path, *_: object, **__: object) -> None:
        steps.append(f"unlink {path}")
        unlink(path)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "unlink", note_unlink)
    files.remove(files.request_path)
    files.remove(files.request_path)
    assert steps == [
        f"unlink {files.request_path}",
        f"sync {files.request_path.parent}",
        f"unlink {files.request_path}",
    ]


def test_the_files_of_a_dead_run_are_away_for_good_before_we_go_on(
    files: CheckpointFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write(files.request_path, {"request_id": "x"})
    synced: list[Path] = []
    sync = os.fsync

    def note(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink())
        assert not files.request_path.exists()
        sync(handle)

    monkeypatch.setattr(os, "fsync", note)
    folder = files.move_to_post_mortem("flow-1")
    assert (folder / files.request_path.name).exists()
    assert files.root.path in synced


def test_answers_are_not_read_through_a_linked_folder(
    files: CheckpointFiles, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.json").write_text("{}")
    files.root.inbox.symlink_to(elsewhere)
    assert files.response_paths() == []
    assert "symbolic link" in reason(files.read(files.root.inbox / "a.json"))


def test_an_answer_that_grows_while_it_is_read_is_too_large(
    files: CheckpointFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SIZE_LIMITS, RESPONSE_FILE, 10)
    files.response_path.write_bytes(b"x" * 10)
    read = os.read

    def grow_then_read(handle: int, count: int) -> bytes:
        with files.response_path.open("ab") as growing:
            growing.write(b"y")
        return read(handle, count)

    monkeypatch.setattr(os, "read", grow_then_read)
    assert "too_large" in reason(files.read(files.response_path))


def test_cleaning_up_twice_is_fine_and_leaves_what_is_no_file(
    files: CheckpointFiles,
) -> None:
    files.request_path.write_text("x")
    files.response_path.mkdir()
    assert files.clean_up() == [files.response_path]
    assert files.clean_up() == [files.response_path]
    assert not files.request_path.exists() and files.response_path.is_dir()


def test_a_rejected_link_is_moved_itself(
    files: CheckpointFiles, tmp_path: Path
) -> None:
    (tmp_path / "target").write_text("kept")
    files.response_path.symlink_to(tmp_path / "target")
    files.reject(files.response_path, "why")
    assert (tmp_path / "target").read_text() == "kept"
    (moved,) = files.root.rejected.iterdir()
    assert moved.is_symlink() and not files.response_path.is_symlink()
