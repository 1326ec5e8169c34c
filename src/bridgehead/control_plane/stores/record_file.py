"""The file a SQLite record lives in: private, regular, and never opened behind SQLite's back.

Closing any handle on a file drops every POSIX lock this process holds on it, SQLite's too. So a file that exists is
looked at by name only, and a handle is opened solely to create one, with everyone else in this process kept out.
"""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

from bridgehead.control_plane.stores.failures import NotARecord, RecordUnplaceable
from bridgehead.errors import FileError
from bridgehead.host.directories import make_private_dir

_creating = threading.Lock()


def make_record_file(path: Path) -> None:
    """Make sure that a regular file is at `path`: an empty one (0600) if there was none."""
    with _creating:
        if not is_record_file(path):
            _create(path)


def is_record_file(path: Path) -> bool:
    """Whether there is something at `path`; raises if it is anything but a regular file."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    except OSError as error:
        raise RecordUnplaceable(str(path), error.strerror or str(error)) from error
    if stat.S_ISLNK(mode):
        raise NotARecord(str(path), "it is a symbolic link, and those are not followed")
    if not stat.S_ISREG(mode):
        raise NotARecord(str(path), "it is a directory" if stat.S_ISDIR(mode) else "it is not a regular file")
    return True


def _create(path: Path) -> None:
    try:
        if not path.parent.exists():
            make_private_dir(path.parent)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        is_record_file(path)  # another process was faster
    except FileError as error:
        raise RecordUnplaceable(str(path), error.message) from error
    except OSError as error:
        raise RecordUnplaceable(str(path), error.strerror or str(error)) from error
