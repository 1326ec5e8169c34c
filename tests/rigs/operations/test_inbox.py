"""Which envelopes wait for this rig."""

from __future__ import annotations

import pytest

from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.operations.inbox import waiting_for
from bridgehead.rigs.threads.thread import Turn, turn_of


def turn(
    file: str, sender: str, kind: str, to: Value, position: int | None, *, thread: str = "demo-01"
) -> Turn:
    commit = None if position is None else f"{position:040x}"
    frontmatter: dict[str, Value] = {"from": sender, "type": kind, "to": to, "date": "2026-05-15"}
    return turn_of(thread, file, frontmatter, commit_sha=commit, position=position)


def thread(*turns: Turn) -> tuple[Turn, ...]:
    return turns


def waiting(*threads: tuple[Turn, ...]) -> list[str]:
    return [turn.path for turn in waiting_for("win", threads)]


def test_a_request_waits_until_a_turn_of_ours_knows_it() -> None:
    request = turn("REQUEST.md", "mac", "REQUEST", "win", 1)
    assert waiting(thread(request)) == ["demo-01/REQUEST.md"]
    assert waiting(thread(request, turn("RESPONSE.md", "win", "RESPONSE", "mac", 2))) == []


def test_an_answer_that_names_something_else_leaves_it_waiting() -> None:
    first = turn("REQUEST.md", "mac", "REQUEST", ["win", "ops"], 1)
    second = turn("VERIFY.md", "mac", "VERIFY", "win", 2)
    answer = turn("RESPONSE.md", "win", "RESPONSE", "mac", 3)._replace(references=(f"{1:040x}",))
    assert waiting(thread(first, second, answer)) == ["demo-01/VERIFY.md"]


def test_only_questions_put_to_us_by_others_wait() -> None:
    assert (
        waiting(
            thread(
                turn("A.md", "mac", "ACK", "win", 1),
                turn("B.md", "mac", "REQUEST", "ops", 2),
                turn("C.md", "win", "REQUEST", "win", 3),
                turn("D.md", "mac", "REQUEST", "win", None),
            )
        )
        == []
    )


def test_the_newest_comes_first_over_all_threads() -> None:
    older = turn("REQUEST.md", "mac", "REQUEST", "win", 1, thread="aa")
    newer = turn("HANDOFF.md", "ops", "HANDOFF", "win", 2, thread="bb")
    twin = turn("HANDOFF.md", "ops", "HANDOFF", "win", 2, thread="ab")
    assert waiting(thread(older), thread(newer), thread(twin)) == [
        "ab/HANDOFF.md",
        "bb/HANDOFF.md",
        "aa/REQUEST.md",
    ]


@pytest.mark.parametrize("kind", ["STATE", "ACK"])
def test_neither_a_state_nor_an_acknowledgement_answers_a_question(kind: str) -> None:
    request = turn("REQUEST.md", "mac", "REQUEST", "win", 1)
    named = turn("X.md", "win", kind, "mac", 2)._replace(references=(f"{1:040x}",))
    assert waiting(thread(request, named, turn("Y.md", "win", kind, "mac", 3))) == ["demo-01/REQUEST.md"]
    assert waiting(thread(request, named._replace(status="❌ no time"))) == []


def test_an_answer_without_reference_answers_the_newest_question_of_its_recipient() -> None:
    first = turn("REQUEST.md", "mac", "REQUEST", "win", 1)
    second = turn("REQUEST-2.md", "mac", "REQUEST", "win", 2)
    other = turn("REQUEST-3.md", "ops", "REQUEST", "win", 3)
    answer = turn("RESPONSE.md", "win", "RESPONSE", "mac", 4)
    assert waiting(thread(first, second, other, answer)) == ["demo-01/REQUEST-3.md", "demo-01/REQUEST.md"]


def test_what_came_while_an_answer_was_on_its_way_is_not_answered_by_it() -> None:
    request = turn("REQUEST.md", "mac", "REQUEST", "win", 1)
    answer = turn("RESPONSE.md", "win", "RESPONSE", "mac", 2)
    found = waiting_for("win", [thread(request, answer)], {"demo-01/RESPONSE.md": [request.path]}.__getitem__)
    assert [turn.path for turn in found] == ["demo-01/REQUEST.md"]
