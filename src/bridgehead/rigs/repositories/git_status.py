"""Read `git status --porcelain=v2 -z --branch`: where HEAD is and what differs from it (rigs §8 status)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from bridgehead.rigs.repositories.records import DirtyFile

ARGUMENTS = (
    "status",
    "--porcelain=v2",
    "-z",
    "--branch",
    "--untracked-files=normal",
    "--ignore-submodules=dirty",  # looking into one would start git there
    "--find-renames",
)
_FIELDS_BEFORE_PATH = {"1": 8, "2": 9, "u": 10}


class WorkTreeState(NamedTuple):
    """HEAD and the paths that differ from it."""

    commit: str | None  # None before the first commit
    branch: str | None  # None when detached
    upstream: str | None  # short name, as in origin/main
    ahead: int
    behind: int
    dirty: tuple[DirtyFile, ...]


def parse_status(entries: list[str]) -> WorkTreeState:
    """Read the NUL-separated entries of one status."""
    headers = dict(
        entry[2:].split(" ", 1) for entry in takewhile(lambda entry: entry.startswith("# "), entries)
    )
    commit = headers.get("branch.oid", "(initial)")
    branch = headers.get("branch.head", "(detached)")
    ahead, behind = (int(count[1:]) for count in headers.get("branch.ab", "+0 -0").split())
    return WorkTreeState(
        commit=None if commit == "(initial)" else commit,
        branch=None if branch == "(detached)" else branch,
        upstream=headers.get("branch.upstream"),
        ahead=ahead,
        behind=behind,
        dirty=tuple(_dirty_files(entries)),
    )


def _dirty_files(entries: list[str]) -> Iterator[DirtyFile]:
    remaining = iter(entries)
    for entry in remaining:
        kind = entry[:1]
        if kind == "?":
            yield DirtyFile("??", entry[2:])
        elif kind in _FIELDS_BEFORE_PATH:
            fields = entry.split(" ", _FIELDS_BEFORE_PATH[kind])
            origin = next(remaining) if kind == "2" else None
            yield DirtyFile(fields[1].replace(".", " "), fields[-1], origin)
