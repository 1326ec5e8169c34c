"""Where a clone keeps its things: work tree, git directory, index, hooks. Linked worktrees have some of their own."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from bridgehead.rigs.repositories.errors import GitFailed, NotARepository
from bridgehead.rigs.repositories.git_command import Git

_QUESTIONS = (
    "--show-object-format",
    "--path-format=absolute",
    "--show-toplevel",
    "--git-dir",
    "--git-common-dir",
    "--git-path",
    "index",
    "--git-path",
    "hooks",
)


class Location(NamedTuple):
    """Absolute paths of one work tree."""

    object_format: str  # sha1 or sha256
    top_level: Path
    git_dir: Path
    common_dir: Path  # the same as git_dir, except in a linked worktree
    index_file: Path
    hooks_dir: Path  # follows core.hooksPath

    @property
    def private_dir(self) -> Path:
        """Where our own files of this work tree live; git never looks there."""
        return self.git_dir / "bridgehead"

    @property
    def posting_journal(self) -> Path:
        """Names the envelope that is being committed; see git_posting_journal.py."""
        return self.private_dir / "posting.json"

    @property
    def rebuild_journal(self) -> Path:
        """Names the commits that are being replaced; see git_rebuild.py."""
        return self.private_dir / "rebuild.json"

    @property
    def rebuild_index(self) -> Path:
        """The index in which those commits are composed anew."""
        return self.private_dir / "rebuild.index"

    @property
    def lock_file(self) -> Path:
        """One lock for all work trees: they share branches and remotes."""
        return self.common_dir / "bridgehead" / "lock"


def locate(git: Git) -> Location:
    """Find the work tree around git's directory, or raise NotARepository."""
    answer = git.ask("rev-parse", *_QUESTIONS, hooks_path_shown=True)
    if answer.code != 0:
        raise NotARepository(git.directory, answer.says)
    lines = answer.text.removesuffix("\n").split("\n")
    if len(lines) != len(Location._fields):
        raise GitFailed("a repository whose path holds a line break cannot be used")
    object_format, *paths = lines
    return Location(object_format, *map(Path, paths))
