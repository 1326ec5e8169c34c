"""What of a record may be deleted once it ended before a moment.

The rules are one condition for each table.

Nothing that somebody may still need is old: neither a run that has not ended or waits
for an answer, nor the latest run of a project, nor an open question, nor the events of
these.
"""

from __future__ import annotations

from typing import Final

from bridgehead.control_plane.stores.migrations import Dialect

# What may be deleted; every ? is the moment before which it ended. Questions of a
# council's host seat name their run with `council-` before its id.
OLD_RUNS: Final = (
    "state IN ('completed', 'failed', 'cancelled') AND updated_at < ?"
    " AND EXISTS (SELECT 1 FROM runs o WHERE o.project = runs.project AND o.part = "
    "runs.part"
    " AND (o.started_at, o.id) > (runs.started_at, runs.id))"
    " AND NOT EXISTS (SELECT 1 FROM pending p WHERE p.state = 'open' AND p.run_id IN "
    "(runs.id, 'council-' || runs.id))"
    " AND NOT EXISTS (SELECT 1 FROM events e WHERE e.run_id IN (runs.id, 'council-' "
    "|| runs.id) AND e.at >= ?)"
)
RUN_STAYS: Final = (
    "EXISTS (SELECT 1 FROM runs WHERE runs.id IN ({0}.run_id, substr({0}.run_id, 9))"
    f" AND runs.id NOT IN (SELECT id FROM runs WHERE {OLD_RUNS}))"
)
OLD_ITEMS: Final = (
    f"state <> 'open' AND opened_at < ? AND NOT {RUN_STAYS.format('pending')}"
    # the newest number given out is there
    " AND number < (SELECT max(number) FROM pending)"
    " AND number NOT IN (SELECT {number} FROM events e WHERE e.kind = "
    "'pending.answered' AND e.at >= ?)"
)
OLD_EVENTS: Final = (
    "at < ? AND kind NOT IN ('record.created', 'record.migrated') AND NOT "
    f"{RUN_STAYS.format('events')}"
    " AND (kind NOT LIKE 'pending.%'"
    " OR at < (SELECT coalesce(min(opened_at), 'never') FROM pending WHERE state = "
    "'open'))"
    " AND seq NOT IN (SELECT max(e.seq) FROM events e WHERE e.part = 'rigs' GROUP BY "
    "e.project)"
)
PRUNED: Final = {
    "runs": ("id", OLD_RUNS),
    "pending": ("number", OLD_ITEMS),
    "events": ("seq", OLD_EVENTS),
}
PRUNED_AT_ONCE: Final = 10_000  # in one transaction: others want to write, too


def statements(table: str, dialect: Dialect) -> tuple[str, str, int]:
    """Return how old rows of a table are counted and how some of them are deleted, and
    how often each asks for the moment.
    """
    key, condition = PRUNED[table]
    ended = condition.replace("{number}", dialect.number_of_item)
    some = f"SELECT {key} FROM {table} WHERE {ended} LIMIT {PRUNED_AT_ONCE}"
    delete = f"DELETE FROM {table} WHERE {key} IN ({some}) RETURNING 1"
    return f"SELECT count(*) FROM {table} WHERE {ended}", delete, condition.count("?")
