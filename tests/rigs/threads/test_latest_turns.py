"""What the newest commits say about the latest envelope of every thread."""

from __future__ import annotations

import pytest

from bridgehead.rigs.repositories.records import CommitRecord, Identity, PathChange
from bridgehead.rigs.threads.index_rows import ListedEnvelope
from bridgehead.rigs.threads.latest_turns import placed_latest
from bridgehead.rigs.threads.thread import Turn


def listed(
    filename: str, date: str = "2026-05-15", thread: str = "demo-01"
) -> ListedEnvelope:
    turn = Turn(thread, filename, "ACK", "rig-a", "rig-b", date, "▶ x")
    return ListedEnvelope(turn, (), is_relay=False, nonce="", content="b10b")


def commit(number: int, *changes: tuple[str, str], parents: int = 1) -> CommitRecord:
    made = tuple(
        PathChange(status, f"demo-01/{name}", "b10b", "100644")
        for status, name in changes
    )
    return CommitRecord(
        f"c{number}", ("p",) * parents, Identity("Op", "op@x"), number, False, "x", made
    )


THREAD = {"demo-01": [listed("A.md"), listed("B.md"), listed("OLD.md", "2026-05-14")]}


@pytest.mark.parametrize(
    ("newest_first", "latest"),
    [
        ([commit(2, ("A", "B.md")), commit(1, ("A", "A.md"))], ("B.md", "c2")),
        ([commit(2, ("A", "A.md")), commit(1, ("A", "B.md"))], ("A.md", "c2")),
        ([commit(2, ("M", "A.md")), commit(1, ("A", "B.md"))], ("B.md", "c1")),
        ([commit(2, ("A", "OLD.md")), commit(1, ("A", "A.md"))], ("A.md", "c1")),
        ([commit(1, ("A", "B.md"), ("A", "A.md"))], ("B.md", "c1")),
    ],
    ids=[
        "later commit",
        "whatever its name",
        "a change adds nothing",
        "last day only",
        "one commit",
    ],
)
def test_the_latest_is_what_was_added_last_on_the_last_day(newest_first, latest):
    found = placed_latest(THREAD, newest_first)

    assert found is not None
    assert (found["demo-01"].turn.filename, found["demo-01"].turn.commit_sha) == latest


@pytest.mark.parametrize(
    "newest_first",
    [
        [],
        [commit(1, ("A", "OLD.md"))],
        [commit(2, parents=2), commit(1, ("A", "A.md"))],
    ],
    ids=["nothing", "not far enough", "a merge"],
)
def test_commits_that_do_not_tell_are_not_guessed_from(newest_first):
    assert placed_latest(THREAD, newest_first) is None


def test_threads_are_ordered_by_the_commits_that_added_their_latest():
    threads = {
        "demo-01": [listed("A.md")],
        "demo-02": [listed("A.md", thread="demo-02")],
    }
    other = commit(1)._replace(
        changes=(PathChange("A", "demo-02/A.md", "b10b", "100644"),)
    )

    found = placed_latest(threads, [commit(2, ("A", "A.md")), other])

    assert found is not None
    assert found["demo-01"].turn.order_key() > found["demo-02"].turn.order_key()
