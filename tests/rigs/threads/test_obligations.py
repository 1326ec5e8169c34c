"""What rigs owe one another, by the vectors beside this file, in whatever order the turns are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.rigs.threads.obligations import (
    Obligation,
    closings,
    deliveries,
    due_of,
    obligations,
    with_due,
)
from bridgehead.rigs.threads.thread import Turn, turn_of

CASES = json.loads((Path(__file__).parent / "obligations.json").read_text())["cases"]


def commit(position: int) -> str:
    return f"{position:040x}"


def turn(said: dict[str, Any], *, at: int | None = None) -> Turn:
    place = said["at"] if at is None else at
    made = turn_of(
        "demo-01",
        f"{said['type']}-{said['at']}.md",
        {
            "from": said["from"],
            "to": said["to"],
            "type": said["type"],
            "date": "2026-05-15",
            "status": said.get("status", "▶ said"),
            "body_hash": f"hash-{said['at']}",
            "references": [commit(one) for one in said.get("ref", ())],
        },
        commit_sha=None if said["at"] is None else commit(said["at"]),
        position=place,
    )
    return (
        made._replace(in_reply_to=f"hash-{said['reply']}") if "reply" in said else made
    )


def told(found: list[Obligation]) -> list[list[Any]]:
    return sorted(
        [int(one.asked.commit_sha or "", 16), one.debtor, str(one.state), one.due]
        for one in found
    )


def owed(case: dict[str, Any], turns: list[Turn]) -> list[Obligation]:
    believed = {turn(said).path: said.get("counts", True) for said in case["turns"]}
    paths = {said["at"]: turn(said).path for said in case["turns"]}
    crossed = {
        paths[int(at)]: [paths[one] for one in ones]
        for at, ones in case.get("crossed", {}).items()
    }
    return obligations(
        turns,
        counts=lambda one: believed[one.path],
        unseen=lambda path: crossed.get(path, ()),
        is_closed=case.get("closed", False),
    )


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_a_question_is_owed_until_it_is_answered_declined_or_settled(
    case: dict[str, Any],
) -> None:
    assert told(owed(case, [turn(said) for said in case["turns"]])) == sorted(
        case["expect"]
    )


@settings(deadline=None)
@given(st.sampled_from(CASES), st.randoms(use_true_random=False))
def test_property_the_order_in_which_turns_are_read_changes_nothing(
    case: dict[str, Any], random: Any
) -> None:
    turns = [turn(said) for said in case["turns"]]
    random.shuffle(turns)
    assert told(owed(case, turns)) == sorted(case["expect"])


RIGS = ("mac", "win", "ops")


@st.composite
def named_thread(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Questions, and answers that say which question they mean."""
    questions = draw(st.integers(1, 5))
    said: list[dict[str, Any]] = [
        {
            "from": draw(st.sampled_from(RIGS)),
            "to": draw(st.permutations(RIGS))[:2],
            "type": "REQUEST",
            "at": at,
        }
        for at in range(questions)
    ]
    for at in range(questions, questions + draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(["RESPONSE", "RESULT", "ACK", "STATE"]))
        status = draw(
            st.sampled_from(["▶ said", "❌ no", "▶ said, by 2026-11-20T10:00:00Z"])
        )
        named = draw(st.integers(0, questions - 1))
        said.append(
            {
                "from": draw(st.sampled_from(RIGS)),
                "to": "mac",
                "type": kind,
                "at": at,
                "ref": [named],
                "status": status,
            }
        )
    return said


@settings(deadline=None)
@given(
    named_thread().flatmap(
        lambda said: st.tuples(st.just(said), st.permutations(range(len(said))))
    )
)
def test_property_any_order_of_arrival_gives_the_same_obligations(case: Any) -> None:
    said, places = case
    as_sent = told(obligations([turn(one) for one in said]))
    as_arrived = told(
        obligations([turn(one, at=at) for one, at in zip(said, places, strict=True)])
    )
    assert as_sent == as_arrived


