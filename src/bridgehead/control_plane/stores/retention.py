"""Decide which rows of a record are old enough to be deleted.

The rules are one condition for each table. Nothing that somebody may still need is old:
neither a run that has not ended or waits for an answer, nor the latest run of a
project, nor an open question, nor the events of these.
"""

from __future__ import annotations

from typing import Final, NamedTuple

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
PRUNED_AT_ONCE: Final = 10_000  # rows in one transaction, so that others can write too


class OldRows(NamedTuple):
    """The statements that count and delete the old rows of a table."""

    counting: str
    deleting: str
    parameters: int

    def values(self, before: str) -> list[str]:
        """Return the values of either statement: the moment, as often as it asks."""
        return [before for _ in range(self.parameters)]


def old_rows(table: str, dialect: Dialect) -> OldRows:
    """Return the statements for one table."""
    key, condition = PRUNED[table]
    is_old = condition.replace("{number}", dialect.number_of_item)
    batch = f"SELECT {key} FROM {table} WHERE {is_old} LIMIT {PRUNED_AT_ONCE}"
    return OldRows(
        counting=f"SELECT count(*) FROM {table} WHERE {is_old}",
        deleting=f"DELETE FROM {table} WHERE {key} IN ({batch}) RETURNING 1",
        parameters=condition.count("?"),
    )
