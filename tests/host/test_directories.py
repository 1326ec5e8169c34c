"""Directories are made with the right permissions and never through somebody else's link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from bridgehead.host.directories import make_dir, make_private_dir, opened_directory
from bridgehead.host.file_errors import (
    FileMissing,
    ForeignOwner,
    IsSymlink,
    NotDirectory,
    OutsideRoot,
    UnusablePath,
)


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("rooted", [True, False])
def test_a_private_directory_and_the_missing_ones_above_it_are_made_0700(
    tmp_path: Path, rooted: bool
) -> None:
    make_private_dir(tmp_path / "a" / "b", root=tmp_path if rooted else None)
    assert [permissions(tmp_path / "a"), permissions(tmp_path / "a" / "b")] == [
        0o700,
        0o700,
    ]


def test_a_private_directory_that_was_open_to_others_is_tightened(
    tmp_path: Path,
) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    make_private_dir(tmp_path / "state")
    assert permissions(tmp_path / "state") == 0o700


def test_an_ordinary_directory_is_made_once_and_left_alone_afterwards(
    tmp_path: Path,
) -> None:
    make_dir(tmp_path / "a" / "b")
    (tmp_path / "a" / "b").chmod(0o750)
    make_dir(tmp_path / "a" / "b")
    make_dir(tmp_path / "a" / "b", root=tmp_path)
    assert permissions(tmp_path / "a" / "b") == 0o750


def test_a_directory_of_another_user_is_not_taken_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(ForeignOwner, match=f"uid {owner}"):
        make_private_dir(tmp_path / "state")


def test_a_link_planted_by_another_user_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "precious").mkdir(mode=0o755)
    (tmp_path / "state").symlink_to(tmp_path / "precious")
    make_private_dir(tmp_path / "state")  # our own link may point where we like
    (tmp_path / "precious").chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(IsSymlink):
        make_private_dir(tmp_path / "state")
    assert permissions(tmp_path / "precious") == 0o755


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for root in (None, tmp_path):
        with pytest.raises(
            NotDirectory, match="file was not made: it is not a directory"
        ):
            make_dir(tmp_path / "file", root=root)


def test_a_path_outside_its_root_or_with_a_nul_makes_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(OutsideRoot):
        make_dir(tmp_path / "beside", root=root)
    with pytest.raises(UnusablePath, match="NUL"):
        make_private_dir(f"{root}/a\0b")
    assert [entry.name for entry in tmp_path.rglob("*")] == ["root"]


def test_a_missing_directory_is_reported_by_name(tmp_path: Path) -> None:
    with (
        pytest.raises(FileMissing, match="b was not opened"),
        opened_directory(tmp_path / "b", root=tmp_path),
    ):
        pytest.fail("there is nothing to open")
