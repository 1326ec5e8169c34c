"""The SQL both databases run, with `?` for values; where a dialect differs is in migrations.py and its own store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

EVENT_COLUMNS: Final = "seq, id, kind, part, at, project, run_id, data"
RUN_COLUMNS: Final = "id, part, kind, title, state, started_at, updated_at, project, ended_at, data"
ITEM_COLUMNS: Final = "number, state, question, opened_at, answer"

INSERT_EVENT: Final = (
    "INSERT INTO events (id, kind, part, at, project, run_id, data) VALUES (?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO NOTHING RETURNING seq"
)
EVENT_BY_ID: Final = f"SELECT {EVENT_COLUMNS} FROM events WHERE id = ?"
LAST_SEQ: Final = "SELECT coalesce(max(seq), 0) FROM events"

SAVE_RUN: Final = (
    f"INSERT INTO runs ({RUN_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
    " part = excluded.part, kind = excluded.kind, title = excluded.title, state = excluded.state,"
    " started_at = excluded.started_at, updated_at = excluded.updated_at, project = excluded.project,"
    " ended_at = excluded.ended_at, data = excluded.data"
)
RUN_BY_ID: Final = f"SELECT {RUN_COLUMNS} FROM runs WHERE id = ?"
RUNS_LIKE: Final = (
    "SELECT id FROM runs WHERE length(id) >= ? AND (substr(id, 1, ?) = ? OR substr(id, length(id) - ? + 1) = ?)"
    " ORDER BY started_at DESC, id DESC LIMIT ?"
)
STARTED_BEFORE: Final = "(started_at, id) < (SELECT started_at, id FROM runs WHERE id = ?)"

INSERT_ITEM: Final = (
    "INSERT INTO pending (part, project, key, kind, state, run_id, question, opened_at, answer)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING number"
)
UPDATE_ITEM: Final = (
    "UPDATE pending SET part = ?, project = ?, key = ?, kind = ?, state = ?, run_id = ?, question = ?,"
    " opened_at = ?, answer = ? WHERE number = ?"
)
ITEM_BY_NUMBER: Final = f"SELECT {ITEM_COLUMNS} FROM pending WHERE number = ?"
ITEM_BY_KEY: Final = f"SELECT {ITEM_COLUMNS} FROM pending WHERE part = ? AND project = ? AND key = ?"
NUMBERS_ENDING: Final = "SELECT number FROM pending WHERE number % ? = ? ORDER BY number DESC LIMIT ?"


Page = tuple[str, list[Any]]


def listing(
    columns: str,
    table: str,
    allowed: Mapping[str, Sequence[str]],
    bounds: Sequence[tuple[str, Any]],
    order: str,
    limit: int,
) -> Page:
    """A page of `table`: rows with the allowed values, within the bounds (a condition and its one value each)."""
    conditions = [f"{column} IN ({', '.join('?' * len(values))})" for column, values in allowed.items()]
    conditions += [condition for condition, _ in bounds]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    given = [value for values in allowed.values() for value in values] + [value for _, value in bounds]
    return f"SELECT {columns} FROM {table}{where} ORDER BY {order} LIMIT ?", [*given, limit]
