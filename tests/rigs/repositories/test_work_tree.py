"""Files of a work tree: nothing above it, and nothing behind a link."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.errors import FileError, UserError
from bridgehead.host.file_errors import OutsideRoot
from bridgehead.rigs.repositories.git.clone import Clone
from bridgehead.rigs.repositories.git.command import GitAnswer
from bridgehead.rigs.repositories.git.history import committed_files
from bridgehead.rigs.repositories.git.refs import PushReport
from bridgehead.rigs.repositories.git.transfer import wire_of
from bridgehead.rigs.repositories.records import Head
from bridgehead.rigs.repositories.work_tree import WorkTree


@pytest.fixture
def tree(tmp_path: Path) -> WorkTree:
    (tmp_path / "top").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("a key")
    (tmp_path / "top" / "linked").symlink_to(tmp_path / "elsewhere")
    return WorkTree(tmp_path / "top")


def test_a_path_does_not_lead_out_of_the_tree(tree: WorkTree, tmp_path: Path) -> None:
    with pytest.raises(OutsideRoot):
        tree.read_file("../elsewhere/secret")
    with pytest.raises(OutsideRoot):
        tree.filenames("../elsewhere")
    with pytest.raises(OutsideRoot):
        tree.has_file("a/../../elsewhere/secret")


def test_what_lies_behind_a_linked_directory_is_neither_read_nor_written(
    tree: WorkTree, tmp_path: Path
) -> None:
    with pytest.raises(FileError):
        tree.read_file("linked/secret")
    with pytest.raises(FileError):
        tree.write_file("linked/new", b"ours")
    with pytest.raises(FileError):
        tree.write_file("linked/secret", b"ours", replace=True)
    assert sorted(path.name for path in (tmp_path / "elsewhere").iterdir()) == [
        "secret"
    ]
    assert (tmp_path / "elsewhere" / "secret").read_text() == "a key"


def test_a_link_in_a_commit_is_known_as_one(clone: Path, world) -> None:
    (clone / "link.md").symlink_to("/etc/passwd")
    (clone / "file.md").write_text("words\n")
    world.git("add", "link.md", "file.md", at=clone)
    world.git("commit", "-q", "-m", "both", at=clone)
    found = committed_files(Clone(clone).git, "HEAD")
    assert (found["link.md"].is_symlink, found["file.md"].is_symlink) == (True, False)


@pytest.mark.parametrize(
    ("flag", "taken"),
    [(" ", True), ("*", True), ("=", True), ("!", False), ("?", False)],
)
def test_a_push_counts_by_what_the_remote_said_of_the_ref(
    flag: str, taken: bool
) -> None:
    said = f"To somewhere\n{flag}\trefs/heads/x:refs/heads/main\twords\nDone\n".encode()
    assert PushReport(GitAnswer(0, said, ""), "refs/heads/main").taken is taken


def test_a_branch_that_follows_something_else_is_not_pushed(clone: Path) -> None:
    other = Head("0" * 40, "main", "origin", "release", "refs/remotes/origin/release")
    with pytest.raises(
        UserError, match="follows origin/release, but the bridge uses origin/main"
    ):
        wire_of(Clone(clone), other, "origin", "main", pushing=True)
