"""List the threads of a bridge, newest first (rigs §8 status)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bridgehead.rigs.envelope.names import CONFIG_PATH, SIGNERS_PATH
from bridgehead.rigs.envelope.text import iso_timestamp
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.crossings import seen_state
from bridgehead.rigs.threads.latest_turns import read_summaries, summaries_as_text
from bridgehead.rigs.threads.output_cache import WORTH_CACHING, OutputCache, state_of
from bridgehead.rigs.threads.quarantine import quarantine_state
from bridgehead.rigs.threads.thread import ThreadSummary, dirty_threads, newest_first
from bridgehead.rigs.views.listings import Status

if TYPE_CHECKING:
    from bridgehead.rigs.operations.catalogue import Catalogue
    from bridgehead.rigs.repositories.git.survey import GitSurvey
    from bridgehead.rigs.threads.freeze import Freeze
    from bridgehead.rigs.threads.index_rows import ListedEnvelope

WORTH_A_SHORT_CUT = 2000  # envelopes; with fewer, reading all of history takes no time
MOST_COMMITS = 1000


def status(rig: Rig, *, wide: bool = False, with_findings: bool = False) -> Status:
    """What is where, and what is not shared yet. `wide` also looks for threads that diverged.

    What is owed is left out, unless `wide` or `with_findings`, where a large history would have to be read for it.
    """
    survey = rig.repository.survey()
    return _completed(
        rig, survey, _summaries(rig, survey, wide=wide, with_findings=with_findings)
    )


def status_of(rig: Rig, known: Catalogue) -> Status:
    """The status that one look at the bridge shows."""
    return _completed(rig, known.survey, _summed_up(rig, known, wide=False))


def standing_freezes(rig: Rig) -> dict[str, Freeze]:
    """The freezes in force, as far as this clone knows."""
    notes = rig.repository.freezes()
    if not notes:
        return {}
    from bridgehead.rigs.operations.identities import in_force

    found = {thread: in_force(rig, thread, note) for thread, note in notes.items()}
    return {thread: freeze for thread, freeze in found.items() if freeze is not None}


def _completed(rig: Rig, survey: GitSurvey, threads: Sequence[ThreadSummary]) -> Status:
    """Add what depends on more than the envelopes."""
    from bridgehead.rigs.operations.catalogue import tell_left_out

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


def _summaries(
    rig: Rig, survey: GitSurvey, *, wide: bool, with_findings: bool
) -> list[ThreadSummary]:
    """The threads, newest first: as last summed up if nothing has changed since."""
    form = f"status{'-wide' if wide else ''}{'-findings' if with_findings else ''}"
    cache = OutputCache(rig.repository.private_dir, form)
    state = state_of(survey, rig.repository.stamp, time.time_ns(), _other_state(rig))
    cached = read_summaries(found.text) if (found := cache.find(state)) else None
    if cached is not None:
        return cached
    from bridgehead.rigs.operations.catalogue import catalogue

    is_large = len(survey.tracked()) >= WORTH_A_SHORT_CUT
    known = catalogue(
        rig,
        survey=survey,
        with_findings=with_findings,
        with_history=wide or not is_large,
    )
    threads = _summed_up(rig, known, wide=wide)
    if rig.settings is not None:
        is_named = bool(known.names_naming([rig.settings.rig_id]))
        if is_named and not (known.is_placed or with_findings):
            rig.tell("rig-bridge inbox --owed lists what is owed")
            return threads
        nothing = [thread._replace(owe=0, owed=0, unseen=0) for thread in threads]
        threads = _with_debts(rig, threads) if is_named else nothing
    if sum(thread.envelope_count for thread in threads) >= WORTH_CACHING:
        cache.store(state, summaries_as_text(threads))
    return threads


def _other_state(rig: Rig) -> str:
    """What a listing depends on beside the work tree: what is kept apart, what was looked at, whose keys count."""
    files = [rig.repository.stamp(path) for path in (CONFIG_PATH, SIGNERS_PATH)]
    return f"{quarantine_state(rig.repository.private_dir)}\0{seen_state(rig.repository.private_dir)}\0{files}"


def _with_debts(rig: Rig, threads: Sequence[ThreadSummary]) -> list[ThreadSummary]:
    """Add what this rig owes, is owed and was sent in each thread."""
    from bridgehead.rigs.operations.inbox import desk

    found = desk(rig)
    notices = (
        [debt.asked for debt in found.owes],
        [debt.asked for debt in found.owed],
        found.delivered,
    )
    owe, owed, unseen = (
        Counter(one.turn.thread_id for one in kind) for kind in notices
    )
    return [
        thread._replace(
            owe=owe[thread.thread_id],
            owed=owed[thread.thread_id],
            unseen=unseen[thread.thread_id],
        )
        for thread in threads
    ]


def _summed_up(rig: Rig, known: Catalogue, *, wide: bool) -> list[ThreadSummary]:
    """The threads, newest first, each read by itself.

    Which envelope is the latest is taken from the newest commits if they tell, else from all of history.
    """
    from bridgehead.rigs.threads.latest_turns import of_the_last_day, placed_latest

    commits = (
        []
        if known.is_placed
        else rig.repository.newest_commits(known.survey.head or "", MOST_COMMITS)
    )
    added = {change.path for commit in commits for change in commit.changes}
    lately: dict[str, list[ListedEnvelope]] = {}
    threads = []
    for thread_id in known.thread_ids():
        envelopes = known.listing(thread_id).envelopes
        lately[thread_id] = [
            envelope
            for envelope in of_the_last_day(envelopes)
            if envelope.path in added
        ]
        threads.append(
            _summary(
                known,
                max(envelopes, key=lambda envelope: envelope.turn.order_key()),
                wide=wide,
            )
        )
        known.let_go(thread_id)
    if not known.is_placed:
        latest = placed_latest(lately, commits) if known.is_all_committed() else None
        if latest is None:
            known.place()
            return _summed_up(rig, known, wide=wide)
        found = [(thread, latest[thread.thread_id]) for thread in threads]
        threads = [
            thread._replace(
                latest=newest.turn,
                last_modified=iso_timestamp(known.modified_ms(newest)),
            )
            for thread, newest in found
        ]
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
