"""Open the directory a flow belongs to: check it, lock it (flows §1, §10).

Also decides where a flow may put its output.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from bridgehead.errors import LockTimeout
from bridgehead.flows.errors import (
    JournalTracked,
    LockHeld,
    UnsafePath,
    UnsafeRoot,
    log_warning,
)
from bridgehead.flows.words import CHECKPOINT_FILES
from bridgehead.host.directories import make_dir, make_private_dir
from bridgehead.host.file_errors import FileTaken
from bridgehead.host.files import write_atomic
from bridgehead.host.locks import FileLock, LockReentered, is_alive, read_holder

PROJECT_DIRECTORY: Final = ".bridgehead"
IGNORE_RULES: Final = "*\n!dismissals.toml\n"
JOURNAL_FOLDER: Final = ".bridgehead/flows"
RUN_LOCK: Final = "lock"
DRIVER_LOCK: Final = "driver"
"""Held while `flow drive` drives the run, so that no watcher resumes it."""
_PRIVATE: Final = frozenset({".git", PROJECT_DIRECTORY})
_CONTROL: Final = r"[\x00-\x1f\x7f-\x9f]"
_GIT_SECONDS: Final = 20.0


class FlowRoot:
    """A directory flows may run in."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.private = path / PROJECT_DIRECTORY / "flows"
        self.journal = self.private / "journal.db"
        self.rejected = self.private / "rejected"
        self.inbox = self.private / "inbox"
        self.post_mortem = self.private / "post-mortem"

    @classmethod
    def open(cls, path: Path) -> FlowRoot:
        """Return the root at `path`, resolved.

        Raise UnsafeRoot if other users could interfere with its files.
        """
        canonical = Path(os.path.realpath(path))
        try:
            found = canonical.stat()
        except OSError as error:
            raise UnsafeRoot(path, error.strerror or str(error)) from error
        if not stat.S_ISDIR(found.st_mode):
            raise UnsafeRoot(path, "it is not a directory")
        if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            raise UnsafeRoot(
                path,
                "everyone can write to it and delete files of others (chmod o-w fixes "
                "it)",
            )
        if found.st_mode & stat.S_IWGRP:
            log_warning(
                f"{canonical} is writable for its group: members can answer and "
                "change requests"
            )
        refuse_tracked(canonical)
        return cls(canonical)

    @property
    def allowed_owners(self) -> frozenset[int]:
        """Return whose files are trusted: ours, root's, and the directory owner's."""
        return frozenset({os.geteuid(), 0, self.path.stat().st_uid})

    def prepare(self) -> None:
        """Create the private folder, and keep it out of version control."""
        project = self.path / PROJECT_DIRECTORY
        make_dir(project, root=self.path)
        with suppress(FileTaken):  # another part or the user made one
            write_atomic(
                project / ".gitignore", IGNORE_RULES, exclusive=True, root=self.path
            )
        make_private_dir(self.private, root=self.path)

    def keep_out_of_git(self) -> None:
        """Keep `git clean` and `git add` away from the three files.

        They are added to the info/exclude file of the repository.
        """
        with suppress(OSError, ValueError):
            git_directory = _git_directory(self.path)
            if git_directory is None or git_directory.stat().st_uid != os.geteuid():
                return
            # A linked work tree uses the list of the main one.
            with suppress(FileNotFoundError):
                common = (git_directory / "commondir").read_text().strip()
                git_directory = git_directory / common
            _exclude_checkpoint_files(git_directory)

    def is_held(self, lock: str = RUN_LOCK) -> bool:
        """Return whether a live process holds the lock, according to its signature.

        The lock itself is not touched.
        """
        signature = read_holder(self.private / lock) or ""
        signed = re.match(r"pid ([0-9]+) on (\S+) ", f"{signature} ")
        if signed is None:
            return False
        pid, host = signed.groups()
        if host != os.uname().nodename:
            return True  # we cannot see processes of another machine
        return is_alive(int(pid))

    @contextmanager
    def locked(self, name: str = RUN_LOCK) -> Iterator[None]:
        """Hold a lock of the root.

        Raise LockHeld at once if another process holds it.
        """
        lock = FileLock(self.private / name, timeout_seconds=0)
        try:
            lock.acquire()
        except (LockTimeout, LockReentered) as error:
            raise LockHeld(self.path, read_holder(lock.path)) from error
        try:
            yield
        finally:
            lock.release()


