"""List the threads of a bridge, newest first (rigs §8 status)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bridgehead.rigs.answer_files import WORTH_KEEPING, Answer, AnswerFile
from bridgehead.rigs.operations.rig import Rig
from bridgehead.rigs.status_view import Status
from bridgehead.rigs.summary_rows import read_summaries, summaries_as_text
from bridgehead.rigs.thread import ThreadSummary, dirty_threads, newest_first
from bridgehead.rigs.timestamps import iso_timestamp
from bridgehead.rigs.work_tree_state import state_of

if TYPE_CHECKING:
    from bridgehead.rigs.freeze import Freeze
    from bridgehead.rigs.operations.catalogue import Catalogue
    from bridgehead.rigs.repositories.base import Survey


def status(rig: Rig, *, wide: bool = False, with_findings: bool = False) -> Status:
    """What is where, and what is not shared yet. `wide` also looks for threads that diverged."""
    survey = rig.repository.survey()
    return _completed(rig, survey, _summaries(rig, survey, wide=wide, with_findings=with_findings))


def status_of(rig: Rig, known: Catalogue) -> Status:
    """The status that one look at the bridge shows."""
    return _completed(rig, known.survey, _summed_up(known, wide=False))


def standing_freezes(rig: Rig) -> dict[str, Freeze]:
    """The freezes in force, as far as this clone knows."""
    from bridgehead.rigs.freeze import read_freeze

    now = rig.now_ms()
    found = {thread: read_freeze(note.text) for thread, note in rig.repository.freezes().items()}
    return {thread: freeze for thread, freeze in found.items() if freeze is not None and freeze.holds(now)}


def _completed(rig: Rig, survey: Survey, threads: Sequence[ThreadSummary]) -> Status:
    """Add what depends on more than the envelopes."""
    dirty = dirty_threads([file.path for file in survey.dirty])
    freezes = standing_freezes(rig)
    unpushed = rig.repository.unpushed() if survey.ahead else []
    return Status(
        [
            thread._replace(dirty=thread.thread_id in dirty, frozen=freezes.get(thread.thread_id))
            for thread in threads
        ],
        [file.line for file in survey.dirty],
        [f"{record.commit[:7]} {record.subject}" for record in unpushed],
    )


def _summaries(rig: Rig, survey: Survey, *, wide: bool, with_findings: bool) -> list[ThreadSummary]:
    """The threads, newest first: as last summed up if nothing has changed since."""
    form = f"status{'-wide' if wide else ''}{'-findings' if with_findings else ''}"
    kept = AnswerFile(rig.repository.private_dir, form)
    state = state_of(survey, rig.repository.stamp, time.time_ns())
    known = read_summaries(found.text) if (found := kept.find(state)) else None
    if known is not None:
        return known
    from bridgehead.rigs.operations.catalogue import catalogue

    threads = _summed_up(catalogue(rig, survey=survey, with_findings=with_findings), wide=wide)
    if sum(thread.envelope_count for thread in threads) >= WORTH_KEEPING:
        kept.keep(state, Answer(summaries_as_text(threads)))
    return threads


def _summed_up(known: Catalogue, *, wide: bool) -> list[ThreadSummary]:
    return newest_first(_summary(known, thread_id, wide=wide) for thread_id in known.thread_ids())


def _summary(known: Catalogue, thread_id: str, *, wide: bool) -> ThreadSummary:
    envelopes = known.listing(thread_id).envelopes
    newest = max(envelopes, key=lambda envelope: envelope.turn.order_key())
    return ThreadSummary(
        latest=newest.turn,
        envelope_count=len(envelopes),
        is_closed=known.is_closed(thread_id),
        last_modified=iso_timestamp(known.modified_ms(newest)),
        unverified=known.unverified(thread_id),
        heads=len(known.causality(thread_id).heads()) if wide else 1,
    )
