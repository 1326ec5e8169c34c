"""Whom a thread is answered to when nobody is named."""

from __future__ import annotations

import pytest

from bridgehead.rigs.envelope.fields import StatusClass
from bridgehead.rigs.envelope.names import RigId
from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.threads.thread import (
    ThreadSummary,
    Turn,
    closing_recipient,
    dirty_threads,
    in_order,
    latest,
    newest_first,
    relay_recipient,
    turn_of,
)

OWN = RigId("mac")


def named(sender: Value, to: Value) -> dict[str, Value]:
    return {"from": sender, "to": to}


def test_a_thread_is_closed_towards_the_rig_it_names_most() -> None:
    thread = [named("mac", ["ops", "win"]), named("WIN ", "mac"), named("mac", None)]
    assert closing_recipient(OWN, thread, []) == "win"


def test_ties_go_to_the_lower_id_when_closing_and_to_the_first_seen_when_relaying() -> (
    None
):
    thread = [named("win", "ops")]
    assert closing_recipient(OWN, thread, []) == "ops"
    assert relay_recipient(OWN, thread) == "win"


def test_the_repository_is_asked_only_when_the_thread_names_nobody_else() -> None:
    never_read = (pytest.fail("not needed") for _ in range(1))
    assert closing_recipient(OWN, [named("mac", "lab")], never_read) == "lab"
    assert (
        closing_recipient(
            OWN, [named("mac", "Mac")], [named("ops", "mac"), named("a", "ops")]
        )
        == "ops"
    )


def test_a_rig_alone_writes_to_itself() -> None:
    assert (
        closing_recipient(OWN, [], [named("mac", "(set --to recipient when sending)")])
        == OWN
    )
    assert relay_recipient(OWN, [named(5, [None, "Bad_Id"])]) == OWN


def turn(
    filename: str, date: str, position: int | None = None, thread_id: str = "demo-01"
) -> Turn:
    commit = None if position is None else f"{position:040x}"
    return turn_of(
        thread_id, filename, {"date": date}, commit_sha=commit, position=position
    )


def names(turns: list[Turn]) -> list[str]:
    return [turn.filename for turn in turns]


def test_within_a_day_commits_decide_and_not_names() -> None:
    turns = [turn("ACK.md", "2026-05-15", 2), turn("REQUEST.md", "2026-05-15", 1)]
    assert names(in_order(turns)) == ["REQUEST.md", "ACK.md"]


def test_the_day_comes_before_the_commit() -> None:
    turns = [turn("A.md", "2026-05-16", 1), turn("B.md", "2026-05-15T23:59:59Z", 2)]
    assert names(in_order(turns)) == ["B.md", "A.md"]


def test_within_a_commit_the_date_text_and_then_the_name_decide() -> None:
    turns = [
        turn("C.md", "2026-05-15", 1),
        turn("A.md", "2026-05-15T10:00:00Z", 1),
        turn("B.md", "2026-05-15", 1),
    ]
    assert names(in_order(turns)) == ["B.md", "C.md", "A.md"]


def test_an_uncommitted_turn_is_last_of_its_day_only() -> None:
    turns = [
        turn("A.md", "2026-05-15"),
        turn("B.md", "2026-05-15", 9),
        turn("C.md", "2026-05-16", 1),
    ]
    assert names(in_order(turns)) == ["B.md", "A.md", "C.md"]
    assert latest(turns).filename == "C.md"


@pytest.mark.parametrize("date", ["zzzz", "9999", "2026/05/15", ""])
def test_a_date_without_the_shape_of_one_never_wins(date: str) -> None:
    assert (
        latest([turn("A.md", date, 9), turn("B.md", "2026-05-15", 1)]).filename
        == "B.md"
    )


def test_a_turn_takes_what_it_can_from_any_frontmatter() -> None:
    odd = turn_of(
        "demo-01",
        "A.md",
        {"from": 5, "to": ["a", 7, "b"], "references": "x", "status": None},
    )
    assert (odd.sender, odd.recipients, odd.references, odd.date, odd.day) == (
        "",
        ("a", "b"),
        (),
        "",
        "",
    )
    assert odd.status_class is StatusClass.ACTIVE
    assert odd.path == "demo-01/A.md"


def test_a_turn_knows_its_frontmatter() -> None:
    full = turn_of(
        "demo-01",
        "A.md",
        {
            "from": "mac",
            "to": "win",
            "status": "✅ ok",
            "references": ["a1b2c3d"],
            "in_reply_to": "0" * 64,
            "tldr": "t",
        },
    )
    assert (full.sender, full.to, full.recipients) == ("mac", "win", ("win",))
    assert (full.references, full.in_reply_to, full.tldr) == (
        ("a1b2c3d",),
        "0" * 64,
        "t",
    )
    assert full.status_class is StatusClass.COMPLETED


def test_threads_are_listed_newest_first_and_equals_by_id() -> None:
    threads = [
        ThreadSummary(turn("A.md", "2026-05-15", 1, "bb"), 1, False),
        ThreadSummary(turn("A.md", "2026-05-15", 1, "aa"), 1, False),
        ThreadSummary(turn("A.md", "2026-05-16", 1, "zz"), 1, True),
    ]
    assert [thread.thread_id for thread in newest_first(threads)] == ["zz", "aa", "bb"]


def test_a_thread_is_dirty_when_a_changed_path_begins_with_it() -> None:
    assert dirty_threads(["demo-01/draft.md", "demo-01/x/y", "README.md"]) == {
        "demo-01",
        "README.md",
    }
