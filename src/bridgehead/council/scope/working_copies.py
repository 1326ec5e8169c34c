"""Where runtimes work: a private snapshot of the scope, or for `implement` a git worktree of its own (design §5
item 5).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridgehead.council.scope.git import Git, NoSuchRevision
from bridgehead.council.scope.resolve import take_from_disk
from bridgehead.council.scope.scope import Scope, ScopeFilter
from bridgehead.council.scope.withheld import LeftOut, Reason
from bridgehead.errors import FileError, UserError
from bridgehead.host.directories import make_dir, make_private_dir
from bridgehead.host.files import read_bounded, write_atomic

_MARK_BYTES: Final = 1024
BRANCH_PREFIX: Final = "bridgehead/"
IGNORE_RULES: Final = "*\n!dismissals.toml\n"
_IDENTITY: Final = {
    "GIT_AUTHOR_NAME": "bridgehead",
    "GIT_AUTHOR_EMAIL": "bridgehead@localhost",
    "GIT_COMMITTER_NAME": "bridgehead",
    "GIT_COMMITTER_EMAIL": "bridgehead@localhost",
}
_HIDDEN: Final = (Reason.AGENT_CONFIGURATION, Reason.SECRET)
# Without it git looks into submodules again where a sparse checkout is configured.
_STAY_HIDDEN: Final = ("-c", "sparse.expectFilesOutsideOfPatterns=true")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy on disk. `tree` is where seats that read files work, `empty` is for those that must not."""

    folder: Path

    @property
    def tree(self) -> Path:
        return self.folder / "tree"

    @property
    def empty(self) -> Path:
        return self.folder / "empty"

    def remove(self) -> None:
        """Take the copy away; safe to repeat."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.folder)


def take_snapshot(scope: Scope, *, folder: Path, review_id: str) -> Snapshot:
    """The snapshot of a council: the one that is there when it is complete and of this scope, else a new one."""
    if review_id in ("", ".", "..") or "/" in review_id:
        raise ValueError(f"{review_id!r} is not a folder name")
    snapshot = Snapshot(folder / review_id)
    mark = snapshot.folder / "complete"
    with suppress(FileError):
        if read_bounded(mark, _MARK_BYTES).decode() == scope.fingerprint:
            return snapshot
    snapshot.remove()
    make_private_dir(snapshot.tree)
    make_private_dir(snapshot.empty)
    for path, text in scope.texts.items():
        _put(snapshot.tree, path, text.encode("utf-8", "replace"))
    write_atomic(mark, scope.fingerprint, private=True)
    return snapshot


def _put(tree: Path, path: str, content: bytes) -> None:
    """Write one file; a crash leaves the mark unwritten, so single files need no care."""
    target = tree / path
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(
        target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600
    )
    with os.fdopen(handle, "wb") as file:
        file.write(content)


@dataclass(frozen=True, slots=True)
class Implementation:
    """What came of it; without a change there is no branch."""

    branch: str | None
    commit: str | None
    patch: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Worktree:
    """A checkout for one seat."""

    git: Git
    path: Path
    branch: str
    base: str
    left_out: tuple[LeftOut, ...] = ()

    def finish(self, message: str) -> Implementation:
        """Commit what was changed to the branch, without hooks, and take the checkout away."""
        inside = _pointed_at(self)
        inside.run("add", "--all", "--", ".")
        tree = inside.run("write-tree").decode().strip()
        patch = inside.diff("--cached", "--binary", self.base)
        files = tuple(
            inside.fields("diff", "--cached", "--name-only", "-z", self.base, "--")
        )
        commit = None
        if files:
            commit = inside.run(
                "commit-tree",
                tree,
                "-p",
                self.base,
                stdin=message.encode(),
                extra=_IDENTITY,
            ).decode()
            commit = commit.strip()
            self.git.run("update-ref", f"refs/heads/{self.branch}", commit, self.base)
        self.discard(keep_branch=commit is not None)
        return Implementation(self.branch if commit else None, commit, patch, files)

    def discard(self, *, keep_branch: bool = False) -> None:
        """Take the checkout away, and the branch too unless it holds something."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.git.run("worktree", "prune")
        if not keep_branch:
            self.git.run("update-ref", "-d", f"refs/heads/{self.branch}")


def make_worktree(git: Git, project: Path, review_id: str) -> Worktree:
    """A fresh checkout of the current commit under `.bridgehead/worktrees/`."""
    try:
        base = git.commit("HEAD")
    except NoSuchRevision as error:
        hint = "commit what you have, then repeat"
        raise UserError("implement needs a commit to start from", hint=hint) from error
    folder = project / ".bridgehead"
    make_dir(folder / "worktrees", root=project)
    if not (folder / ".gitignore").exists():
        write_atomic(folder / ".gitignore", IGNORE_RULES, root=project)
    path = folder / "worktrees" / review_id
    branch = f"{BRANCH_PREFIX}{review_id}"
    git.run("worktree", "add", "--quiet", "-b", branch, "--", str(path), base)
    return _without_hidden(Worktree(git, path, branch, base))


def _without_hidden(worktree: Worktree) -> Worktree:
    """Take files out of the checkout that no agent may see, so that their absence is no change.

    Nor are submodules looked into afterwards: an agent may have put a repository there, with filters of its own.
    """
    inside = _pointed_at(worktree)
    sieve = ScopeFilter()
    for path in inside.fields("ls-files", "-z"):
        take_from_disk(sieve, worktree.path, path)
    hidden = [entry for entry in sieve.left_out if entry.reason in _HIDDEN]
    unseen = [
        entry.path
        for entry in sieve.left_out
        if entry in hidden or entry.reason is Reason.SUBMODULE
    ]
    if unseen:
        names = "".join(f"{path}\0" for path in unseen)
        inside.run(
            "update-index", "--skip-worktree", "-z", "--stdin", stdin=names.encode()
        )
        for entry in hidden:
            (worktree.path / entry.path).unlink(missing_ok=True)
    return Worktree(
        worktree.git, worktree.path, worktree.branch, worktree.base, tuple(hidden)
    )


def _pointed_at(worktree: Worktree) -> Git:
    """git for this checkout, told where everything is instead of asking the checkout."""
    common = (
        worktree.git.run("rev-parse", "--path-format=absolute", "--git-common-dir")
        .decode()
        .strip()
    )
    inputs: Mapping[str, str] = {
        "GIT_DIR": str(Path(common) / "worktrees" / worktree.path.name),
        "GIT_WORK_TREE": str(worktree.path),
    }
    return Git(
        worktree.path,
        worktree.git.environment,
        settings=(*worktree.git.settings, *_STAY_HIDDEN),
        inputs=inputs,
    )
