"""Read commits with their changes, objects in bulk, and what two branches have in common (rigs §9.1, §9.3)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise

from bridgehead.host.child import SignalsHeld
from bridgehead.rigs.repositories.errors import GitFailed
from bridgehead.rigs.repositories.git.clone import Clone
from bridgehead.rigs.repositories.git.command import Git, Running, require_success
from bridgehead.rigs.repositories.git.commit_line import CommitLine, line_to
from bridgehead.rigs.repositories.git.trees import (
    Packs,
    changes_of_trees,
    likely_changes,
)
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
_WITHOUT_CHANGES = f"{_COMMITS} --no-walk=unsorted --stdin --no-patch".split()
# Trees of long threads are large, and each is compared with its neighbour only: more cache is only more memory.
_SMALL_CACHE = ("core.deltaBaseCacheLimit=4m",)
_COMMIT = "commit "
_HEADERS = re.compile(
    r"commit ([0-9a-f]+)\ntree [0-9a-f]+((?:\nparent [0-9a-f]+)*)"
    r"\nauthor ([^\n]*?) ?<([^>\n]*)>[^\n]*\ncommitter [^\n]*?> *([0-9]*)[^\n]*((?:\n[^\n]+)*)"
)
_MISSING = b" missing"
_ENDED = "git cat-file ended before it had answered"
LONG_HISTORY = 2000  # commits; a shorter one is read whole in no time
_FEW = 8  # commits that are all asked for sooner than halved further
_SMALL_THREAD = 200  # files; in a larger one, trying which trees it may have had takes longer than halving
_AT_ONCE = 400  # questions whose answers a pipe holds while nobody reads


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


def newest_commits(git: Git, head: str, most: int) -> list[CommitRecord]:
    """Return the last commits of `head`, newest first."""
    arguments = (
        word
        for word in log_arguments(f"--max-count={most}", head)
        if word != "--reverse"
    )
    return parse_log(
        require_success("log", git.ask(*arguments, settings=_SMALL_CACHE)).text
    )


def log_arguments(*revisions: str) -> tuple[str, ...]:
    """Return the call whose output `parse_log` reads."""
    return (*_LOG, *revisions, "--")


def thread_commits(
    clone: Clone, head: str, thread: str, files: int = 0
) -> list[CommitRecord] | None:
    """Return the commits of a long history that changed one thread, parents first, with what they changed in it.

    Where two commits have the same tree of the thread, nothing between them is looked at; what was changed there and
    changed back shows in `history` only. None for a history that is short, or no single line as far as the thread goes.
    How many `files` it has says where to look first.
    """
    objects = _Objects(clone.git)
    try:
        found = _thread_commits(clone, objects, head, thread, files)
        objects.let_go()
    except BaseException:  # also when stopped while letting go
        objects.let_go()
        raise
    return found


def _thread_commits(
    clone: Clone, objects: _Objects, head: str, thread: str, files: int
) -> list[CommitRecord] | None:
    line = _line_with(objects, clone, head, thread, may_be_new=files < LONG_HISTORY)
    if line is None:
        return None

    def trees_at(places: list[int]) -> list[str]:
        return objects.trees([line[place] for place in places], thread)

    with closing(Packs(clone)) as packs:
        at_once, likely = len(line) if len(line) < _FEW * files else _FEW, set[int]()
        if (
            at_once == _FEW
            and files <= _SMALL_THREAD
            and (now := trees_at([len(line) - 1])[0])
        ):
            likely = likely_changes(clone, packs, objects.read(now), line)
        changed = _tree_changes(len(line), trees_at, at_once, likely)
        if not changed:
            return []
        commits = objects.commits([line[index] for index, _ in changed])
        trees, subjects = (
            [tree for _, tree in changed],
            [commit.subject for commit in commits],
        )
        changes = changes_of_trees(clone, packs, objects.read, trees, subjects, thread)
    if changes is None:
        return None
    return [
        CommitRecord(*commit[:-1], found)
        for commit, found in zip(commits, changes, strict=True)
    ]


class _Objects:
    """Answers question by question what the object store holds; whoever asked says when that is all."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._running: Running | None = None

    def trees(self, commits: Sequence[str], path: str) -> list[str]:
        """Return the id of the directory in each commit, empty where there is none."""
        names = [f"{commit}:{path}" for commit in commits]
        if len(names) > _AT_ONCE:
            answer = self._git.ask(
                "cat-file",
                "--buffer",
                "--batch-check",
                stdin=_lines(names),
                settings=_SMALL_CACHE,
            )
            headers = require_success("cat-file", answer).stdout.splitlines()
        else:
            headers = [header for header, _ in self._contents(names)]
        if len(headers) < len(names):
            raise GitFailed(_ENDED)
        return [
            header.partition(b" ")[0].decode() if b" tree " in header else ""
            for header in headers
        ]

    def commits(self, names: Sequence[str]) -> list[CommitRecord]:
        """Return these commits without what they changed."""
        contents = (
            []
            if len(names) > _AT_ONCE
            else [content for _, content in self._contents(names)]
        )
        if not contents or any(b"\nencoding " in content for content in contents):
            return parse_log(
                self._git.read(*_WITHOUT_CHANGES, stdin=_lines(names)).text
            )
        return [
            _read_commit(_as_logged(*commit), [])
            for commit in zip(names, contents, strict=True)
        ]

    def read(self, name: str) -> bytes:
        [(header, content)] = self._contents([name])
        if header.endswith(_MISSING):
            raise GitFailed(f"git cat-file does not find the tree {name}")
        return content

    def let_go(self) -> None:
        if self._running is not None:
            self._running.abandon()

    def _contents(self, names: Sequence[str]) -> Iterator[tuple[bytes, bytes]]:
        """Yield of each object what it is and what it holds."""
        if self._running is None:
            with SignalsHeld():
                self._running = self._git.start(
                    "cat-file", "--batch", takes_input=True, settings=_SMALL_CACHE
                )
        answers = self._running.converse(_lines(names))
        for _ in names:
            header = answers.readline().removesuffix(b"\n")
            size = header.rpartition(b" ")[2]
            if not header:
                raise GitFailed(_ENDED)
            yield header, answers.read(int(size) + 1)[:-1] if size.isdigit() else b""


