"""Rebuild our unpushed commits on top of a fetched tip (rigs §9.5)."""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bridgehead.host.directories import make_dir
from bridgehead.host.file_errors import FileMissing
from bridgehead.host.files import read_bounded, write_atomic
from bridgehead.rigs.envelope.fields import MESSAGE_TYPES
from bridgehead.rigs.envelope.names import envelope_at, next_filename
from bridgehead.rigs.repositories.errors import GitFailed
from bridgehead.rigs.repositories.git.clone import Clone
from bridgehead.rigs.repositories.git.command import require_success
from bridgehead.rigs.repositories.git.envelope_commit import ask_for_commit, move_branch
from bridgehead.rigs.repositories.git.history import (
    commits_between,
    committed_files,
    merge_base,
)
from bridgehead.rigs.repositories.records import (
    REGULAR,
    CommitRecord,
    Head,
    PathChange,
    Rebuilt,
    Recovered,
    TrackedFile,
)
from bridgehead.rigs.repositories.work_tree import names_in

_NUMBERED = re.compile(f"({'|'.join(MESSAGE_TYPES)})(?:-[0-9]+)?")
_MAX_JOURNAL_BYTES = 64 * 1024


def rebuild(
    clone: Clone, head: Head, tip: str, *, inspected: bool = False
) -> list[Rebuilt] | None:
    """Put our turns on top of `tip` and return where they are now.

    Return None if either side did more than append. What the remote did is not asked
    again if the caller has `inspected` it.
    """
    if head.commit is None:
        return None
    base = merge_base(clone.git, head.commit, tip)
    if base is None:
        return None
    ours = commits_between(clone.git, base, head.commit)
    theirs = () if inspected else commits_between(clone.git, base, tip)
    planned = plan_rebuild(ours, theirs, _taken_names(clone, ours, tip))
    if planned is None:
        return None
    made = _make_commits(clone, planned, tip)
    _move(clone, head, made[-1] if made else tip)
    rebuilt: list[Rebuilt] = []
    for plan, commit in zip(planned, made, strict=True):
        for turn in plan.turns:
            rebuilt.append(Rebuilt(plan.old_commit, turn.old_path, turn.path, commit))
    return rebuilt


def recover_rebuild(clone: Clone) -> Recovered | None:
    """Go back to the old commits, which are unpushed, if a rebuild was cut short."""
    clone.location.rebuild_index.unlink(missing_ok=True)
    try:
        journal = read_bounded(clone.location.rebuild_journal, _MAX_JOURNAL_BYTES)
        stored = json.loads(journal)
        old = str(stored["old"])
        new = str(stored["new"])
    except (FileMissing, ValueError, KeyError, TypeError):
        clone.location.rebuild_journal.unlink(missing_ok=True)
        return None
    return Recovered("", _settle(clone, old, new))


def _taken_names(
    clone: Clone, ours: Sequence[CommitRecord], tip: str
) -> dict[str, set[str]]:
    """Return the names in use in the threads we write to, without our own.

    A name is in use if the tip or the work tree has it.
    """
    own: set[str] = set()
    for commit in ours:
        own.update(change.path for change in commit.changes)
    taken: dict[str, set[str]] = {path.partition("/")[0]: set() for path in own}
    for path in committed_files(clone.git, tip):
        thread, _, filename = path.partition("/")
        if thread in taken:
            taken[thread].add(filename)
    for thread, names in taken.items():
        present = names_in(clone.location.top_level / thread)
        names.update(name for name in present if f"{thread}/{name}" not in own)
    return taken


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


def plan_rebuild(
    ours: Sequence[CommitRecord],
    theirs: Sequence[CommitRecord],
    taken: Mapping[str, set[str]],
) -> list[PlannedCommit] | None:
    """Return our commits as they are to be made, oldest first.

    Return None if either side did more than append. `taken` holds, by thread, the names
    that are in use without us.
    """
    if not only_appends(ours) or not only_appends(theirs):
        return None
    used = {thread: set(names) for thread, names in taken.items()}
    return [_plan_commit(commit, used) for commit in ours]


def only_appends(commits: Iterable[CommitRecord]) -> bool:
    """Return whether every commit does nothing but add envelopes."""
    return all(_only_appends(commit) for commit in commits)


def _only_appends(commit: CommitRecord) -> bool:
    if len(commit.parents) > 1 or not commit.changes:
        return False
    return all(_adds_envelope(change) for change in commit.changes)


def _adds_envelope(change: PathChange) -> bool:
    if change.status != "A" or change.mode != REGULAR:
        return False
    return envelope_at(change.path) is not None


def _plan_commit(commit: CommitRecord, used: dict[str, set[str]]) -> PlannedCommit:
    turns: list[PlannedTurn] = []
    message = commit.message
    for change in commit.changes:
        thread, _, filename = change.path.partition("/")
        names = used.setdefault(thread, set())
        if filename in names:
            filename = next_filename(_stem(filename), names)
        names.add(filename)
        path = f"{thread}/{filename}"
        turns.append(PlannedTurn(change.path, path, change.blob))
        subject = message.partition("\n")[0]
        if subject.endswith(f": {change.path}"):
            message = message.replace(change.path, path, 1)
    return PlannedCommit(commit.commit, tuple(turns), message, commit.signed)


