"""A bridge repository kept by git. Each method hands over to the module that knows how; nothing is decided here."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from bridgehead.host.clock import Clock
from bridgehead.host.directories import make_dir
from bridgehead.host.file_errors import FileMissing
from bridgehead.host.files import read_bounded, write_atomic
from bridgehead.rigs.repositories.base import Posting, Repository, Survey
from bridgehead.rigs.repositories.errors import GitFailed
from bridgehead.rigs.repositories.git.clone import Clone
from bridgehead.rigs.repositories.git.survey import GitSurvey
from bridgehead.rigs.repositories.records import (
    CommitRecord,
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
    TrackedFile,
    Wire,
)
from bridgehead.rigs.repositories.work_tree import WorkTree

_MAX_EXCLUDE_BYTES = 1024 * 1024


class GitRepository(WorkTree, Repository):
    """One clone, found from any directory inside it. Modules that only some commands need are imported there."""

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
        self._head: Head | None = None

    def lock(self) -> AbstractContextManager[object]:
        self._head = None  # another command may have moved it before we got the lock
        return self._clone.lock()

    def has_unfinished_posting(self) -> bool:
        places = self._clone.location
        traces = (places.posting_journal, places.rebuild_journal, places.rebuild_index)
        return any(os.path.lexists(trace) for trace in traces)

    def recover(self) -> Recovered | None:
        self._head = None
        if not self.has_unfinished_posting():
            return None
        from bridgehead.rigs.repositories.git import commit_journal
        from bridgehead.rigs.repositories.git.rebase import recover_rebuild

        rebuilt = recover_rebuild(self._clone)
        entry = commit_journal.read_journal(self._clone)
        if entry is None:
            commit_journal.forget(self._clone)
            return rebuilt
        return commit_journal.settle(self._clone, entry)

    # identity and settings

    def identity(self) -> Identity | None:
        name, email = self._clone.settings.get("user.name"), self._clone.settings.get("user.email")
        return Identity(name, email) if name and email else None

    def signing_key(self) -> str | None:
        from bridgehead.rigs.trust.signers import key_name

        settings = self._clone.settings
        key = settings.get("user.signingkey")
        if key is None:
            return None
        key_format = settings.get("gpg.format") or "openpgp"
        program = settings.get(f"gpg.{key_format}.program") or settings.get("gpg.program")
        return key_name(key, key_format=key_format, program=program, environment=self._clone.git.environment)

    def allowed_signers(self) -> Path | None:
        named = self._clone.settings.path("gpg.ssh.allowedsignersfile")
        return self._clone.location.top_level / named if named else None

    def revoked_keys(self) -> str:
        path = self._clone.settings.path("gpg.ssh.revocationfile")
        if path is None:
            return ""
        try:
            found = path.stat()
        except OSError:
            return str(path)
        return f"{path} {found.st_size} {found.st_mtime_ns}"

    def configure(self, values: Mapping[str, str]) -> None:
        for name, value in values.items():
            self._clone.git.write("config", "--local", name, value)
        self._clone.reload_settings()

    def signing_key_text(self) -> str | None:
        from bridgehead.rigs.trust.signers import ssh_key_text

        key = self._clone.settings.get("user.signingkey")
        return ssh_key_text(key) if key and self._clone.settings.get("gpg.format") == "ssh" else None

    def exclude(self, pattern: str) -> bool:
        path = self._clone.location.common_dir / "info" / "exclude"
        try:
            text = read_bounded(path, _MAX_EXCLUDE_BYTES).decode("utf-8", "surrogateescape")
        except FileMissing:
            make_dir(path.parent)
            text = ""
        if pattern in text.splitlines():
            return False
        separator = "" if not text or text.endswith("\n") else "\n"
        write_atomic(path, f"{text}{separator}{pattern}\n".encode("utf-8", "surrogateescape"))
        return True

    def has_commit_msg_hook(self) -> bool:
        return os.path.lexists(self._clone.location.hooks_dir / "commit-msg")

    def install_commit_msg_hook(self, script: bytes) -> str:
        hook = self._clone.location.hooks_dir / "commit-msg"
        make_dir(hook.parent)
        write_atomic(hook, script)
        hook.chmod(0o755)
        return str(hook)

    # what is there

    def head(self) -> Head:
        from bridgehead.rigs.repositories.git import transfer

        if self._head is None:
            self._head = transfer.read_head(self._clone)
        return self._head

    def survey(self, thread: str | None = None) -> Survey:
        place = self._clone.location
        return GitSurvey(self._clone.git, place.top_level, place.index_file, thread)

    def is_tracked(self, path: str) -> bool:
        from bridgehead.rigs.repositories.git.survey import may_list

        if not may_list(self._clone.location.index_file, path):
            return False
        return path in self._clone.git.read("ls-files", "-z", "--", path).fields

    def is_sparse(self) -> bool:
        return self._clone.settings.get("core.sparsecheckout") == "true"

    def unpushed(self) -> list[CommitRecord]:
        from bridgehead.rigs.repositories.git import history
        from bridgehead.rigs.repositories.git.refs import local_ref

        head = self.head()
        if head.commit is None or head.tracking_ref is None or not local_ref(self._clone, head.tracking_ref):
            return []
        return history.commits_between(self._clone.git, head.tracking_ref, head.commit)[::-1]

    def history(self, head: str | None, after: str | None = None) -> History:
        from bridgehead.rigs.repositories.git import history

        return history.history(self._clone.git, head, after)

    def newest_commits(self, head: str, most: int) -> list[CommitRecord]:
        from bridgehead.rigs.repositories.git import history

        return history.newest_commits(self._clone.git, head, most)

    def thread_commits(self, head: str, thread: str) -> list[CommitRecord] | None:
        from bridgehead.rigs.repositories.git import history

        return history.thread_commits(self._clone, head, thread)

    def commits_between(self, base: str | None, tip: str) -> list[CommitRecord]:
        from bridgehead.rigs.repositories.git import history

        return history.commits_between(self._clone.git, base, tip)

    def ancestry(self) -> Mapping[str, tuple[str, ...]]:
        from bridgehead.rigs.repositories.git import history

        return history.ancestry(self._clone.git, self.head().commit)

    def blob_id(self, content: bytes) -> str:
        return self._clone.blob_id(content)

    def committed_files(self, commit: str) -> Mapping[str, TrackedFile]:
        from bridgehead.rigs.repositories.git import history

        return history.committed_files(self._clone.git, commit)

    def read_blobs(self, blobs: Sequence[str]) -> dict[str, bytes | None]:
        from bridgehead.rigs.repositories.git import history

        return history.read_objects(self._clone.git, blobs)

    def check_signatures(self, commits: Sequence[str], allowed_signers: Path | None) -> dict[str, SignatureCheck]:
        from bridgehead.rigs.repositories.git.signatures import check_signatures

        return check_signatures(self._clone, commits, allowed_signers)

    # writing

    def begin_posting(self, path: str, content: bytes, *, replaces_draft: bool = False) -> Posting:
        from bridgehead.rigs.repositories.git.envelope_commit import GitPosting

        head = self.head()
        self._head = None
        return GitPosting(self._clone, head, path, content, replaces_draft=replaces_draft)

    # the wire

    def wire(self, remote: str = "origin", branch: str = "main", *, pushing: bool = True) -> Wire | None:
        from bridgehead.rigs.repositories.git import transfer

        return transfer.wire_of(self._clone, self.head(), remote, branch, pushing=pushing)

    def upstream(self) -> Wire:
        from bridgehead.rigs.repositories.git import transfer

        return transfer.upstream_of(self.head())

    def push(self, wire: Wire, commit: str) -> Pushed | Raced:
        from bridgehead.rigs.repositories.git import transfer

        return transfer.push(self._clone, wire, commit)

    def fetch(self, wire: Wire) -> str:
        from bridgehead.rigs.repositories.git import transfer

        return transfer.fetch(self._clone, wire)

    def last_fetch_ms(self) -> int | None:
        from bridgehead.rigs.repositories.git import transfer

        return transfer.last_fetch_ms(self._clone)

    def compare(self, remote_head: str) -> Incoming:
        from bridgehead.rigs.repositories.git import history

        head = self.head().commit
        if head is None:
            raise GitFailed("the branch has no commit yet, so there is nothing to compare")
        return history.compare(self._clone.git, head, remote_head)

    def gone_from_remote(self, remote_head: str) -> list[str]:
        from bridgehead.rigs.repositories.git import transfer

        return transfer.gone_from_remote(self._clone, self.head().commit or remote_head, remote_head)

    def fast_forward(self, commit: str) -> InTheWay | None:
        from bridgehead.rigs.repositories.git import transfer

        head = self.head()
        self._head = None
        return transfer.fast_forward(self._clone, head, commit)

    def rebuild(self, tip: str, *, inspected: bool = False) -> list[Rebuilt] | None:
        from bridgehead.rigs.repositories.git.rebase import rebuild

        head = self.head()
        self._head = None
        return rebuild(self._clone, head, tip, inspected=inspected)

    # freezes

    def freezes(self) -> dict[str, FreezeNote]:
        from bridgehead.rigs.repositories.git import freeze

        return freeze.read_freezes(self._clone)

    def ask_freeze(self, wire: Wire, thread: str) -> FreezeNote | None:
        from bridgehead.rigs.repositories.git import freeze

        return freeze.ask_freeze(self._clone, wire, thread)

    def freeze(
        self, wire: Wire | None, thread: str, note: str, *, replaces: FreezeNote | None = None, sign: bool = False
    ) -> FreezeNote | Raced:
        from bridgehead.rigs.repositories.git import freeze

        return freeze.freeze(self._clone, wire, thread, note, replaces, sign=sign)

    def thaw(self, wire: Wire | None, thread: str) -> bool:
        from bridgehead.rigs.repositories.git import freeze

        return freeze.thaw(self._clone, wire, thread)
