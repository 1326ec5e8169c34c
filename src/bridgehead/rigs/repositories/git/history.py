"""Read commits with their changes, and objects in bulk (rigs §9.1, §9.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from bridgehead.host.child import SignalsHeld
from bridgehead.rigs.repositories.errors import GitFailed
from bridgehead.rigs.repositories.git.command import Git, Running, require_success
from bridgehead.rigs.repositories.records import (
    DELETED_MODE,
    MAX_FILE_BYTES,
    SYMLINK,
    CommitRecord,
    History,
    Identity,
    Incoming,
    PathChange,
    TrackedFile,
)

# Submodules are not ignored: otherwise a pulled .gitmodules that git dislikes would end
# every log.
_RAW = [
    "-z",
    "--raw",
    "--no-abbrev",
    "--no-ext-diff",
    "--no-textconv",
    "--ignore-submodules=none",
]
_DIFF = ["diff-tree", "-r", *_RAW, "--find-renames"]
_LOG = [
    "log",
    *_RAW,
    "--pretty=raw",
    "--no-decorate",
    "--no-notes",
    "--no-color",
    "--topo-order",
    "--reverse",
    "--no-renames",
    "-c",  # a merge shows what it has from none of its parents
]
# Trees of long threads are large, and each is compared with its neighbour only: more
# cache is only more memory.
_SMALL_CACHE = ("core.deltaBaseCacheLimit=4m",)
_COMMIT = "commit "
_HEADERS = re.compile(
    r"commit ([0-9a-f]+)\ntree [0-9a-f]+((?:\nparent [0-9a-f]+)*)"
    r"\nauthor ([^\n]*?) ?<([^>\n]*)>[^\n]*"
    r"\ncommitter [^\n]*?> *([0-9]*)[^\n]*((?:\n[^\n]+)*)"
)
_BEFORE_MESSAGE = len("\n\n    ")
_MISSING = b" missing"


def history(git: Git, head: str | None, after: str | None) -> History:
    """Return the commits of `head`; only the new ones if they simply follow `after`.

    A merge may change the order of what came before, so all of it is read again.
    """
    if head is None:
        return History((), from_start=True)
    if after is not None and is_ancestor(git, after, head):
        newer = commits_between(git, after, head)
        if all(len(commit.parents) < 2 for commit in newer):
            return History(tuple(newer), from_start=False)
    return History(_all_commits(git, head), from_start=True)


def _all_commits(git: Git, head: str) -> Iterator[CommitRecord]:
    """Yield the commits as git finds them; all at once would take too much memory."""
    running: Running | None = None
    try:
        with SignalsHeld():
            running = git.start(*log_arguments(head), settings=_SMALL_CACHE)
        yield from _read_log(running.fields())
    finally:
        if running is not None:
            running.abandon()


def commits_between(git: Git, base: str | None, tip: str) -> list[CommitRecord]:
    """Return the commits of `tip` that `base` lacks, parents before children."""
    excluded = (f"^{base}",) if base else ()
    answer = git.ask(*log_arguments(tip, *excluded), settings=_SMALL_CACHE)
    return parse_log(require_success("log", answer).text)


def log_arguments(*revisions: str) -> tuple[str, ...]:
    """Return the call whose output `parse_log` reads."""
    return (*_LOG, *revisions, "--")


def ancestry(git: Git, head: str | None) -> dict[str, tuple[str, ...]]:
    """Return the parents of every commit of `head`."""
    if head is None:
        return {}
    listed = git.read("rev-list", "--parents", head, "--")
    found: dict[str, tuple[str, ...]] = {}
    for line in listed.text.splitlines():
        commit, *parents = line.split()
        found[commit] = tuple(parents)
    return found


def is_ancestor(git: Git, commit: str, of: str) -> bool:
    """Return whether `commit` is `of` or its ancestor; False if it is unknown here."""
    if commit == of:
        return True
    answer = git.ask("merge-base", "--is-ancestor", commit, of)
    return answer.code == 0


def merge_base(git: Git, first: str, second: str) -> str | None:
    """Return the last commit both have; None for histories that never met."""
    answer = git.ask("merge-base", first, second)
    if answer.code != 0:
        return None
    return answer.text.strip()


def compare(git: Git, local_head: str, remote_head: str) -> Incoming:
    """Return what `remote_head` has that `local_head` lacks, from their base on."""
    if local_head == remote_head:
        return Incoming(local_head, remote_head, local_head, 0, 0, ())
    base = merge_base(git, local_head, remote_head)
    counted = git.read(
        "rev-list", "--left-right", "--count", f"{local_head}...{remote_head}", "--"
    )
    ahead, behind = map(int, counted.text.split())
    changes: tuple[PathChange, ...] = ()
    if behind:
        changes = diff(git, base or _empty_tree(git), remote_head)
    return Incoming(local_head, remote_head, base, ahead, behind, changes)


def _empty_tree(git: Git) -> str:
    answer = git.read("hash-object", "-t", "tree", "--stdin", stdin=b"")
    return answer.text.strip()


def diff(git: Git, before: str, after: str) -> tuple[PathChange, ...]:
    """Return what changed between two trees, renames recognised."""
    answer = git.read(*_DIFF, before, after, "--")
    return tuple(parse_raw_diff(answer.fields))


def committed_files(git: Git, commit: str) -> dict[str, TrackedFile]:
    """Return everything a commit holds, by path."""
    files = {}
    for entry in git.read("ls-tree", "-r", "-z", "--full-tree", commit).fields:
        described, _, path = entry.partition("\t")
        mode, _, blob = described.split(" ")
        files[path] = TrackedFile(blob, mode == SYMLINK)
    return files


def read_objects(git: Git, ids: Sequence[str]) -> dict[str, bytes | None]:
    """Return contents by id; None for one that is missing or too large."""
    wanted = list(dict.fromkeys(ids))
    contents: dict[str, bytes | None] = dict.fromkeys(wanted)
    small = _of_readable_size(git, wanted)
    if small:
        answer = git.read("cat-file", "--batch", "--buffer", stdin=_lines(small))
        contents.update(_parse_batch(answer.stdout))
    return contents


def _of_readable_size(git: Git, ids: Sequence[str]) -> list[str]:
    """Return the ids of those objects that are here and not too large."""
    if not ids:
        return []
    answer = git.read(
        "cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=_lines(ids)
    )
    readable: list[str] = []
    for line in answer.text.splitlines():
        name, size = line.split(" ")
        if size.isdecimal() and int(size) <= MAX_FILE_BYTES:
            readable.append(name)
    return readable


def parse_raw_diff(fields: list[str]) -> Iterator[PathChange]:
    """Read the output of `--raw -z` for two trees."""
    remaining = iter(fields)
    for described in remaining:
        _, mode, _, blob, status = described.split(" ")
        path = next(remaining)
        old_path = None
        if status[0] in "RC":
            old_path = path
            path = next(remaining)
        yield PathChange(status[0], path, blob, mode, old_path)


def parse_log(output: str) -> list[CommitRecord]:
    """Read the output of one log."""
    return list(_read_log(output.split("\0")))


def _read_log(fields: Iterable[str]) -> Iterator[CommitRecord]:
    """Read the fields of a log, which are separated by NULs.

    A last commit without changes ends without a NUL.
    """
    changes: list[PathChange] = []
    headers = ""
    described: str | None = None  # a change whose path comes next
    for field in fields:
        if described is not None:
            changes.append(_read_change(described, field))
            described = None
        elif field.startswith(":"):
            described = field
        elif field.startswith(_COMMIT):
            if headers:
                yield _read_commit(headers, changes)
                changes = []
            headers, _, last = field.rpartition("\n")
            if last.startswith(":"):
                described = last
    if headers:
        yield _read_commit(headers, changes)


def _read_change(described: str, path: str) -> PathChange:
    """Read `:OLDMODE NEWMODE OLDBLOB NEWBLOB STATUS`.

    A merge has one old mode and one old blob for every parent.
    """
    if described[1] != ":":
        _, mode, _, blob, status = described.split(" ")
        return PathChange(status, path, blob, mode)
    parents = len(described) - len(described.lstrip(":"))
    words = described[parents:].split(" ")
    mode = words[parents]
    blob = words[2 * parents + 1]
    statuses = set(words[-1])
    if mode == DELETED_MODE:
        return PathChange("D", path, blob, mode)
    if statuses == {"A"}:
        return PathChange("A", path, blob, mode)
    return PathChange("M", path, blob, mode)


def _read_commit(record: str, changes: list[PathChange]) -> CommitRecord:
    read = _HEADERS.match(record)
    if read is None:
        raise GitFailed(f"git log shows a commit in an unknown form: {record[:60]!r}")
    commit, parents, name, email, committed_at, others = read.groups()
    indented = record[read.end() + _BEFORE_MESSAGE :]
    return CommitRecord(
        commit=commit,
        parents=tuple(parents.split("\nparent ")[1:]),
        author=Identity(name, email),
        committed_at=int(committed_at or 0),
        signed="\ngpgsig" in others,
        message=indented.replace("\n    ", "\n").rstrip("\n"),
        changes=tuple(changes),
    )


def _lines(ids: Sequence[str]) -> bytes:
    return "".join(f"{name}\n" for name in ids).encode()


def _parse_batch(output: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the id and the content of each object that `cat-file --batch` prints."""
    start = 0
    while start < len(output):
        end = output.index(b"\n", start)
        header = output[start:end]
        start = end + 1
        if header.endswith(_MISSING):
            continue
        name, _, size = header.split(b" ")
        content = output[start : start + int(size)]
        start += int(size) + 1
        yield name.decode(), content
