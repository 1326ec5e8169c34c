"""Directories reached without being led astray: below a root, no component may be a
symbolic link.

Everything is opened component by component from a directory handle (design §9), so a
link planted between a check and its use changes nothing. Above the root, and without
one, links are the user's own affair and are followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bridgehead.host.file_errors import (
    AnyPath,
    ForeignOwner,
    IsSymlink,
    NotDirectory,
    OutsideRoot,
    UnusablePath,
    translated,
)

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@contextmanager
def opened_directory(path: AnyPath, *, root: AnyPath | None = None) -> Iterator[int]:
    """Hold a handle on the directory `path`, for use as `dir_fd`."""
    handle = _open(path, root, "opened", make_mode=None)
    try:
        yield handle
    finally:
        os.close(handle)


def make_dir(path: AnyPath, *, root: AnyPath | None = None) -> None:
    """Make the directory `path` and those above it that are missing.

    Fine if it is there already.
    """
    os.close(_open(path, root, "made", make_mode=0o777))


def make_private_dir(path: AnyPath, *, root: AnyPath | None = None) -> None:
    """Make `path` a directory only its owner can enter (0700), tightening one that
    exists.
    """
    if root is None:
        _refuse_foreign_link(path)
    handle = _open(path, root, "made", make_mode=0o700)
    try:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid():
            raise ForeignOwner(
                path, "made private", f"it belongs to uid {found.st_uid}"
            )
        if stat.S_IMODE(found.st_mode) & 0o077:
            with translated(path, "made private"):
                os.fchmod(handle, 0o700)
    finally:
        os.close(handle)


def refuse_nul(path: AnyPath, doing: str) -> None:
    """Refuse the one character the system calls take as an end, before Python raises a
    ValueError over it.
    """
    if "\0" in os.fspath(path):
        raise UnusablePath(
            os.fspath(path).replace("\0", "\\0"),
            doing,
            "its name contains a NUL character",
        )


def _open(
    path: AnyPath, root: AnyPath | None, doing: str, *, make_mode: int | None
) -> int:
    refuse_nul(path, doing)
    if root is None:
        if make_mode is not None:
            _make_missing(Path(path), doing, make_mode)
        with translated(path, doing):
            return os.open(path, _OPEN)
    parts = _parts_below(root, path, doing)
    with translated(root, "opened"):
        handle = os.open(root, _OPEN)
    walked = os.fspath(root)
    for part in parts:
        walked = f"{walked}/{part}"
        handle = _step(handle, part, walked, doing, make_mode)
    return handle


def _parts_below(root: AnyPath, path: AnyPath, doing: str) -> tuple[str, ...]:
    """Split what leads from `root` to `path`, refusing a path that leaves it."""
    try:
        parts = (path if isinstance(path, Path) else Path(path)).relative_to(root).parts
    except ValueError:
        raise OutsideRoot(path, doing, f"it is outside {os.fspath(root)}") from None
    if ".." in parts:
        raise OutsideRoot(path, doing, "its path contains '..'")
    return parts


def _step(
    parent: int, part: str, walked: str, doing: str, make_mode: int | None
) -> int:
    """Exchange the handle on a directory for one on its entry `part`."""
    try:
        with translated(walked, doing):
            if make_mode is not None:
                with suppress(FileExistsError):
                    os.mkdir(part, make_mode, dir_fd=parent)
            return os.open(part, _OPEN | os.O_NOFOLLOW, dir_fd=parent)
    except NotDirectory:
        # Linux answers ENOTDIR for a link too when both flags are given.
        if stat.S_ISLNK(os.stat(part, dir_fd=parent, follow_symlinks=False).st_mode):
            raise IsSymlink(walked, doing) from None
        raise
    finally:
        os.close(parent)


def _make_missing(path: Path, doing: str, mode: int) -> None:
    with translated(path, doing):
        missing = [
            directory for directory in (path, *path.parents) if not directory.exists()
        ]
        for directory in reversed(missing):
            with suppress(FileExistsError):
                directory.mkdir(mode)


def _refuse_foreign_link(path: AnyPath) -> None:
    """In a shared directory such as /tmp somebody else may have planted a link under
    our name.
    """
    refuse_nul(path, "made private")
    with suppress(OSError):
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode) and found.st_uid != os.geteuid():
            raise IsSymlink(path, "made private")
