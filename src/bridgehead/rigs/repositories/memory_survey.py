"""A look at a work tree in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from bridgehead.rigs.filenames import is_thread_directory
from bridgehead.rigs.repositories.base import Survey
from bridgehead.rigs.repositories.memory_objects import Tree
from bridgehead.rigs.repositories.records import DirtyFile, TrackedFile

if TYPE_CHECKING:
    from bridgehead.rigs.repositories.memory import MemoryRepository


class MemorySurvey(Survey):
    """Everything as it was when this was made."""

    def __init__(self, repository: MemoryRepository, thread: str | None) -> None:
        def is_looked_at(path: str) -> bool:
            return thread is None or path.startswith(f"{thread}/")

        self.head = repository.commit
        self.branch = repository.branch
        self.ahead = len(repository.unpushed())
        self._tracked = {path: file for path, file in repository.index.items() if is_looked_at(path)}
        self.index_text = repr(sorted(self._tracked.items()))
        self.dirty = tuple(file for file in _dirty_files(repository) if is_looked_at(file.path))
        tops = sorted({path.partition("/")[0] for path in repository.present() if "/" in path})
        self._names = {
            top: repository.filenames(top)
            for top in tops
            if is_thread_directory(top) and is_looked_at(f"{top}/")
        }

    def tracked(self) -> Mapping[str, TrackedFile]:
        return {path: file for path, file in self._tracked.items() if path.endswith(".md")}

    def tracked_paths(self) -> set[str]:
        return set(self._tracked)

    def names(self) -> Mapping[str, Sequence[str]]:
        return self._names


def _dirty_files(repository: MemoryRepository) -> Iterator[DirtyFile]:
    committed = repository.objects.tree(repository.commit)
    for path in sorted({*committed, *repository.index}):
        in_head, in_index, on_disk = committed.get(path), repository.index.get(path), repository.on_disk(path)
        code = _letter(in_head, in_index) + (_letter(in_index, on_disk) if in_index else " ")
        if code != "  ":
            yield DirtyFile(code, path)
    untracked = sorted(path for path in repository.present() if path not in repository.index)
    yield from dict.fromkeys(DirtyFile("??", _shown(path, repository.index)) for path in untracked)


def _letter(before: TrackedFile | None, after: TrackedFile | None) -> str:
    if before == after:
        return " "
    return "A" if before is None else "D" if after is None else "M"


def _shown(path: str, index: Tree) -> str:
    """Name a directory instead of its files where none of them is tracked, as git does."""
    top = path.partition("/")[0] + "/"
    return path if "/" not in path or any(name.startswith(top) for name in index) else top
