"""What is read of a thread is what lies in the work tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.rigs.envelope.envelope import Envelope, parse_envelope
from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.threads import index as threads_index
from bridgehead.rigs.threads.index import EnvelopeIndex
from rigs.support.git_world import World, envelope


@pytest.fixture
def long_thread(world: World, clone: Path) -> Path:
    world.commit(
        clone,
        {
            f"demo-01/N-{n}.md": envelope("demo-01", body=f"né {n}\n\n---\n▶\n")
            for n in range(8)
        },
    )
    return clone


def read(clone: Path) -> dict[str, Envelope | None]:
    index = EnvelopeIndex(GitRepository(clone), "demo-01")
    listed = index.thread("demo-01").envelopes
    return {
        each.turn.filename: found
        for each, found in zip(listed, index.read(listed), strict=True)
    }


def on_disk(clone: Path) -> dict[str, object]:
    return {
        file.name: parse_envelope(file.read_bytes())
        for file in sorted((clone / "demo-01").glob("*.md"))
    }


def test_edits_additions_and_removals_show_at_once(long_thread):
    read(long_thread)
    (long_thread / "demo-01/N-3.md").write_bytes(envelope("demo-01", body="edited\n"))
    (long_thread / "demo-01/LOOSE.md").write_bytes(envelope("demo-01", body="loose\n"))
    (long_thread / "demo-01/N-5.md").unlink()
    assert read(long_thread) == on_disk(long_thread)


def test_what_was_listed_can_be_read_although_its_file_went_away_meanwhile(long_thread):
    before = on_disk(long_thread)
    index = EnvelopeIndex(GitRepository(long_thread), "demo-01")
    listed = index.thread("demo-01").envelopes
    (long_thread / "demo-01/N-0.md").unlink()
    assert list(index.read(listed)) == list(before.values())


def test_a_thread_of_any_length_is_read_in_the_order_asked_for(
    long_thread, monkeypatch
):
    monkeypatch.setattr(threads_index, "_AT_ONCE", 3)
    index = EnvelopeIndex(GitRepository(long_thread), "demo-01")
    listed = index.thread("demo-01").envelopes[::-1]
    assert list(index.read(listed)) == list(on_disk(long_thread).values())[::-1]
