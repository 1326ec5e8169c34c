"""Keep messages in the control-plane file, beside foreign tables (rigs §14.1)."""

from __future__ import annotations

import json
import sqlite3
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from bridgehead.host.locks import transaction
from bridgehead.rigs.ledger.messages import Lifecycle, Message, acknowledged_by

OUR_VERSION = 1
_SHARED = """
CREATE TABLE IF NOT EXISTS bridge_messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  thread TEXT NOT NULL, filename TEXT NOT NULL, message_type TEXT NOT NULL,
  from_rig TEXT NOT NULL, to_rig TEXT NOT NULL,
  lifecycle_state TEXT NOT NULL,
  status_class TEXT NOT NULL,
  status_text TEXT NOT NULL,
  tldr TEXT, envelope_date TEXT NOT NULL, commit_sha TEXT NOT NULL,
  parent_refs TEXT,
  run_id TEXT {run_reference},
  body_hash TEXT NOT NULL,
  created_at TEXT NOT NULL DEFAULT (datetime('now')),
  UNIQUE(commit_sha, thread, filename));
CREATE TABLE IF NOT EXISTS bridge_message_events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  message_id INTEGER NOT NULL REFERENCES bridge_messages(id),
  event_type TEXT NOT NULL,
  rig TEXT NOT NULL, notes TEXT,
  created_at TEXT NOT NULL DEFAULT (datetime('now')));
CREATE INDEX IF NOT EXISTS idx_bridge_msg_thread ON bridge_messages(thread);
CREATE INDEX IF NOT EXISTS idx_bridge_msg_run ON bridge_messages(run_id);
CREATE INDEX IF NOT EXISTS idx_bridge_msg_status_class ON bridge_messages(status_class);
CREATE INDEX IF NOT EXISTS idx_bridge_msg_lifecycle ON bridge_messages(lifecycle_state);
CREATE INDEX IF NOT EXISTS idx_bridge_msg_ev ON bridge_message_events(message_id);
"""
_OURS = """
CREATE TABLE IF NOT EXISTS bridge_message_recipients (
  message_id INTEGER NOT NULL REFERENCES bridge_messages(id),
  rig TEXT NOT NULL, PRIMARY KEY (message_id, rig));
CREATE INDEX IF NOT EXISTS idx_bridge_recipient ON bridge_message_recipients(rig);
CREATE TABLE IF NOT EXISTS bridge_cursor (
  repo TEXT NOT NULL, ref TEXT NOT NULL, commit_sha TEXT NOT NULL,
  updated_at TEXT NOT NULL, PRIMARY KEY (repo, ref));
CREATE TABLE IF NOT EXISTS bridge_counters (
  name TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS bridge_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
BUSY_MILLISECONDS = 5000
_HEAD_REF = "HEAD"
_COLUMNS = (
    "thread, filename, message_type, from_rig, to_rig, status_class, status_text, "
    "tldr, envelope_date, commit_sha, parent_refs, body_hash"
)
_INSERT = f"""
INSERT INTO bridge_messages ({_COLUMNS}, lifecycle_state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


class LedgerDatabase:
    """One open control-plane file, closed when nobody holds it any more."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(
            path, timeout=BUSY_MILLISECONDS / 1000, isolation_level=None
        )
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
            self._connection.execute("PRAGMA foreign_keys = ON")
            prepare(self._connection)
        except BaseException:
            self._connection.close()
            raise
        weakref.finalize(self, self._connection.close)

    def transaction(self) -> AbstractContextManager[None]:
        return transaction(self._connection)

    # Messages

    def record(
        self,
        message: Message,
        state: Lifecycle,
        *,
        rig: str,
        event: str | None,
        note: str | None,
    ) -> int:
        """Insert a message unless it is known, and return the id of its row.

        The messages it names become acknowledged, those of a thread it closes
        resolved.
        """
        known = self.find(message.commit_sha, message.path)
        if known is not None:
            return known
        row_id = self._insert(message, state)
        self.add_event(row_id, event or state, rig, note)
        for other in acknowledged_by(message, self._perhaps_named_by(message)):
            self.move(other, Lifecycle.ACKED, rig=message.from_rig)
        if message.closes:
            self.add_event(row_id, Lifecycle.RESOLVED, message.from_rig, None)
            self._connection.execute(
                "UPDATE bridge_messages SET lifecycle_state = ? WHERE thread = ? AND "
                "lifecycle_state NOT IN (?, ?)",
                (
                    Lifecycle.RESOLVED,
                    message.thread,
                    Lifecycle.RESOLVED,
                    Lifecycle.SUPERSEDED,
                ),
            )
        return row_id

    def _perhaps_named_by(self, message: Message) -> list[Message]:
        """Return what an answer may name.

        A hash names a message of its own thread, a commit one of any thread.
        """
        named = self.messages(message.thread) if message.in_reply_to else []
        for reference in message.commits_named:
            # Any id that begins with the reference; "g" follows every hex digit.
            named += self._selected(
                "commit_sha >= ? AND commit_sha < ?", (reference, f"{reference}g")
            )
        return named

    def _insert(self, message: Message, state: Lifecycle) -> int:
        to_rig = message.to[0] if len(message.to) == 1 else json.dumps(message.to)
        references = json.dumps(message.references) if message.references else None
        values = (
            message.thread,
            message.filename,
            message.message_type,
            message.from_rig,
            to_rig,
            message.status_class,
            message.status_text,
            message.tldr,
            message.envelope_date,
            message.commit_sha,
            references,
            message.body_hash,
            state,
        )
        cursor = self._connection.execute(_INSERT, values)
        row_id = int(cursor.lastrowid or 0)
        self._connection.executemany(
            "INSERT OR IGNORE INTO bridge_message_recipients (message_id, rig) VALUES "
            "(?, ?)",
            [(row_id, rig) for rig in message.to],
        )
        return row_id

    def find(self, commit_sha: str, path: str) -> int | None:
        thread, _, filename = path.partition("/")
        row = self._connection.execute(
            "SELECT id FROM bridge_messages WHERE commit_sha = ? AND thread = ? AND "
            "filename = ?",
            (commit_sha, thread, filename),
        ).fetchone()
        return int(row[0]) if row else None

    def messages(self, thread: str | None = None) -> list[Message]:
        """Return the messages of one thread or all, oldest first."""
        if thread is None:
            return self._selected("1", ())
        return self._selected("thread = ?", (thread,))

    def _selected(self, where: str, values: tuple[str, ...]) -> list[Message]:
        """Return the messages that meet a condition and are not superseded."""
        limits = f"{where} AND lifecycle_state <> '{Lifecycle.SUPERSEDED}'"
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM bridge_messages WHERE {limits} ORDER BY id", values
        )
        return [_message(row) for row in rows]

    def move(
        self, message: Message, state: Lifecycle, *, rig: str, note: str | None = None
    ) -> bool:
        """Move a message to a later state; return whether it was in an earlier one."""
        row_id = self.find(message.commit_sha, message.path)
        if row_id is None:
            return False
        found = self._connection.execute(
            "SELECT lifecycle_state FROM bridge_messages WHERE id = ?", (row_id,)
        )
        if state.rank <= Lifecycle(found.fetchone()[0]).rank:
            return False
        self._connection.execute(
            "UPDATE bridge_messages SET lifecycle_state = ? WHERE id = ?",
            (state, row_id),
        )
        self.add_event(row_id, state, rig, note)
        return True

    def add_event(self, row_id: int, event: str, rig: str, note: str | None) -> None:
        self._connection.execute(
            "INSERT INTO bridge_message_events (message_id, event_type, rig, notes) "
            "VALUES (?, ?, ?, ?)",
            (row_id, str(event), rig, note),
        )

    def forget(self, thread: str | None) -> None:
        """Remove the rows of a thread, or all, before they are rebuilt from git."""
        chosen = "SELECT id FROM bridge_messages"
        values: tuple[str, ...] = ()
        if thread:
            chosen += " WHERE thread = ?"
            values = (thread,)
        for table in ("bridge_message_events", "bridge_message_recipients"):
            self._connection.execute(
                f"DELETE FROM {table} WHERE message_id IN ({chosen})", values
            )
        self._connection.execute(
            f"DELETE FROM bridge_messages WHERE id IN ({chosen})", values
        )

    # Cursor and counters

    def cursor(self, repo: str) -> str | None:
        row = self._connection.execute(
            "SELECT commit_sha FROM bridge_cursor WHERE repo = ? AND ref = ?",
            (repo, _HEAD_REF),
        ).fetchone()
        return str(row[0]) if row else None

    def move_cursor(self, repo: str, commit_sha: str) -> None:
        self._connection.execute(
            "INSERT INTO bridge_cursor (repo, ref, commit_sha, updated_at)"
            " VALUES (?, ?, ?, datetime('now'))"
            " ON CONFLICT (repo, ref) DO UPDATE"
            " SET commit_sha = excluded.commit_sha, updated_at = excluded.updated_at",
            (repo, _HEAD_REF, commit_sha),
        )

    def count(self, name: str) -> None:
        self._connection.execute(
            "INSERT INTO bridge_counters (name, value) VALUES (?, 1)"
            " ON CONFLICT (name) DO UPDATE SET value = value + 1",
            (name,),
        )


def prepare(database: sqlite3.Connection) -> None:
    """Create the tables that are missing.

    `run_id` refers to `runs` only if another tool has created that table.
    """
    has_runs = database.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'runs'"
    ).fetchone()
    run_reference = "REFERENCES runs(id)" if has_runs else ""
    database.executescript(_SHARED.format(run_reference=run_reference) + _OURS)
    database.execute(
        "INSERT OR IGNORE INTO bridge_meta (key, value) VALUES ('bridgehead_version', "
        "?)",
        (str(OUR_VERSION),),
    )
    database.commit()
    (version,) = database.execute(
        "SELECT value FROM bridge_meta WHERE key = 'bridgehead_version'"
    ).fetchone()
    if not str(version).isdecimal() or int(version) > OUR_VERSION:
        raise sqlite3.DatabaseError(
            f"its tables are of version {version}, this program knows {OUR_VERSION}"
        )


def _message(row: Sequence[Any]) -> Message:
    (
        thread,
        filename,
        message_type,
        from_rig,
        to_rig,
        status_class,
        status_text,
        tldr,
        envelope_date,
        commit_sha,
        parent_refs,
        body_hash,
    ) = row
    recipients = json.loads(to_rig) if to_rig.startswith("[") else [to_rig]
    references = json.loads(parent_refs) if parent_refs else ()
    return Message(
        thread=thread,
        filename=filename,
        message_type=message_type,
        from_rig=from_rig,
        to=tuple(recipients),
        status_class=status_class,
        status_text=status_text,
        tldr=tldr,
        envelope_date=envelope_date,
        commit_sha=commit_sha,
        references=tuple(references),
        in_reply_to="",  # is not stored
        body_hash=body_hash,
    )
