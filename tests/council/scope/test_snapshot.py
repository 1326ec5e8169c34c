"""The private copy of a scope that runtimes read."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from bridgehead.council.scope.scope import Scope
from bridgehead.council.scope.working_copies import Snapshot, take_snapshot

SCOPE = Scope(
    ("src",), {"src/app.py": "print(1)\r\n", "größe.txt": "ß\n"}, commit="abc"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "snapshots"


def take(folder: Path, scope: Scope = SCOPE) -> Snapshot:
    return take_snapshot(scope, folder=folder, review_id="abc123")


def test_a_snapshot_holds_the_texts_of_the_scope_and_nothing_else(folder: Path) -> None:
    snapshot = take(folder)

    files = {
        path.relative_to(snapshot.tree).as_posix()
        for path in snapshot.tree.rglob("*")
        if path.is_file()
    }
    assert files == set(SCOPE.texts)
    assert (snapshot.tree / "src/app.py").read_bytes() == b"print(1)\r\n"
    assert list(snapshot.empty.iterdir()) == []


def test_nobody_else_can_enter_it(folder: Path) -> None:
    snapshot = take(folder)

    for path in (snapshot.tree, snapshot.empty, snapshot.tree / "src"):
        assert path.stat().st_mode & 0o077 == 0
    assert (snapshot.tree / "src/app.py").stat().st_mode & 0o077 == 0


def test_a_resumed_council_finds_its_snapshot_again(folder: Path) -> None:
    first = take(folder)
    (first.tree / "seen").write_text("by the first process")

    assert (take(folder).tree / "seen").exists()


def test_another_scope_or_an_unfinished_copy_is_made_anew(folder: Path) -> None:
    first = take(folder)
    (first.tree / "seen").write_text("by the first process")
    other = Scope(("src",), {"src/app.py": "print(2)\n"})

    second = take(folder, other)

    assert not (second.tree / "seen").exists()
    assert (second.tree / "src/app.py").read_text() == "print(2)\n"
    (second.folder / "complete").unlink()
    assert (take(folder, other).folder / "complete").exists()


def test_it_can_be_removed_twice(folder: Path) -> None:
    snapshot = take(folder)
    snapshot.remove()
    snapshot.remove()

    assert not snapshot.folder.exists()


@pytest.mark.parametrize("review_id", ["", ".", "..", "../outside", "a/b"])
def test_a_snapshot_lies_in_a_folder_of_its_own(tmp_path: Path, review_id: str) -> None:
    with pytest.raises(ValueError, match="is not a folder name"):
        take_snapshot(cast(Scope, None), folder=tmp_path, review_id=review_id)
