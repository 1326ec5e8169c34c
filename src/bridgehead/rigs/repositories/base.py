"""What every bridge repository can do. Operations know this interface only; the room git implements it.

Expected outcomes (a lost race, a file in the way, a thread somebody froze) are values; errors.py lists what raises.
Whatever changes something is done between `with repository.lock():`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Protocol

from bridgehead.rigs.repositories.records import (
    CommitRecord,
    DirtyFile,
    FreezeNote,
    Head,
    History,
    Identity,
    Incoming,
    InTheWay,
    Pushed,
    Raced,
    Rebuilt,
    Recovered,
    SignatureCheck,
    Stamp,
    TrackedFile,
    Wire,
)

MAX_FILE_BYTES = 50 * 1024 * 1024


class Survey(ABC):
    """The work tree at one moment, as far as listing envelopes needs it. Asking twice costs nothing more."""

    head: str | None
    branch: str | None
    ahead: int
    dirty: tuple[DirtyFile, ...]

    @property
    @abstractmethod
    def index_text(self) -> str:
        """Equal texts: the index holds the same files."""

    @abstractmethod
    def still_stands(self) -> bool:
        """Tell whether everything asked for so far was seen of one state of the index."""

    @abstractmethod
    def trees(self) -> Mapping[str, str]:
        """Return the directories that HEAD has at its top, with what changes when anything in them is different."""

    @abstractmethod
    def tracked(self) -> Mapping[str, TrackedFile]:
        """Return what the index holds, by path, `.md` files only."""

    @abstractmethod
    def tracked_paths(self) -> set[str]:
        """Return every path the index holds."""

    @abstractmethod
    def directories(self) -> Sequence[str]:
        """Return the names of everything looked at that could be the directory of a thread, and may be a file."""

    @abstractmethod
    def names_in(self, thread: str) -> Sequence[str]:
        """Return the names in a directory, tracked or not; none if it is none."""

    @abstractmethod
    def stamp_of(self, thread: str) -> Stamp | None:
        """Return what changes when a name in a directory comes or goes, as of now; None for what is no directory."""

    def names(self) -> Mapping[str, Sequence[str]]:
        """Return the names in every directory that could be a thread, tracked or not."""
        return {thread: names for thread in self.directories() if (names := self.names_in(thread))}


class Posting(ABC):
    """One envelope on its way into one commit. Leaving the `with` block before `land` succeeded takes it back."""

    path: str
    commit: str | None = None
    warnings: list[str]  # what the operator should hear: a hook that was not run, or what it printed

    @abstractmethod
    def land(self, subject: str, *, identity: Identity | None = None, must_sign: bool = False) -> str:
        """Commit the envelope and nothing else, and return the commit.

        `identity` replaces the clone's own; `must_sign` makes a signature a condition (rigs §10), otherwise
        `commit.gpgsign` decides. A refusal raises CommitFailed or SigningFailed.
        """

    @abstractmethod
    def undo(self) -> None:
        """Remove the file and unstage it, or bring back the draft it replaced. After `land` it does nothing."""

    def __enter__(self) -> Posting:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.commit is None:
            self.undo()


class Files(Protocol):
    """The work tree, by repository-relative path. Symbolic links are never followed."""

    def read_file(self, path: str, max_bytes: int = MAX_FILE_BYTES) -> bytes:
        """Return the content of a regular file, or raise a FileError (FileMissing, IsSymlink, ...)."""
        ...

    def read_files(self, directory: str, names: Sequence[str]) -> Iterator[bytes | None]:
        """Yield the contents of many files of one directory; None for one that is no regular file or too large."""
        ...

    def write_file(self, path: str, content: bytes, *, replace: bool = False, executable: bool = False) -> None:
        """Write a file whole, making its directory; FileTaken if it is there and `replace` is not given."""
        ...

    def has_file(self, path: str) -> bool:
        """Tell whether anything but a directory has this name."""
        ...

    def has_directory(self, path: str) -> bool:
        """Tell whether this is a directory and not a link to one."""
        ...

    def filenames(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; empty if there is none."""
        ...

    def stamp(self, path: str) -> Stamp | None:
        """Return what identifies the file's present state; None for what is neither a file nor a link."""
        ...


