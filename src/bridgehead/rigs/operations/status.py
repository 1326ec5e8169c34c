"""List the threads of a bridge, newest first (rigs §8 status)."""

from __future__ import annotations

from bridgehead.rigs.freeze import Freeze, read_freeze
from bridgehead.rigs.operations.catalogue import Catalogue, catalogue
from bridgehead.rigs.operations.rig import Rig
from bridgehead.rigs.status_view import Status
from bridgehead.rigs.thread import ThreadSummary, dirty_threads, newest_first
from bridgehead.rigs.timestamps import iso_timestamp


def status(rig: Rig, *, wide: bool = False, with_findings: bool = False) -> Status:
    """What is where, and what is not shared yet. `wide` also looks for threads that diverged."""
    return status_of(rig, catalogue(rig, with_findings=with_findings), wide=wide)


def status_of(rig: Rig, known: Catalogue, *, wide: bool = False) -> Status:
    """The status that one look at the bridge shows."""
    dirty = dirty_threads([file.path for file in known.survey.dirty])
    freezes = standing_freezes(rig)
    threads = [
        _summary(known, thread_id, dirty=thread_id in dirty, frozen=freezes.get(thread_id), wide=wide)
        for thread_id in known.thread_ids()
    ]
    unpushed = rig.repository.unpushed() if known.survey.ahead else []
    return Status(
        newest_first(threads),
        [file.line for file in known.survey.dirty],
        [f"{record.commit[:7]} {record.subject}" for record in unpushed],
    )


def standing_freezes(rig: Rig) -> dict[str, Freeze]:
    """The freezes in force, as far as this clone knows."""
    now = rig.now_ms()
    found = {thread: read_freeze(note.text) for thread, note in rig.repository.freezes().items()}
    return {thread: freeze for thread, freeze in found.items() if freeze is not None and freeze.holds(now)}


def _summary(
    known: Catalogue, thread_id: str, *, dirty: bool, frozen: Freeze | None, wide: bool
) -> ThreadSummary:
    envelopes = known.listing(thread_id).envelopes
    newest = max(envelopes, key=lambda envelope: envelope.turn.order_key())
    return ThreadSummary(
        latest=newest.turn,
        envelope_count=len(envelopes),
        is_closed=known.is_closed(thread_id),
        last_modified=iso_timestamp(known.modified_ms(newest)),
        dirty=dirty,
        frozen=frozen,
        unverified=known.unverified(thread_id),
        heads=len(known.causality(thread_id).heads()) if wide else 1,
    )
