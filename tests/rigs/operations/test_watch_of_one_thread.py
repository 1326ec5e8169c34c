"""A watch of a real clone: limited to a thread it says nothing of the others; it waits for a remote that is away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


def test_a_watch_that_is_started_before_its_remote_can_be_reached_waits_for_it(
    world: World, clone: Path
) -> None:
    world.commit(clone, {"demo-01/ACK.md": envelope("demo-01")})
    address = world.git("remote", "get-url", "origin", at=clone).strip()
    world.git("remote", "set-url", "origin", str(clone / "away"), at=clone)
    pauses: Iterator[Callable[[], object]] = iter(
        [
            lambda: None,
            lambda: world.git("remote", "set-url", "origin", address, at=clone),
        ]
    )
    rig = Rig(
        lambda: GitRepository(clone),
        now_ms=lambda: NOW_MS,
        random_bits=lambda _bits: 0,
        sleep=lambda _seconds: next(pauses)(),
        tell=lambda _text: None,
    )
    events = watch(rig, WatchRequest("sync", heartbeat=False))
    told = [next(events) for _ in range(3)]
    assert [(event["event"], event["seq"]) for event in told] == [
        ("error", 1),
        ("error", 2),
        ("snapshot", 3),
    ]
    assert "git fetch failed" in str(told[0]["message"])