def _exclude_checkpoint_files(git_directory: Path) -> None:
    (git_directory / "info").mkdir(exist_ok=True)
    path = git_directory / "info" / "exclude"
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o644), "r+") as exclude:
        text = exclude.read()
        listed = text.splitlines()
        missing = [name for name in CHECKPOINT_FILES if name not in listed]
        if not missing:
            return
        if text and not text.endswith("\n"):
            exclude.write("\n")
        exclude.write("# a paused flow's files\n" + "\n".join(missing) + "\n")


def refuse_tracked(root: Path) -> None:
    """Raise JournalTracked if git tracks anything in the private folder of flows."""
    if not os.path.lexists(root / JOURNAL_FOLDER) or not _git_may_track(root):
        return
    from bridgehead.host.command import Command
    from bridgehead.host.process import run

    options = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
    command = Command(
        ("git", *options, "-C", str(root), "ls-files", "-z", "--", JOURNAL_FOLDER)
    )
    listed = run(command, timeout_seconds=_GIT_SECONDS, idle_seconds=None)
    tracked = [name for name in listed.text().split("\0") if name]
    if tracked:
        raise JournalTracked(tracked[0])


def _git_may_track(root: Path) -> bool:
    """Return False if it is certain, without starting git, that it tracks nothing."""
    try:
        git_directory = _git_directory(root)
        if git_directory is None:
            return False
        return _index_may_name(git_directory / "index", JOURNAL_FOLDER)
    except (OSError, ValueError):
        return True  # let git deal with whatever is odd about its directory


def _git_directory(root: Path) -> Path | None:
    """Return the git directory of the work tree around `root`, if there is one."""
    for directory in (root, *root.parents):
        dot_git = directory / ".git"
        if dot_git.is_dir():
            return dot_git
        if dot_git.is_file():
            return directory / dot_git.read_text().partition("gitdir:")[2].strip()
    return None


def _index_may_name(index: Path, folder: str) -> bool:
    """Return whether the index could name a file below `folder`.

    False is certain, and saves starting git. Versions 2 and 3 of the index contain
    every path as plain text; version 4 compresses them, and a split index keeps them
    in another file.
    """
    try:
        data = index.read_bytes()
    except FileNotFoundError:
        return False
    is_index = data[:4] == b"DIRC"
    spells_paths = data[4:8] in (b"\0\0\0\2", b"\0\0\0\3")
    is_split = b"link" in data
    if not is_index or not spells_paths or is_split:
        return True
    return folder.encode() in data


def refuse_unsafe_output(output_path: str, root: Path, allowed: Iterable[Path]) -> None:
    """Raise UnsafePath unless the path is below the root or an allowed directory."""
    reason = _fault(output_path, root, allowed)
    if reason is not None:
        raise UnsafePath("output_path", output_path, reason)


def refuse_other_project(project_path: str, root: Path) -> None:
    """Raise UnsafePath if a state file belongs to a project other than `root`."""
    if not Path(project_path).is_absolute() or not same_place(project_path, str(root)):
        raise UnsafePath("project_path", project_path, f"it is not {root}")


def same_place(first: str, second: str) -> bool:
    """Return whether two paths lead to the same file or directory.

    Text that cannot be a path is equal only to itself.
    """
    if first == second:
        return True
    if not is_path(first) or not is_path(second):
        return False
    return os.path.realpath(first) == os.path.realpath(second)


def is_path(text: str) -> bool:
    """Return whether a path can be encoded and has no control characters."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return not re.search(_CONTROL, text)


def _fault(output_path: str, root: Path, allowed: Iterable[Path]) -> str | None:
    """Return why an output path is not safe; None if it is."""
    if not is_path(output_path):
        return "it contains control characters"
    if not Path(output_path).is_absolute():
        return "it is not absolute"
    if ".." in output_path.split("/"):
        return "it contains '..'"
    # realpath resolves the part of the path that exists and keeps the rest.
    resolved = Path(os.path.realpath(output_path))
    if resolved == root:
        return "it is the project itself"
    is_inside = resolved.is_relative_to(root)
    if is_inside and not _PRIVATE.isdisjoint(resolved.relative_to(root).parts):
        return "it is inside a directory of git or bridgehead"
    if not any(
        resolved.is_relative_to(os.path.realpath(directory))
        for directory in (root, *allowed)
    ):
        return (
            f"it is neither below {root} nor in a directory named on the command line"
        )
    return None
