"""The tables of the SQLite journal, as numbered migrations, and the statements that name their columns."""

from __future__ import annotations

from typing import Final

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
        "CREATE TABLE blob (sha256 TEXT NOT NULL PRIMARY KEY, data TEXT NOT NULL) STRICT",
    ),
)

RUN_COLUMNS: Final = "id, name, version, source, root, status, input, created, updated, result, error"
RECORD_COLUMNS: Final = (
    "path, kind, input_sha, status, coalesce(result, (SELECT data FROM blob WHERE sha256 = result_blob)), "
    "error, started, ended"
)
ATTEMPT_COLUMNS: Final = (
    "path, coalesce(doc, (SELECT data FROM blob WHERE sha256 = doc_blob)), status, resumes, error_type, "
    "coalesce(response, (SELECT data FROM blob WHERE sha256 = response_blob))"
)
PUT_RECORD: Final = (
    "INSERT OR REPLACE INTO step (flow_id, path, kind, input_sha, status, result, result_blob, error, started, ended) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
PUT_ATTEMPT: Final = (
    "INSERT INTO request (request_id, flow_id, path, attempt, agent, status, resumes, error_type, "
    "deadline, doc, doc_blob, response, response_blob, consumed_at) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (request_id) DO UPDATE SET path = excluded.path, status = excluded.status, "
    "resumes = excluded.resumes, error_type = excluded.error_type, deadline = excluded.deadline, "
    "doc = excluded.doc, doc_blob = excluded.doc_blob, response = excluded.response, "
    "response_blob = excluded.response_blob, consumed_at = coalesce(consumed_at, excluded.consumed_at)"
)
