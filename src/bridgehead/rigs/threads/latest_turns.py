"""The latest envelope of every thread from the newest commits alone; thread summaries as text (rigs §8 status)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from bridgehead.rigs.repositories.records import CommitRecord
from bridgehead.rigs.threads.index_rows import ListedEnvelope
from bridgehead.rigs.threads.thread import ThreadSummary, Turn

_TURN_FIELDS = len(Turn._fields)


def of_the_last_day(envelopes: Sequence[ListedEnvelope]) -> list[ListedEnvelope]:
    """Return the envelopes of which one is the latest."""
    days = [envelope.turn.day for envelope in envelopes]
    last = max(days, default="")
    return [
        envelope for envelope, day in zip(envelopes, days, strict=True) if day == last
    ]


def placed_latest(
    threads: Mapping[str, Sequence[ListedEnvelope]],
    newest_first: Iterable[CommitRecord],
) -> dict[str, ListedEnvelope] | None:
    """Return the latest envelope of every thread, placed in history; None if these commits do not tell.

    All envelopes must be committed. Positions count down from the newest commit, so they compare with one another only.
    Beyond a merge the order of history is not that of its commits, so a merge ends the search.
    """
    wanted = {
        envelope.path: envelope
        for group in threads.values()
        for envelope in of_the_last_day(group)
    }
    found: dict[str, ListedEnvelope] = {}
    for age, commit in enumerate(newest_first):
        if len(commit.parents) > 1:
            return None
        for change in commit.changes:
            envelope = wanted.get(change.path) if change.status == "A" else None
            if envelope is not None:
                known = found.get(envelope.turn.thread_id)
                turn = envelope.turn._replace(commit_sha=commit.commit, position=-age)
                placed = envelope._replace(turn=turn, committed_at=commit.committed_at)
                if known is None or placed.turn.order_key() > known.turn.order_key():
                    found[envelope.turn.thread_id] = placed
        if len(found) == len(threads):
            return found
    return None


def summaries_as_text(threads: Sequence[ThreadSummary]) -> str:
    return json.dumps([_row(thread) for thread in threads], separators=(",", ":"))


def read_summaries(text: str) -> list[ThreadSummary] | None:
    """Read what `summaries_as_text` wrote; None for anything else."""
    try:
        return [_summary(row) for row in json.loads(text)]
    except (ValueError, TypeError, RecursionError):
        return None


def _row(thread: ThreadSummary) -> list[object]:
    return [
        *thread.latest,
        thread.envelope_count,
        thread.is_closed,
        thread.last_modified,
        thread.unverified,
        thread.heads,
        thread.owe,
        thread.owed,
        thread.unseen,
    ]


def _summary(row: Sequence[object]) -> ThreadSummary:
    turn = Turn._make(
        tuple(value) if isinstance(value, list) else value
        for value in row[:_TURN_FIELDS]
    )
    count, is_closed, last_modified, *counts = row[_TURN_FIELDS:]
    return ThreadSummary(turn, count, is_closed, last_modified, False, None, *counts)  # type: ignore[arg-type]
