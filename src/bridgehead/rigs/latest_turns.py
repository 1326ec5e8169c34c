"""Find the latest envelope of every thread in the newest commits alone (rigs §8 status).

A bridge that nobody has looked at yet has a long history, and most of it decides nothing in a list of threads: of the
envelopes of a thread's last day the one that was added last is the latest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bridgehead.rigs.index_rows import ListedEnvelope
from bridgehead.rigs.repositories.records import CommitRecord


def of_the_last_day(envelopes: Sequence[ListedEnvelope]) -> list[ListedEnvelope]:
    """Return the envelopes of which one is the latest."""
    days = [envelope.turn.day for envelope in envelopes]
    last = max(days)
    return [envelope for envelope, day in zip(envelopes, days, strict=True) if day == last]


def placed_latest(
    threads: Mapping[str, Sequence[ListedEnvelope]], newest_first: Iterable[CommitRecord]
) -> dict[str, ListedEnvelope] | None:
    """Return the latest envelope of every thread, placed in history; None if these commits do not tell.

    All envelopes must be committed. Positions count down from the newest commit, so they compare with one another only.
    Beyond a merge the order of history is not that of its commits, so a merge ends the search.
    """
    wanted = {envelope.path: envelope for group in threads.values() for envelope in of_the_last_day(group)}
    found: dict[str, ListedEnvelope] = {}
    for age, commit in enumerate(newest_first):
        if len(commit.parents) > 1:
            return None
        for change in commit.changes:
            envelope = wanted.get(change.path) if change.status == "A" else None
            if envelope is not None:
                known = found.get(envelope.turn.thread_id)
                placed = _placed(envelope, commit, -age)
                if known is None or placed.turn.order_key() > known.turn.order_key():
                    found[envelope.turn.thread_id] = placed
        if len(found) == len(threads):
            return found
    return None


def _placed(envelope: ListedEnvelope, commit: CommitRecord, position: int) -> ListedEnvelope:
    return envelope._replace(
        turn=envelope.turn._replace(commit_sha=commit.commit, position=position),
        committed_at=commit.committed_at,
    )
