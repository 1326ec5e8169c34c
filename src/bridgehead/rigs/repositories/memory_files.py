"""A work tree in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bridgehead.host.file_errors import FileMissing, FileTaken, FileTooLarge, IsSymlink
from bridgehead.rigs.repositories.base import MAX_FILE_BYTES, Files
from bridgehead.rigs.repositories.records import Stamp


class MemoryFiles(Files):
    """Contents by path in `files`, targets of symbolic links in `links`, empty directories in `directories`."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self.directories: set[str] = set()

    def read_file(self, path: str, max_bytes: int = MAX_FILE_BYTES) -> bytes:
        if path in self.links:
            raise IsSymlink(path, "read")
        if path not in self.files:
            raise FileMissing(path, "read")
        if len(self.files[path]) > max_bytes:
            raise FileTooLarge(path, "read")
        return self.files[path]

    def read_files(self, directory: str, names: Sequence[str]) -> Iterator[bytes | None]:
        return (self.files.get(f"{directory}/{name}") for name in names)

    def write_file(
        self, path: str, content: bytes, *, replace: bool = False, executable: bool = False
    ) -> None:
        if path in self.links:
            raise IsSymlink(path, "written")
        if path in self.files and not replace:
            raise FileTaken(path, "written")
        self.files[path] = content

    def make_directory(self, path: str) -> None:
        self.directories.add(path)

    def has_file(self, path: str) -> bool:
        return path in self.files or path in self.links

    def has_directory(self, path: str) -> bool:
        return path in self.directories or any(name.startswith(f"{path}/") for name in self.present())

    def filenames(self, directory: str) -> list[str]:
        prefix = f"{directory}/"
        inside = {name[len(prefix) :].partition("/")[0] for name in self.present() if name.startswith(prefix)}
        return sorted(inside)

    def stamp(self, path: str) -> Stamp | None:
        if path not in self.present():
            return None
        return Stamp(0, len(self.files.get(path, b"")), 0, 0, path in self.links)

    def present(self) -> set[str]:
        return {*self.files, *self.links}