def test_answers_are_delivered_until_a_later_turn_of_ours_knows_them() -> None:
    answer = turn({"from": "win", "to": "mac", "type": "RESPONSE", "at": 2})
    other = turn({"from": "win", "to": "ops", "type": "RESULT", "at": 3})
    assert deliveries([other, answer], "mac") == [answer]
    named = turn({"from": "mac", "to": "win", "type": "ACK", "at": 4, "ref": [2]})
    elsewhere = turn({"from": "mac", "to": "win", "type": "ACK", "at": 4, "ref": [1]})
    unnamed = turn({"from": "mac", "to": "win", "type": "ACK", "at": 4})
    assert (
        deliveries([answer, named], "mac") == [] == deliveries([answer, unnamed], "mac")
    )
    assert deliveries([answer, elsewhere], "mac") == [answer]


def test_two_ends_are_both_reported() -> None:
    ends = [
        turn({"from": rig, "to": "ops", "type": "RESOLUTION", "at": at})
        for at, rig in ((2, "mac"), (1, "win"))
    ]
    assert [one.sender for one in closings(ends)] == ["win", "mac"]


def test_a_time_in_a_status_is_read_back_and_passes() -> None:
    status = with_due("▶ REQUEST sent", "2026-11-20T10:00:00Z")
    assert (due_of(status), due_of("▶ stand by me")) == ("2026-11-20T10:00:00Z", "")
    asked = turn(
        {"from": "mac", "to": "win", "type": "REQUEST", "at": 1, "status": status}
    )
    [one] = obligations([asked])
    assert (one.is_overdue(1_795_000_000_000), one.is_overdue(1_796_000_000_000)) == (
        False,
        True,
    )


def test_every_question_of_a_long_thread_finds_its_answer() -> None:
    turns = []
    for at in range(0, 20_000, 2):
        turns.append(turn({"from": "mac", "to": "win", "type": "REQUEST", "at": at}))
        answer = {"from": "win", "to": "mac", "type": "RESPONSE", "at": at + 1}
        turns.append(turn({**answer, "ref": [at]} if at % 4 else answer))
    assert not any(one.is_open for one in obligations(turns))


def test_a_question_between_two_ends_is_settled_and_one_after_them_is_not() -> None:
    turns = [
        turn({"from": "mac", "to": "win", "type": "RESOLUTION", "at": 1}),
        turn({"from": "mac", "to": "win", "type": "REQUEST", "at": 2}),
        turn({"from": "ops", "to": "win", "type": "RESOLUTION", "at": 3}),
        turn({"from": "mac", "to": "win", "type": "REQUEST", "at": 4}),
    ]

    assert told(obligations(turns)) == [
        [2, "win", "settled", ""],
        [4, "win", "open", ""],
    ]


@pytest.mark.parametrize("named", [{}, {"ref": [1]}])
def test_a_response_that_names_nothing_discharges_what_an_ack_took_on(
    named: dict[str, Any],
) -> None:
    turns = [
        turn({"from": "mac", "to": "win", "type": "REQUEST", "at": 1}),
        turn({"from": "win", "to": "mac", "type": "ACK", "at": 2, **named}),
        turn({"from": "win", "to": "mac", "type": "RESPONSE", "at": 3}),
    ]

    assert told(obligations(turns)) == [[1, "win", "discharged", ""]]


def test_a_reference_too_short_for_a_commit_names_no_question() -> None:
    asked = turn({"from": "mac", "to": "win", "type": "REQUEST", "at": 1})
    answer = turn({"from": "win", "to": "mac", "type": "RESPONSE", "at": 2})
    short = answer._replace(references=("0", "000000"))
    long_enough = answer._replace(references=("0000000",))

    assert told(obligations([asked, short])) == [[1, "win", "open", ""]]
    assert told(obligations([asked, long_enough])) == [[1, "win", "discharged", ""]]
