"""Commits and files kept in memory: what memory.py's clones and their remote share."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from bridgehead.rigs.repositories.records import (
    REGULAR,
    SYMLINK,
    CommitRecord,
    Identity,
    Incoming,
    PathChange,
    TrackedFile,
)

_NULL = "0" * 40

Tree = dict[str, TrackedFile]


class MemoryCommit(NamedTuple):
    parent: str | None
    tree: Tree
    author: Identity
    committed_at: int
    message: str
    signing_key: str | None


class ObjectStore:
    """Every blob and commit, by id. History is one line per branch: nothing here makes merges."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.commits: dict[str, MemoryCommit] = {}

    def add_blob(self, content: bytes) -> str:
        name = blob_id(content)
        self.blobs[name] = content
        return name

    def add_commit(self, commit: MemoryCommit) -> str:
        name = hashlib.sha1(
            repr(commit).encode("utf-8", "surrogateescape"), usedforsecurity=False
        ).hexdigest()
        self.commits[name] = commit
        return name

    def tree(self, commit: str | None) -> Tree:
        return self.commits[commit].tree if commit else {}

    def line(self, commit: str | None) -> list[str]:
        """Return a commit and everything below it, oldest first."""
        found: list[str] = []
        while commit is not None:
            found.append(commit)
            commit = self.commits[commit].parent
        return found[::-1]

    def between(self, base: str | None, tip: str) -> list[CommitRecord]:
        known = set(self.line(base))
        return [self.record(commit) for commit in self.line(tip) if commit not in known]

    def merge_base(self, one: str, other: str) -> str | None:
        shared = set(self.line(one)).intersection(self.line(other))
        return next((commit for commit in reversed(self.line(one)) if commit in shared), None)

    def record(self, name: str) -> CommitRecord:
        commit = self.commits[name]
        return CommitRecord(
            name,
            (commit.parent,) if commit.parent else (),
            commit.author,
            commit.committed_at,
            commit.signing_key is not None,
            commit.message.rstrip("\n"),
            difference(self.tree(commit.parent), commit.tree),
        )

    def compare(self, local: str, remote: str) -> Incoming:
        base = self.merge_base(local, remote)
        ahead, behind = len(self.between(base, local)), len(self.between(base, remote))
        changes = with_renames(self.tree(base), self.tree(remote)) if behind else ()
        return Incoming(local, remote, base, ahead, behind, changes)


def blob_id(content: bytes) -> str:
    """Return git's id for this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def difference(before: Tree, after: Tree) -> tuple[PathChange, ...]:
    """Return what changed between two trees, by path."""
    changes = []
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if new is None:
            changes.append(PathChange("D", path, _NULL, "000000"))
        elif old is None or old != new:
            status = "A" if old is None else "T" if old.is_symlink != new.is_symlink else "M"
            changes.append(
                PathChange(status, path, new.blob or _NULL, SYMLINK if new.is_symlink else REGULAR)
            )
    return tuple(changes)


def with_renames(before: Tree, after: Tree) -> tuple[PathChange, ...]:
    """Return the difference with files that merely moved named as such."""
    changes = difference(before, after)
    lost = {before[change.path].blob: change.path for change in changes if change.status == "D"}
    moved = {
        change.path: lost[change.blob] for change in changes if change.status == "A" and change.blob in lost
    }
    return tuple(
        change._replace(status="R", old_path=moved[change.path]) if change.path in moved else change
        for change in changes
        if change.path not in moved.values()
    )
