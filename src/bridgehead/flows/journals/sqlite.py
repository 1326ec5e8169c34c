"""Keep the journal in a SQLite file (flows §14).

It uses a write-ahead log with full synchronisation, so a record survives a power cut.
Every method that writes is one durable transaction. Once it has returned, a crash
cannot undo it; if the process dies inside it, none of it has happened.
"""

from __future__ import annotations

import json
import os
import sqlite3
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

from bridgehead.flows.calls import Attempt
from bridgehead.flows.errors import JournalUnusable
from bridgehead.flows.journals.base import Record, Run
from bridgehead.flows.values.ids import sha256_hex
from bridgehead.flows.values.times import utc_text
from bridgehead.flows.words import AttemptStatus, RunStatus
from bridgehead.host.locks import transaction

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """
        CREATE TABLE flow (
            id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, version TEXT NOT NULL, source TEXT NOT NULL,
            root TEXT NOT NULL, status TEXT NOT NULL, input TEXT NOT NULL, created TEXT NOT NULL,
            updated TEXT NOT NULL, result TEXT, error TEXT
        ) STRICT
        """,
        """
        CREATE TABLE step (
            flow_id TEXT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL, input_sha TEXT, status TEXT NOT NULL,
            result TEXT, result_blob TEXT, error TEXT, started TEXT NOT NULL, ended TEXT NOT NULL,
            PRIMARY KEY (flow_id, path)
        ) STRICT
        """,
        """
        CREATE TABLE request (
            request_id TEXT NOT NULL UNIQUE, flow_id TEXT NOT NULL, path TEXT NOT NULL, attempt INTEGER NOT NULL,
            agent TEXT NOT NULL, status TEXT NOT NULL, resumes INTEGER NOT NULL, error_type TEXT,
            deadline TEXT, doc TEXT, doc_blob TEXT, response TEXT, response_blob TEXT, consumed_at TEXT
        ) STRICT
        """,
        "CREATE INDEX request_of_flow ON request (flow_id)",
        (
            "CREATE TABLE blob (sha256 TEXT NOT NULL PRIMARY KEY, data TEXT NOT NULL) "
            "STRICT"
        ),
    ),
)

