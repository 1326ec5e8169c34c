"""Why a file could not be read or written, one class per reason, and the table that
finds it from errno.

FileError
  FileMissing  FileTaken  IsSymlink  NotRegularFile  NotDirectory  FileTooLarge
  DiskFull  ReadOnlyFileSystem  AccessDenied  ForeignOwner  OutsideRoot  UnusablePath
  FileFailure   anything else, in the system's own words
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath

from bridgehead.errors import FileError

AnyPath = str | PathLike[str]


class Refusal(FileError):
    """A file was left as it was.

    `reason` completes the sentence "PATH was not read: ...".
    """

    reason = "it cannot be used"
    advice: str | None = None

    def __init__(self, path: AnyPath, doing: str, detail: str | None = None) -> None:
        super().__init__(
            f"{fspath(path)} was not {doing}: {detail or self.reason}", hint=self.advice
        )
        self.path = fspath(path)


class FileMissing(Refusal):
    reason = "it does not exist"


class FileTaken(Refusal):
    reason = "it already exists"


class IsSymlink(Refusal):
    reason = "it is a symbolic link, and those are not followed here"
    advice = "put a real file or directory in its place"


class NotRegularFile(Refusal):
    reason = "it is not a regular file"


class NotDirectory(Refusal):
    reason = "it is not a directory"


class FileTooLarge(Refusal):
    reason = "it is too large"


class DiskFull(Refusal):
    reason = "the disk, a quota or the file size limit is exhausted"
    advice = "free some space and repeat the command"


class ReadOnlyFileSystem(Refusal):
    reason = "the file system is read-only"


class AccessDenied(Refusal):
    reason = "permission denied"


class ForeignOwner(Refusal):
    reason = "it belongs to another user"


class OutsideRoot(Refusal):
    reason = "it is outside the directory it must be in"


class UnusablePath(Refusal):
    reason = "its name cannot be used as a path"


class FileFailure(Refusal):
    """The system's own words, for what has no class of its own."""


# The others are mended by another path, or by something else at this one.
SYSTEM_REFUSALS = (
    DiskFull,
    ReadOnlyFileSystem,
    AccessDenied,
    ForeignOwner,
    FileFailure,
)

_BY_ERRNO: dict[int, type[Refusal]] = {
    errno.ENOENT: FileMissing,
    errno.EEXIST: FileTaken,
    errno.ELOOP: IsSymlink,
    errno.EISDIR: NotRegularFile,
    errno.ENXIO: NotRegularFile,  # a socket, or a FIFO nobody reads
    errno.ENOTDIR: NotDirectory,
    errno.EFBIG: DiskFull,
    errno.ENOSPC: DiskFull,
    errno.EDQUOT: DiskFull,
    errno.EROFS: ReadOnlyFileSystem,
    errno.EACCES: AccessDenied,
    errno.EPERM: AccessDenied,
    errno.ENAMETOOLONG: UnusablePath,
}


@contextmanager
def translated(path: AnyPath, doing: str) -> Iterator[None]:
    """Turn what the system raises about `path` into the sentence for it.

    `doing` is "read", "written", ...
    """
    try:
        yield
    except OSError as error:
        kind = _BY_ERRNO.get(error.errno or 0)
        if kind is None:
            raise FileFailure(path, doing, error.strerror or str(error)) from error
        is_elsewhere = kind is FileMissing and doing == "written"
        raise kind(
            path, doing, "its directory does not exist" if is_elsewhere else None
        ) from error
