"""A bridge repository in memory, for tests and for trying things out. It behaves like git.py: both pass one suite.

remote = MemoryRemote()
here, there = MemoryRepository(remote), MemoryRepository(remote)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from bridgehead.host.clock import Clock, ManualClock
from bridgehead.host.file_errors import FileTaken
from bridgehead.rigs.attestation import Signature
from bridgehead.rigs.repositories.base import Posting, Repository, Survey
from bridgehead.rigs.repositories.errors import (
    DetachedHead,
    FetchFailed,
    GitFailed,
    NoRemote,
    NoUpstream,
    OffTheWire,
    PushFailed,
)
from bridgehead.rigs.repositories.memory_files import MemoryFiles
from bridgehead.rigs.repositories.memory_objects import MemoryCommit, ObjectStore, Tree, blob_id
from bridgehead.rigs.repositories.memory_posting import MemoryPosting
from bridgehead.rigs.repositories.memory_survey import MemorySurvey
from bridgehead.rigs.repositories.rebuild_plan import plan_rebuild
from bridgehead.rigs.repositories.records import (
    UNSIGNED,
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

OPERATOR = Identity("Op One", "op1@example.com")


class MemoryRemote:
    """What clones push to. `reachable` and `takes_freezes` let a test break it."""

    def __init__(self) -> None:
        self.objects = ObjectStore()
        self.branches: dict[str, str] = {}
        self.freezes: dict[str, str] = {}
        self.reachable = True
        self.takes_freezes = True


class MemoryRepository(MemoryFiles, Repository):
    """One clone. `files` and `links` are the work tree; change them freely between calls."""

    def __init__(
        self,
        remote: MemoryRemote | None = None,
        *,
        identity: Identity | None = OPERATOR,
        signing_key: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__()
        self.root = "memory:/bridge"
        self.name = "bridge"
        self.private_dir = None
        self.remote = remote
        self.objects = remote.objects if remote else ObjectStore()
        self.index: Tree = {}
        self.branch: str | None = "main"
        self.commit: str | None = None
        self.fetched: dict[str, str] = {}
        self.known_freezes: dict[str, FreezeNote] = {}
        self.excluded: list[str] = []
        self.hook: bytes | None = None
        self.refused_message: str | None = None  # what a commit-msg hook would say
        self._identity = identity
        self._signing_key = signing_key
        self._clock = clock or ManualClock()
        self._lock = threading.Lock()
        if remote and "main" in remote.branches:
            self._check_out(remote.branches["main"])
            self.fetched["main"] = remote.branches["main"]

    def lock(self) -> AbstractContextManager[object]:
        return self._lock

    def recover(self) -> Recovered | None:
        return None

    def has_unfinished_posting(self) -> bool:
        return False

    def on_disk(self, path: str) -> TrackedFile | None:
        """Return what the index would hold for a path if it were staged now."""
        if path in self.links:
            return TrackedFile(self.objects.add_blob(self.links[path].encode()), is_symlink=True)
        if path in self.files:
            return TrackedFile(self.objects.add_blob(self.files[path]), is_symlink=False)
        return None

    # identity and settings

    def identity(self) -> Identity | None:
        return self._identity

    def signing_key(self) -> str | None:
        return self._signing_key

    def allowed_signers(self) -> Path | None:
        return None

    def exclude(self, pattern: str) -> bool:
        if pattern in self.excluded:
            return False
        self.excluded.append(pattern)
        return True

    def has_commit_msg_hook(self) -> bool:
        return self.hook is not None

    def install_commit_msg_hook(self, script: bytes) -> str:
        self.hook = script
        return f"{self.root}/hooks/commit-msg"

    # what is there

    def head(self) -> Head:
        if self.branch is None or self.remote is None:
            return Head(self.commit, self.branch)
        return Head(self.commit, self.branch, "origin", self.branch, f"refs/remotes/origin/{self.branch}")

    def survey(self, thread: str | None = None) -> Survey:
        return MemorySurvey(self, thread)

    def is_tracked(self, path: str) -> bool:
        return path in self.index

    def taken_names(self, thread: str) -> set[str]:
        tracked = {*self.index, *self.objects.tree(self.commit)}
        return {path.partition("/")[2] for path in tracked if path.startswith(f"{thread}/")} | set(
            self.filenames(thread)
        )

    def unpushed(self) -> list[CommitRecord]:
        if self.commit is None or self.branch not in self.fetched:
            return []
        return self.objects.between(self.fetched[self.branch], self.commit)[::-1]

    def history(self, head: str | None, after: str | None = None) -> History:
        if head is None:
            return History((), from_start=True)
        known = after is not None and after in self.objects.line(head)
        return History(tuple(self.objects.between(after if known else None, head)), from_start=not known)

    def commits_between(self, base: str | None, tip: str) -> list[CommitRecord]:
        return self.objects.between(base, tip)

    def newest_commits(self, head: str, most: int) -> list[CommitRecord]:
        return self.objects.between(None, head)[::-1][:most]

    def ancestry(self) -> Mapping[str, tuple[str, ...]]:
        return {record.commit: record.parents for record in self.objects.between(None, self.commit or "")}

    def blob_id(self, content: bytes) -> str:
        return blob_id(content)

    def committed_files(self, commit: str) -> Mapping[str, TrackedFile]:
        return self.objects.tree(commit)

    def read_blobs(self, blobs: Sequence[str]) -> dict[str, bytes | None]:
        return {blob: self.objects.blobs.get(blob) for blob in blobs}

    def check_signatures(
        self, commits: Sequence[str], allowed_signers: Path | None
    ) -> dict[str, SignatureCheck]:
        vouched_for = allowed_signers.read_text().split() if allowed_signers else []
        return {name: _check(self.objects.commits[name], vouched_for) for name in commits}

    # writing

    def begin_posting(self, path: str, content: bytes, *, replaces_draft: bool = False) -> Posting:
        if path.partition("/")[2] in self.taken_names(path.partition("/")[0]) and not replaces_draft:
            raise FileTaken(path, "written")
        return MemoryPosting(self, path, content)

    def make_commit(self, tree: Tree, message: str, author: Identity, key: str | None) -> str:
        moment = int(self._clock.now().timestamp())
        return self.objects.add_commit(MemoryCommit(self.commit, tree, author, moment, message, key))

    # the wire

    def wire(self, remote: str = "origin", branch: str = "main", *, pushing: bool = True) -> Wire | None:
        if self.remote is None:
            if pushing:
                raise NoRemote(remote)
            return None
        if self.branch is None:
            raise DetachedHead
        if (remote, branch) != ("origin", self.branch):
            raise OffTheWire(self.branch, f"origin/{self.branch}", f"{remote}/{branch}")
        return self.upstream()

    def upstream(self) -> Wire:
        if self.branch is None:
            raise DetachedHead
        if self.remote is None:
            raise NoUpstream(self.branch, "origin")
        return Wire("origin", self.branch, f"refs/remotes/origin/{self.branch}")

    def push(self, wire: Wire, commit: str) -> Pushed | Raced:
        remote = self._reach(lambda says: PushFailed(wire.remote, wire.branch, says))
        there = remote.branches.get(wire.branch)
        if there is not None and there not in self.objects.line(commit):
            return Raced("[rejected] (fetch first)")
        remote.branches[wire.branch] = self.fetched[wire.branch] = commit
        return Pushed(commit)

    def fetch(self, wire: Wire) -> str:
        remote = self._reach(lambda says: FetchFailed(wire.remote, says))
        if wire.branch not in remote.branches:
            raise FetchFailed(wire.remote, f"couldn't find remote ref refs/heads/{wire.branch}")
        self.fetched[wire.branch] = remote.branches[wire.branch]
        for thread in {*remote.freezes, *self.known_freezes}:
            self._learn_freeze(thread)
        return self.fetched[wire.branch]

    def compare(self, remote_head: str) -> Incoming:
        if self.commit is None:
            raise GitFailed("the branch has no commit yet, so there is nothing to compare")
        return self.objects.compare(self.commit, remote_head)

    def fast_forward(self, commit: str) -> InTheWay | None:
        new = self.objects.tree(commit).keys() - self.objects.tree(self.commit).keys()
        blockers = tuple(sorted(new & (self.present() | self.index.keys())))
        if blockers:
            return InTheWay(blockers)
        if self.commit is not None and self.commit not in self.objects.line(commit):
            raise GitFailed("git merge failed", "fatal: Not possible to fast-forward, aborting.")
        self._check_out(commit)
        return None

    def rebuild(self, tip: str) -> list[Rebuilt] | None:
        base = self.objects.merge_base(self.commit, tip) if self.commit else None
        if self.commit is None or base is None:
            return None
        ours = self.objects.between(base, self.commit)
        planned = plan_rebuild(ours, self.objects.between(base, tip), self._taken_without(ours, tip))
        if planned is None:
            return None
        rebuilt = []
        parent, tree = tip, dict(self.objects.tree(tip))
        for plan in planned:
            tree = {**tree, **{turn.path: TrackedFile(turn.blob, is_symlink=False) for turn in plan.turns}}
            before = self.objects.commits[plan.old_commit]
            parent = self.objects.add_commit(before._replace(parent=parent, tree=tree, message=plan.message))
            rebuilt += [Rebuilt(plan.old_commit, turn.old_path, turn.path, parent) for turn in plan.turns]
        self._check_out(parent)
        return rebuilt

    def _taken_without(self, ours: Sequence[CommitRecord], tip: str) -> dict[str, set[str]]:
        own = {change.path for commit in ours for change in commit.changes}
        taken: dict[str, set[str]] = {path.partition("/")[0]: set() for path in own}
        for path in {*self.objects.tree(tip), *(self.present() - own)}:
            thread, _, filename = path.partition("/")
            if thread in taken:
                taken[thread].add(filename)
        return taken

    def _check_out(self, commit: str) -> None:
        """Take work tree and index along to another commit; what it does not touch stays as it is."""
        before, after = self.objects.tree(self.commit), self.objects.tree(commit)
        for path in before.keys() - after.keys():
            self.files.pop(path, None)
            self.index.pop(path, None)
        for path, file in after.items():
            if before.get(path) != file:
                self.files[path] = self.objects.blobs[file.blob or ""]
                self.index[path] = file
        self.commit = commit

    def _reach(self, refusal: Callable[[str], GitFailed]) -> MemoryRemote:
        if self.remote is None or not self.remote.reachable:
            raise refusal("fatal: Could not read from remote repository.")
        return self.remote

    # freezes

    def freezes(self) -> dict[str, FreezeNote]:
        return dict(self.known_freezes)

    def ask_freeze(self, wire: Wire, thread: str) -> FreezeNote | None:
        if self.remote is not None and self.remote.reachable:
            self._learn_freeze(thread)
        return self.known_freezes.get(thread)

    def freeze(
        self, wire: Wire | None, thread: str, note: str, *, replaces: FreezeNote | None = None
    ) -> FreezeNote | Raced:
        remote = self.remote if wire is not None else None
        if remote is None or not remote.takes_freezes or not remote.reachable:
            self.known_freezes[thread] = FreezeNote(note, only_here=True)
        elif remote.freezes.get(thread) != (replaces.text if replaces and not replaces.only_here else None):
            return Raced("[rejected] (stale info)")
        else:
            remote.freezes[thread] = note
            self.known_freezes[thread] = FreezeNote(note)
        return self.known_freezes[thread]

    def thaw(self, wire: Wire | None, thread: str) -> bool:
        known = self.known_freezes.pop(thread, None)
        planted = self.remote.freezes.pop(thread, None) if self.remote and wire else None
        return known is not None or planted is not None

    def _learn_freeze(self, thread: str) -> None:
        """Take over what the remote says about one thread; a note it refused stays."""
        note = self.remote.freezes.get(thread) if self.remote else None
        known = self.known_freezes.get(thread)
        if note is not None:
            self.known_freezes[thread] = FreezeNote(note)
        elif known is not None and not known.only_here:
            del self.known_freezes[thread]


def _check(commit: MemoryCommit, vouched_for: Sequence[str]) -> SignatureCheck:
    if commit.signing_key is None:
        return UNSIGNED
    known = commit.signing_key in vouched_for
    return SignatureCheck(
        Signature.KNOWN if known else Signature.STRANGER,
        commit.author.email if known else None,
        (commit.signing_key,),
    )