RUN_COLUMNS: Final = (
    "id, name, version, source, root, status, input, created, updated, result, error"
)
RECORD_COLUMNS: Final = (
    "path, kind, input_sha, status, coalesce(result, (SELECT data FROM blob WHERE "
    "sha256 = result_blob)), "
    "error, started, ended"
)
ATTEMPT_COLUMNS: Final = (
    "path, coalesce(doc, (SELECT data FROM blob WHERE sha256 = doc_blob)), status, "
    "resumes, error_type, "
    "coalesce(response, (SELECT data FROM blob WHERE sha256 = response_blob))"
)
PUT_RECORD: Final = (
    "INSERT OR REPLACE INTO step (flow_id, path, kind, input_sha, status, result, "
    "error, started, ended, result_blob) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
# An answer that arrived during a pass is not lost when the pass writes its request.
_GIVEN: Final = "coalesce(excluded.response, excluded.response_blob) IS NOT NULL"
PUT_ATTEMPT: Final = (
    "INSERT INTO request (request_id, flow_id, path, attempt, agent, status, resumes, "
    "error_type, "
    "deadline, doc, doc_blob, response, response_blob, consumed_at) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (request_id) DO UPDATE SET path = excluded.path, status = "
    "excluded.status, "
    "resumes = excluded.resumes, error_type = excluded.error_type, deadline = "
    "excluded.deadline, "
    "doc = excluded.doc, doc_blob = excluded.doc_blob, "
    f"response = CASE WHEN {_GIVEN} THEN excluded.response ELSE response END, "
    f"response_blob = CASE WHEN {_GIVEN} THEN excluded.response_blob ELSE "
    "response_blob END, "
    "consumed_at = coalesce(consumed_at, excluded.consumed_at)"
)

INLINE_LIMIT = 8192
BUSY_TIMEOUT_SECONDS = 5.0
# A count in a state file may be any number; this is the largest a column can hold.
LARGEST_NUMBER = 2**63 - 1


class SqliteJournal:
    """The journal of one root.

    It has one connection and is used by one thread. The root's lock ensures that only
    one process writes at a time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._claim_file()
        with self._translated():
            self._db = sqlite3.connect(
                path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None
            )
            try:
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=FULL")
                self._migrate()
            except BaseException:
                self._db.close()
                raise

    def _claim_file(self) -> None:
        """Create the file, readable by its owner only.

        SQLite itself would follow a link and apply the umask, but records are private.
        """
        try:
            handle = os.open(
                self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise JournalUnusable(self.path, error.strerror or str(error)) from error
        os.close(handle)

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, run: Run) -> None:
        """Add a new run."""
        with self._transaction():
            self._db.execute(
                f"INSERT INTO flow ({RUN_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, "
                "?, ?)",
                (*run[:5], run.status.value, json.dumps(run.input), *run[7:]),
            )

    def claim(self, flow_id: str, *, version: str, at: str) -> None:
        """Mark a resumed run as running, with that version of its flow."""
        with self._transaction():
            self._db.execute(
                "UPDATE flow SET status = ?, version = ?, updated = ?, error = NULL "
                "WHERE id = ?",
                (RunStatus.RUNNING.value, version, at, flow_id),
            )

    def lookup(self, flow_id: str) -> dict[str, Record]:
        """Return every record of a run by path, in the order they were made."""
        with self._translated():
            rows = self._db.execute(
                f"SELECT {RECORD_COLUMNS} FROM step WHERE flow_id = ? ORDER BY rowid",
                (flow_id,),
            )
            return {row[0]: Record(*row) for row in rows}

    def attempts(self, flow_id: str) -> list[Attempt]:
        """Return every request of a run, in the order they were made."""
        with self._translated():
            rows = self._db.execute(
                f"SELECT {ATTEMPT_COLUMNS} FROM request WHERE flow_id = ? ORDER BY "
                "rowid",
                (flow_id,),
            )
            return [_attempt(row) for row in rows]

    def append(self, flow_id: str, record: Record) -> None:
        """Record one result."""
        if record.result is not None and len(record.result) > INLINE_LIMIT:
            self.complete(flow_id, record, ())
            return
        try:
            # A single statement outside a transaction is its own transaction.
            self._db.execute(PUT_RECORD, (flow_id, *record, None))
        except sqlite3.Error as error:
            raise JournalUnusable(self.path, str(error)) from error

    def complete(
        self, flow_id: str, record: Record, attempts: Sequence[Attempt]
    ) -> None:
        """Record the result of a call and the final state of its requests."""
        with self._transaction():
            self._put_attempts(flow_id, attempts, record.ended)
            result, blob = self._stored(record.result)
            self._db.execute(
                PUT_RECORD, (flow_id, *record._replace(result=result), blob)
            )

    def hold(self, flow_id: str, attempts: Sequence[Attempt], *, at: str) -> None:
        """Write new or changed requests, and mark the run as waiting for answers."""
        with self._transaction():
            self._put_attempts(flow_id, attempts, at)
            self._set_status(flow_id, RunStatus.WAITING, at)

    def forget_from(self, flow_id: str, path: str) -> None:
        """Delete the record at `path`, all later records, and their requests."""
        with self._transaction():
            self._db.execute(
                "DELETE FROM step WHERE flow_id = :flow_id AND rowid >= "
                "(SELECT rowid FROM step WHERE flow_id = :flow_id AND path = :path)",
                {"flow_id": flow_id, "path": path},
            )
            self._db.execute(
                "DELETE FROM request WHERE flow_id = :flow_id"
                " AND path NOT IN (SELECT path FROM step WHERE flow_id = :flow_id)",
                {"flow_id": flow_id},
            )

    def reopen(
        self,
        flow_id: str,
        *,
        at: str,
        path: str | None = None,
        attempts: Sequence[Attempt] = (),
        error: str | None = None,
        drop_open: bool = False,
    ) -> None:
        """Make the run wait again, without the record at `path` and all later ones.

        The requests made at `path` are kept, those of the later calls deleted. With
        `drop_open`, so are all open requests.
        """
        dropped = (
            "FROM step WHERE flow_id = :flow_id AND rowid >="
            " (SELECT rowid FROM step WHERE flow_id = :flow_id AND path = :path)"
        )
        values = {"flow_id": flow_id, "path": path or ""}
        with self._transaction():
            self._db.execute(
                "DELETE FROM request WHERE flow_id = :flow_id AND path != :path AND "
                f"path IN (SELECT path {dropped})",
                values,
            )
            self._db.execute(f"DELETE {dropped}", values)
            if drop_open:
                open_states = (AttemptStatus.QUEUED.value, AttemptStatus.PENDING.value)
                self._db.execute(
                    "DELETE FROM request WHERE flow_id = ? AND status IN (?, ?)",
                    (flow_id, *open_states),
                )
            self._put_attempts(flow_id, attempts, at)
            self._set_status(flow_id, RunStatus.WAITING, at)
            self._db.execute(
                "UPDATE flow SET result = NULL, error = ? WHERE id = ?",
                (error, flow_id),
            )

    def end(
        self,
        flow_id: str,
        status: RunStatus,
        *,
        at: str,
        result: str | None = None,
        error: str | None = None,
        attempts: Sequence[Attempt] = (),
    ) -> None:
        """Record that the run has ended, and how."""
        with self._transaction():
            self._put_attempts(flow_id, attempts, at)
            self._set_status(flow_id, status, at)
            self._db.execute(
                "UPDATE flow SET result = ?, error = ? WHERE id = ?",
                (result, error, flow_id),
            )

    def keep_answer(self, request_id: str, response: Mapping[str, Any]) -> bool:
        """Keep the answer to an open request until its run reads it.

        Return False if the request has one already or is not open.
        """
        open_states = (AttemptStatus.QUEUED.value, AttemptStatus.PENDING.value)
        with self._transaction():
            changed = self._db.execute(
                "UPDATE request SET response = ?, response_blob = ? WHERE request_id "
                "= ? AND status IN (?, ?) "
                "AND response IS NULL AND response_blob IS NULL",
                (*self._stored(json.dumps(response)), request_id.lower(), *open_states),
            )
            return changed.rowcount == 1

    def forget(self, flow_ids: Sequence[str]) -> None:
        """Delete runs and everything recorded about them."""
        with self._transaction():
            for flow_id in flow_ids:
                self._db.execute("DELETE FROM step WHERE flow_id = ?", (flow_id,))
                self._db.execute("DELETE FROM request WHERE flow_id = ?", (flow_id,))
                self._db.execute("DELETE FROM flow WHERE id = ?", (flow_id,))
            self._db.execute(
                "DELETE FROM blob WHERE sha256 NOT IN (SELECT result_blob FROM step "
                "WHERE result_blob NOT NULL "
                "UNION SELECT doc_blob FROM request WHERE doc_blob NOT NULL "
                "UNION SELECT response_blob FROM request WHERE response_blob NOT NULL)"
            )

    def sizes(self) -> dict[str, int]:
        """Return the size of each run's records, in characters."""
        with self._translated():
            rows = self._db.execute(
                "SELECT flow_id, sum(length(coalesce(result, (SELECT data FROM blob "
                "WHERE sha256 = result_blob), ''))) FROM step GROUP BY flow_id"
            )
            return dict(rows.fetchall())

    def compact(self) -> None:
        """Overwrite deleted data and shrink the file.

        Do nothing while another process uses the journal.
        """
        with suppress(sqlite3.OperationalError):
            self._db.execute("VACUUM")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def runs(self) -> list[Run]:
        """Return every run, newest first."""
        return self._select_runs("ORDER BY rowid DESC", ())

    def run(self, flow_id: str) -> Run | None:
        return next(iter(self._select_runs("WHERE id = ?", (flow_id,))), None)

    def unfinished(self) -> Run | None:
        """Return the one run of the root that is running or waiting (flows §14)."""
        open_states = (RunStatus.RUNNING.value, RunStatus.WAITING.value)
        found = self._select_runs(
            "WHERE status IN (?, ?) ORDER BY rowid DESC LIMIT 1", open_states
        )
        return next(iter(found), None)

    def owner(self, request_id: str) -> tuple[Run, Attempt] | None:
        """Return the run that made a request, and the request.

        The id is compared regardless of case.
        """
        with self._translated():
            row = self._db.execute(
                f"SELECT flow_id, {ATTEMPT_COLUMNS} FROM request WHERE request_id = ?",
                (request_id.lower(),),
            ).fetchone()
        if row is None:
            return None
        run = self.run(row[0])
        assert run is not None, "a request belongs to a run"
        return run, _attempt(row[1:])

    def _select_runs(self, tail: str, values: tuple[str, ...]) -> list[Run]:
        with self._translated():
            rows = self._db.execute(f"SELECT {RUN_COLUMNS} FROM flow {tail}", values)
            return [
                Run(*row)._replace(status=RunStatus(row[5]), input=json.loads(row[6]))
                for row in rows
            ]

    def _put_attempts(self, flow_id: str, attempts: Sequence[Attempt], at: str) -> None:
        for attempt in attempts:
            response = None
            if attempt.response is not None:
                response = json.dumps(attempt.response)
            is_issued = attempt.status is not AttemptStatus.QUEUED
            self._db.execute(
                PUT_ATTEMPT,
                (
                    attempt.request_id.lower(),
                    flow_id,
                    attempt.path,
                    min(attempt.number, LARGEST_NUMBER),
                    str(attempt.document.get("agent_name", "")),
                    attempt.status.value,
                    min(attempt.resumes, LARGEST_NUMBER),
                    attempt.error_type,
                    utc_text(attempt.deadline) if is_issued else None,
                    *self._stored(json.dumps(dict(attempt.document))),
                    *self._stored(response),
                    at if response is not None else None,
                ),
            )

    def _set_status(self, flow_id: str, status: RunStatus, at: str) -> None:
        self._db.execute(
            "UPDATE flow SET status = ?, updated = ? WHERE id = ?",
            (status.value, at, flow_id),
        )

    def _stored(self, text: str | None) -> tuple[str | None, str | None]:
        """Return the columns that hold a text: the text itself, or its digest.

        A large text is stored under its digest in the table of blobs.
        """
        if text is None or len(text) <= INLINE_LIMIT:
            return text, None
        digest = sha256_hex(text.encode())
        self._db.execute(
            "INSERT OR IGNORE INTO blob (sha256, data) VALUES (?, ?)", (digest, text)
        )
        return None, digest

    def _migrate(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > len(MIGRATIONS):
            raise JournalUnusable(
                self.path, f"it has version {version}, which is newer than this program"
            )
        for number, statements in enumerate(MIGRATIONS[version:], start=version + 1):
            with self._transaction():
                for statement in statements:
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {number}")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._translated(), transaction(self._db):
            yield

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise JournalUnusable(self.path, str(error)) from error


class MemoryJournal(SqliteJournal):
    """A journal in memory, for tests, checks, and agents that answer in process.

    It outlives `close`, so that the next command in the process can continue with it.
    """

    def __init__(self) -> None:
        super().__init__(Path(":memory:"))
        weakref.finalize(self, self._db.close)

    def _claim_file(self) -> None:
        """Do nothing: there is no file."""

    def close(self) -> None:
        """Do nothing: the next command in this process uses the same journal."""


def _attempt(row: Sequence[str]) -> Attempt:
    path, document, status, resumes, error_type, response = row
    return Attempt(
        path,
        json.loads(document),
        AttemptStatus(status),
        int(resumes),
        error_type,
        None if response is None else json.loads(response),
    )
