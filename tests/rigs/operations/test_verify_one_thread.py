"""`verify` of one thread reads one thread (rigs §9.4)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bridgehead.rigs.operations.verification import verify
from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.rig import Rig
from rigs.support.git_world import World, envelope


def test_only_the_envelopes_of_the_thread_are_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = world.base / "a"
    for thread in ("demo-01", "demo-02"):
        for number in range(3):
            world.commit(
                clone,
                {
                    f"{thread}/ACK-{number}.md": envelope(
                        thread, body=f"{thread} {number}\n"
                    )
                },
            )
    world.commit(clone, {"demo-02/STATE.md": envelope("demo-01")})
    read: list[str] = []
    ask = GitRepository.read_blobs

    def count(self: GitRepository, blobs: Sequence[str]) -> dict[str, bytes | None]:
        read.extend(blobs)
        return ask(self, blobs)

    monkeypatch.setattr(GitRepository, "read_blobs", count)
    rig = Rig(
        lambda: world.repository(clone),
        now_ms=lambda: 0,
        random_bits=lambda _count: 0,
        sleep=lambda _seconds: None,
        tell=lambda _text: None,
    )

    one = verify(rig, "demo-01")
    assert (one.verification.checked, one.verification.failed, len(set(read))) == (
        3,
        0,
        3,
    )
    other = verify(rig, "demo-02")
    assert [found.path for found in other.verification.items] == ["demo-02/STATE.md"]
    assert verify(rig).verification.checked == 7
