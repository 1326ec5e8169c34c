"""Give the other git modules one clone: its git, places, settings and lock."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bridgehead.errors import FileError, LockTimeout, UserError
from bridgehead.host.clock import Clock, SystemClock
from bridgehead.host.directories import make_dir
from bridgehead.host.file_errors import translated
from bridgehead.host.files import read_bounded
from bridgehead.host.locks import FileLock, locked_at_once, read_holder
from bridgehead.rigs.repositories.errors import GitFailed, cause_of
from bridgehead.rigs.repositories.git.command import (
    NOTHING,
    Git,
    GitAnswer,
    require_success,
)
from bridgehead.rigs.repositories.records import MAX_FILE_BYTES

if TYPE_CHECKING:
    import hashlib

_QUESTIONS = [
    "--show-object-format",
    "--path-format=absolute",
    "--show-toplevel",
    "--git-dir",
    "--git-common-dir",
    "--git-path",
    "index",
    "--git-path",
    "hooks",
]
_REMOTE = re.compile(r"remote\..+\.url", re.DOTALL)
_TRUE = frozenset({"true", "yes", "on", "1"})
LOCK_TIMEOUT_SECONDS = 30.0
_INDEX_BUSY = "index.lock"
_INDEX_PATIENCE_SECONDS = 3.0
_POLL_SECONDS = 0.02
_BOUNDARIES = ("shallow", "info/grafts")
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Clone:
    """Where things are and how to reach them; nothing here knows about envelopes."""

    def __init__(
        self,
        directory: str | Path,
        environment: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.git = Git(str(directory), environment)
        self.location: Location = locate(self.git)
        self.git.directory = str(self.location.top_level)
        self._pin_inherited_paths()
        self.reload_settings()
        self.clock = clock or SystemClock()

    def reload_settings(self) -> None:
        """Ask git again what is configured."""
        self.settings = GitSettings.read(self.git)
        self.git.extra_options = self.settings.switched_off_drivers()

    def _pin_inherited_paths(self) -> None:
        """Make absolute the paths that git hands to a hook: we change directory."""
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

    def blob_on_disk(self, path: str) -> str | None:
        """Return the id of a file of the work tree; None if it cannot be read."""
        content = self._on_disk(path)
        return None if content is None else self.blob_id(content)

    def has_beginning_of(self, blob: str, path: str) -> bool:
        """Return whether a file holds a blob, or what a killed git wrote of it."""
        content = self._on_disk(path)
        if content is None:
            return False
        return self.git.read("cat-file", "blob", blob).stdout.startswith(content)

    def _on_disk(self, path: str) -> bytes | None:
        try:
            return read_bounded(
                self.location.top_level / path,
                MAX_FILE_BYTES,
                root=self.location.top_level,
            )
        except FileError:
            return None

    def history_boundary(self) -> str:
        """Return what git was told about where history ends, usually nothing."""
        texts: list[str] = []
        for name in _BOUNDARIES:
            with suppress(FileError):
                content = read_bounded(self.location.common_dir / name, MAX_FILE_BYTES)
                texts.append(f"{name}\n{os.fsdecode(content)}")
        return "\n".join(texts)

    @cached_property
    def _hash(self) -> "Callable[[bytes], hashlib._Hash]":
        import hashlib

        return (
            hashlib.sha256 if self.location.object_format == "sha256" else hashlib.sha1
        )

    def write_index(self, *arguments: str) -> GitAnswer:
        """Change the user's index, waiting a little if another git has it open."""
        deadline = self.clock.monotonic() + _INDEX_PATIENCE_SECONDS
        while True:
            answer = self.git.ask(*arguments, shielded=True)
            is_busy = answer.code != 0 and _INDEX_BUSY in answer.stderr
            if not is_busy or self.clock.monotonic() > deadline:
                return answer
            self.clock.sleep(_POLL_SECONDS)

    @contextmanager
    def lock(self, timeout_seconds: float = LOCK_TIMEOUT_SECONDS) -> Iterator[None]:
        """Keep other commands out, and git processes that outlived theirs.

        Wait for as long as others come and go; a command that holds the lock
        for `timeout_seconds` is taken to be stuck.
        """
        path = self.location.lock_file
        make_dir(path.parent)
        with ExitStack() as stack:
            lock = self._take_turn(FileLock(path, timeout_seconds, clock=self.clock))
            stack.callback(lock.release)
            with translated(path, "locked"):
                handle = os.open(path.with_name("children"), _LOCK_FLAGS, 0o600)
            stack.callback(os.close, handle)
            self._await_orphans(handle, timeout_seconds)
            self.git.inherited_lock = handle
            stack.callback(setattr, self.git, "inherited_lock", None)
            yield

    def _take_turn(self, lock: FileLock) -> FileLock:
        """Wait for as long as the holder changes."""
        holder = read_holder(lock.path)
        while True:
            try:
                lock.acquire()
            except LockTimeout:
                before = holder
                holder = read_holder(lock.path)
                if holder is None or holder == before:
                    raise
            else:
                return lock

    def _await_orphans(self, handle: int, timeout_seconds: float) -> None:
        """Wait for the git processes of commands that were killed.

        A shielded call inherits this lock, and holds it for as long as it runs.
        """
        deadline = self.clock.monotonic() + timeout_seconds
        while not locked_at_once(handle):
            if self.clock.monotonic() > deadline:
                raise LockTimeout(str(self.location.lock_file), timeout_seconds)
            self.clock.sleep(_POLL_SECONDS)


