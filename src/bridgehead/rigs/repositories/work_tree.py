"""Read and write the files of a work tree, by repository-relative path.

No link is followed, not even on the way to a file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from bridgehead.errors import FileError
from bridgehead.host.directories import make_dir
from bridgehead.host.file_errors import OutsideRoot
from bridgehead.host.files import read_bounded, write_atomic
from bridgehead.rigs.repositories.records import MAX_FILE_BYTES, Stamp

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK_BYTES = 64 * 1024


class WorkTree:
    """Reads and writes below one directory."""

    def __init__(self, top_level: Path) -> None:
        self._top_level = top_level

    def read_file(self, path: str, max_bytes: int = MAX_FILE_BYTES) -> bytes:
        """Return the content of a regular file, or raise a FileError."""
        return read_bounded(self._at(path), max_bytes, root=self._top_level)

    def read_files(
        self, directory: str, names: Sequence[str]
    ) -> Iterator[bytes | None]:
        """Yield the contents of many files of one directory.

        None stands for what is no regular file, or too large.
        """
        try:
            handle = os.open(self._at(directory), _DIRECTORY)
        except OSError:
            yield from (None for _ in names)
            return
        try:
            for name in names:
                yield _read_entry(handle, name)
        finally:
            os.close(handle)

    def write_file(self, path: str, content: bytes, *, replace: bool = False) -> None:
        """Write a whole file and make its directory.

        Raise FileTaken if the file is there and `replace` is not given.
        """
        target = self._at(path)
        make_dir(target.parent, root=self._top_level)
        write_atomic(target, content, exclusive=not replace, root=self._top_level)

    def has_file(self, path: str) -> bool:
        """Return whether anything but a directory has this name."""
        found = self._lstat(path)
        return found is not None and not stat.S_ISDIR(found.st_mode)

    def has_directory(self, path: str) -> bool:
        """Return whether this is a directory and not a link to one."""
        found = self._lstat(path)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def filenames(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; empty if there is none."""
        return sorted(names_in(self._at(directory)))

    def stamp(self, path: str) -> Stamp | None:
        """Return the stamp of a file or a link; None for anything else."""
        found = self._lstat(path)
        if found is None:
            return None
        is_symlink = stat.S_ISLNK(found.st_mode)
        if not is_symlink and not stat.S_ISREG(found.st_mode):
            return None
        return Stamp(found.st_mtime_ns, is_symlink)

    def _at(self, path: str) -> Path:
        if ".." in path.split("/"):
            raise OutsideRoot(path, "used")
        return self._top_level / path

    def _lstat(self, path: str) -> os.stat_result | None:
        with suppress(OSError, ValueError):
            return self._at(path).lstat()
        return None


def _read_entry(directory: int, name: str) -> bytes | None:
    """Read a small file in as few system calls as can be; there may be ten thousand."""
    try:
        handle = os.open(
            name,
            os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC,
            dir_fd=directory,
        )
    except OSError:
        return None
    try:
        content = os.read(handle, _CHUNK_BYTES)
        if len(content) < _CHUNK_BYTES:
            return content
        return _read_rest(handle, content)
    except OSError:
        return None
    finally:
        os.close(handle)


def _read_rest(handle: int, content: bytes) -> bytes | None:
    """Return a file whose beginning was read; None if it is too large."""
    while more := os.read(handle, MAX_FILE_BYTES):
        content += more
        if len(content) > MAX_FILE_BYTES:
            return None
    return content


def keep(path: Path, content: str | bytes) -> None:
    """Write a private file that we can do without, if possible."""
    with suppress(FileError):
        make_dir(path.parent)
        write_atomic(path, content)


def names_in(directory: str | Path) -> list[str]:
    """Return the names in a directory; none if it is a link or something else."""
    try:
        handle = os.open(directory, _DIRECTORY)
    except OSError:
        return []
    try:
        return os.listdir(handle)  # noqa: PTH208  a path cannot be made of a handle
    finally:
        os.close(handle)