def _line_with(
    objects: _Objects, clone: Clone, head: str, thread: str, *, may_be_new: bool
) -> CommitLine | None:
    """Return the last commits, back to one without the thread or to the first."""
    line = line_to(clone, head)
    if line and len(line) >= LONG_HISTORY:
        return line
    width = 2 * (
        len(head) + 1
    )  # of a commit with its parent; a merge has more than one
    for most in (LONG_HISTORY, None) if may_be_new else (None,):
        limit = (f"--max-count={most}",) if most else ()
        listed = clone.git.read(
            "rev-list", "--parents", "--reverse", *limit, head, "--"
        ).text
        second = listed.index("\n") + 1  # the first may have no parent
        lines = listed.split("\n")[:-1]
        if (
            (most and len(lines) < most)
            or second > width
            or listed[second + width - 1 :: width].strip("\n")
        ):
            return None
        line = CommitLine(lines)
        if most is None or not objects.trees([line[0]], thread)[0]:
            return line
        if longer := line_to(clone, lines[0].partition(" ")[2], *lines):
            return longer
    return None


def _tree_changes(
    count: int,
    trees_at: Callable[[list[int]], list[str]],
    at_once: int,
    likely: Iterable[int],
) -> list[tuple[int, str]]:
    """Return where the tree differs from that of the commit before, with the tree from there on.

    Looks at `likely` places, and halves range after range until `at_once` commits are left of one: git puts trees
    together from those of commits nearby, which it has at hand then.
    """
    asked = sorted({0, count - 1, *likely})
    known, ranges = (
        dict(zip(asked, trees_at(asked), strict=True)),
        list(pairwise(asked)),
    )
    while ranges:
        low, high = ranges.pop()
        if known[low] != known[high] and high - low > 1:
            middle = (low + high) // 2
            asked = [middle] if high - low > at_once else list(range(low + 1, high))
            known |= zip(asked, trees_at(asked), strict=True)
            ranges += [(middle, high), (low, middle)] if asked == [middle] else []
    before, changed = "", []
    for index, tree in sorted(known.items()):
        if tree != before:
            changed.append((index, tree))
        before = tree
    return changed


def index_commits(git: Git) -> None:
    """Have git keep a table of a long history, from which it reads commits five times as fast as from packs.

    Not being able to costs time later, nothing else.
    """
    counted = git.ask(
        "rev-list", "--count", f"--max-count={LONG_HISTORY}", "HEAD", "--"
    )
    if counted.code == 0 and int(counted.text) >= LONG_HISTORY:
        git.ask("commit-graph", "write", "--reachable", "--no-progress")


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


def _as_logged(name: str, content: bytes) -> str:
    """Return a commit as a log shows it, where the message is indented."""
    headers, _, message = os.fsdecode(content).partition("\n\n")
    indented = message.replace("\n", "\n    ")
    return f"commit {name}\n{headers}\n\n    {indented}"


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
