"""Errors of a bridge repository, in the wording scripts match (rigs §8, §13).

UserError, exit 1
  GitFailed                   a git command was refused; `git_says` holds git's words
    CommitFailed  SigningFailed  FetchFailed  PushFailed
  ShallowHistory              nothing can be proven from a part of history
"""

from __future__ import annotations

from bridgehead.errors import UserError


class GitFailed(UserError):
    """A git command was refused. The sentence is ours, `git_says` is what git wrote."""

    def __init__(
        self, what: str, git_says: str = "", *, hint: str | None = None
    ) -> None:
        reason = cause_of(git_says)
        super().__init__(
            f"{what}: {reason}" if reason else what, hint=hint or advice_on(git_says)
        )
        self.git_says = git_says


class ShallowHistory(UserError):
    """The clone has only the newest commits.

    Neither membership nor signatures can be proven from those.
    """

    def __init__(self) -> None:
        super().__init__(
            "this clone is shallow: turns cannot be verified without the whole history",
            hint="run `git fetch --unshallow` in the clone",
        )


class CommitFailed(GitFailed):
    """The envelope was not committed; file and index are as before."""

    def __init__(self, git_says: str) -> None:
        super().__init__("git commit failed", git_says)


class SigningFailed(GitFailed):
    """A turn that must be signed could not be (rigs §10, L9)."""

    def __init__(self, git_says: str) -> None:
        super().__init__("signing failed, nothing was committed", git_says)


class FetchFailed(GitFailed):
    """The remote could not be read."""

    def __init__(self, remote: str, git_says: str) -> None:
        by_hand = f"git fetch {remote} shows the same problem by hand"
        super().__init__(
            "git fetch failed", git_says, hint=advice_on(git_says) or by_hand
        )


class PushFailed(GitFailed):
    """The remote did not take the commit, and trying once more will not help."""

    def __init__(self, remote: str, branch: str, git_says: str) -> None:
        super().__init__(f"git push {remote} {branch} failed", git_says)


def cause_of(git_says: str) -> str:
    """Return the line of git's output that names the cause, not the advice after it."""
    lines = [line.strip() for line in git_says.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if number and line == _SSH_ENDED:
            return lines[number - 1]  # ssh said why
        for mark in ("fatal: ", "error: "):
            if line.startswith(mark):
                return line.removeprefix(mark)
    return lines[0] if lines else ""


_SSH_ENDED = "fatal: Could not read from remote repository."
_LATER = (
    "the remote cannot be reached now; commits are kept, and `rig-bridge push` sends "
    "those that wait"
)
_PROTECTED = (
    "the server protects this branch: ask its owner for access, or set another branch "
    "in .bridge/config.yaml"
)
# What can be done, by what git, ssh or the server says.
_ADVICE = (
    (
        "HOST IDENTIFICATION HAS CHANGED",
        (
            "the host key is not the one ssh knows: ask the server's owner before you "
            "go "
            "on"
        ),
    ),
    (
        "Host key verification failed",
        "ssh does not know the host key: verify it, then connect once with ssh",
    ),
    (
        "Permission denied (",
        "the server does not accept your SSH key; `ssh -v` shows which key was offered",
    ),
    (
        "could not read Username",
        "the server needs a login: configure one (git help credentials)",
    ),
    (
        "Authentication failed",
        "the server refused the login git has for it (git help credentials)",
    ),
    ("protected branch", _PROTECTED),
    ("hook declined", "a server hook refused it; ask its owner"),
    (
        ".lock': File exists",
        "another git process holds this lock; if it was killed, remove the file",
    ),
    ("Could not resolve host", _LATER),
    ("Failed to connect", _LATER),
    ("Connection refused", _LATER),
    ("Connection timed out", _LATER),
    ("Connection closed by", _LATER),
    ("Connection reset by", _LATER),
    ("No route to host", _LATER),
    ("Network is unreachable", _LATER),
    (
        "does not appear to be a git repository",
        "there is no repository at this address; check `git remote -v`",
    ),
)


def advice_on(git_says: str) -> str | None:
    """Return what to do about a git command that failed, if its words tell."""
    text = git_says.lower()
    for words, advice in _ADVICE:
        if words.lower() in text:
            return advice
    return None
