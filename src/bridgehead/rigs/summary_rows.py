"""Thread summaries as text, to be kept: what is asked anew each time (dirty, frozen) is left out."""

from __future__ import annotations

import json
from collections.abc import Sequence

from bridgehead.rigs.thread import ThreadSummary, Turn

_TURN_FIELDS = len(Turn._fields)


def summaries_as_text(threads: Sequence[ThreadSummary]) -> str:
    return json.dumps([_row(thread) for thread in threads], separators=(",", ":"))


def read_summaries(text: str) -> list[ThreadSummary] | None:
    """Read what `summaries_as_text` wrote; None for anything else."""
    try:
        return [_summary(row) for row in json.loads(text)]
    except (ValueError, TypeError):
        return None


def _row(thread: ThreadSummary) -> list[object]:
    return [
        *thread.latest,
        thread.envelope_count,
        thread.is_closed,
        thread.last_modified,
        thread.unverified,
        thread.heads,
    ]


def _summary(row: Sequence[object]) -> ThreadSummary:
    turn = Turn._make(tuple(value) if isinstance(value, list) else value for value in row[:_TURN_FIELDS])
    count, is_closed, last_modified, unverified, heads = row[_TURN_FIELDS:]
    return ThreadSummary(turn, count, is_closed, last_modified, unverified=unverified, heads=heads)  # type: ignore[arg-type]
