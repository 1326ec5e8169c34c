"""Hand each request to a bridge repository to the git module that knows how."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from bridgehead.host.clock import Clock
from bridgehead.host.directories import make_dir
from bridgehead.host.file_errors import FileMissing
from bridgehead.host.files import read_bounded, write_atomic
from bridgehead.rigs.repositories import records
from bridgehead.rigs.repositories.errors import GitFailed, ShallowHistory
from bridgehead.rigs.repositories.git import (
    commit_journal,
    envelope_commit,
    freeze,
    history,
    rebase,
    refs,
    signatures,
    transfer,
)
from bridgehead.rigs.repositories.git.clone import Clone
from bridgehead.rigs.repositories.git.survey import GitSurvey
from bridgehead.rigs.repositories.work_tree import WorkTree

_MAX_EXCLUDE_BYTES = 1024 * 1024


class GitRepository(WorkTree):
    """One clone, found from any directory inside it."""

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clone = Clone(directory or Path.cwd(), environment, clock)
        super().__init__(self._clone.location.top_level)
        self.root = str(self._clone.location.top_level)
        self.name = self._clone.location.top_level.name
        self.private_dir: Path = self._clone.location.private_dir
        self._head: records.Head | None = None

    def refuse_shallow(self) -> None:
        """Raise ShallowHistory if history is cut off: its beginning says who is who."""
        if (self._clone.location.common_dir / "shallow").exists():
            raise ShallowHistory()

    def lock(self) -> AbstractContextManager[object]:
        """Keep every other command of ours out of this clone and its linked worktrees.

        Raise LockTimeout if one of them does not end.
        """
        self._head = None  # another command may have moved it before we got the lock
        return self._clone.lock()

    def has_unfinished_posting(self) -> bool:
        """Tell, at next to no cost, whether `recover` has anything to do."""
        places = self._clone.location
        traces = (places.posting_journal, places.rebuild_journal, places.rebuild_index)
        return any(os.path.lexists(trace) for trace in traces)

    def recover(self) -> records.Recovered | None:
        """Finish or take back what a killed command left unfinished.

        Call it under the lock, before anything else.
        """
        self._head = None
        if not self.has_unfinished_posting():
            return None
        rebuilt = rebase.recover_rebuild(self._clone)
        entry = commit_journal.read_journal(self._clone)
        if entry is None:
            commit_journal.forget(self._clone)
            return rebuilt
        return commit_journal.settle(self._clone, entry)

    # identity and settings

    def identity(self) -> records.Identity | None:
        """Return `user.name` and `user.email`, None unless both are set."""
        name = self._clone.settings.get("user.name")
        email = self._clone.settings.get("user.email")
        if not name or not email:
            return None
        return records.Identity(name, email)

    def signing_key(self) -> str | None:
        """Return how others can recognise our signing key; None without one.

        That is its fingerprint, else the key as configured.
        """
        from bridgehead.rigs.trust.signers import key_name

        settings = self._clone.settings
        key = settings.get("user.signingkey")
        if key is None:
            return None
        key_format = settings.get("gpg.format") or "openpgp"
        program = settings.get(f"gpg.{key_format}.program") or settings.get(
            "gpg.program"
        )
        return key_name(
            key,
            key_format=key_format,
            program=program,
            environment=self._clone.git.environment,
        )

    def allowed_signers(self) -> Path | None:
        """Return the path of the allowed-signers file git's own configuration names."""
        named = self._clone.settings.path("gpg.ssh.allowedsignersfile")
        return self._clone.location.top_level / named if named else None

    def revoked_keys(self) -> str:
        """Return a text that changes when other keys are revoked."""
        path = self._clone.settings.path("gpg.ssh.revocationfile")
        if path is None:
            return ""
        try:
            found = path.stat()
        except OSError:
            return str(path)
        return f"{path} {found.st_size} {found.st_mtime_ns}"

    def configure(self, values: Mapping[str, str]) -> None:
        """Set values of git's configuration, for this clone only."""
        for name, value in values.items():
            self._clone.git.write("config", "--local", name, value)
        self._clone.reload_settings()

    def signing_key_text(self) -> str | None:
        """Return the SSH public key that signs here, as `type blob`, or None."""
        from bridgehead.rigs.trust.signers import ssh_key_text

        key = self._clone.settings.get("user.signingkey")
        if key is None or self._clone.settings.get("gpg.format") != "ssh":
            return None
        return ssh_key_text(key)

    def exclude(self, pattern: str) -> bool:
        """Keep a path out of commits without telling other clones.

        Return False if it was excluded already.
        """
        path = self._clone.location.common_dir / "info" / "exclude"
        try:
            text = os.fsdecode(read_bounded(path, _MAX_EXCLUDE_BYTES))
        except FileMissing:
            make_dir(path.parent)
            text = ""
        if pattern in text.splitlines():
            return False
        if text and not text.endswith("\n"):
            text += "\n"
        write_atomic(path, os.fsencode(f"{text}{pattern}\n"))
        return True

    def has_commit_msg_hook(self) -> bool:
        """Return whether the clone has a commit-msg hook."""
        return os.path.lexists(self._clone.location.hooks_dir / "commit-msg")

    def install_commit_msg_hook(self, script: bytes) -> str:
        """Write the hook, replacing one that is there, and return its path."""
        hook = self._clone.location.hooks_dir / "commit-msg"
        make_dir(hook.parent)
        write_atomic(hook, script)
        hook.chmod(0o755)
        return str(hook)

    # what is there

    def head(self) -> records.Head:
        """Return the current branch and its upstream."""
        if self._head is None:
            self._head = transfer.read_head(self._clone)
        return self._head

    def survey(self, thread: str | None = None, *, untracked: bool = True) -> GitSurvey:
        """Look at the work tree, or at one thread of it."""
        return GitSurvey(self._clone, thread, untracked=untracked)

    def is_tracked(self, path: str) -> bool:
        """Return whether the index knows this path."""
        listed = self._clone.git.read("ls-files", "-z", "--", path)
        return path in listed.fields

    def is_sparse(self) -> bool:
        """Return whether the work tree may lack files of the branch on purpose."""
        return self._clone.settings.get("core.sparsecheckout") == "true"

    def unpushed(self) -> list[records.CommitRecord]:
        """Return the commits the upstream lacks, newest first; none without one."""
        head = self.head()
        if head.commit is None or head.tracking_ref is None:
            return []
        if not refs.local_ref(self._clone, head.tracking_ref):
            return []
        newer = history.commits_between(self._clone.git, head.tracking_ref, head.commit)
        return newer[::-1]

    def history(self, head: str | None, after: str | None = None) -> records.History:
        """Return the commits of `head`, or only those after its ancestor `after`."""
        return history.history(self._clone.git, head, after)

    def history_boundary(self) -> str:
        """Return where history was cut off or altered here, usually nowhere."""
        return self._clone.history_boundary()

    def commits_between(self, base: str | None, tip: str) -> list[records.CommitRecord]:
        """Return the commits of `tip` that `base` lacks, parents before children."""
        return history.commits_between(self._clone.git, base, tip)

    def ancestry(self) -> Mapping[str, tuple[str, ...]]:
        """Return the parents of every commit of HEAD."""
        return history.ancestry(self._clone.git, self.head().commit)

    def blob_id(self, content: bytes) -> str:
        """Return the id this content has, or would have."""
        return self._clone.blob_id(content)

    def committed_files(self, commit: str) -> Mapping[str, records.TrackedFile]:
        """Return what a commit holds, by path."""
        return history.committed_files(self._clone.git, commit)

    def read_blobs(self, blobs: Sequence[str]) -> dict[str, bytes | None]:
        """Return contents by id; None for one that is too large for an envelope."""
        return history.read_objects(self._clone.git, blobs)

    def check_signatures(
        self, commits: Sequence[str], allowed_signers: Path | None
    ) -> dict[str, records.SignatureCheck]:
        """Judge the signatures of commits against an allowed-signers file.

        Without one no signer is known.
        """
        return signatures.check_signatures(self._clone, commits, allowed_signers)

    # writing

    def begin_posting(
        self, path: str, content: bytes, *, replaces_draft: bool = False
    ) -> envelope_commit.GitPosting:
        """Write a new envelope into the work tree; FileTaken if the name is in use.

        `replaces_draft` overwrites an untracked scaffold of that name (rigs §6).
        """
        head = self.head()
        self._head = None
        return envelope_commit.GitPosting(
            self._clone, head, path, content, replaces_draft=replaces_draft
        )

    # the wire

    def wire(
        self, remote: str = "origin", branch: str = "main", *, pushing: bool = True
    ) -> records.Wire | None:
        """Return the wire if the current branch is on it, else raise (rigs §8).

        Unless `pushing`, return None if the repository has no remote at all.
        """
        return transfer.wire_of(
            self._clone, self.head(), remote, branch, pushing=pushing
        )

    def upstream(self) -> records.Wire:
        """Return what the current branch follows, or raise UserError (rigs §9.1)."""
        return transfer.upstream_of(self.head())

    def push(self, wire: records.Wire, commit: str) -> records.Pushed | records.Raced:
        """Send exactly `commit` to the wire branch.

        Raise PushFailed for any refusal but a lost race.
        """
        return transfer.push(self._clone, wire, commit)

    def fetch(self, wire: records.Wire) -> str:
        """Fetch the wire branch and the freezes, and return the branch's commit."""
        return transfer.fetch(self._clone, wire)

    def last_fetch_ms(self) -> int | None:
        """Return when the remote was last asked what it has; None if never."""
        return transfer.last_fetch_ms(self._clone)

    def compare(self, remote_head: str) -> records.Incoming:
        """Return what a fetched commit would bring."""
        head = self.head().commit
        if head is None:
            raise GitFailed(
                "the branch has no commit yet, so there is nothing to compare"
            )
        return history.compare(self._clone.git, head, remote_head)

    def gone_from_remote(self, remote_head: str) -> list[str]:
        """Return the commits here that the remote had and has no more, newest first.

        There are some if somebody rewrote its history.
        """
        head = self.head().commit or remote_head
        return transfer.gone_from_remote(self._clone, head, remote_head)

    def fast_forward(self, commit: str) -> records.InTheWay | None:
        """Move branch and work tree to a commit, or return what is in the way."""
        head = self.head()
        self._head = None
        return transfer.fast_forward(self._clone, head, commit)

    def rebuild(
        self, tip: str, *, inspected: bool = False
    ) -> list[records.Rebuilt] | None:
        """Put our unpushed turns on top of `tip`, oldest first (rigs §9.5).

        Return None if either side did more than append. With `inspected` the caller has
        judged what the remote did, so only our own side is asked.
        """
        head = self.head()
        self._head = None
        return rebase.rebuild(self._clone, head, tip, inspected=inspected)

    # freezes

    def freezes(self) -> dict[str, records.FreezeNote]:
        """Return the notes known here, by thread, expired or not."""
        return freeze.read_freezes(self._clone)

    def ask_freeze(self, wire: records.Wire, thread: str) -> records.FreezeNote | None:
        """Ask the remote about one thread; if that fails, return the last state."""
        return freeze.ask_freeze(self._clone, wire, thread)

    def freeze(
        self,
        wire: records.Wire | None,
        thread: str,
        note: str,
        *,
        replaces: records.FreezeNote | None = None,
        sign: bool = False,
    ) -> records.FreezeNote | records.Raced:
        """Plant a note where there is none, or in place of exactly `replaces`.

        It is kept here if the remote refuses it.
        """
        return freeze.freeze(self._clone, wire, thread, note, replaces, sign=sign)

    def thaw(self, wire: records.Wire | None, thread: str) -> bool:
        """Remove the note here and on the remote; False if there was none."""
        return freeze.thaw(self._clone, wire, thread)