class Location(NamedTuple):
    """Absolute paths of one work tree."""

    object_format: str  # sha1 or sha256
    top_level: Path
    git_dir: Path
    common_dir: Path  # the same as git_dir, except in a linked worktree
    index_file: Path
    hooks_dir: Path  # follows core.hooksPath

    @property
    def private_dir(self) -> Path:
        """Where our own files of this work tree live; git never looks there."""
        return self.git_dir / "bridgehead"

    @property
    def posting_journal(self) -> Path:
        """Names the envelope that is being committed; see commit_journal.py."""
        return self.private_dir / "posting.json"

    @property
    def rebuild_journal(self) -> Path:
        """Names the commits that are being replaced; see rebase.py."""
        return self.private_dir / "rebuild.json"

    @property
    def rebuild_index(self) -> Path:
        """The index in which those commits are composed anew."""
        return self.private_dir / "rebuild.index"

    @property
    def lock_file(self) -> Path:
        """One lock for all work trees: they share branches and remotes."""
        return self.common_dir / "bridgehead" / "lock"


def locate(git: Git) -> Location:
    """Find the work tree around git's directory, or raise UserError."""
    answer = git.ask("rev-parse", *_QUESTIONS, hooks_path_shown=True)
    if answer.code != 0:
        cause = cause_of(answer.stderr)
        advice = cause
        if not cause or cause.startswith("not a git repository"):
            advice = "git init, or change to a directory of the repository"
        raise UserError(
            f"cwd is not inside a git repo (cwd={git.directory})", hint=advice
        )
    lines = answer.text.removesuffix("\n").split("\n")
    if len(lines) != len(Location._fields):
        raise GitFailed("a repository whose path contains a line break cannot be used")
    object_format, *paths = lines
    return Location(object_format, *map(Path, paths))


class GitSettings:
    """The effective configuration.

    Keys are spelled `section.name` in lower case, or `section.Sub.name`.
    """

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values

    @classmethod
    def read(cls, git: Git) -> "GitSettings":
        """Ask git; later files override earlier ones, as they do for git itself."""
        values = {}
        answer = require_success(
            "config", git.ask("config", "--list", "-z", hooks_path_shown=True)
        )
        for entry in answer.fields:
            key, separator, value = entry.partition("\n")
            values[key] = value if separator else "true"
        # Git takes it for no repository.
        if not values.keys() & {
            "core.bare",
            "core.repositoryformatversion",
        }:
            raise GitFailed(
                "git config did not read the settings of the repository at "
                f"{git.directory}"
            )
        return cls(values)

    def get(self, key: str) -> str | None:
        """Return the value, None where it is unset or empty."""
        return self._values.get(key) or None

    def flag(self, key: str) -> bool:
        """Return a yes/no value, False where it is unset."""
        return self._values.get(key, "").strip().lower() in _TRUE

    def path(self, key: str) -> Path | None:
        """Return a path with `~` expanded."""
        value = self.get(key)
        return Path(value).expanduser() if value else None

    def remotes(self) -> set[str]:
        """Return the names of the remotes that have an address."""
        return {
            key[len("remote.") : -len(".url")]
            for key in self._values
            if _REMOTE.fullmatch(key)
        }

    def switched_off_drivers(self) -> tuple[str, ...]:
        """Return the options that empty every configured filter (see command.py)."""
        drivers = {
            key[: key.rindex(".")]
            for key in self._values
            if key.startswith("filter.") and key.count(".") > 1
        }
        parts = ("clean", "smudge", "process", "required")
        names = product(sorted(drivers), parts)
        return tuple(
            f"--config-env={driver}.{part}={NOTHING}" for driver, part in names
        )
