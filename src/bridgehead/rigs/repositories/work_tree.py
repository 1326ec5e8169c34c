"""The files of a work tree, by repository-relative path. No link is followed, not even on the way to a file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from zlib import crc32

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
        """Return the content of a regular file, or raise a FileError (FileMissing, IsSymlink, ...)."""
        return read_bounded(self._at(path), max_bytes, root=self._top_level)

    def read_files(
        self, directory: str, names: Sequence[str]
    ) -> Iterator[bytes | None]:
        """Yield the contents of many files of one directory; None for one that is no regular file or too large."""
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
        """Write a file whole, making its directory; FileTaken if it is there and `replace` is not given."""
        target = self._at(path)
        make_dir(target.parent, root=self._top_level)
        write_atomic(target, content, exclusive=not replace, root=self._top_level)

    def has_file(self, path: str) -> bool:
        """Tell whether anything but a directory has this name."""
        found = self._lstat(path)
        return found is not None and not stat.S_ISDIR(found.st_mode)

    def has_directory(self, path: str) -> bool:
        """Tell whether this is a directory and not a link to one."""
        found = self._lstat(path)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def filenames(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; empty if there is none."""
        return sorted(names_in(self._at(directory)))

    def stamp(self, path: str) -> Stamp | None:
        """Return what identifies the file's present state; None for what is neither a file nor a link."""
        found = self._lstat(path)
        if found is None or not (
            stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)
        ):
            return None
        is_symlink = stat.S_ISLNK(found.st_mode)
        return Stamp(
            found.st_ino,
            found.st_size,
            found.st_mtime_ns,
            found.st_ctime_ns,
            is_symlink,
        )

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
        while len(content) >= _CHUNK_BYTES and (
            more := os.read(handle, MAX_FILE_BYTES)
        ):
            content += more
            if len(content) > MAX_FILE_BYTES:
                return None
        return content
    except OSError:
        return None
    finally:
        os.close(handle)


def keep(path: Path, content: str | bytes) -> None:
    """Write a private file of ours that can be done without: where that fails, something is looked up again."""
    with suppress(FileError):
        make_dir(path.parent)
        write_atomic(path, content)


def names_in(directory: str | Path) -> list[str]:
    """Return the names in a directory; none if it is a link to one, or something else altogether."""
    try:
        handle = os.open(directory, _DIRECTORY)
    except OSError:
        return []
    try:
        return os.listdir(handle)  # noqa: PTH208  a path cannot be made of a handle
    finally:
        os.close(handle)


def directory_stamp(directory: str) -> Stamp | None:
    """Return what tells a directory from itself with another name in it; None for a link or something else."""
    try:
        found = os.lstat(directory)
    except OSError:
        return None
    is_directory = stat.S_ISDIR(found.st_mode)
    return (
        Stamp(found.st_ino, 0, found.st_mtime_ns, found.st_ctime_ns, False)
        if is_directory
        else None
    )


def files_stamp(directory: str) -> Stamp:
    """Return one stamp for everything in a directory, with the time of its latest change."""
    states, latest = [], 0
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            found = entry.stat(follow_symlinks=False)
            changed = (
                found.st_ctime_ns
            )  # no program can set it, so it tells every change
            states.append(f"{entry.name} {found.st_ino} {changed}")
            latest = max(latest, changed)
    content = "\n".join(sorted(states)).encode("utf-8", "surrogateescape")
    return Stamp(0, crc32(content), 0, latest, False)
