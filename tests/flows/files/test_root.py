"""The directory a flow runs in: who may write there, what git may not bring, one process at a time."""

from __future__ import annotations

import os
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from bridgehead.errors import FileError
from bridgehead.flows import Flow
from bridgehead.flows.errors import JournalTracked, LockHeld, UnsafePath, UnsafeRoot
from bridgehead.flows.files.root import (
    FlowRoot,
    refuse_other_project,
    refuse_unsafe_output,
)

NOTHING = Flow("nothing", "1", lambda ctx: "done")


def git(root: Path, *words: str) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(root),
        "GIT_CONFIG_NOSYSTEM": "1",
        **{
            f"GIT_{who}_{what}": "t@example.org"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }
    subprocess.run(
        ["git", *words], cwd=root, env=environment, check=True, capture_output=True
    )


def test_the_private_corner_keeps_itself_out_of_version_control(
    flow_project: Any,
) -> None:
    git(flow_project.root, "init", "-q")
    flow_project.run(NOTHING)
    assert (
        flow_project.root / ".bridgehead" / ".gitignore"
    ).read_text() == "*\n!dismissals.toml\n"
    assert stat.S_IMODE(flow_project.private.stat().st_mode) == 0o700
    listed = subprocess.run(
        ["git", "status", "--porcelain", "-uall"],
        cwd=flow_project.root,
        capture_output=True,
        check=True,
    )
    assert listed.stdout == b""


def test_an_ignore_file_that_is_there_is_left_alone(flow_project: Any) -> None:
    (flow_project.root / ".bridgehead").mkdir()
    (flow_project.root / ".bridgehead" / ".gitignore").write_text("mine\n")
    flow_project.run(NOTHING)
    assert (flow_project.root / ".bridgehead" / ".gitignore").read_text() == "mine\n"


@pytest.mark.peer
@pytest.mark.parametrize("index_version", ["2", "4"])
@pytest.mark.parametrize("below", ["", "sub/dir"])
def test_a_journal_that_came_with_the_repository_is_refused(
    flow_project: Any, index_version: str, below: str
) -> None:
    git(flow_project.root, "init", "-q")
    git(flow_project.root, "config", "index.version", index_version)
    root = flow_project.root / below
    root.mkdir(parents=True, exist_ok=True)
    shipped = root / ".bridgehead" / "flows" / "journal.db"
    shipped.parent.mkdir(parents=True)
    shipped.write_bytes(b"hostile")
    git(flow_project.root, "add", "-f", str(shipped))
    flow_project.root = root
    for flags in ({}, {"resume": True}, {"fresh": True}):
        with pytest.raises(JournalTracked, match=r"git tracks .*journal\.db"):
            flow_project.run(NOTHING, **flags)
    assert shipped.read_bytes() == b"hostile"
    assert [path.name for path in shipped.parent.iterdir()] == ["journal.db"]


@pytest.mark.peer
def test_a_journal_of_our_own_in_a_repository_is_used(flow_project: Any) -> None:
    git(flow_project.root, "init", "-q")
    (flow_project.root / "notes.txt").write_text("about .bridgehead/flows/ and more")
    git(flow_project.root, "add", "notes.txt")
    flow_project.run(NOTHING)
    assert flow_project.resume(NOTHING).actions == ("already_complete",)


def test_a_directory_everybody_can_write_to_is_refused(flow_project: Any) -> None:
    flow_project.root.chmod(0o777)
    with pytest.raises(UnsafeRoot, match="everyone can write"):
        flow_project.run(NOTHING)
    assert not (flow_project.root / ".bridgehead").exists()
    flow_project.root.chmod(0o1777)
    assert flow_project.run(NOTHING).result == "done"


def test_a_directory_the_group_can_write_to_is_mentioned(
    flow_project: Any, caplog: pytest.LogCaptureFixture
) -> None:
    flow_project.root.chmod(0o775)
    flow_project.run(NOTHING)
    assert "writable for its group" in caplog.text


def test_a_root_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "missing"):
        with pytest.raises(UnsafeRoot):
            FlowRoot.open(path)


def test_a_private_corner_behind_a_link_is_refused(
    flow_project: Any, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (flow_project.root / ".bridgehead").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileError, match="symbolic link"):
        flow_project.run(NOTHING)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_root_is_canonical_however_it_is_named(
    flow_project: Any, tmp_path: Path
) -> None:
    (tmp_path / "alias").symlink_to(flow_project.root)
    assert FlowRoot.open(tmp_path / "alias").path == flow_project.root


def test_a_second_process_is_told_who_holds_the_root(flow_project: Any) -> None:
    root = FlowRoot.open(flow_project.root)
    root.prepare()
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with root.locked():
            held.set()
            release.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert held.wait(30)
        with pytest.raises(LockHeld, match=f"pid {os.getpid()}"):
            flow_project.run(NOTHING)
    finally:
        release.set()
        holder.join()
    assert flow_project.run(NOTHING).result == "done"


def test_half_written_files_of_dead_processes_are_swept(flow_project: Any) -> None:
    dead = subprocess.run(
        ["sh", "-c", "echo $$"], capture_output=True, text=True, check=True
    ).stdout.strip()
    leftover = flow_project.root / f"..agent-request.json.{dead}.{'0' * 16}.tmp"
    living = flow_project.root / f"..agent-request.json.{os.getpid()}.{'0' * 16}.tmp"
    foreign = flow_project.root / ".something.tmp"
    for path in (leftover, living, foreign):
        path.touch()
    flow_project.run(NOTHING)
    assert [path.exists() for path in (leftover, living, foreign)] == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        ("{root}/out", None),
        ("{elsewhere}/out", None),
        ("{root}", "the project itself"),
        ("{root}/.", "the project itself"),
        ("{root}/.git/hooks", "directory of git or bridgehead"),
        ("{root}/sub/.bridgehead/x", "directory of git or bridgehead"),
        ("{root}/sub/../../outside", "contains '..'"),
        ("{base}/outside", "is neither below"),
        ("{root}/link/out", "is neither below"),
        ("{root}/to-git/out", "directory of git or bridgehead"),
        ("out", "not absolute"),
        ("{root}/a\nb", "control characters"),
        ("{root}/\udcff\ud800", "control characters"),
    ],
)
def test_output_goes_where_the_command_line_allows(
    tmp_path: Path, output: str, fault: str | None
) -> None:
    root, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    for folder in (root / ".git", elsewhere, tmp_path / "outside"):
        folder.mkdir(parents=True)
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "to-git").symlink_to(root / ".git")
    path = output.format(root=root, elsewhere=elsewhere, base=tmp_path)
    if fault is None:
        refuse_unsafe_output(path, root, [elsewhere])
    else:
        with pytest.raises(UnsafePath, match=fault):
            refuse_unsafe_output(path, root, [elsewhere])


def test_a_state_file_belongs_to_its_own_project(tmp_path: Path) -> None:
    refuse_other_project(str(tmp_path), tmp_path)
    for other in (str(tmp_path.parent), ".", "/", f"{tmp_path}\x00"):
        with pytest.raises(UnsafePath):
            refuse_other_project(other, tmp_path)


def test_answers_are_believed_of_us_of_root_and_of_the_owner(flow_project: Any) -> None:
    root = FlowRoot.open(flow_project.root)
    assert root.allowed_owners == {os.geteuid(), 0, flow_project.root.stat().st_uid}
