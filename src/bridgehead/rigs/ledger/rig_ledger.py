"""Write what git has to the control-plane file of a rig (rigs §14.2, §14.3, §14.4).

If the file cannot be written, there is a warning; the next reconcile repairs it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from bridgehead.rigs.envelope.envelope import Envelope, parse_envelope
from bridgehead.rigs.envelope.names import envelope_at
from bridgehead.rigs.ledger.database import LedgerDatabase
from bridgehead.rigs.ledger.messages import REPLAYED, Lifecycle, Message, message_of
from bridgehead.rigs.repositories.records import (
    CommitRecord,
    PathChange,
    Pushed,
    Rebuilt,
)
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.quarantine import Quarantine
from bridgehead.rigs.views.results import Reconciled, Replayed

DEFAULT_FILE = ".bridge/control-plane.db"

T = TypeVar("T")


def ledger_path(rig: Rig, swarm_db: str | None) -> Path | None:
    """Return the file SWARM_DB or the configuration names; None if there is none."""
    if swarm_db:
        return Path(swarm_db).expanduser().absolute()
    named = rig.settings.control_plane if rig.settings else False
    if named is False:
        return None
    path = Path(DEFAULT_FILE if named is True else named).expanduser()
    if path.is_absolute():
        return path
    tracked = _tracked_part(rig, path)
    if tracked is not None:
        rig.tell_once(
            f"warning: {tracked} is tracked by git, so other rigs can change it; no "
            "control plane is used"
        )
        return None
    return Path(rig.repository.root, path)


def _tracked_part(rig: Rig, path: Path) -> str | None:
    """Return the path itself, or a link on the way to it, if git tracks that."""
    links = [
        parent
        for parent in path.parents[:-1]
        if Path(rig.repository.root, parent).is_symlink()
    ]
    for part in (path, *links):
        if rig.repository.is_tracked(part.as_posix()):
            return part.as_posix()
    return None


class RigLedger:
    """The Ledger that operations write to, kept in a control-plane file."""

    def __init__(self, rig: Rig, path: Path) -> None:
        self._rig = rig
        self._path = path
        self._database: LedgerDatabase | None = None
        self._given_up = False

    # Called by operations: a failure is told, and never fails a command.

    def catch_up(self) -> None:
        self._tried(self._catch_up, None)

    def sent(self, path: str, commit: str, *, pushed: bool) -> int | None:
        return self._tried(
            lambda: self._sent(path, commit, None if pushed else "unpushed"), None
        )

    def rewritten(self, turns: Sequence[Rebuilt]) -> None:
        self._tried(lambda: self._rewritten(turns), None)

    def refused(self, reason: str) -> None:
        def count() -> None:
            with self._changing() as database:
                database.count(f"refusal:{reason}")

        self._tried(count, None)

    def is_current(self) -> bool:
        return self._tried(lambda: self._open().cursor(self._repo) == self._head, False)

    # Called by the commands `reconcile` and `replay`, which report failures.

    def reconcile(self, thread_id: str | None) -> Reconciled:
        """Insert what is missing, push what never left, mark what is gone."""
        history = self._history()
        with self._changing() as database:
            added = self._insert_missing(database, history, thread_id)
            if thread_id is None:
                database.move_cursor(self._repo, self._head)
        pushed = self._push_again(thread_id)
        commits = {record.commit for record in history}
        with self._changing() as database:
            superseded = self._supersede_missing(database, commits, thread_id)
        return Reconciled(added, pushed, superseded)

    def replay(self, thread_id: str | None) -> Replayed:
        """Forget the rows and rebuild them from history."""
        note = f"reconstructed from git history at {self._rig.today}"
        messages = [
            message
            for message in self._messages(self._history())
            if thread_id in (None, message.thread)
        ]
        with self._changing() as database:
            database.forget(thread_id)
            for message in messages:
                state = message.first_state(self._own)
                database.record(
                    message, state, rig=message.from_rig, event=REPLAYED, note=note
                )
                if not message.hash_agrees:
                    self._rig.tell(f"warning: {message.path}: body_hash_mismatch")
            if thread_id is None:
                database.move_cursor(self._repo, self._head)
        return Replayed(len({message.thread for message in messages}), len(messages))

    # How it is done.

    def _catch_up(self) -> None:
        with self._changing() as database:
            after = database.cursor(self._repo)
            if after == self._head or not self._head:
                return
            history = self._rig.repository.history(self._head, after=after)
            self._insert_missing(database, history.commits, None)
            database.move_cursor(self._repo, self._head)

    def _sent(self, path: str, commit: str, note: str | None) -> int | None:
        """Record what the tables lack, and return the row of the turn that was sent.

        A push retry may have brought turns of other rigs as well.
        """
        with self._changing() as database:
            after = database.cursor(self._repo)
            history = self._rig.repository.history(self._head, after=after)
            for message in self._messages(history.commits):
                is_ours = (message.path, message.commit_sha) == (path, commit)
                self._record(database, message, note if is_ours else None)
            database.move_cursor(self._repo, self._head)
            return database.find(commit, path)

    def _rewritten(self, turns: Sequence[Rebuilt]) -> None:
        new_commits = {turn.old_commit: turn.commit for turn in turns}
        with self._changing() as database:
            database.count("retries")
            for message in database.messages():
                if message.commit_sha in new_commits:
                    note = f"push retry made it {new_commits[message.commit_sha]}"
                    self._supersede(database, message, note)

    def _record(
        self, database: LedgerDatabase, message: Message, note: str | None
    ) -> None:
        state = message.first_state(self._own)
        database.record(message, state, rig=self._own, event=None, note=note)

    def _supersede(self, database: LedgerDatabase, message: Message, note: str) -> bool:
        return database.move(message, Lifecycle.SUPERSEDED, rig=self._own, note=note)

    def _supersede_missing(
        self, database: LedgerDatabase, commits: Collection[str], thread_id: str | None
    ) -> int:
        """Supersede the messages whose commits are gone, and return how many."""
        superseded = 0
        for message in database.messages(thread_id):
            if message.commit_sha in commits:
                continue
            note = "the commit is no longer in history"
            if self._supersede(database, message, note):
                superseded += 1
        return superseded

    def _insert_missing(
        self,
        database: LedgerDatabase,
        history: Iterable[CommitRecord],
        thread_id: str | None,
    ) -> int:
        added = 0
        for message in self._messages(history):
            if thread_id not in (None, message.thread):
                continue
            if database.find(message.commit_sha, message.path) is None:
                self._record(database, message, note=None)
                added += 1
        return added

    def _push_again(self, thread_id: str | None) -> int:
        """Push our commits that the upstream lacks, and return how many messages."""
        config = self._rig.config
        unpushed = {record.commit for record in self._rig.repository.unpushed()}
        own_messages = [
            message
            for message in self._open().messages(thread_id)
            if message.commit_sha in unpushed and message.from_rig == self._own
        ]
        if not own_messages:
            return 0
        wire = self._rig.repository.wire(config.remote, config.branch, pushing=True)
        outcome = self._rig.repository.push(wire, self._head) if wire else None
        if not isinstance(outcome, Pushed):
            self._rig.tell(
                "warning: the remote has new commits; rig-bridge sync shows them"
            )
            return 0
        return len(own_messages)

    def _messages(self, history: Iterable[CommitRecord]) -> Iterator[Message]:
        """Yield the envelopes that a history adds, with their content at that time.

        Those in quarantine are left out.
        """
        quarantine = Quarantine(self._rig.repository.private_dir)
        added = [
            (commit, change)
            for commit, change in _added_envelopes(history)
            if not quarantine.holds(change.path, change.blob)
        ]
        contents = self._rig.repository.read_blobs([change.blob for _, change in added])
        for commit, change in added:
            content = contents.get(change.blob)
            envelope = parse_envelope(content) if content is not None else None
            if isinstance(envelope, Envelope):
                yield message_of(change.path, commit, envelope)

    def _history(self) -> Sequence[CommitRecord]:
        return tuple(self._rig.repository.history(self._head or None).commits)

    @property
    def _own(self) -> str:
        return str(self._rig.settings.rig_id) if self._rig.settings else ""

    @property
    def _repo(self) -> str:
        return self._rig.repository.root

    @property
    def _head(self) -> str:
        return self._rig.repository.head().commit or ""

    def _open(self) -> LedgerDatabase:
        if self._database is None:
            self._database = LedgerDatabase(self._path)
        return self._database

    @contextmanager
    def _changing(self) -> Iterator[LedgerDatabase]:
        database = self._open()
        with database.transaction():
            yield database

    def _tried(self, work: Callable[[], T], otherwise: T) -> T:
        """Return what `work` returns, or `otherwise` if it fails, or has failed before.

        One warning is enough, and so is one wait for a lock.
        """
        if self._given_up:
            return otherwise
        try:
            return work()
        except sqlite3.Error as error:
            self._given_up = True
            self._rig.tell(
                f"warning: the control plane {self._path} was not written ({error}); "
                "reconcile repairs it"
            )
            return otherwise


def _added_envelopes(
    history: Iterable[CommitRecord],
) -> Iterator[tuple[str, PathChange]]:
    """Yield the files that a history adds as envelopes, each with its commit."""
    for record in history:
        for change in record.changes:
            is_new_file = change.status == "A" and not change.is_symlink
            if is_new_file and envelope_at(change.path):
                yield record.commit, change
