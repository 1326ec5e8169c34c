"""List the threads of a bridge, newest first (rigs §8 status)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from bridgehead.rigs.envelope.text import iso_timestamp
from bridgehead.rigs.operations.catalogue import Catalogue, catalogue, tell_left_out
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.thread import ThreadSummary, dirty_threads, newest_first
from bridgehead.rigs.views.listings import Notice, Status

if TYPE_CHECKING:
    from bridgehead.rigs.threads.freeze import Freeze
    from bridgehead.rigs.threads.listed_envelope import ListedEnvelope


def status(rig: Rig, *, wide: bool = False) -> Status:
    """Return what is where, what is owed, and what is not shared yet.

    `wide` also looks for threads that diverged.
    """
    known = catalogue(rig, survey=rig.repository.survey())
    threads = _summaries(known, wide=wide)
    if rig.settings is not None:
        threads = _with_debts(rig, known, threads)
    return _completed(rig, known, threads)


def status_of(rig: Rig, known: Catalogue) -> Status:
    """Return the status that one look at the bridge shows, without what is owed."""
    return _completed(rig, known, _summaries(known, wide=False))


def standing_freezes(rig: Rig) -> dict[str, Freeze]:
    """Return the freezes in force, as far as this clone knows."""
    notes = rig.repository.freezes()
    if not notes:
        return {}
    from bridgehead.rigs.operations.identities import in_force

    found = {thread: in_force(rig, thread, note) for thread, note in notes.items()}
    return {thread: freeze for thread, freeze in found.items() if freeze is not None}


def _completed(rig: Rig, known: Catalogue, threads: Sequence[ThreadSummary]) -> Status:
    """Add what depends on more than the envelopes."""
    survey = known.survey
    tell_left_out(rig, survey)
    dirty = dirty_threads([file.path for file in survey.dirty])
    freezes = standing_freezes(rig)
    unpushed = rig.repository.unpushed() if survey.ahead else []
    return Status(
        [
            thread._replace(
                dirty=thread.thread_id in dirty, frozen=freezes.get(thread.thread_id)
            )
            for thread in threads
        ],
        [file.line for file in survey.dirty],
        [f"{record.commit[:7]} {record.subject}" for record in unpushed],
    )


def _with_debts(
    rig: Rig, known: Catalogue, threads: Sequence[ThreadSummary]
) -> list[ThreadSummary]:
    """Add what this rig owes, is owed and was sent in each thread."""
    if not known.names_naming([rig.config.rig_id]):
        return [thread._replace(owe=0, owed=0, unseen=0) for thread in threads]
    from bridgehead.rigs.operations.inbox import inbox_contents

    found = inbox_contents(rig, known)
    owe = _by_thread(debt.asked for debt in found.owes)
    owed = _by_thread(debt.asked for debt in found.owed)
    unseen = _by_thread(found.delivered)
    return [
        thread._replace(
            owe=owe[thread.thread_id],
            owed=owed[thread.thread_id],
            unseen=unseen[thread.thread_id],
        )
        for thread in threads
    ]


def _by_thread(notices: Iterable[Notice]) -> Counter[str]:
    return Counter(notice.turn.thread_id for notice in notices)


def _summaries(known: Catalogue, *, wide: bool) -> list[ThreadSummary]:
    """Return the threads, newest first, each read by itself."""
    threads: list[ThreadSummary] = []
    for thread_id in known.thread_ids():
        envelopes = known.listing(thread_id).envelopes
        newest = max(envelopes, key=lambda envelope: envelope.turn.order_key())
        threads.append(_summary(known, newest, wide=wide))
        known.let_go(thread_id)
    return newest_first(threads)


def _summary(known: Catalogue, newest: ListedEnvelope, *, wide: bool) -> ThreadSummary:
    thread_id = newest.turn.thread_id
    return ThreadSummary(
        latest=newest.turn,
        envelope_count=len(known.listing(thread_id).envelopes),
        is_closed=known.is_closed(thread_id),
        last_modified=iso_timestamp(known.modified_ms(newest)),
        unverified=known.unverified(thread_id),
        heads=len(known.causality(thread_id).heads()) if wide else 1,
    )
