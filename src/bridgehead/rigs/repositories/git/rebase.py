"""Make our unpushed commits again on top of a fetched tip, and take the work tree along (rigs §9.5)."""

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
    Rebuilt,
    Recovered,
)
from bridgehead.rigs.repositories.work_tree import names_in

_NUMBERED = re.compile(f"({'|'.join(MESSAGE_TYPES)})(?:-[0-9]+)?")
_MAX_JOURNAL_BYTES = 64 * 1024


def rebuild(
    clone: Clone, head: Head, tip: str, *, inspected: bool = False
) -> list[Rebuilt] | None:
    """Put our turns on top of `tip` and return where they are now; None if either side did not only append.

    What the remote did is not asked again where the caller has `inspected` it.
    """
    base = merge_base(clone.git, head.commit, tip) if head.commit else None
    if head.commit is None or base is None:
        return None
    ours = commits_between(clone.git, base, head.commit)
    theirs = () if inspected else commits_between(clone.git, base, tip)
    planned = plan_rebuild(ours, theirs, _taken_names(clone, ours, tip))
    if planned is None:
        return None
    made = _make_commits(clone, planned, tip)
    _move(clone, head, made[-1] if made else tip)
    return [
        Rebuilt(plan.old_commit, turn.old_path, turn.path, commit)
        for plan, commit in zip(planned, made, strict=True)
        for turn in plan.turns
    ]


def recover_rebuild(clone: Clone) -> Recovered | None:
    """Go back to the old commits if a rebuild was cut short; they are still there and still unpushed."""
    clone.location.rebuild_index.unlink(missing_ok=True)
    try:
        stored = json.loads(
            read_bounded(clone.location.rebuild_journal, _MAX_JOURNAL_BYTES)
        )
        old, new = str(stored["old"]), str(stored["new"])
    except (FileMissing, ValueError, KeyError, TypeError):
        clone.location.rebuild_journal.unlink(missing_ok=True)
        return None
    return Recovered("", _settle(clone, old, new))


def _taken_names(
    clone: Clone, ours: Sequence[CommitRecord], tip: str
) -> dict[str, set[str]]:
    """Return the names in use in the threads we write to, at the tip or in the work tree, without our own."""
    own = {change.path for commit in ours for change in commit.changes}
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
    """Return our commits as they are to be made, oldest first; None if either side did more than append.

    `taken` holds, by thread, the names that are in use without us.
    """
    if not only_appends(ours) or not only_appends(theirs):
        return None
    used = {thread: set(names) for thread, names in taken.items()}
    return [_plan_commit(commit, used) for commit in ours]


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


def _make_commits(
    clone: Clone, planned: Sequence[PlannedCommit], tip: str
) -> list[str]:
    index = clone.location.rebuild_index
    make_dir(index.parent)
    index.with_name(index.name + ".lock").unlink(
        missing_ok=True
    )  # of a git that was killed; no other is at work
    made: list[str] = []
    try:
        clone.git.write("read-tree", tip, index=str(index))
        for plan in planned:
            entries = "".join(
                f"{REGULAR} {turn.blob}\t{turn.path}\0" for turn in plan.turns
            )
            clone.git.write(
                "update-index",
                "-z",
                "--index-info",
                stdin=entries.encode(),
                index=str(index),
            )
            tree = clone.git.write("write-tree", index=str(index)).text.strip()
            made.append(_make_commit(clone, plan, tree, made[-1] if made else tip))
    finally:
        index.unlink(missing_ok=True)
    return made


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
    """Return the author with their date, and the committer without: it is committed now."""
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
    """Make index and work tree follow HEAD, wherever it is, and return that."""
    head = clone.git.read("rev-parse", "--verify", "HEAD").text.strip()
    if head == old:
        _undo_half_a_switch(clone, old, new)
        _switch(clone, new, old)
    clone.location.rebuild_journal.unlink(missing_ok=True)
    return head


def _switch(clone: Clone, before: str, after: str) -> None:
    """Take index and work tree from one commit to the other; what the user has changed stays or stops it."""
    command = ("read-tree", "-m", "-u", before, after)
    answer = clone.write_index(*command)
    if (
        answer.code != 0
    ):  # it goes by the times in the index, which a killed posting or a copied clone lacks
        clone.write_index("update-index", "-q", "--refresh")
        answer = clone.write_index(*command)
    require_success("read-tree", answer)


def _undo_half_a_switch(clone: Clone, old: str, new: str) -> None:
    """Put back what a git that was killed on the way to `new` wrote before the index; an edited file stays."""
    entries = (
        entry.partition("\t")
        for entry in clone.git.read("ls-files", "--stage", "-z").fields
    )
    indexed = {path: described.split(" ")[1] for described, _, path in entries}
    lost = []
    for path, file in set(committed_files(clone.git, new).items()) - set(
        committed_files(clone.git, old).items()
    ):
        place, found = clone.location.top_level / path, clone.blob_on_disk(path)
        if found == indexed.get(path) or (found is None and os.path.lexists(place)):
            continue
        if found is None or (file.blob and clone.has_beginning_of(file.blob, path)):
            place.unlink(missing_ok=True)
            if path in indexed:
                lost.append(path)
    if lost:
        clone.write_index("checkout-index", "--force", "--", *lost)
