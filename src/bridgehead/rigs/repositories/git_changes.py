"""Differences between two commits, and what two branches have in common (rigs §9.1, §9.3)."""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.rigs.repositories.git_command import Git
from bridgehead.rigs.repositories.records import SYMLINK, Incoming, PathChange, TrackedFile

_DIFF = (
    "diff-tree",
    "-r",
    "-z",
    "--raw",
    "--no-abbrev",
    "--find-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--ignore-submodules=none",
)


def compare(git: Git, local_head: str, remote_head: str) -> Incoming:
    """Say what `remote_head` has that `local_head` lacks, from their merge base on."""
    if local_head == remote_head:
        return Incoming(local_head, remote_head, local_head, 0, 0, ())
    base = merge_base(git, local_head, remote_head)
    counted = git.read("rev-list", "--left-right", "--count", f"{local_head}...{remote_head}", "--")
    ahead, behind = map(int, counted.text.split())
    changes = diff(git, base or _empty_tree(git), remote_head) if behind else ()
    return Incoming(local_head, remote_head, base, ahead, behind, changes)


def merge_base(git: Git, one: str, other: str) -> str | None:
    """Return the last commit both have; None for histories that never met."""
    answer = git.ask("merge-base", one, other)
    return answer.text.strip() if answer.code == 0 else None


def diff(git: Git, before: str, after: str) -> tuple[PathChange, ...]:
    """Return what changed between two trees, renames recognised."""
    return tuple(parse_raw_diff(git.read(*_DIFF, before, after, "--").fields))


def parse_raw_diff(fields: list[str]) -> Iterator[PathChange]:
    """Read the output of `--raw -z` for two trees."""
    remaining = iter(fields)
    for described in remaining:
        _, mode, _, blob, status = described.split(" ")
        path = next(remaining)
        old_path = None
        if status[0] in "RC":
            old_path, path = path, next(remaining)
        yield PathChange(status[0], path, blob, mode, old_path)


def committed_files(git: Git, commit: str) -> dict[str, TrackedFile]:
    """Return everything a commit holds, by path."""
    files = {}
    for entry in git.read("ls-tree", "-r", "-z", "--full-tree", commit).fields:
        described, _, path = entry.partition("\t")
        mode, _, blob = described.split(" ")
        files[path] = TrackedFile(blob, mode == SYMLINK)
    return files


def _empty_tree(git: Git) -> str:
    return git.read("hash-object", "-t", "tree", "--stdin", stdin=b"").text.strip()
