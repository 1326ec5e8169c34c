"""Plain records of what is in a repository.

Paths are relative to the top level with `/` between their parts; bytes that are not
UTF-8 come as surrogates.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from bridgehead.rigs.trust.attestation import Signature

REGULAR = "100644"
DELETED_MODE = "000000"
SYMLINK = "120000"
SUBMODULE = "160000"
MAX_FILE_BYTES = 50 * 1024 * 1024


class Identity(NamedTuple):
    """Who a commit is by."""

    name: str
    email: str


class Head(NamedTuple):
    """The current branch, where it is, and what it follows."""

    commit: str | None  # None before the first commit
    branch: str | None  # None when detached
    remote: str | None = None
    remote_branch: str | None = None  # short name on the remote
    tracking_ref: str | None = None  # our copy of it, as in refs/remotes/origin/main


class Wire(NamedTuple):
    """The branch all rigs share, as this clone reaches it (rigs §8)."""

    remote: str
    branch: str
    tracking_ref: str

    def __str__(self) -> str:
        return f"{self.remote}/{self.branch}"


class DirtyFile(NamedTuple):
    """A path that differs from HEAD: staged, modified, missing or untracked."""

    code: str  # the two letters of `git status --porcelain`
    path: str
    origin: str | None = None  # where a renamed file was

    @property
    def line(self) -> str:
        """The line `git status --porcelain` prints, outer blanks trimmed (rigs §7)."""
        shown = _as_git_quotes(self.path)
        if self.origin is not None:
            shown = f"{_as_git_quotes(self.origin)} -> {shown}"
        return f"{self.code} {shown}".strip()

    @property
    def differs_from_index(self) -> bool:
        """Whether the file's content must be read from the work tree."""
        return self.code[1] != " "


class PathChange(NamedTuple):
    """One path in the difference between two trees."""

    status: str  # git's letter: A M D T R C
    path: str
    blob: str
    mode: str
    old_path: str | None = None  # where a renamed or copied file was

    @property
    def is_symlink(self) -> bool:
        return self.mode == SYMLINK


class CommitRecord(NamedTuple):
    """One commit and what it changed, compared with its parents."""

    commit: str
    parents: tuple[str, ...]
    author: Identity
    committed_at: int  # Unix time
    signed: bool  # carries a signature, whether good or not
    message: str
    changes: tuple[PathChange, ...]

    @property
    def subject(self) -> str:
        return self.message.partition("\n")[0]


class History(NamedTuple):
    """Commits, parents before children."""

    commits: Iterable[CommitRecord]  # to be gone through once
    from_start: bool  # False: these come after a commit the caller already knew


class TrackedFile(NamedTuple):
    """What git's index holds for a path; blob None for a submodule or a conflict."""

    blob: str | None
    is_symlink: bool


class Stamp(NamedTuple):
    """What a file of the work tree is, as far as that is known without reading it."""

    modified_ns: int
    is_symlink: bool


class Incoming(NamedTuple):
    """What a fetched commit would bring, seen from the merge base (rigs §9.3)."""

    local_head: str
    remote_head: str
    base: str | None  # None: nothing in common
    ahead: int
    behind: int
    changes: tuple[PathChange, ...]


class Pushed(NamedTuple):
    """The remote reported that its branch is at our commit."""

    commit: str


class Raced(NamedTuple):
    """Somebody else pushed first; nothing of ours arrived."""

    reason: str


class InTheWay(NamedTuple):
    """Local files that a fast-forward would overwrite; nothing was moved."""

    paths: tuple[str, ...]


class Rebuilt(NamedTuple):
    """One of our turns after it was put on a new tip (rigs §9.5)."""

    old_commit: str
    old_path: str
    path: str
    commit: str


class Recovered(NamedTuple):
    """What an earlier command left behind when it was killed, and what became of it."""

    path: str
    commit: str | None  # None: the unfinished envelope was taken back


class FreezeNote(NamedTuple):
    """The note on a frozen thread; `only_here` if the remote refused it (rigs §10)."""

    text: str
    only_here: bool = False
    object_id: str = ""
    signed: bool = (
        False  # the object is a commit, and its signature says whose note it is
    )


class SignatureCheck(NamedTuple):
    """The signature of one commit, judged against an allowed-signers file."""

    signature: Signature
    principal: str | None = None  # whose key it is, as the file or the key itself says
    key_names: tuple[
        str, ...
    ] = ()  # fingerprint first, then other spellings of the key
    holds: bool = False  # the key named here did sign this, whoever it belongs to


UNSIGNED = SignatureCheck(Signature.NONE)

_ESCAPES = {
    byte: f"\\{letter}"
    for byte, letter in zip(b'\a\b\t\n\v\f\r"\\', 'abtnvfr"\\', strict=True)
}
_PLAIN = re.compile(r"[ !#-\[\]-~]*")


def _as_git_quotes(path: str) -> str:
    """Return a path as the short status spells it, escaped and quoted."""
    if _PLAIN.fullmatch(path):
        return f'"{path}"' if " " in path else path
    pieces = map(_as_git_escapes, path.encode("utf-8", "surrogateescape"))
    return f'"{"".join(pieces)}"'


def _as_git_escapes(byte: int) -> str:
    if byte in _ESCAPES:
        return _ESCAPES[byte]
    if 32 <= byte < 127:
        return chr(byte)
    return f"\\{byte:03o}"