class Repository(ABC, Files):
    """One clone."""

    root: str  # for messages
    name: str  # the directory's own name
    private_dir: Path  # where our caches live

    @abstractmethod
    def lock(self) -> AbstractContextManager[object]:
        """Hold off every other command of ours in this clone and its linked worktrees; LockTimeout if in vain."""

    @abstractmethod
    def recover(self) -> Recovered | None:
        """Finish or take back what a killed command left unfinished. Call it under the lock, before anything else."""

    @abstractmethod
    def has_unfinished_posting(self) -> bool:
        """Tell, at next to no cost, whether `recover` has anything to do."""

    # identity and settings

    @abstractmethod
    def identity(self) -> Identity | None:
        """Return `user.name` and `user.email`, None unless both are set."""

    @abstractmethod
    def signing_key(self) -> str | None:
        """Return how others can recognise our signing key: its fingerprint, else as configured; None without one."""

    @abstractmethod
    def allowed_signers(self) -> Path | None:
        """Return the path of the allowed-signers file git's own configuration names."""

    @abstractmethod
    def revoked_keys(self) -> str:
        """Return a text that changes when other keys are revoked; empty where git is told of none."""

    @abstractmethod
    def configure(self, values: Mapping[str, str]) -> None:
        """Set values of git's configuration, for this clone only."""

    @abstractmethod
    def signing_key_text(self) -> str | None:
        """Return the SSH public key that signs here, as `type blob`; None without one, or one of another kind."""

    @abstractmethod
    def exclude(self, pattern: str) -> bool:
        """Keep a path out of commits without telling other clones; False if it was excluded already."""

    @abstractmethod
    def has_commit_msg_hook(self) -> bool:
        """Tell whether the clone has a commit-msg hook."""

    @abstractmethod
    def install_commit_msg_hook(self, script: bytes) -> str:
        """Write the hook, replacing one that is there, and return its path."""

    # what is there

    @abstractmethod
    def head(self) -> Head:
        """Return the current branch and its upstream."""

    @abstractmethod
    def survey(self, thread: str | None = None) -> Survey:
        """Look at the work tree, or at one thread of it."""

    @abstractmethod
    def is_tracked(self, path: str) -> bool:
        """Tell whether the index knows this path."""

    @abstractmethod
    def is_sparse(self) -> bool:
        """Tell whether the work tree may lack files of the branch on purpose."""

    @abstractmethod
    def unpushed(self) -> list[CommitRecord]:
        """Return the commits the upstream lacks, newest first; none without an upstream."""

    @abstractmethod
    def history(self, head: str | None, after: str | None = None) -> History:
        """Return the commits of `head`; only those that follow `after` if that is an ancestor."""

    @abstractmethod
    def newest_commits(self, head: str, most: int) -> list[CommitRecord]:
        """Return the last commits of `head`, newest first: the end of its `history`, turned round."""

    @abstractmethod
    def thread_commits(self, head: str, thread: str) -> list[CommitRecord] | None:
        """Return the commits that changed one thread, parents first, if they are found faster than `history` is."""

    @abstractmethod
    def commits_between(self, base: str | None, tip: str) -> list[CommitRecord]:
        """Return the commits of `tip` that `base` lacks, parents before children."""

    @abstractmethod
    def ancestry(self) -> Mapping[str, tuple[str, ...]]:
        """Return the parents of every commit of HEAD."""

    @abstractmethod
    def blob_id(self, content: bytes) -> str:
        """Return the id this content has, or would have."""

    @abstractmethod
    def committed_files(self, commit: str) -> Mapping[str, TrackedFile]:
        """Return what a commit holds, by path."""

    @abstractmethod
    def read_blobs(self, blobs: Sequence[str]) -> dict[str, bytes | None]:
        """Return contents by id; None for one that is larger than an envelope may be."""

    @abstractmethod
    def check_signatures(self, commits: Sequence[str], allowed_signers: Path | None) -> dict[str, SignatureCheck]:
        """Judge the signatures of commits against an allowed-signers file; without one no signer is known."""

    # writing

    @abstractmethod
    def begin_posting(self, path: str, content: bytes, *, replaces_draft: bool = False) -> Posting:
        """Write a new envelope into the work tree; FileTaken if the name is in use.

        `replaces_draft` overwrites an untracked scaffold of that name (rigs §6).
        """

    # the wire

    @abstractmethod
    def wire(self, remote: str = "origin", branch: str = "main", *, pushing: bool = True) -> Wire | None:
        """Return the wire if the current branch is on it, or raise before anything is written (rigs §8).

        None, only when not `pushing`: the repository has no remote at all.
        """

    @abstractmethod
    def upstream(self) -> Wire:
        """Return what the current branch follows, or raise DetachedHead or NoUpstream (rigs §9.1)."""

    @abstractmethod
    def push(self, wire: Wire, commit: str) -> Pushed | Raced:
        """Send exactly `commit` to the wire branch; PushFailed for any refusal but a lost race."""

    @abstractmethod
    def fetch(self, wire: Wire) -> str:
        """Fetch the wire branch and the freezes, nothing else, and return the branch's commit; or FetchFailed."""

    @abstractmethod
    def last_fetch_ms(self) -> int | None:
        """Return when the remote was last asked what it has; None if never."""

    @abstractmethod
    def compare(self, remote_head: str) -> Incoming:
        """Say what a fetched commit would bring."""

    @abstractmethod
    def gone_from_remote(self, remote_head: str) -> list[str]:
        """Return the commits here that the remote had and has no more, newest first: its history was rewritten."""

    @abstractmethod
    def fast_forward(self, commit: str) -> InTheWay | None:
        """Move the branch and the work tree to exactly this commit, or name what is in the way."""

    @abstractmethod
    def rebuild(self, tip: str, *, inspected: bool = False) -> list[Rebuilt] | None:
        """Put our unpushed turns on top of `tip`, oldest first (rigs §9.5); None if either side did not only append.

        `inspected`: the caller has judged what the remote did, so only our own side is asked.
        """

    # freezes (rigs §10)

    @abstractmethod
    def freezes(self) -> dict[str, FreezeNote]:
        """Return the notes known here, by thread, expired or not."""

    @abstractmethod
    def ask_freeze(self, wire: Wire, thread: str) -> FreezeNote | None:
        """Ask the remote about one thread; an unreachable remote leaves the last known state."""

    @abstractmethod
    def freeze(
        self, wire: Wire | None, thread: str, note: str, *, replaces: FreezeNote | None = None, sign: bool = False
    ) -> FreezeNote | Raced:
        """Plant a note where there is none, or in place of exactly `replaces`; kept here if the remote refuses."""

    @abstractmethod
    def thaw(self, wire: Wire | None, thread: str) -> bool:
        """Remove the note here and on the remote; False if there was none."""
