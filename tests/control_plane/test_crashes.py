"""Processes killed with -9 while they write: what was acknowledged is there, in order, once; the record works on."""

from __future__ import annotations

import random
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from bridgehead.contract.record_words import PendingState
from bridgehead.control_plane.records import EventFilter
from bridgehead.control_plane.stores.inspection import check
from control_plane.store_suite import (
    BEFORE,
    OLD,
    SENT,
    ended_run,
    event,
    ids,
    of_run,
    question,
)

pytestmark = pytest.mark.slow

WRITERS = 4
EVENTS_EACH = 250
ANSWERERS = 8


def acknowledged(
    writer: subprocess.Popen[str], kill_after: int | None
) -> list[tuple[str, int]]:
    """Every id and seq the writer printed before it ended, or was killed after so many of them."""
    seen: list[tuple[str, int]] = []
    with writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if not line.endswith("\n"):
                break  # killed in the middle of a line
            event_id, seq = line.split()
            seen.append((event_id, int(seq)))
            if len(seen) == kill_after:
                writer.kill()
    return seen


@pytest.mark.parametrize("seed", range(2))
def test_acknowledged_events_survive_kills_in_order_and_exactly_once(
    lasting_place: Any, start_program: Any, seed: int
) -> None:
    chance = random.Random(seed)
    kills = [
        chance.randrange(1, EVENTS_EACH) if writer % 2 else None
        for writer in range(WRITERS)
    ]
    lasting_place.open()
    writers = [
        start_program("appender.py", lasting_place.address, writer, EVENTS_EACH)
        for writer in range(WRITERS)
    ]
    with ThreadPoolExecutor(WRITERS) as readers:
        seen = list(readers.map(acknowledged, writers, kills))

    store = lasting_place.open()
    recorded = store.events(SENT, limit=10_000)
    seqs = {one.event.id: one.seq for one in recorded}
    assert len(seqs) == len(recorded)
    for writer, (acks, kill) in enumerate(zip(seen, kills, strict=True)):
        own = [one for one in ids(recorded) if one.startswith(f"{writer}-")]
        assert own == [f"{writer}-{n}" for n in range(len(own))]
        assert {event_id: seqs[event_id] for event_id, _ in acks} == dict(acks)
        assert len(acks) >= (kill or EVENTS_EACH)
        # A writer may be killed after its commit and before it could say so.
        assert len(own) - len(acks) in (0, 1 if kill else 0)
    assert ids(store.append([event("afterwards")])) == ["afterwards"]
    assert store.last_seq() > max(seqs.values())


@pytest.mark.parametrize("kill_after", [1, 2, 4])
def test_a_prune_that_is_killed_leaves_a_whole_record_and_the_next_one_ends_it(
    lasting_place: Any, start_program: Any, kill_after: int
) -> None:
    store = lasting_place.open()
    store.append([event(f"e{n}", kind="doctor.checked", at=OLD) for n in range(300)])
    for n in range(60):
        store.save_run(ended_run(f"r{n}"), events=[of_run(f"r{n}")])
        store.withdraw_pending(
            store.open_pending(question(f"k{n}"), OLD).id, reason="over"
        )
    store.save_run(ended_run("latest", started_at=BEFORE))
    waiting = store.open_pending(question("waits"))

    with start_program("pruner.py", lasting_place.address, BEFORE) as pruner:
        for _ in range(kill_after):
            assert pruner.stdout is not None and pruner.stdout.readline() == "deleted\n"
        pruner.kill()

    assert not check(lasting_place.address).damage
    store.prune(BEFORE)
    store.compact()
    found = check(lasting_place.address)
    assert (found.damage, found.counts["runs"], found.counts["pending"]) == ((), 1, 1)
    assert [item.id for item in store.pending()] == [waiting.id]
    assert store.append([event("afterwards")])[0].seq == store.last_seq()


@pytest.mark.parametrize("kill", [False, True], ids=["all live", "half are killed"])
def test_exactly_one_of_several_processes_gets_its_answer_in(
    lasting_place: Any, start_program: Any, kill: bool
) -> None:
    store = lasting_place.open()
    item = store.open_pending(question("k1"))
    answerers = [
        start_program("answerer.py", lasting_place.address, item.id, who)
        for who in range(ANSWERERS)
    ]
    for answerer in answerers:
        assert answerer.stdout is not None and answerer.stdout.readline() == "ready\n"
    for who, answerer in enumerate(answerers):
        assert answerer.stdin is not None
        answerer.stdin.write("go\n")
        answerer.stdin.flush()
        if kill and who % 2:
            answerer.kill()
    told = [answerer.communicate(timeout=60)[0] for answerer in answerers]

    kept = store.pending_item(item.id)
    assert kept.state is PendingState.ANSWERED and kept.answer is not None
    assert len(store.events(EventFilter(kinds=("pending.answered",)))) == 1
    winners = [str(who) for who, said in enumerate(told) if said == "taken\n"]
    assert winners in ([kept.answer.by], [] if kill else [kept.answer.by])
    assert (
        told.count("late\n") >= ANSWERERS // 2 - 1
        if kill
        else told.count("late\n") == ANSWERERS - 1
    )
