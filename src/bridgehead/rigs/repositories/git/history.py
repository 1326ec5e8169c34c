"""Read commits with their changes, objects in bulk, and what two branches have in common (rigs §9.1, §9.3)."""

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

# Submodules are not ignored: else a pulled .gitmodules that git dislikes would end every log.
_RAW = "-z --raw --no-abbrev --no-ext-diff --no-textconv --ignore-submodules=none"
_COMMITS = "log -z --pretty=raw --no-decorate --no-notes --no-color"
_DIFF = f"diff-tree -r {_RAW} --find-renames".split()
# With -c a merge shows what it has from none of its parents.
_LOG = f"{_COMMITS} --topo-order --reverse {_RAW} --no-renames -c".split()
# Trees of long threads are large, and each is compared with its neighbour only: more cache is only more memory.
_SMALL_CACHE = ("core.deltaBaseCacheLimit=4m",)
_COMMIT = "commit "
_HEADERS = re.compile(
    r"commit ([0-9a-f]+)\ntree [0-9a-f]+((?:\nparent [0-9a-f]+)*)"
    r"\nauthor ([^\n]*?) ?<([^>\n]*)>[^\n]*\ncommitter [^\n]*?> *([0-9]*)[^\n]*((?:\n[^\n]+)*)"
)
_MISSING = b" missing"


def history(git: Git, head: str | None, after: str | None) -> History:
    """Return the commits of `head`, only the new ones where those simply follow `after`.

    After a merge the order of what came before may change, so then all of it is given again.
    """
    if head is None:
        return History((), from_start=True)
    if after is not None and is_ancestor(git, after, head):
        newer = commits_between(git, after, head)
        if all(len(commit.parents) < 2 for commit in newer):
            return History(tuple(newer), from_start=False)
    return History(_all_commits(git, head), from_start=True)


def _all_commits(git: Git, head: str) -> Iterator[CommitRecord]:
    """Yield the commits as git finds them: at once they take more memory than everything else."""
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
    lines = git.read("rev-list", "--parents", head, "--").text.splitlines()
    return {
        commit: tuple(parents) for commit, *parents in (line.split() for line in lines)
    }


def is_ancestor(git: Git, commit: str, of: str) -> bool:
    """Tell whether `commit` is `of` or stands somewhere below it; False for one that is not here at all."""
    return commit == of or git.ask("merge-base", "--is-ancestor", commit, of).code == 0


def merge_base(git: Git, one: str, other: str) -> str | None:
    """Return the last commit both have; None for histories that never met."""
    answer = git.ask("merge-base", one, other)
    return answer.text.strip() if answer.code == 0 else None


def compare(git: Git, local_head: str, remote_head: str) -> Incoming:
    """Say what `remote_head` has that `local_head` lacks, from their merge base on."""
    if local_head == remote_head:
        return Incoming(local_head, remote_head, local_head, 0, 0, ())
    base = merge_base(git, local_head, remote_head)
    counted = git.read(
        "rev-list", "--left-right", "--count", f"{local_head}...{remote_head}", "--"
    )
    ahead, behind = map(int, counted.text.split())
    before = (
        base or git.read("hash-object", "-t", "tree", "--stdin", stdin=b"").text.strip()
    )  # or nothing at all
    changes = diff(git, before, remote_head) if behind else ()
    return Incoming(local_head, remote_head, base, ahead, behind, changes)


def diff(git: Git, before: str, after: str) -> tuple[PathChange, ...]:
    """Return what changed between two trees, renames recognised."""
    return tuple(parse_raw_diff(git.read(*_DIFF, before, after, "--").fields))


def committed_files(git: Git, commit: str) -> dict[str, TrackedFile]:
    """Return everything a commit holds, by path."""
    files = {}
    for entry in git.read("ls-tree", "-r", "-z", "--full-tree", commit).fields:
        described, _, path = entry.partition("\t")
        mode, _, blob = described.split(" ")
        files[path] = TrackedFile(blob, mode == SYMLINK)
    return files


def read_objects(git: Git, ids: Sequence[str]) -> dict[str, bytes | None]:
    """Return contents by id; None for one that is too large for an envelope or not there."""
    wanted = list(dict.fromkeys(ids))
    if not wanted:
        return {}
    sizes = git.read(
        "cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=_lines(wanted)
    ).text
    listed = (line.split(" ") for line in sizes.splitlines())
    small = [
        name
        for name, size in listed
        if size.isdecimal() and int(size) <= MAX_FILE_BYTES
    ]
    contents = (
        dict(
            _parse_batch(
                git.read("cat-file", "--batch", "--buffer", stdin=_lines(small)).stdout
            )
        )
        if small
        else {}
    )
    return {name: contents.get(name) for name in wanted}


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


def parse_log(output: str) -> list[CommitRecord]:
    """Read the output of one log."""
    return list(_read_log(output.split("\0")))


def _read_log(fields: Iterable[str]) -> Iterator[CommitRecord]:
    """Read what stood between the NULs of a log; a last commit without changes ends without one."""
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
            described = last if last.startswith(":") else None
    if headers:
        yield _read_commit(headers, changes)


def _read_change(described: str, path: str) -> PathChange:
    """Read `:OLDMODE NEWMODE OLDBLOB NEWBLOB STATUS`; a merge has one old mode and blob for every parent."""
    if described[1] != ":":
        _, mode, _, blob, status = described.split(" ")
        return PathChange(status, path, blob, mode)
    parents = len(described) - len(described.lstrip(":"))
    words = described[parents:].split(" ")
    mode = words[parents]
    status = "D" if mode == DELETED_MODE else "A" if set(words[-1]) == {"A"} else "M"
    return PathChange(status, path, words[2 * parents + 1], mode)


def _read_commit(record: str, changes: list[PathChange]) -> CommitRecord:
    read = _HEADERS.match(record)
    if read is None:
        raise GitFailed(f"git log shows a commit in an unknown form: {record[:60]!r}")
    commit, parents, name, email, committed_at, others = read.groups()
    return CommitRecord(
        commit=commit,
        parents=tuple(parents.split("\nparent ")[1:]) if parents else (),
        author=Identity(name, email),
        committed_at=int(committed_at or 0),
        signed="\ngpgsig" in others,
        message=record[read.end() + 6 :].replace("\n    ", "\n").rstrip("\n"),
        changes=tuple(changes),
    )


def _lines(ids: Sequence[str]) -> bytes:
    return "".join(f"{name}\n" for name in ids).encode()


def _parse_batch(output: bytes) -> Iterator[tuple[str, bytes]]:
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
