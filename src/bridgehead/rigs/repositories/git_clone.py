"""One clone as the other git modules see it: its git, its places, its settings, its lock."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from bridgehead.errors import LockTimeout
from bridgehead.host.clock import Clock, SystemClock
from bridgehead.host.directories import make_dir
from bridgehead.host.file_errors import translated
from bridgehead.host.locks import FileLock, read_holder
from bridgehead.rigs.repositories.git_command import Git, GitAnswer
from bridgehead.rigs.repositories.git_location import Location, locate
from bridgehead.rigs.repositories.git_settings import GitSettings

if TYPE_CHECKING:
    import hashlib

LOCK_TIMEOUT_SECONDS = 30.0
_INDEX_BUSY = "index.lock"
_INDEX_PATIENCE_SECONDS = 3.0
_POLL_SECONDS = 0.02
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Clone:
    """Where things are and how to reach them; nothing here knows about envelopes."""

    def __init__(
        self, directory: str | Path, environment: Mapping[str, str] | None = None, clock: Clock | None = None
    ) -> None:
        self.git = Git(str(directory), environment)
        self.location: Location = locate(self.git)
        self.git.directory = str(self.location.top_level)
        self.settings = GitSettings.read(self.git)
        self.git.off = self.settings.switched_off_drivers()
        self.clock = clock or SystemClock()
        self._pin_inherited_paths()

    def _pin_inherited_paths(self) -> None:
        """Inside a hook git hands down relative paths, which stop being true when we change directory."""
        if "GIT_DIR" in self.git.environment:
            self.git.environment["GIT_DIR"] = str(self.location.git_dir)
            self.git.environment["GIT_WORK_TREE"] = str(self.location.top_level)
        if "GIT_INDEX_FILE" in self.git.environment:
            self.git.environment["GIT_INDEX_FILE"] = str(self.location.index_file)

    @property
    def null_id(self) -> str:
        """What git calls the object that is not there."""
        return "0" * (64 if self.location.object_format == "sha256" else 40)

    def blob_id(self, content: bytes) -> str:
        """Return the id git gives this content."""
        return self._hash(b"blob %d\0" % len(content) + content).hexdigest()

    @cached_property
    def _hash(self) -> Callable[[bytes], hashlib._Hash]:
        import hashlib

        return hashlib.sha256 if self.location.object_format == "sha256" else hashlib.sha1

    def write_index(self, *arguments: str) -> GitAnswer:
        """Change the user's index, waiting a little if another git has it open."""
        deadline = self.clock.monotonic() + _INDEX_PATIENCE_SECONDS
        while True:
            answer = self.git.ask(*arguments, shielded=True)
            if answer.code == 0 or _INDEX_BUSY not in answer.says or self.clock.monotonic() > deadline:
                return answer
            self.clock.sleep(_POLL_SECONDS)

    @contextmanager
    def lock(self, timeout_seconds: float = LOCK_TIMEOUT_SECONDS) -> Iterator[None]:
        """Keep other commands out, also while a git process of a killed one is still at work.

        Waits for as long as others come and go; one that holds on for `timeout_seconds` is taken to be stuck.
        """
        path = self.location.lock_file
        make_dir(path.parent)
        with ExitStack() as held:
            held.callback(self._take_turn(FileLock(path, timeout_seconds, clock=self.clock)).release)
            with translated(path, "locked"):
                handle = os.open(path.with_name("children"), _LOCK_FLAGS, 0o600)
            held.callback(os.close, handle)
            self._await_orphans(handle, timeout_seconds)
            self.git.guard = handle
            held.callback(setattr, self.git, "guard", None)
            yield

    def _take_turn(self, lock: FileLock) -> FileLock:
        """Wait for as long as the holder changes."""
        holder = read_holder(lock.path)
        while True:
            try:
                lock.acquire()
            except LockTimeout:
                before, holder = holder, read_holder(lock.path)
                if holder is None or holder == before:
                    raise
            else:
                return lock

    def _await_orphans(self, handle: int, timeout_seconds: float) -> None:
        """A shielded call inherits this lock, so it is held for as long as that call runs, whoever started it."""
        deadline = self.clock.monotonic() + timeout_seconds
        while True:
            try:
                return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if self.clock.monotonic() > deadline:
                    raise LockTimeout(str(self.location.lock_file), timeout_seconds) from None
                self.clock.sleep(_POLL_SECONDS)
