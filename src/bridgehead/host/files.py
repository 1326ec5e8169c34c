"""Files written whole or not at all, and read without surprises.

A reader, or a crash at any moment, sees the old content or the new one. Nothing is read
or written through a symbolic link: never the file itself, and below `root` no directory
on the way either (design §9).
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bridgehead.host.directories import make_private_dir, opened_directory, refuse_nul
from bridgehead.host.file_errors import (
    AnyPath,
    DiskFull,
    FileFailure,
    FileTooLarge,
    IsSymlink,
    NotRegularFile,
    UnusablePath,
    translated,
)

STALE_SECONDS = 3600.0
_TEMPORARY = r"\..+\.\d+\.[0-9a-f]{16}\.tmp(-journal|-wal|-shm)?"
# Non-blocking: a FIFO in the file's place must not hang us.
_SAFE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_swept: set[tuple[int, int]] = set()


def write_atomic(
    path: AnyPath,
    data: bytes | str,
    *,
    private: bool = False,
    exclusive: bool = False,
    root: AnyPath | None = None,
) -> None:
    """Put `data` at `path`, durably and in one step.

    `private` makes the file 0600; otherwise an existing file keeps its permissions.
    `exclusive` refuses to replace a file that is there, also when two writers race.
    """
    content = _as_bytes(path, data)
    with (
        _directory_of(path, root, "written") as (directory, name),
        translated(path, "written"),
    ):
        _sweep_stale(directory)
        permissions = _existing_permissions(path, directory, name)
        temporary = _write_temporary(
            directory, name, content, 0o600 if private else permissions
        )
        try:
            if exclusive:
                os.link(
                    temporary,
                    name,
                    src_dir_fd=directory,
                    dst_dir_fd=directory,
                    follow_symlinks=False,
                )
                os.unlink(temporary, dir_fd=directory)
            else:
                os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            _remove_if_there(directory, temporary)
            raise
        _sync_directory(directory)


def write_private(path: Path, data: bytes | str) -> None:
    """Put `data` at `path` for its owner alone, in a directory for the owner alone,
    which is made if need be.
    """
    make_private_dir(path.parent)
    write_atomic(path, data, private=True)


def read_bounded(
    path: AnyPath, max_bytes: int, *, root: AnyPath | None = None
) -> bytes:
    """Return the content of a regular file of at most `max_bytes`."""
    with opened_regular(path, root=root) as handle, translated(path, "read"):
        size = os.fstat(handle).st_size
        if size > max_bytes:
            raise FileTooLarge(path, "read", f"it is larger than {max_bytes} bytes")
        limit = max_bytes + 1
        # Nearly always all of it, which need not be copied then.
        content = os.read(handle, size + 1)
        while len(content) < limit and (
            chunk := os.read(handle, min(limit - len(content), 1 << 20))
        ):
            content += chunk
    if len(content) > max_bytes:  # it grew while it was read
        raise FileTooLarge(path, "read", f"it is larger than {max_bytes} bytes")
    return content


@contextmanager
def opened_regular(path: AnyPath, *, root: AnyPath | None = None) -> Iterator[int]:
    """Hold a read handle on a regular file, for callers that also judge its owner or
    link count.
    """
    with _directory_of(path, root, "read") as (directory, name):
        with translated(path, "read"):
            _refuse_irregular(
                path, os.stat(name, dir_fd=directory, follow_symlinks=False), "read"
            )
            handle = os.open(name, os.O_RDONLY | _SAFE, dir_fd=directory)
        try:
            _refuse_irregular(path, os.fstat(handle), "read")
            yield handle
        finally:
            os.close(handle)


def append_line(
    path: AnyPath, line: bytes | str, *, root: AnyPath | None = None
) -> None:
    """Add one line in one write, so that lines of several processes never mix.

    A line torn by a crash or a full disk is closed first: it spoils itself, not its
    successor.
    """
    content = _as_bytes(path, line)
    if b"\n" in content:
        raise ValueError("a line cannot contain a line break")
    with (
        _directory_of(path, root, "written") as (directory, name),
        translated(path, "written"),
    ):
        with suppress(FileNotFoundError):
            _refuse_irregular(
                path, os.stat(name, dir_fd=directory, follow_symlinks=False), "written"
            )
        handle = os.open(
            name, os.O_RDWR | os.O_APPEND | os.O_CREAT | _SAFE, 0o666, dir_fd=directory
        )
        try:
            _refuse_irregular(path, os.fstat(handle), "written")
            # Wait for a write in progress: until it ends, its line looks torn. Closing
            # the handle gives the turn back. Without locks a line may be preceded by an
            # empty one, which readers skip.
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            record = (b"\n" if _ends_mid_line(handle) else b"") + content + b"\n"
            if os.write(handle, record) < len(record):
                raise DiskFull(path, "written")
        finally:
            os.close(handle)


def put_in_place(whole: Path, path: Path) -> bool:
    """Give a complete file its name, unless there is one of that name: another process
    may have been faster.
    """
    try:
        os.link(whole, path, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in (
            errno.EPERM,
            errno.ENOTSUP,
            errno.EOPNOTSUPP,
        ) or os.path.lexists(path):
            raise
        whole.rename(path)  # a file system without hard links
    with opened_directory(path.parent) as directory:
        os.fsync(directory)
    return True


@contextmanager
def _directory_of(
    path: AnyPath, root: AnyPath | None, doing: str
) -> Iterator[tuple[int, str]]:
    refuse_nul(path, doing)
    target = path if isinstance(path, Path) else Path(path)
    if target.name in ("", ".."):
        raise UnusablePath(path, doing, "it is not a file name")
    with opened_directory(target.parent, root=root) as directory:
        yield directory, target.name


def _as_bytes(path: AnyPath, data: bytes | str) -> bytes:
    if isinstance(data, bytes):
        return data
    try:
        return data.encode()
    except UnicodeEncodeError as error:
        raise FileFailure(
            path,
            "written",
            "its text cannot be written as UTF-8 (half a surrogate pair)",
        ) from error


def _refuse_irregular(path: AnyPath, found: os.stat_result, doing: str) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise IsSymlink(path, doing)
    if not stat.S_ISREG(found.st_mode):
        raise NotRegularFile(path, doing)


def _existing_permissions(path: AnyPath, directory: int, name: str) -> int | None:
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _refuse_irregular(path, found, "written")
    return found.st_mode & 0o777


def _write_temporary(
    directory: int, name: str, content: bytes, permissions: int | None
) -> str:
    """Write and sync a file beside the target.

    Without `permissions` the umask decides.
    """
    temporary = f".{name[:50]}.{os.getpid()}.{os.urandom(8).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE
    handle = os.open(
        temporary, flags, 0o666 if permissions is None else 0o600, dir_fd=directory
    )
    try:
        if permissions is not None:
            os.fchmod(handle, permissions)
        _write_all(handle, content)
        os.fsync(handle)
    except BaseException:
        _remove_if_there(directory, temporary)
        raise
    finally:
        os.close(handle)
    return temporary


def _write_all(handle: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _sync_directory(directory: int) -> None:
    try:
        os.fsync(directory)
    except OSError as error:
        # Some file systems cannot sync a directory, and say so this way.
        if error.errno != errno.EINVAL:
            raise


def _ends_mid_line(handle: int) -> bool:
    size = os.fstat(handle).st_size
    return size > 0 and os.pread(handle, 1, size - 1) not in (b"\n", b"")


def _sweep_stale(directory: int) -> None:
    """Remove what killed writers left behind.

    Once per directory, because listing a large one costs.
    """
    found = os.fstat(directory)
    if (found.st_dev, found.st_ino) in _swept:
        return
    _swept.add((found.st_dev, found.st_ino))
    oldest = time.time() - STALE_SECONDS
    for name in os.listdir(directory):
        if ".tmp" in name and re.fullmatch(_TEMPORARY, name):
            with suppress(OSError):
                if (
                    os.stat(name, dir_fd=directory, follow_symlinks=False).st_mtime
                    < oldest
                ):
                    os.unlink(name, dir_fd=directory)


def _remove_if_there(directory: int, name: str) -> None:
    with suppress(OSError):
        os.unlink(name, dir_fd=directory)
