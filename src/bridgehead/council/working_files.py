"""Files of the working tree: listed without git, read without following links."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bridgehead.council.scope import Sieve
from bridgehead.council.withheld import LARGEST_FILE_BYTES, OWN_FOLDERS, Reason
from bridgehead.errors import FileError
from bridgehead.host.files import read_bounded

# What a project without git is known to hold and nobody wants reviewed.
_NOT_SOURCE: Final = frozenset(
    {"node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache", ".hg", ".svn"}
)


def take_from_disk(sieve: Sieve, root: Path, path: str) -> None:
    """Put one file through the sieve; a deleted one is nothing to show."""
    try:
        found = (root / path).lstat()
    except OSError:
        return
    if stat.S_ISLNK(found.st_mode):
        sieve.leave_out(path, Reason.SYMLINK)
    elif stat.S_ISDIR(found.st_mode):
        sieve.leave_out(path, Reason.SUBMODULE)
    elif found.st_size > LARGEST_FILE_BYTES:
        sieve.leave_out(path, Reason.TOO_LARGE, f"{found.st_size} bytes")
    else:
        sieve.take(path, read_working(root, path))


def read_working(root: Path, path: str) -> bytes | None:
    """The content of a regular file below `root`, or None."""
    try:
        return read_bounded(root / path, LARGEST_FILE_BYTES, root=root)
    except (FileError, OSError):
        return None


def walk(root: Path, start: str) -> Iterator[str]:
    """Files below a path of a project without git."""
    if (root / start).is_file():
        yield start
        return
    for folder, folders, names in os.walk(root / start):
        folders[:] = sorted(name for name in folders if name not in _NOT_SOURCE | OWN_FOLDERS)
        for name in names:
            yield (Path(folder) / name).relative_to(root).as_posix()