def _stem(filename: str) -> str:
    """Return what a number is appended to: `ACK` for `ACK-2.md`, or the whole name."""
    stem = filename.removesuffix(".md")
    numbered = _NUMBERED.fullmatch(stem)
    return numbered[1] if numbered else stem


def _make_commits(
    clone: Clone, planned: Sequence[PlannedCommit], tip: str
) -> list[str]:
    index = clone.location.rebuild_index
    make_dir(index.parent)
    # A lock is that of a git that was killed: no other is at work.
    index.with_name(f"{index.name}.lock").unlink(missing_ok=True)
    made: list[str] = []
    parent = tip
    try:
        clone.git.write("read-tree", tip, index=str(index))
        for plan in planned:
            tree = _make_tree(clone, plan, str(index))
            parent = _make_commit(clone, plan, tree, parent)
            made.append(parent)
    finally:
        index.unlink(missing_ok=True)
    return made


def _make_tree(clone: Clone, plan: PlannedCommit, index: str) -> str:
    """Add the turns of a commit to the index, and return its tree."""
    entries = [f"{REGULAR} {turn.blob}\t{turn.path}\0" for turn in plan.turns]
    clone.git.write(
        "update-index",
        "-z",
        "--index-info",
        stdin="".join(entries).encode(),
        index=index,
    )
    return clone.git.write("write-tree", index=index).text.strip()


def _make_commit(clone: Clone, plan: PlannedCommit, tree: str, parent: str) -> str:
    people = _same_people(clone, plan.old_commit)
    answer = ask_for_commit(
        clone, tree, parent, f"{plan.message}\n", people, sign=plan.signed
    )
    if answer.code != 0:
        raise GitFailed(
            f"{plan.turns[0].old_path} could not be committed on the new tip",
            answer.stderr,
        )
    return answer.text.strip()


def _same_people(clone: Clone, commit: str) -> dict[str, str]:
    """Return the author with their date, and the committer, who commits it now."""
    names = [
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_AUTHOR_DATE",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
    ]
    form = "--format=%an%x00%ae%x00%ad%x00%cn%x00%ce%x00"
    shown = clone.git.read(
        "log", "-1", "--date=raw", "--no-show-signature", form, commit, "--"
    )
    people = dict(zip(names, shown.fields, strict=True))
    return {**people, "GIT_AUTHOR_DATE": f"@{people['GIT_AUTHOR_DATE']}"}


def _move(clone: Clone, head: Head, commit: str) -> None:
    old = str(head.commit)
    write_atomic(
        clone.location.rebuild_journal, json.dumps({"old": old, "new": commit})
    )
    try:
        _switch(clone, old, commit)
        move_branch(clone, head, commit, "rebuild on the wire")
    except BaseException:
        _settle(clone, old, commit)
        raise
    clone.location.rebuild_journal.unlink(missing_ok=True)


def _settle(clone: Clone, old: str, new: str) -> str:
    """Make index and work tree follow HEAD, wherever it is, and return its commit."""
    head = clone.git.read("rev-parse", "--verify", "HEAD").text.strip()
    if head == old:
        _undo_half_a_switch(clone, old, new)
        _switch(clone, new, old)
    clone.location.rebuild_journal.unlink(missing_ok=True)
    return head


def _switch(clone: Clone, before: str, after: str) -> None:
    """Take index and work tree from one commit to the other.

    What the user has changed stays, or stops it.
    """
    command = ("read-tree", "-m", "-u", before, after)
    answer = clone.write_index(*command)
    if answer.code != 0:
        # It needs the times in the index, which a copied clone lacks.
        clone.write_index("update-index", "-q", "--refresh")
        answer = clone.write_index(*command)
    require_success("read-tree", answer)


def _undo_half_a_switch(clone: Clone, old: str, new: str) -> None:
    """Put back what a git that was killed on the way to `new` wrote before the index.

    A file that somebody edited stays.
    """
    indexed = _blobs_in_index(clone)
    old_files = committed_files(clone.git, old)
    new_files = committed_files(clone.git, new)
    lost: list[str] = []
    for path, file in new_files.items() - old_files.items():
        if _is_as_it_should_be(clone, path, indexed.get(path), file):
            continue
        (clone.location.top_level / path).unlink(missing_ok=True)
        if path in indexed:
            lost.append(path)
    if lost:
        clone.write_index("checkout-index", "--force", "--", *lost)


def _blobs_in_index(clone: Clone) -> dict[str, str]:
    blobs: dict[str, str] = {}
    for entry in clone.git.read("ls-files", "--stage", "-z").fields:
        described, _, path = entry.partition("\t")
        blobs[path] = described.split(" ")[1]
    return blobs


def _is_as_it_should_be(
    clone: Clone, path: str, indexed: str | None, new: TrackedFile
) -> bool:
    """Return whether a path holds what the index says, or something of its owner's."""
    found = clone.blob_on_disk(path)
    if found == indexed:
        return True
    if found is None:
        return os.path.lexists(clone.location.top_level / path)
    return new.blob is None or not clone.has_beginning_of(new.blob, path)
