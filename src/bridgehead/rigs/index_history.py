"""Fold commits into what the index remembers about each path (rigs §8 positions, §9.4 `rewritten`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bridgehead.rigs.filenames import envelope_at
from bridgehead.rigs.index_rows import HistoryRow
from bridgehead.rigs.repositories.records import CommitRecord, PathChange


def fold_commits(
    rows_of: Callable[[str], dict[str, HistoryRow]], commits: Iterable[CommitRecord], first_position: int
) -> set[str]:
    """Take commits, parents first, into the rows of their threads, by file name; return the threads they touched."""
    touched = set()
    for position, commit in enumerate(commits, first_position):
        for change in commit.changes:
            place = envelope_at(change.path)
            if place is not None:
                thread, filename = place
                known = rows_of(thread)
                known[filename] = _after(change, filename, known.get(filename), commit, position)
                touched.add(thread)
    return touched


def _after(
    change: PathChange, filename: str, before: HistoryRow | None, commit: CommitRecord, position: int
) -> HistoryRow:
    if before is None:
        return _added(change, filename, commit, position, rewritten=False)
    if change.status == "D":
        return before._replace(commit="")
    if before.commit == "":  # deleted earlier: what comes back counts as new, but must be the same
        rewritten = before.rewritten or before.blob != change.blob
        return _added(change, filename, commit, position, rewritten=rewritten)
    return before._replace(blob=change.blob, rewritten=before.rewritten or before.blob != change.blob)


def _added(
    change: PathChange, filename: str, commit: CommitRecord, position: int, *, rewritten: bool
) -> HistoryRow:
    added_by = "" if change.status == "D" else commit.commit
    return HistoryRow(
        filename,
        added_by,
        position,
        commit.committed_at,
        commit.author.email,
        commit.signed,
        rewritten,
        change.blob,
    )
