"""Look at a work tree: HEAD, tracked files, differences, thread names (rigs §8)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from bridgehead.rigs.envelope.names import is_thread_directory
from bridgehead.rigs.repositories.git.clone import Clone
from bridgehead.rigs.repositories.git.command import require_success
from bridgehead.rigs.repositories.records import (
    SUBMODULE,
    SYMLINK,
    DirtyFile,
    TrackedFile,
)
from bridgehead.rigs.repositories.work_tree import names_in

# Looking into a submodule would start git there.
_STATUS = [
    "status",
    "--porcelain=v2",
    "-z",
    "--branch",
    "--ignore-submodules=dirty",
    "--find-renames",
]
# Several threads of git take more time together.
_SINGLE_THREADED = ("index.threads=1", "core.preloadIndex=false")
_FIELDS_BEFORE_PATH = {"1": 8, "2": 9, "u": 10}
_MERGED = " 0"  # the stage of a file without a conflict


class GitSurvey:
    """One look at all of a work tree, or at one thread of it.

    Without `untracked`, `dirty` lacks untracked files: git looks into every
    directory for them, and a caller that goes through `names` sees them too.
    """

    def __init__(
        self, clone: Clone, thread: str | None, *, untracked: bool = True
    ) -> None:
        self._git = clone.git
        self._top_level = clone.location.top_level
        self._thread = thread
        self._limits = ("--", thread) if thread else ("--",)
        self._names: dict[str, list[str]] = {}
        self._tracked: dict[str, TrackedFile] | None = None
        self.head, self.ahead, self.dirty = self._state(untracked=untracked)
        self.directories: list[str] = self._find_directories()

    def _state(self, *, untracked: bool) -> "WorkTreeState":
        shown = "normal" if untracked else "no"
        answer = self._git.ask(
            *_STATUS,
            f"--untracked-files={shown}",
            *self._limits,
            settings=_SINGLE_THREADED,
        )
        return parse_status(require_success("status", answer).fields)

    def _find_directories(self) -> list[str]:
        """Return the names of everything that could be the directory of a thread."""
        if self._thread:
            names = [self._thread]
        else:
            names = names_in(self._top_level)
        return [name for name in names if is_thread_directory(name)]

    def tracked(self) -> Mapping[str, TrackedFile]:
        """Return the `.md` files that git's index holds, by path."""
        if self._tracked is None:
            listed = self._git.read("ls-files", "--stage", "-z", *self._limits)
            entries = [entry for entry in listed.fields if entry.endswith(".md")]
            self._tracked = dict(map(_tracked_file, entries))
        return self._tracked

    def names_in(self, thread: str) -> Sequence[str]:
        """Return the names in a directory, tracked or not; none if it is none."""
        if thread not in self._names:
            self._names[thread] = names_in(f"{self._top_level}/{thread}")
        return self._names[thread]

    def names(self) -> Mapping[str, Sequence[str]]:
        """Return the names in every directory that could be a thread."""
        found = {thread: self.names_in(thread) for thread in self.directories}
        return {thread: names for thread, names in found.items() if names}


def _tracked_file(entry: str) -> tuple[str, TrackedFile]:
    """Read `MODE BLOB STAGE<tab>PATH`; mode and stage are of fixed length."""
    described, _, path = entry.partition("\t")
    if described.startswith(SUBMODULE) or not described.endswith(_MERGED):
        return path, TrackedFile(None, False)
    blob = described[len(SUBMODULE) + 1 : -len(_MERGED)]
    return path, TrackedFile(blob, described.startswith(SYMLINK))


class WorkTreeState(NamedTuple):
    """HEAD and the paths that differ from it."""

    commit: str | None  # None before the first commit
    ahead: int  # of its upstream
    dirty: tuple[DirtyFile, ...]


def parse_status(entries: list[str]) -> WorkTreeState:
    """Read the NUL-separated entries of one status."""
    described = takewhile(lambda entry: entry.startswith("# "), entries)
    headers = dict(entry[2:].split(" ", 1) for entry in described)
    commit = headers.get("branch.oid", "(initial)")
    ahead, _, _behind = headers.get("branch.ab", "+0 -0").partition(" ")
    return WorkTreeState(
        commit=None if commit == "(initial)" else commit,
        ahead=int(ahead),
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
