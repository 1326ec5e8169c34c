"""The ledger of one rig: what git has, written through to the control-plane file (rigs §14.2, §14.3, §14.4).

A file that cannot be written is a warning and nothing more; the next reconcile repairs it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from bridgehead.rigs.envelope.envelope import Envelope, parse_envelope
from bridgehead.rigs.envelope.names import envelope_at
from bridgehead.rigs.ledger.database import LedgerDatabase
from bridgehead.rigs.ledger.messages import REPLAYED, Lifecycle, Message, message_of
from bridgehead.rigs.repositories.records import CommitRecord, Pushed, Rebuilt
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.quarantine import Quarantine
from bridgehead.rigs.views.results import Reconciled, Replayed

DEFAULT_FILE = ".bridge/control-plane.db"

T = TypeVar("T")


def ledger_path(rig: Rig, swarm_db: str | None) -> Path | None:
    """Where the control plane is: SWARM_DB, else the configuration; None while it is off."""
    if swarm_db:
        return Path(swarm_db).expanduser().absolute()
    named = rig.settings.control_plane if rig.settings else False
    if named is False:
        return None
    place = Path(DEFAULT_FILE if named is True else named).expanduser()
    if not place.is_absolute() and (tracked := _tracked_on_the_way(rig, place)):
        rig.tell_once(
            f"warning: {tracked} is tracked by git, so other rigs can change it; no "
            "control plane is used"
        )
        return None
    return Path(rig.repository.root, place)


def _tracked_on_the_way(rig: Rig, place: Path) -> str | None:
    """Return the file, or a link that leads to it, if the others brought it."""
    steps = [parent.as_posix() for parent in (place, *place.parents)][:-1]
    linked = [
        step
        for step in steps
        if step == steps[0] or Path(rig.repository.root, step).is_symlink()
    ]
    return next((step for step in linked if rig.repository.is_tracked(step)), None)


class RigLedger:
    """Implements the Ledger that operations write to."""

    def __init__(self, rig: Rig, path: Path) -> None:
        self._rig = rig
        self._path = path
        self._database: LedgerDatabase | None = None
        self._given_up = False

    # What operations call: never fails a command

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

    # What the commands reconcile and replay call: failures are theirs to report

    def reconcile(self, thread_id: str | None) -> Reconciled:
        """Insert what is missing, push what never left, mark what is gone."""
        history = self._history()
        with self._changing() as database:
            added = self._insert_missing(database, history, thread_id)
            if thread_id is None:
                database.move_cursor(self._repo, self._head)
        pushed = self._push_again(thread_id)
        here = {record.commit for record in history}
        note = "the commit is no longer in history"
        with self._changing() as database:
            gone = [
                message
                for message in database.messages(thread_id)
                if message.commit_sha not in here
            ]
            superseded = sum(
                database.move(one, Lifecycle.SUPERSEDED, rig=self._own, note=note)
                for one in gone
            )
        return Reconciled(added, pushed, superseded)

    def replay(self, thread_id: str | None) -> Replayed:
        """Forget the rows and rebuild them from history; acknowledgements and ends are derived again."""
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

    # How

    def _catch_up(self) -> None:
        with self._changing() as database:
            after = database.cursor(self._repo)
            if after == self._head or not self._head:
                return
            history = self._rig.repository.history(self._head, after=after)
            self._insert_missing(database, history.commits, None)
            database.move_cursor(self._repo, self._head)

    def _sent(self, path: str, commit: str, note: str | None) -> int | None:
        """Record what the tables lack, ours among it: a push retry may have brought turns of other rigs too."""
        with self._changing() as database:
            after = database.cursor(self._repo)
            for message in self._messages(
                self._rig.repository.history(self._head, after=after).commits
            ):
                ours = (message.path, message.commit_sha) == (path, commit)
                state = message.first_state(self._own)
                database.record(
                    message,
                    state,
                    rig=self._own,
                    event=None,
                    note=note if ours else None,
                )
            database.move_cursor(self._repo, self._head)
            return database.find(commit, path)

    def _rewritten(self, turns: Sequence[Rebuilt]) -> None:
        made = {turn.old_commit: turn.commit for turn in turns}
        with self._changing() as database:
            database.count("retries")
            for message in database.messages():
                if message.commit_sha in made:
                    note = f"push retry made it {made[message.commit_sha]}"
                    database.move(
                        message, Lifecycle.SUPERSEDED, rig=self._own, note=note
                    )

    def _insert_missing(
        self,
        database: LedgerDatabase,
        history: Iterable[CommitRecord],
        thread_id: str | None,
    ) -> int:
        added = 0
        for message in self._messages(history):
            if (
                thread_id in (None, message.thread)
                and database.find(message.commit_sha, message.path) is None
            ):
                database.record(
                    message,
                    message.first_state(self._own),
                    rig=self._own,
                    event=None,
                    note=None,
                )
                added += 1
        return added

    def _push_again(self, thread_id: str | None) -> int:
        """Rows of ours whose commits the upstream lacks are sent now."""
        config = self._rig.config
        unpushed = {record.commit for record in self._rig.repository.unpushed()}
        mine = [
            m
            for m in self._open().messages(thread_id)
            if m.commit_sha in unpushed and m.from_rig == self._own
        ]
        if not mine:
            return 0
        wire = self._rig.repository.wire(config.remote, config.branch, pushing=True)
        outcome = self._rig.repository.push(wire, self._head) if wire else None
        if not isinstance(outcome, Pushed):
            self._rig.tell(
                "warning: the remote has new commits; rig-bridge sync shows them"
            )
            return 0
        return len(mine)

    def _messages(self, history: Iterable[CommitRecord]) -> Iterator[Message]:
        """Every envelope that a history adds, with the content it was added with; none that is kept apart."""
        quarantine = Quarantine(self._rig.repository.private_dir)
        added = [
            (change.path, record.commit, change.blob)
            for record in history
            for change in record.changes
            if change.status == "A"
            and not change.is_symlink
            and envelope_at(change.path)
            and not quarantine.holds(change.path, change.blob)
        ]
        contents = self._rig.repository.read_blobs([blob for _, _, blob in added])
        for path, commit, blob in added:
            content = contents.get(blob)
            envelope = parse_envelope(content) if content is not None else None
            if isinstance(envelope, Envelope):
                yield message_of(path, commit, envelope)

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
        """Do it, unless it has failed before: one warning is enough, and one wait for a lock."""
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
