"""Refuse a flow journal that came with the repository (flows §1): what is recorded is believed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from bridgehead.flows.errors import JournalTracked

JOURNAL_FOLDER: Final = ".bridgehead/flows"
_GIT_SECONDS: Final = 20.0


def refuse_tracked(root: Path) -> None:
    """Raise JournalTracked when git tracks anything below the private corner of flows."""
    if not os.path.lexists(root / JOURNAL_FOLDER):
        return
    try:
        git_directory = _git_directory(root)
        if git_directory is None or not _index_may_name(git_directory / "index", JOURNAL_FOLDER):
            return
    except (OSError, ValueError):
        pass  # whatever is strange about the git directory, git will know
    tracked = _ask_git(root)
    if tracked:
        raise JournalTracked(tracked[0])


def _git_directory(root: Path) -> Path | None:
    """The git directory of the work tree that `root` lies in; None outside of any."""
    for directory in (root, *root.parents):
        dot_git = directory / ".git"
        if dot_git.is_dir():
            return dot_git
        if dot_git.is_file():
            return directory / dot_git.read_text().partition("gitdir:")[2].strip()
    return None


def _index_may_name(index: Path, folder: str) -> bool:
    """Whether the index could name a file below `folder`; a No is certain and saves starting git.

    Index versions 2 and 3 spell every path out. Version 4 compresses them and a split index keeps them elsewhere.
    """
    try:
        data = index.read_bytes()
    except FileNotFoundError:
        return False
    plain = data[:4] == b"DIRC" and data[4:8] in (b"\0\0\0\2", b"\0\0\0\3") and b"link" not in data
    return not plain or folder.encode() in data


def _ask_git(root: Path) -> list[str]:
    from bridgehead.host.process import Command, run

    options = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
    command = Command(("git", *options, "-C", str(root), "ls-files", "-z", "--", JOURNAL_FOLDER))
    listed = run(command, timeout_seconds=_GIT_SECONDS, idle_seconds=None)
    return [name for name in listed.text().split("\0") if name]
