"""Which turn knows which, and when a thread diverges (rigs §9.6)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.rigs.threads.causality import Causality
from bridgehead.rigs.threads.thread import Turn, latest, turn_of

History = Mapping[str, Sequence[str]]


def sha(number: int) -> str:
    return hashlib.sha1(str(number).encode(), usedforsecurity=False).hexdigest()


def turn(
    file: str,
    sender: str,
    position: int,
    *,
    refs: Sequence[int] = (),
    reply: str = "",
    body: str = "",
) -> Turn:
    return turn_of(
        "demo-01",
        file,
        {
            "from": sender,
            "date": "2026-05-15",
            "references": [sha(number) for number in refs],
            "in_reply_to": reply,
            "body_hash": body,
        },
        commit_sha=sha(position),
        position=position,
    )


def names(turns: Sequence[Turn]) -> list[str]:
    return [turn.filename for turn in turns]


def test_a_thread_without_references_is_linear() -> None:
    thread = Causality([turn("A", "mac", 1), turn("B", "win", 2), turn("C", "ops", 3)])
    assert names(thread.heads()) == ["C"]
    assert thread.divergence() is None
    assert thread.known("C") == {"A", "B"}


def test_two_rigs_that_answer_the_same_turn_diverge_under_its_name() -> None:
    thread = Causality(
        [
            turn("REQUEST", "mac", 1),
            turn("B", "win", 2, refs=[1]),
            turn("ACK", "ops", 3, refs=[1]),
        ]
    )
    divergence = thread.divergence()
    assert divergence is not None
    assert divergence.json_object() == {
        "name": f"demo-01@{sha(1)[:7]}",
        "heads": [
            {"file": "ACK", "from": "ops", "commit_sha": sha(3)},
            {"file": "B", "from": "win", "commit_sha": sha(2)},
        ],
    }
    assert names(thread.concurrent_with("B")) == ["ACK"]
    assert names(thread.concurrent_with("REQUEST")) == []


def test_a_turn_that_references_all_heads_ends_the_divergence() -> None:
    split = [
        turn("A", "mac", 1),
        turn("B", "win", 2, refs=[1]),
        turn("C", "ops", 3, refs=[1]),
    ]
    assert Causality(split).divergence() is not None
    assert Causality([*split, turn("D", "mac", 4, refs=[2, 3])]).divergence() is None


def test_a_turn_without_references_ends_it_too_since_its_commit_follows_everything() -> (
    None
):
    split = [
        turn("A", "mac", 1),
        turn("B", "win", 2, refs=[1]),
        turn("C", "ops", 3, refs=[1]),
    ]
    assert names(Causality([*split, turn("D", "mac", 4)]).heads()) == ["D"]


def test_heads_without_a_common_turn_split_at_the_root() -> None:
    parents = {sha(1): [sha(0)], sha(2): [sha(0)], sha(0): []}
    divergence = Causality(
        [turn("A", "mac", 1), turn("B", "win", 2)], parents
    ).divergence()
    assert divergence is not None
    assert divergence.name == "demo-01@root"


def test_branches_of_history_are_concurrent_until_a_turn_after_their_merge() -> None:
    # 0 - 1 (A) - 3 (C) - 5 merge - 6 (D)
    #   \ 2 (B) - 4 ----/
    parents = {
        sha(0): [],
        sha(1): [sha(0)],
        sha(2): [sha(0)],
        sha(3): [sha(1)],
        sha(4): [sha(2)],
        sha(5): [sha(3), sha(4)],
        sha(6): [sha(5)],
    }
    branches = [turn("A", "mac", 1), turn("B", "win", 2), turn("C", "ops", 3)]
    before = Causality(branches, parents)
    assert names(before.heads()) == ["B", "C"]
    assert before.known("C") == {"A"}
    after = Causality([*branches, turn("D", "mac", 6)], parents)
    assert names(after.heads()) == ["D"]
    assert after.known("D") == {"A", "B", "C"}


def test_a_reply_by_body_hash_names_its_parent() -> None:
    body = "b" * 64
    thread = Causality(
        [
            turn("A", "mac", 1, body=body),
            turn("B", "win", 2),
            turn("C", "ops", 3, reply=body),
        ]
    )
    assert thread.known("C") == {"A"}
    assert names(thread.heads()) == ["B", "C"]


def test_equal_bodies_are_all_named_by_their_hash() -> None:
    body = "b" * 64
    turns = [
        turn("A", "mac", 1, body=body),
        turn("B", "win", 2, body=body),
        turn("C", "ops", 3, body=body),
    ]
    assert Causality([*turns, turn("D", "lab", 4, reply=body)]).known("D") == {
        "A",
        "B",
        "C",
    }


def test_a_reference_may_be_shortened() -> None:
    later = turn_of(
        "demo-01",
        "B",
        {"from": "win", "references": [sha(1)[:7]]},
        commit_sha=sha(2),
        position=2,
    )
    assert Causality([turn("A", "mac", 1), later]).known("B") == {"A"}


def test_references_to_other_threads_or_unknown_commits_change_nothing() -> None:
    thread = Causality(
        [turn("A", "mac", 1), turn("B", "win", 2, refs=[99], reply="f" * 64)]
    )
    assert names(thread.heads()) == ["B"]


def test_a_rig_knows_its_own_earlier_turns_and_what_they_knew() -> None:
    thread = Causality(
        [
            turn("A", "mac", 1),
            turn("B", "win", 2, refs=[1]),
            turn("C", "ops", 3, refs=[1]),
            turn("D", "win", 4, refs=[3]),
        ]
    )
    assert thread.known("D") == {"A", "B", "C"}


def test_of_turns_in_one_commit_the_later_knows_the_earlier() -> None:
    thread = Causality([turn("A", "mac", 1), turn("B", "win", 1), turn("C", "ops", 1)])
    assert names(thread.heads()) == ["C"]
    assert thread.known("C") == {"A", "B"}


def test_uncommitted_turns_take_no_part() -> None:
    draft = turn_of("demo-01", "DRAFT", {"from": "win", "references": [sha(1)]})
    thread = Causality([turn("A", "mac", 1), draft])
    assert names(thread.heads()) == ["A"]
    assert thread.known("DRAFT") == frozenset()
    assert thread.concurrent_with("DRAFT") == []


def test_an_empty_thread_has_no_heads() -> None:
    assert Causality([]).heads() == []
    assert Causality([]).divergence() is None


# The rules of rigs §9.6 once more, slowly: every set spelled out and closed by repetition.


def known_by_definition(
    turns: Sequence[Turn], parents: History | None
) -> dict[str, set[str]]:
    ordered = sorted(turns, key=lambda turn: (turn.position, turn.order_key()))
    direct: dict[str, set[str]] = {}
    for index, later in enumerate(ordered):
        before = ordered[:index]
        named = {
            turn.filename
            for turn in before
            if any(
                (turn.commit_sha or "").startswith(reference)
                for reference in later.references
            )
            or (later.in_reply_to and later.in_reply_to == turn.body_hash)
        }
        if not named:
            past = ancestors(later, ordered, parents)
            named = {turn.filename for turn in before if turn.commit_sha in past}
        same_commit = {
            turn.filename for turn in before if turn.commit_sha == later.commit_sha
        }
        own = {turn.filename for turn in before if turn.sender == later.sender}
        direct[later.filename] = named | own | same_commit
    known: dict[str, set[str]] = {}
    for turn in ordered:
        known[turn.filename] = set().union(
            direct[turn.filename], *(known[name] for name in direct[turn.filename])
        )
    return known


def ancestors(
    turn: Turn, turns: Sequence[Turn], parents: History | None
) -> set[str | None]:
    if parents is None:
        return {
            other.commit_sha
            for other in turns
            if (other.position or 0) < (turn.position or 0)
        }
    found: set[str | None] = set()
    pending = list(parents.get(turn.commit_sha or "", ()))
    while pending:
        commit = pending.pop()
        if commit not in found:
            found.add(commit)
            pending.extend(parents.get(commit, ()))
    return found


@st.composite
def threads(draw: st.DrawFn) -> tuple[list[Turn], History | None]:
    commits = draw(st.integers(1, 9))
    turns = [
        turn(
            f"T{number}",
            draw(st.sampled_from(["mac", "win", "ops"])),
            draw(st.integers(0, commits - 1)),
            refs=draw(st.lists(st.integers(0, commits), max_size=2, unique=True)),
            reply=draw(st.sampled_from(["", "", "a" * 64, "b" * 64])),
            body=draw(st.sampled_from(["", "a" * 64, "b" * 64])),
        )
        for number in range(draw(st.integers(0, 9)))
    ]
    # No turn can name the commit that adds it or a later one.
    turns = [
        turn._replace(
            references=tuple(r for r in turn.references if r in earlier_than(turn))
        )
        for turn in turns
    ]
    if draw(st.booleans()):
        return turns, None
    parents = {
        sha(number): [
            sha(up)
            for up in draw(
                st.lists(st.integers(0, number - 1), max_size=2, unique=True)
            )
        ]
        if number
        else []
        for number in range(commits)
    }
    return turns, parents


def earlier_than(turn: Turn) -> set[str]:
    return {sha(number) for number in range(turn.position or 0)}


@settings(deadline=None)
@given(threads())
def test_property_the_graph_answers_as_the_definition_does(
    thread: tuple[list[Turn], History | None],
) -> None:
    turns, parents = thread
    known = known_by_definition(turns, parents)
    graph = Causality(turns, parents)
    by_name = {turn.filename: turn for turn in turns}

    heads = {
        name for name in known if not any(name in others for others in known.values())
    }
    assert {turn.filename for turn in graph.heads()} == heads
    assert {name: graph.known(name) for name in known} == known
    for name, turn in by_name.items():
        concurrent = {
            other.filename
            for other in turns
            if other.sender != turn.sender
            and other.filename not in known[name]
            and name not in known[other.filename]
        }
        assert {other.filename for other in graph.concurrent_with(name)} == concurrent
    divergence = graph.divergence()
    assert (divergence is not None) is (len(heads) > 1)
    if divergence:
        common = [
            by_name[name] for name in set.intersection(*(known[head] for head in heads))
        ]
        origin = (latest(common).commit_sha or "")[:7] if common else "root"
        assert divergence.name == f"demo-01@{origin}"


@pytest.mark.parametrize(
    "refs",
    [[], [0], "previous"],
    ids=["no references", "all to the first", "to the previous"],
)
def test_long_threads_keep_a_small_graph(refs: object) -> None:
    count = 10_000
    turns = [
        turn(
            f"T{number}",
            ("mac", "win", "ops")[number % 3],
            number,
            refs=()
            if not number or not refs
            else ([0] if refs == [0] else [number - 1]),
            body="a" * 64,
        )
        for number in range(count)
    ]
    graph = Causality(turns)
    assert len(graph.heads()) == (3 if refs == [0] else 1)
    assert sum(map(len, graph._graph._edges)) <= 6 * count
