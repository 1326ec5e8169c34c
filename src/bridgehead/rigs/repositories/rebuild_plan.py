"""Decide how our unpushed turns go on top of turns that others pushed first (rigs §9.5).

Pure. Both sides must only have appended; then a turn whose name is taken meanwhile gets the next free one, and its
commit subject is corrected where it names the file. Nothing else about a turn changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bridgehead.rigs.fields import MESSAGE_TYPES
from bridgehead.rigs.filenames import envelope_at, next_filename
from bridgehead.rigs.repositories.records import REGULAR, CommitRecord

_NUMBERED = re.compile(f"({'|'.join(MESSAGE_TYPES)})(?:-[0-9]+)?")


class PlannedTurn(NamedTuple):
    """One envelope of a commit to be made again."""

    old_path: str
    path: str
    blob: str


class PlannedCommit(NamedTuple):
    """One of our commits, with the names and the message it gets on the new tip."""

    old_commit: str
    turns: tuple[PlannedTurn, ...]
    message: str
    signed: bool


def only_appends(commits: Iterable[CommitRecord]) -> bool:
    """Tell whether every commit does nothing but add envelopes."""
    return all(
        len(commit.parents) <= 1
        and commit.changes
        and all(
            change.status == "A" and change.mode == REGULAR and envelope_at(change.path)
            for change in commit.changes
        )
        for commit in commits
    )


def plan_rebuild(
    ours: Sequence[CommitRecord], theirs: Sequence[CommitRecord], taken: Mapping[str, set[str]]
) -> list[PlannedCommit] | None:
    """Return our commits as they are to be made, oldest first; None if either side did more than append.

    `taken` holds, by thread, the names that are in use without us.
    """
    if not only_appends(ours) or not only_appends(theirs):
        return None
    used = {thread: set(names) for thread, names in taken.items()}
    return [_plan_commit(commit, used) for commit in ours]


def _plan_commit(commit: CommitRecord, used: dict[str, set[str]]) -> PlannedCommit:
    turns = []
    message = commit.message
    for change in commit.changes:
        thread, _, filename = change.path.partition("/")
        names = used.setdefault(thread, set())
        free = next_filename(_stem(filename), names) if filename in names else filename
        names.add(free)
        path = f"{thread}/{free}"
        turns.append(PlannedTurn(change.path, path, change.blob))
        if message.partition("\n")[0].endswith(f": {change.path}"):
            message = message.replace(change.path, path, 1)
    return PlannedCommit(commit.commit, tuple(turns), message, commit.signed)


def _stem(filename: str) -> str:
    """Return what a number is appended to: the type of `ACK-2.md`, the whole of any other name."""
    stem = filename.removesuffix(".md")
    numbered = _NUMBERED.fullmatch(stem)
    return numbered[1] if numbered else stem
