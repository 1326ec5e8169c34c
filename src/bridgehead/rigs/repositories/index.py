"""Keep the index of a clone in one SQLite file under the git directory.

git plumbing fills it, and everything in it can be read from git once more. So it is
rebuilt from nothing whenever it is in doubt, and kept in memory if it cannot be
written.
"""

import json
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from bridgehead.errors import FileError
from bridgehead.host.directories import make_dir
from bridgehead.host.locks import transaction
from bridgehead.rigs.envelope.envelope import Envelope
from bridgehead.rigs.envelope.names import is_rig_id

FORMAT = 1
FILE_NAME = "index.sqlite"
BUSY_SECONDS = 10.0
_COMPANIONS = ("", "-wal", "-shm")
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
# Names of files and authors that are not UTF-8 are stored as bytes, so they have no
# type.
_TABLES = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS history (
  head TEXT, commits INTEGER NOT NULL, is_linear INTEGER NOT NULL,
  boundary TEXT NOT NULL, read_from TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS additions (
  thread TEXT NOT NULL, filename NOT NULL, added_by TEXT NOT NULL,
  position INTEGER NOT NULL, committed_at INTEGER NOT NULL, author_email NOT NULL,
  is_signed INTEGER NOT NULL, is_rewritten INTEGER NOT NULL, blob TEXT NOT NULL,
  changed_at INTEGER NOT NULL, changed_by TEXT NOT NULL,
  PRIMARY KEY (thread, filename)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS additions_by_change
  ON additions (thread, changed_at, changed_by);
CREATE TABLE IF NOT EXISTS files (
  thread TEXT NOT NULL, filename NOT NULL, content_id TEXT NOT NULL,
  is_envelope INTEGER NOT NULL, fields TEXT NOT NULL,
  PRIMARY KEY (thread, filename)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS texts (
  thread TEXT NOT NULL, filename NOT NULL, frontmatter TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (thread, filename));
CREATE TABLE IF NOT EXISTS participants (
  rig TEXT NOT NULL, thread TEXT NOT NULL, filename NOT NULL,
  PRIMARY KEY (rig, thread, filename)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS participants_by_name ON participants (thread, filename);
PRAGMA user_version = {FORMAT};
COMMIT;
"""


class HistoryState(NamedTuple):
    """Which commits the additions were read from."""

    head: str | None = None  # the last commit that was read
    commits: int = 0
    is_linear: bool = True  # no merges: each commit descends from all before it
    boundary: str = ""  # where a shallow history ends
    read_from: str = ""  # the head when all of history was read last


class Addition(NamedTuple):
    """How a path came into HEAD."""

    filename: str
    commit: str  # the commit that added it; empty once it is deleted
    position: int  # of that commit, counted from the first
    committed_at: int
    author_email: str
    signed: bool
    rewritten: bool  # it once had other content
    blob: str  # its last content
    changed_at: int  # position of the last commit that touched it
    changed_by: str  # and that commit


class FileRow(NamedTuple):
    """One `.md` file of a thread: what it says, and how it came into HEAD.

    What it says is stored as JSON; the rest is filled in when the row is read.
    """

    filename: str
    findings: str  # kinds joined by blanks
    is_envelope: bool  # valid or not; other files are not listed
    is_relay: bool
    type: str
    sender: str
    to: str | list[str]
    date: str
    status: str
    tldr: str
    body_hash: str
    references: list[str]
    in_reply_to: str
    nonce: str
    added_by: str | None = None  # the commit; None or empty if it is not in HEAD
    position: int | None = None
    committed_at: int | None = None
    author_email: str | bytes | None = None
    is_signed: int | None = None
    is_rewritten: int | None = None


_FIELDS_OF_FILE = FileRow._fields.index("added_by")


class StoredFile(NamedTuple):
    """A file to be stored, with the id of its content and the envelope in it."""

    thread: str
    content_id: str
    row: FileRow
    envelope: Envelope | None


class Index:
    """An open index; `path` None keeps it in memory.

    What is read between `begin_reading` and `end_reading` is one state of the index,
    whatever other processes write meanwhile.
    """

    def __init__(self, path: Path | None) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(
            path or ":memory:",
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        self._finalizer = weakref.finalize(self, self._connection.close)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        [(tables,)] = self._select("SELECT COUNT(*) FROM sqlite_master")
        if not tables:
            self._connection.executescript(_TABLES)
        [(version,)] = self._select("PRAGMA user_version")
        if version != FORMAT:
            raise IndexOutdated

    def close(self) -> None:
        self._finalizer()

    def begin_reading(self) -> None:
        """Hold on to the present state of the index."""
        self._connection.execute("BEGIN")

    def end_reading(self) -> None:
        """Let go of the state that was held, if any."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def writing(self) -> AbstractContextManager[None]:
        """Write everything in the block at once, or nothing of it."""
        return transaction(self._connection)

    # history

    def history(self) -> HistoryState:
        """Return what the additions were read from."""
        rows = self._select("SELECT * FROM history")
        if not rows:
            return HistoryState()
        head, commits, is_linear, boundary, read_from = rows[0]
        return HistoryState(head, commits, bool(is_linear), boundary, read_from)

    def set_history(self, state: HistoryState) -> None:
        self._connection.execute("DELETE FROM history")
        self._connection.execute("INSERT INTO history VALUES (?, ?, ?, ?, ?)", state)

    def clear_additions(self) -> None:
        """Forget where everything came from, but not what it says."""
        self._connection.execute("DELETE FROM additions")

    def put_additions(self, additions: Mapping[tuple[str, str], Addition]) -> None:
        """Store additions, by thread and file name, in place of those already there."""
        self._connection.executemany(
            "INSERT OR REPLACE INTO additions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    thread,
                    _storable(filename),
                    *addition[1:4],
                    _storable(addition.author_email),
                    *addition[5:],
                )
                for (thread, filename), addition in additions.items()
            ),
        )

    def addition(self, thread: str, filename: str) -> Addition | None:
        """Return how one path came into HEAD."""
        rows = self._select(
            "SELECT * FROM additions WHERE thread = ? AND filename = ?",
            (thread, _storable(filename)),
        )
        return _addition(rows[0]) if rows else None

    def additions(self, thread: str) -> dict[str, Addition]:
        """Return how the paths of a thread came into HEAD, by file name."""
        rows = self._select("SELECT * FROM additions WHERE thread = ?", (thread,))
        found = map(_addition, rows)
        return {addition.filename: addition for addition in found}

    def last_changes(self) -> dict[str, tuple[int, str]]:
        """Return the last commit that touched each thread, with its position."""
        rows = self._select(
            "SELECT thread, MAX(changed_at), changed_by FROM additions GROUP BY thread"
        )
        return {thread: (position, commit) for thread, position, commit in rows}

    # files

    def content_ids(self, thread: str | None) -> dict[str, str]:
        """Return which contents are stored, by path, of one thread or all."""
        query = "SELECT thread, filename, content_id FROM files"
        if thread is None:
            rows = self._select(query)
        else:
            rows = self._select(f"{query} WHERE thread = ?", (thread,))
        return {
            f"{name}/{restored(filename)}": content_id
            for name, filename, content_id in rows
        }

    def files(self, thread: str) -> list[FileRow]:
        """Return the files of a thread."""
        rows = self._select(
            "SELECT fields, added_by, position, committed_at, author_email, is_signed,"
            " is_rewritten FROM files LEFT JOIN additions USING (thread, filename)"
            " WHERE thread = ?",
            (thread,),
        )
        files = _read_json(row[0] for row in rows)
        return [
            FileRow(*fields, *row[1:]) for fields, row in zip(files, rows, strict=True)
        ]

    def envelopes(self, thread: str, filenames: Sequence[str]) -> dict[str, Envelope]:
        """Return the envelopes in some files of a thread, by file name."""
        names = [_storable(filename) for filename in filenames]
        marks = ",".join("?" * len(names))
        rows = self._select(
            "SELECT filename, body, frontmatter FROM texts"
            f" WHERE thread = ? AND filename IN ({marks})",
            (thread, *names),
        )
        frontmatters = _read_json(row[2] for row in rows)
        return {
            restored(row[0]): Envelope(frontmatter, row[1])
            for row, frontmatter in zip(rows, frontmatters, strict=True)
        }

    def threads_with_envelopes(self) -> set[str]:
        """Return the threads that hold at least one envelope."""
        rows = self._select("SELECT DISTINCT thread FROM files WHERE is_envelope")
        return {thread for (thread,) in rows}

    def threads_naming(self, rigs: Iterable[str]) -> set[str]:
        """Return the threads in which one of these rigs wrote or was written to."""
        names = list(rigs)
        marks = ",".join("?" * len(names))
        rows = self._select(
            f"SELECT DISTINCT thread FROM participants WHERE rig IN ({marks})", names
        )
        return {thread for (thread,) in rows}

    def forget_files(self, paths: Iterable[str]) -> None:
        """Remove what is stored of these paths."""
        keys = [_key(path) for path in paths]
        for table in ("files", "texts", "participants"):
            self._connection.executemany(
                f"DELETE FROM {table} WHERE thread = ? AND filename = ?", keys
            )

    def add_files(self, files: Iterable[StoredFile]) -> None:
        """Store files; nothing may be stored of their paths."""
        for file in files:
            key = (file.thread, _storable(file.row.filename))
            fields = _json(file.row[:_FIELDS_OF_FILE])
            self._connection.execute(
                "INSERT INTO files VALUES (?, ?, ?, ?, ?)",
                (*key, file.content_id, file.row.is_envelope, fields),
            )
            if file.envelope is None:
                continue
            frontmatter, body = file.envelope
            self._connection.execute(
                "INSERT INTO texts VALUES (?, ?, ?, ?)",
                (*key, _json(frontmatter), body),
            )
            self._connection.executemany(
                "INSERT OR IGNORE INTO participants VALUES (?, ?, ?)",
                [(rig, *key) for rig in _participants(file.row)],
            )

    def _select(self, query: str, parameters: Sequence[Any] = ()) -> list[Any]:
        with self._lock:
            return self._connection.execute(query, parameters).fetchall()


class IndexOutdated(sqlite3.DatabaseError):
    """The file has another format."""


def open_index(directory: Path) -> Index:
    """Open the index of a clone; one that cannot be stored is kept in memory."""
    path = directory / FILE_NAME
    with suppress(FileError, sqlite3.Error, OSError):
        make_dir(directory)
        try:
            return Index(path)
        except sqlite3.DatabaseError as error:
            if not is_damaged(error):
                raise
        remove_index(directory)
        return Index(path)
    return Index(None)


def is_damaged(error: sqlite3.Error) -> bool:
    """Return whether an error means that the file is of no use any more."""
    if isinstance(error, IndexOutdated):
        return True
    return getattr(error, "sqlite_errorcode", None) in _DAMAGED


def remove_index(directory: Path) -> None:
    """Remove the stored index; the next look at the clone makes it again."""
    for suffix in _COMPANIONS:
        with suppress(OSError):
            (directory / f"{FILE_NAME}{suffix}").unlink()


def mentions(directory: Path, rig: str) -> bool:
    """Return whether the stored index names a rig. It may be older than the clone."""
    if not (directory / FILE_NAME).exists():
        return False
    index = open_index(directory)
    try:
        return bool(index.threads_naming([rig]))
    except sqlite3.Error:
        return False
    finally:
        index.close()


def restored(stored: str | bytes) -> str:
    """Return a name that may have been stored as bytes."""
    return stored if isinstance(stored, str) else os.fsdecode(stored)


def _storable(text: str) -> str | bytes:
    """Return a name as it is stored: as bytes if it is no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return os.fsencode(text)
    return text


def _key(path: str) -> tuple[str, str | bytes]:
    thread, _, filename = path.partition("/")
    return thread, _storable(filename)


def _json(value: object) -> str:
    """Return JSON in ASCII: SQLite takes no text with half a character in it."""
    return json.dumps(value, separators=(",", ":"))


def _read_json(texts: Iterable[str]) -> list[Any]:
    """Read several texts; all at once takes half the time."""
    return list(json.loads(f"[{','.join(texts)}]"))


def _addition(row: Sequence[Any]) -> Addition:
    (
        _thread,
        filename,
        commit,
        position,
        committed_at,
        author_email,
        is_signed,
        is_rewritten,
        blob,
        changed_at,
        changed_by,
    ) = row
    return Addition(
        restored(filename),
        commit,
        position,
        committed_at,
        restored(author_email),
        bool(is_signed),
        bool(is_rewritten),
        blob,
        changed_at,
        changed_by,
    )


def _participants(row: FileRow) -> list[str]:
    """Return the rigs that a file names; what no rig can be called is left out."""
    recipients = [row.to] if isinstance(row.to, str) else row.to
    return [name for name in (row.sender, *recipients) if is_rig_id(name)]
