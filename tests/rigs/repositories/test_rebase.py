"""How our turns go on top of others': pure decisions over commit records (rigs §9.5)."""

from __future__ import annotations

import pytest

from bridgehead.rigs.repositories.git.rebase import only_appends, plan_rebuild
from bridgehead.rigs.repositories.records import (
    REGULAR,
    SYMLINK,
    CommitRecord,
    Identity,
    PathChange,
)


def commit(
    *paths: str,
    message: str = "x",
    status: str = "A",
    mode: str = REGULAR,
    parents: int = 1,
    signed: bool = False,
) -> CommitRecord:
    changes = tuple(PathChange(status, path, f"blob of {path}", mode) for path in paths)
    ids = tuple(f"parent {number}" for number in range(parents))
    return CommitRecord(
        f"commit of {paths}", ids, Identity("n", "e"), 0, signed, message, changes
    )


def test_a_free_name_and_the_message_are_kept():
    [planned] = (
        plan_rebuild(
            [commit("t1/ACK.md", message="ACK: t1/ACK.md")], [commit("t1/STATE.md")], {}
        )
        or []
    )
    assert planned.turns[0].path == "t1/ACK.md"
    assert planned.message == "ACK: t1/ACK.md"


@pytest.mark.parametrize(
    ("filename", "taken", "expected"),
    [
        ("ACK.md", {"ACK.md"}, "ACK-2.md"),
        ("ACK-2.md", {"ACK.md", "ACK-2.md"}, "ACK-3.md"),
        ("ACK-7.md", {"ACK-7.md"}, "ACK.md"),
        ("RESOLUTION.md", {"RESOLUTION.md"}, "RESOLUTION-2.md"),
        ("RELAY-0123456789.md", {"RELAY-0123456789.md"}, "RELAY-0123456789-2.md"),
        ("MAC-ACK-2-FINAL.md", {"MAC-ACK-2-FINAL.md"}, "MAC-ACK-2-FINAL-2.md"),
    ],
)
def test_a_taken_name_gives_way_to_the_next_free_one(filename, taken, expected):
    [planned] = plan_rebuild([commit(f"t1/{filename}")], [], {"t1": taken}) or []
    assert planned.turns[0].path == f"t1/{expected}"
    assert planned.turns[0].old_path == f"t1/{filename}"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("ACK: t1/ACK.md", "ACK: t1/ACK-2.md"),
        ("ACK: t1/ACK.md\n\nbody: t1/ACK.md", "ACK: t1/ACK-2.md\n\nbody: t1/ACK.md"),
        ("ACK: see t1/ACK.md for more", "ACK: see t1/ACK.md for more"),
        ("ACK: a summary", "ACK: a summary"),
    ],
)
def test_the_subject_is_corrected_only_where_it_names_the_file(message, expected):
    [planned] = (
        plan_rebuild([commit("t1/ACK.md", message=message)], [], {"t1": {"ACK.md"}})
        or []
    )
    assert planned.message == expected


def test_our_own_later_turns_step_aside_for_earlier_ones():
    ours = [commit("t1/ACK.md"), commit("t1/ACK-2.md"), commit("t2/ACK.md")]
    planned = plan_rebuild(ours, [], {"t1": {"ACK.md"}}) or []
    assert [turn.path for plan in planned for turn in plan.turns] == [
        "t1/ACK-2.md",
        "t1/ACK-3.md",
        "t2/ACK.md",
    ]


def test_signatures_are_carried_as_a_demand():
    planned = (
        plan_rebuild([commit("t1/A.md", signed=True), commit("t1/B.md")], [], {}) or []
    )
    assert [plan.signed for plan in planned] == [True, False]


@pytest.mark.parametrize(
    "other",
    [
        commit("t1/ACK.md", status="M"),
        commit("t1/ACK.md", status="D"),
        commit("t1/ACK.md", mode=SYMLINK),
        commit("t1/ACK.md", parents=2),
        commit("README.md"),
        commit("t1/deep/ACK.md"),
        commit("dist/ACK.md"),
        commit("t1/picture.png"),
        commit(),
    ],
    ids=[
        "modified",
        "deleted",
        "link",
        "merge",
        "outside",
        "deeper",
        "unlisted",
        "not-md",
        "empty",
    ],
)
def test_anything_but_an_append_on_either_side_stops_the_plan(other):
    assert not only_appends([other])
    assert plan_rebuild([other], [], {}) is None
    assert plan_rebuild([commit("t1/X.md")], [other], {}) is None


def test_the_given_names_are_not_changed_by_planning():
    taken = {"t1": {"ACK.md"}}
    plan_rebuild([commit("t1/ACK.md")], [], taken)
    assert taken == {"t1": {"ACK.md"}}
