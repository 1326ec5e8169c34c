"""The tables of rigs §14.1: those other tools know, and ours beside them. Foreign tables are never touched."""

from __future__ import annotations

import sqlite3

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
  message_id INTEGER NOT NULL REFERENCES bridge_messages(id), rig TEXT NOT NULL, PRIMARY KEY (message_id, rig));
CREATE INDEX IF NOT EXISTS idx_bridge_recipient ON bridge_message_recipients(rig);
CREATE TABLE IF NOT EXISTS bridge_cursor (
  repo TEXT NOT NULL, ref TEXT NOT NULL, commit_sha TEXT NOT NULL, updated_at TEXT NOT NULL, PRIMARY KEY (repo, ref));
CREATE TABLE IF NOT EXISTS bridge_counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS bridge_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


class NewerTables(sqlite3.DatabaseError):
    """A later version has been here; what it means by our tables is not known."""

    def __init__(self, version: str) -> None:
        super().__init__(f"its tables are of version {version}, this program knows {OUR_VERSION}")


def prepare(database: sqlite3.Connection) -> None:
    """Make what is missing. `run_id` refers to `runs` only where another tool brought that table."""
    runs = database.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'runs'").fetchone()
    database.executescript(_SHARED.format(run_reference="REFERENCES runs(id)" if runs else "") + _OURS)
    database.execute(
        "INSERT OR IGNORE INTO bridge_meta (key, value) VALUES ('bridgehead_version', ?)", (str(OUR_VERSION),)
    )
    database.commit()
    (version,) = database.execute("SELECT value FROM bridge_meta WHERE key = 'bridgehead_version'").fetchone()
    if not str(version).isdecimal() or int(version) > OUR_VERSION:
        raise NewerTables(version)
