"""What is read of a thread is what lies in the work tree, and every file is opened once."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.rigs.envelope.envelope import Envelope, parse_envelope
from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.threads import index_store
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


def test_what_went_away_meanwhile_reads_as_nothing(long_thread):
    index = EnvelopeIndex(GitRepository(long_thread), "demo-01")
    listed = index.thread("demo-01").envelopes
    (long_thread / "demo-01/N-0.md").unlink()
    assert [found is None for found in index.read(listed)] == [True] + [False] * 7


def test_large_files_are_read_where_they_lie(world, long_thread, monkeypatch):
    monkeypatch.setattr(index_store, "MAX_KEPT_BYTES", 400)
    world.commit(
        long_thread, {"demo-01/BIG.md": envelope("demo-01", body="x" * 1000 + "\n")}
    )
    assert read(long_thread) == on_disk(long_thread)


def test_a_first_look_opens_every_file_once(long_thread, monkeypatch):
    (long_thread / "demo-01/LOOSE.md").write_bytes(envelope("demo-01", body="loose\n"))
    opened: list[str] = []
    read_files = GitRepository.read_files

    def counting(self: GitRepository, directory: str, names: list[str]) -> object:
        opened.extend(names)
        return read_files(self, directory, names)

    monkeypatch.setattr(GitRepository, "read_files", counting)
    index = EnvelopeIndex(
        GitRepository(long_thread), "demo-01", with_findings=True, for_reading=True
    )
    listed = index.thread("demo-01").envelopes

    found = dict(
        zip((each.turn.filename for each in listed), index.read(listed), strict=True)
    )

    assert found == on_disk(long_thread)
    assert sorted(opened) == sorted(
        [*found, "LOOSE.md"]
    )  # nobody vouches for a loose file a second time
