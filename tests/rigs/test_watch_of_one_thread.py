"""A watch that is limited to a thread says nothing of the others (rigs §8 watch, §12)."""

from __future__ import annotations

from bridgehead.rigs.freeze import Freeze
from bridgehead.rigs.operations.rig import Rig
from bridgehead.rigs.operations.watch import WatchRequest, watch
from bridgehead.rigs.repositories.memory import MemoryRepository
from bridgehead.rigs.repositories.records import FreezeNote

NOW_MS = 1_800_000_000_000
FREEZE = Freeze("mike-relay", "2027-01-15T08:00:00.000Z", "2099-01-01T00:00:00.000Z")
ENVELOPE = b"---\nfrom: mac\nto: win\ndate: 2026-05-15\nstatus: \xe2\x96\xb6 go\ntype: ACK\nthread: demo-01\n---\nx\n"


def test_freezes_of_other_threads_are_no_news() -> None:
    repository = MemoryRepository()
    repository.write_file("demo-01/ACK.md", ENVELOPE)
    threads = iter(["demo-02", "demo-01"])

    def freeze_another(_seconds: float) -> None:
        repository.known_freezes[next(threads)] = FreezeNote(FREEZE.stored_text())

    rig = Rig(
        lambda: repository,
        now_ms=lambda: NOW_MS,
        random_bits=lambda _bits: 0,
        sleep=freeze_another,
        tell=lambda _text: None,
    )
    events = watch(rig, WatchRequest("thread", "demo-01", heartbeat=False))
    assert next(events)["event"] == "snapshot"
    news = next(events)
    assert (news["event"], news["thread_id"]) == ("frozen", "demo-01")
