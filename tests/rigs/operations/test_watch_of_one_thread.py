"""A watch that is limited to a thread says nothing of the others (rigs §8 watch, §12)."""

from __future__ import annotations

from pathlib import Path

from bridgehead.rigs.operations.watch import WatchRequest, watch
from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.repositories.records import Wire
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.freeze import Freeze
from rigs.support.git_world import World, envelope

NOW_MS = 1_800_000_000_000
FREEZE = Freeze("mike-relay", "2027-01-15T08:00:00.000Z", "2099-01-01T00:00:00.000Z")
WIRE = Wire("origin", "main", "refs/remotes/origin/main")


def test_freezes_of_other_threads_are_no_news(world: World, clone: Path) -> None:
    world.commit(clone, {"demo-01/ACK.md": envelope("demo-01")})
    threads = iter(["demo-02", "demo-01"])

    def freeze_another(_seconds: float) -> None:
        GitRepository(clone).freeze(WIRE, next(threads), FREEZE.stored_text())

    rig = Rig(
        lambda: GitRepository(clone),
        now_ms=lambda: NOW_MS,
        random_bits=lambda _bits: 0,
        sleep=freeze_another,
        tell=lambda _text: None,
    )
    events = watch(rig, WatchRequest("thread", "demo-01", heartbeat=False))
    assert next(events)["event"] == "snapshot"
    news = next(events)
    assert (news["event"], news["thread_id"]) == ("frozen", "demo-01")
