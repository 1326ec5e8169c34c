"""The directory a flow belongs to: its safety, its private corner, and the lock on it (flows §1, §10).

Every path is built from the canonical root, never from the process's current directory.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bridgehead.errors import LockTimeout
from bridgehead.flows.errors import LockHeld, UnsafeRoot
from bridgehead.flows.log import log_warning
from bridgehead.flows.tracked import refuse_tracked
from bridgehead.host.file_errors import FileTaken
from bridgehead.host.files import make_dir, make_private_dir, write_atomic
from bridgehead.host.locks import FileLock, LockReentered, read_holder

PROJECT_DIRECTORY: Final = ".bridgehead"
IGNORE_RULES: Final = "*\n!dismissals.toml\n"


class FlowRoot:
    """A directory flows may run in."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(cls, path: Path) -> FlowRoot:
        """The canonical root, or UnsafeRoot when strangers could interfere with what lies in it."""
        canonical = Path(os.path.realpath(path))
        try:
            found = canonical.stat()
        except OSError as error:
            raise UnsafeRoot(path, error.strerror or str(error)) from error
        if not stat.S_ISDIR(found.st_mode):
            raise UnsafeRoot(path, "it is not a directory")
        if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            raise UnsafeRoot(path, "everybody may write to it and remove others' files (chmod o-w it)")
        if found.st_mode & stat.S_IWGRP:
            log_warning(f"{canonical} is writable for its group: members can answer and change requests")
        refuse_tracked(canonical)
        return cls(canonical)

    @property
    def private(self) -> Path:
        return self.path / PROJECT_DIRECTORY / "flows"

    @property
    def journal(self) -> Path:
        return self.private / "journal.db"

    @property
    def rejected(self) -> Path:
        return self.private / "rejected"

    @property
    def inbox(self) -> Path:
        return self.private / "inbox"

    @property
    def post_mortem(self) -> Path:
        return self.private / "post-mortem"

    @property
    def allowed_owners(self) -> frozenset[int]:
        """Whose files are believed: ours, root's, and those of the owner of the root directory."""
        return frozenset({os.geteuid(), 0, self.path.stat().st_uid})

    def prepare(self) -> None:
        """Make the private corner, and keep it out of version control."""
        project = self.path / PROJECT_DIRECTORY
        make_dir(project, root=self.path)
        try:
            write_atomic(project / ".gitignore", IGNORE_RULES, exclusive=True, root=self.path)
        except FileTaken:
            pass  # also another part's or the user's own
        make_private_dir(self.private, root=self.path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the root for this process's run; LockHeld at once when another process does."""
        lock = FileLock(self.private / "lock", timeout_seconds=0)
        try:
            lock.acquire()
        except (LockTimeout, LockReentered) as error:
            raise LockHeld(self.path, read_holder(lock.path)) from error
        try:
            yield
        finally:
            lock.release()
