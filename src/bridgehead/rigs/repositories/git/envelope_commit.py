"""Put one envelope, and nothing else, into one commit (rigs §8)."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from bridgehead.errors import UserError
from bridgehead.host.child import run_child
from bridgehead.host.file_errors import FileTaken
from bridgehead.host.files import read_bounded, write_atomic
from bridgehead.rigs.repositories.errors import CommitFailed, GitFailed, SigningFailed
from bridgehead.rigs.repositories.git.clone import Clone
from bridgehead.rigs.repositories.git.command import GitAnswer
from bridgehead.rigs.repositories.git.commit_journal import (
    JournalEntry,
    draft_file,
    forget,
    refresh,
    scratch_index,
    settle,
    stage,
    write_journal,
)
from bridgehead.rigs.repositories.records import MAX_FILE_BYTES, REGULAR, Head, Identity

_LONGEST_CHAIN = 40  # of symbolic links, as in Linux
_OTHER_OPERATIONS = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")


class GitPosting:
    """One envelope on its way into one commit.

    Leaving the `with` block before `land` succeeded takes it back.

    `warnings` is what the operator should know: that a hook was not run, or what it
    printed.
    """

    commit: str | None = None

    def __init__(
        self,
        clone: Clone,
        head: Head,
        path: str,
        content: bytes,
        *,
        replaces_draft: bool,
    ) -> None:
        self.path = path
        self.warnings: list[str] = []
        self._clone = clone
        self._head = head
        self._content = content
        self._open = True
        self._entry = JournalEntry(
            path, clone.blob_id(content), replaces_draft, os.getpid()
        )
        self._refuse_taken_name()
        self._write()

    def land(
        self, subject: str, *, identity: Identity | None = None, must_sign: bool = False
    ) -> str:
        """Commit the envelope and nothing else, and return the commit.

        `identity` replaces the clone's own. `must_sign` demands a signature
        (rigs §10); otherwise `commit.gpgsign` decides. A refusal raises
        CommitFailed or SigningFailed.
        """
        message = subject.rstrip("\n") + "\n"
        tree = self._compose_tree()
        message = self._pass_hook(message)
        commit = self._commit_tree(tree, message, identity, must_sign=must_sign)
        try:
            stage(self._clone, self.path, self._entry.blob)
            move_branch(self._clone, self._head, commit, f"commit: {subject}")
        except GitFailed as error:
            raise CommitFailed(error.git_says) from error
        self.commit = commit
        self._open = False
        refresh(self._clone, self.path)
        forget(self._clone)
        return commit

    def undo(self) -> None:
        """Take back what was not committed; keep what was, even if interrupted."""
        if self._open:
            self._open = False
            self.commit = settle(self._clone, self._entry).commit

    def __enter__(self) -> GitPosting:
        return self

    def __exit__(self, *_: object) -> None:
        if self.commit is None:
            self.undo()

    def _refuse_taken_name(self) -> None:
        directory = self._clone.location.top_level / self.path.rpartition("/")[0]
        if os.path.lexists(directory / ".git"):
            raise UserError(
                f"{directory!s} is a separate git repository; nothing was written"
            )
        git_dir = self._clone.location.git_dir
        if any((git_dir / name).exists() for name in _OTHER_OPERATIONS):
            raise CommitFailed(
                "cannot make a partial commit during a merge, cherry-pick or revert"
            )
        if self._is_tracked() or self._is_committed():
            raise FileTaken(
                self.path, "written", "an envelope of that name is already tracked"
            )

    def _is_tracked(self) -> bool:
        listed = self._clone.git.read("ls-files", "-z", "--", self.path)
        return bool(listed.stdout)

    def _is_committed(self) -> bool:
        if self._head.commit is None:
            return False
        listed = self._clone.git.read(
            "ls-tree", "-z", "--full-tree", self._head.commit, "--", self.path
        )
        return bool(listed.stdout)

    def _write(self) -> None:
        top_level = self._clone.location.top_level
        target = top_level / self.path
        write_journal(self._clone, self._entry)
        try:
            if self._entry.had_draft:
                draft = read_bounded(target, MAX_FILE_BYTES, root=top_level)
                write_atomic(draft_file(self._clone), draft)
            write_atomic(
                target,
                self._content,
                exclusive=not self._entry.had_draft,
                root=top_level,
            )
        except FileTaken:
            forget(self._clone)
            raise
        except BaseException:
            settle(self._clone, self._entry)
            raise

    def _compose_tree(self) -> str:
        git = self._clone.git
        index = str(scratch_index(self._clone))
        try:
            blob = git.write(
                "hash-object", "-w", "--no-filters", "--stdin", stdin=self._content
            ).text.strip()
            git.write("read-tree", self._head.commit or "--empty", index=index)
            git.write(
                "update-index",
                "--add",
                "--cacheinfo",
                f"{REGULAR},{blob},{self.path}",
                index=index,
            )
            return git.write("write-tree", index=index).text.strip()
        except GitFailed as error:
            raise CommitFailed(error.git_says) from error

    def _pass_hook(self, message: str) -> str:
        hook = self._clone.location.hooks_dir / "commit-msg"
        if not hook.is_file() or not os.access(hook, os.X_OK):
            return message
        if is_tracked_hook(self._clone, hook):
            self.warnings.append(
                f"the hook {hook} was not run: it is a tracked file, which a remote "
                "can change"
            )
            return message
        file = self._clone.location.private_dir / "COMMIT_EDITMSG"
        write_atomic(file, message)
        printed = run_hook(self._clone, hook, file, scratch_index(self._clone))
        self.warnings += printed.splitlines()
        content = read_bounded(file, MAX_FILE_BYTES)
        edited = tidy_message(content.decode("utf-8", "surrogateescape"))
        if not edited:
            raise CommitFailed("the commit-msg hook left an empty message")
        return edited

    def _commit_tree(
        self, tree: str, message: str, identity: Identity | None, *, must_sign: bool
    ) -> str:
        sign = must_sign or self._clone.settings.flag("commit.gpgsign")
        answer = ask_for_commit(
            self._clone,
            tree,
            self._head.commit,
            message,
            _variables_of(identity),
            sign=sign,
        )
        if answer.code != 0:
            if must_sign:
                raise SigningFailed(answer.stderr)
            raise CommitFailed(answer.stderr)
        commit = answer.text.strip()
        if must_sign and not self._is_signed(commit):
            raise SigningFailed("git created a commit without a signature")
        return commit

    def _is_signed(self, commit: str) -> bool:
        content = self._clone.git.read("cat-file", "commit", commit).stdout
        headers = content.partition(b"\n\n")[0]
        return b"\ngpgsig" in headers


def _variables_of(identity: Identity | None) -> dict[str, str]:
    """Return what makes somebody author and committer (rigs §10, L6)."""
    if identity is None:
        return {}
    return {
        "GIT_AUTHOR_NAME": identity.name,
        "GIT_AUTHOR_EMAIL": identity.email,
        "GIT_COMMITTER_NAME": identity.name,
        "GIT_COMMITTER_EMAIL": identity.email,
    }


def ask_for_commit(
    clone: Clone,
    tree: str,
    parent: str | None,
    message: str,
    variables: Mapping[str, str],
    *,
    sign: bool,
) -> GitAnswer:
    """Ask git for a commit of a tree; a signer ends with us."""
    ask = clone.git.ask_signer if sign else clone.git.ask
    arguments = ["commit-tree", tree]
    if parent:
        arguments += ["-p", parent]
    if sign:
        arguments.append("-S")
    return ask(
        *arguments,
        "-F",
        "-",
        stdin=message.encode("utf-8", "surrogateescape"),
        variables=variables,
    )


def move_branch(clone: Clone, head: Head, commit: str, log: str) -> None:
    """Move the current branch from where it was to `commit`.

    Raise GitFailed if somebody moved it meanwhile.
    """
    name = f"refs/heads/{head.branch}" if head.branch else "HEAD"
    clone.git.write("update-ref", "-m", log, name, commit, head.commit or clone.null_id)


def is_tracked_hook(clone: Clone, hook: Path) -> bool:
    """Return whether the hook, or a link on the way to it, is a tracked file."""
    top_level = clone.location.top_level
    ways = [hook, hook.resolve()]
    # git has followed the links of this path already, we must not.
    configured = clone.settings.path("core.hookspath")
    if configured:
        ways.append(top_level / configured / hook.name)
    inside = {
        str(place.relative_to(top_level))
        for place in _places_on_the_way(ways)
        if place.is_relative_to(top_level) and place != top_level
    }
    if not inside:
        return False
    tracked = clone.git.read("ls-files", "-z", "--", *sorted(inside))
    return not inside.isdisjoint(tracked.fields)


def run_hook(clone: Clone, hook: Path, message_file: Path, index: Path) -> str:
    """Let the hook judge and edit the message, and return what it printed.

    Raise CommitFailed with the same words if it refuses.
    """
    environment = {**clone.git.environment, "GIT_INDEX_FILE": str(index)}
    command = [str(hook), str(message_file)]
    try:
        finished = _run(command, clone.location.top_level, environment)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise CommitFailed(
                f"the commit-msg hook cannot be run: {error.strerror}"
            ) from error
        # It has no #! line: git does the same.
        shell = ["/bin/sh", *command]
        finished = _run(shell, clone.location.top_level, environment)
    printed = finished.stdout.decode("utf-8", "replace")
    if finished.returncode != 0:
        raise CommitFailed(
            printed or f"the commit-msg hook ended with {finished.returncode}"
        )
    return printed


def tidy_message(text: str) -> str:
    """Clean a message as `git commit -m` does.

    It has no blank edges, no trailing blanks and no runs of empty lines.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        stripped = line.rstrip(" \t\r")  # what git calls blanks
        follows_text = bool(lines and lines[-1])
        if stripped or follows_text:
            lines.append(stripped)
    tidy = "\n".join(lines).rstrip("\n")
    return f"{tidy}\n" if tidy else ""


def _run(
    command: list[str], at: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[bytes]:
    return run_child(
        command,
        cwd=at,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def _places_on_the_way(ways: list[Path]) -> Iterator[Path]:
    """Yield paths, every directory above them, and where links among them lead."""
    pending = list(ways)
    for _ in range(_LONGEST_CHAIN):
        if not pending:
            return
        path = Path(os.path.normpath(pending.pop()))
        for place in (path, *path.parents):
            yield place
            if place.is_symlink():
                below = path.relative_to(place)
                pending.append(place.parent / place.readlink() / below)
