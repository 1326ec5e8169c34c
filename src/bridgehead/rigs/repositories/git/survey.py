"""Look at a work tree: HEAD, what git tracks, what differs, and the names in thread directories (rigs §8)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from bridgehead.rigs.envelope.names import is_thread_directory
from bridgehead.rigs.repositories.git.clone import Clone
from bridgehead.rigs.repositories.git.command import require_success
from bridgehead.rigs.repositories.records import (
    REGULAR,
    SYMLINK,
    DirtyFile,
    Stamp,
    TrackedFile,
)
from bridgehead.rigs.repositories.work_tree import (
    directory_stamp,
    files_stamp,
    names_in,
)

_WHOLE_NAMES = (2, 3)  # versions of the format that do not shorten names
_BEGINNING = 1 << 14  # bytes of an index that are read first
_MORE_FLAGS = b"\x40"
_DIRECTORIES_FOR_FILES = b"sdir"
# Looking into a submodule would start git there.
_STATUS = [
    "status",
    "--porcelain=v2",
    "-z",
    "--branch",
    "--ignore-submodules=dirty",
    "--find-renames",
]
_ALONE = (
    "index.threads=1",
    "core.preloadIndex=false",
)  # several threads of git take more time together
_FIELDS_BEFORE_PATH = {"1": 8, "2": 9, "u": 10}
_MODE_END = 6
_FEW = 50
_FEW_TO_LOOK_INTO = 12  # git compares every path with each of them


class GitSurvey:
    """One look; everything lazy is computed from what was seen then.

    What is `dirty` is without untracked files unless they are asked for: git looks into every directory for them, and
    whoever goes through `names` sees them too. Threads for which `passes_over` says yes are taken to be as HEAD has
    them, as long as the others are few.
    """

    def __init__(
        self,
        clone: Clone,
        thread: str | None,
        *,
        untracked: bool = True,
        passes_over: "Callable[[GitSurvey, str], bool] | None" = None,
    ) -> None:
        self._clone, self._git = clone, clone.git
        self._top_level, self._index_file = (
            clone.location.top_level,
            clone.location.index_file,
        )
        self._index_stamp = _stamp(self._index_file)
        self._limits = ("--", thread) if thread else ("--",)
        self._thread = thread
        self._names: dict[str, list[str]] = {}
        self._listed: dict[str, list[tuple[str, str, str]]] = {}  # by commit
        self.head: str | None = None
        self.passed_over: frozenset[str] = frozenset()
        found = self._of_some(passes_over) if passes_over else self._as_committed()
        self.head, self.ahead, self.dirty = found or self._state(
            self._limits, untracked=untracked
        )

    def _state(
        self, limits: Sequence[str], *, untracked: bool = False
    ) -> "WorkTreeState":
        shown = f"--untracked-files={'normal' if untracked else 'no'}"
        answer = self._git.ask(*_STATUS, shown, *limits, settings=_ALONE)
        return parse_status(require_success("status", answer).fields)

    def _of_some(
        self, passes_over: "Callable[[GitSurvey, str], bool]"
    ) -> "WorkTreeState | None":
        """Return the state of the threads that are not passed over, where they are few."""
        self.head = self._current_commit()
        threads = (
            [thread for thread in self.directories if not passes_over(self, thread)]
            if self.head
            else ()
        )
        if self.head is None or len(threads) > _FEW_TO_LOOK_INTO:
            return None
        self.passed_over = frozenset(self.directories).difference(threads)
        dirty = self._state(("--", *threads)).dirty if threads else ()
        return WorkTreeState(self.head, 0, dirty)

    def _current_commit(self) -> str | None:
        return (
            self._git.ask(
                "rev-parse", "--verify", "--quiet", "HEAD^{commit}"
            ).text.strip()
            or None
        )

    def _as_committed(self) -> "WorkTreeState | None":
        """Return the state of a thread whose few files are as HEAD has them; an index of all threads takes longer."""
        names = self.names_in(self._thread) if self._thread else ()
        if not 0 < len(names) <= _FEW:
            return None
        head = self._current_commit()
        if head is None:
            return None
        committed = {path: (mode, name) for mode, name, path in self._committed(head)}
        paths = {f"{self._thread}/{name}" for name in names}
        same = paths == committed.keys() and all(
            (REGULAR, self._clone.blob_on_disk(p)) == committed[p] for p in paths
        )
        return WorkTreeState(head, 0, ()) if same else None

    def _committed(self, head: str) -> list[tuple[str, str, str]]:
        """Return mode, id and path of all that a commit has."""
        if head not in self._listed:
            listed = self._git.read(
                "ls-tree", "-r", "-z", "--full-tree", head, *self._limits
            ).fields
            entries = (
                (*described.split(" "), path)
                for described, _, path in (one.partition("\t") for one in listed)
            )
            self._listed[head] = [(mode, name, path) for mode, _, name, path in entries]
        return self._listed[head]

    @cached_property
    def index_text(self) -> str:
        """Equal texts: the index holds the same files."""
        if (
            self._thread is None
            or self.head is None
            or any(file.code != "??" for file in self.dirty)
        ):
            return self._git.read("ls-files", "--stage", "-z", *self._limits).text
        # It holds what HEAD does, and a tree is read faster than an index of all threads.
        return "".join(
            f"{mode} {name} 0\t{path}\0"
            for mode, name, path in self._committed(self.head)
        )

    def still_stands(self) -> bool:
        """Tell whether everything asked for so far was seen of one state of the index."""
        return _stamp(self._index_file) == self._index_stamp

    @cached_property
    def trees(self) -> dict[str, str]:
        """The directories that HEAD has at its top, with what changes when anything in them is different."""
        if self.head is None:
            return {}
        listed = self._git.read(
            "ls-tree", "-d", "-z", "--full-tree", self.head, *self._limits
        ).fields
        return {
            name: entry.rpartition(" ")[2]
            for entry, _, name in (line.partition("\t") for line in listed)
        }

    def tracked(self, threads: Sequence[str] = ()) -> Mapping[str, TrackedFile]:
        """Return what the index holds, by path, `.md` files only; where a few threads are named, of those alone."""
        few = 0 < len(threads) <= _FEW and self._thread is None
        listed = (
            self._git.read("ls-files", "--stage", "-z", "--", *threads).text
            if few
            else self.index_text
        )
        files = {}
        for entry in listed.split("\0")[:-1]:
            if entry.endswith(".md"):
                described, _, path = entry.partition("\t")
                blob = (
                    described[_MODE_END + 1 : -2] if described.endswith("0") else None
                )
                files[path] = TrackedFile(blob, described.startswith(SYMLINK))
        return files

    def tracked_paths(self) -> set[str]:
        """Return every path the index holds."""
        entries = self.index_text.split("\0")[:-1]
        start = (
            entries[0].index("\t") + 1 if entries else 0
        )  # mode, id and stage are as long in all of them
        return {entry[start:] for entry in entries}

    @cached_property
    def directories(self) -> list[str]:
        """The names of everything looked at that could be the directory of a thread, and may be a file."""
        return list(
            filter(
                is_thread_directory,
                [self._thread] if self._thread else names_in(self._top_level),
            )
        )

    def names_in(self, thread: str) -> Sequence[str]:
        """Return the names in a directory, tracked or not; none if it is none."""
        if thread not in self._names:
            self._names[thread] = names_in(f"{self._top_level}/{thread}")
        return self._names[thread]

    def names(self) -> Mapping[str, Sequence[str]]:
        """Return the names in every directory that could be a thread, tracked or not."""
        return {
            thread: names
            for thread in self.directories
            if (names := self.names_in(thread))
        }

    def stamp_of(self, thread: str) -> Stamp | None:
        """Return what changes when a name in a directory comes or goes, as of now; None for what is no directory."""
        return directory_stamp(f"{self._top_level}/{thread}")

    def stamp_of_files(self, thread: str) -> Stamp:
        """Return what changes also when something in a directory is changed in place, as of now."""
        return files_stamp(f"{self._top_level}/{thread}")


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class WorkTreeState(NamedTuple):
    """HEAD and the paths that differ from it."""

    commit: str | None  # None before the first commit
    ahead: int  # of its upstream
    dirty: tuple[DirtyFile, ...]


def parse_status(entries: list[str]) -> WorkTreeState:
    """Read the NUL-separated entries of one status."""
    headers = dict(
        entry[2:].split(" ", 1)
        for entry in takewhile(lambda entry: entry.startswith("# "), entries)
    )
    commit = headers.get("branch.oid", "(initial)")
    return WorkTreeState(
        commit=None if commit == "(initial)" else commit,
        ahead=int(headers.get("branch.ab", "+0 -0").split()[0]),
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


def may_list(index_file: Path, path: str, id_bytes: int) -> bool:
    """Tell whether an index could list `path`; only a no is certain."""
    wanted = path.encode("utf-8", "surrogateescape")
    try:
        with index_file.open("rb") as file:
            start = file.read(_BEGINNING)
            if int.from_bytes(start[4:8], "big") not in _WHOLE_NAMES or any(
                index_file.parent.glob("sharedindex.*")
            ):
                return True
            if _is_past(wanted, start, id_bytes):
                return False
            content = start + file.read()
            return wanted in content or _DIRECTORIES_FOR_FILES in content
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _is_past(wanted: bytes, index: bytes, id_bytes: int) -> bool:
    """Tell whether the beginning of an index shows names, which are sorted, before and after one that it lacks."""
    at = 12
    for _ in range(int.from_bytes(index[8:12], "big")):
        flags = at + 40 + id_bytes
        start = flags + (4 if index[flags : flags + 1] >= _MORE_FLAGS else 2)
        end = index.find(b"\0", start)
        name = index[start:end]
        if (
            end < 0
            or name >= wanted
            or (name.endswith(b"/") and wanted.startswith(name))
        ):
            return end > 0 and name > wanted
        at += (end - at + 8) & ~7
    return False
