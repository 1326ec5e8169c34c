"""Open the directory a flow belongs to (flows §1, §10).

Decide whether it is safe and where output may go, and hold its run lock.
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
"""Held while `flow drive` sees to the run, so that nobody else resumes it."""
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
        """Return the canonical root.

        Raise UnsafeRoot if strangers could interfere with what lies in it.
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
        """Return whose files are believed: ours, root's, and the root directory's
        owner's.
        """
        return frozenset({os.geteuid(), 0, self.path.stat().st_uid})

    def prepare(self) -> None:
        """Make the private corner, and keep it out of version control."""
        project = self.path / PROJECT_DIRECTORY
        make_dir(project, root=self.path)
        with suppress(FileTaken):  # also another part's or the user's own
            write_atomic(
                project / ".gitignore", IGNORE_RULES, exclusive=True, root=self.path
            )
        make_private_dir(self.private, root=self.path)

    def keep_out_of_git(self) -> None:
        """Keep `git clean` and `git add` from the three files.

        They are named in the repository's own list of what to leave alone.
        """
        with suppress(OSError, ValueError):
            git_directory = _git_directory(self.path)
            if git_directory is None or git_directory.stat().st_uid != os.geteuid():
                return
            # Of a linked work tree: the list is with the main one.
            with suppress(FileNotFoundError):
                common = (git_directory / "commondir").read_text().strip()
                git_directory = git_directory / common
            _exclude_checkpoint_files(git_directory)

    def is_held(self, lock: str = RUN_LOCK) -> bool:
        """Return whether a process is at work here, as far as the lock's signature
        says.

        The lock itself is not touched.
        """
        signature = read_holder(self.private / lock) or ""
        signed = re.match(r"pid ([0-9]+) on (\S+) ", f"{signature} ")
        if signed is None:
            return False
        pid, host = signed.groups()
        if host != os.uname().nodename:
            return True  # another machine's process cannot be looked at from here
        return is_alive(int(pid))

    @contextmanager
    def locked(self, name: str = RUN_LOCK) -> Iterator[None]:
        """Hold the root for this process's run.

        Raise LockHeld at once if another process does.
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
    """Raise JournalTracked if git tracks anything below the private corner of flows."""
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
    """Return False if git certainly tracks nothing there, without starting it."""
    try:
        git_directory = _git_directory(root)
        if git_directory is None:
            return False
        return _index_may_name(git_directory / "index", JOURNAL_FOLDER)
    except (OSError, ValueError):
        return True  # whatever is strange about the git directory, git will know


def _git_directory(root: Path) -> Path | None:
    """Return the git directory of the work tree that `root` lies in.

    None outside of any.
    """
    for directory in (root, *root.parents):
        dot_git = directory / ".git"
        if dot_git.is_dir():
            return dot_git
        if dot_git.is_file():
            return directory / dot_git.read_text().partition("gitdir:")[2].strip()
    return None


def _index_may_name(index: Path, folder: str) -> bool:
    """Return whether the index could name a file below `folder`.

    A No is certain and saves starting git. Index versions 2 and 3 spell every path out.
    Version 4 compresses them and a split index keeps them elsewhere.
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
    """Raise UnsafePath unless `output_path` lies where the user allows it.

    That is below the root or another directory the user has named.
    """
    reason = _fault(output_path, root, allowed)
    if reason is not None:
        raise UnsafePath("output_path", output_path, reason)


def refuse_other_project(project_path: str, root: Path) -> None:
    """Raise UnsafePath if a state says it belongs to another directory than its own."""
    if not Path(project_path).is_absolute() or not same_place(project_path, str(root)):
        raise UnsafePath("project_path", project_path, f"it is not {root}")


def same_place(one: str, other: str) -> bool:
    """Return whether two spellings lead to the same place.

    Text that no file can be named by leads nowhere.
    """
    if one == other:
        return True
    if not is_path(one) or not is_path(other):
        return False
    return os.path.realpath(one) == os.path.realpath(other)


def is_path(text: str) -> bool:
    """Return whether a file can have that name.

    The system can spell it, and nothing in it moves a terminal's cursor.
    """
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return not re.search(_CONTROL, text)


def _fault(output_path: str, root: Path, allowed: Iterable[Path]) -> str | None:
    if not is_path(output_path):
        return "it contains control characters"
    if not Path(output_path).is_absolute():
        return "it is not absolute"
    if ".." in output_path.split("/"):
        return "it contains '..'"
    # realpath follows the links of the part that exists and keeps the rest.
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
