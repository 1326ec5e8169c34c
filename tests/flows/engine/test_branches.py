"""Several outstanding requests, and flows inside flows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bridgehead.flows import (
    Context,
    Flow,
    StepFailed,
    asking,
    flow,
)
from bridgehead.flows.errors import FlowFailed

Count = Callable[[str], int]


def make(function: Callable[..., Any], version: str = "1", **details: Any) -> Flow:
    return Flow("demo", version, function, **details)


def one_question(ctx: Context) -> str:
    answer: str = ctx.ask("question", agent="reviewer", prompt="Ready?")
    return f"<{answer}>"


ONE = make(one_question)


def several(ctx: Context) -> list[Any]:
    return ctx.gather(
        asking("left", agent="a", prompt="left?"),
        lambda branch: [branch.step("s", lambda: 1), branch.ask("right", agent="b", prompt="right?")],
    )


def test_branches_wait_together_and_are_handed_out_one_by_one(theatre: Any) -> None:
    paused = theatre.run(make(several))
    assert paused.pause.outstanding == 2
    assert theatre.request()["prompt"] == "left?"
    theatre.clock.advance(60)
    theatre.answer("L")
    assert theatre.resume(make(several)).actions == ("accept",)
    # Queueing does not use up the time of a request.
    assert (theatre.request()["prompt"], theatre.request()["created_at"]) == (
        "right?",
        "2026-11-15T10:16:02Z",
    )
    theatre.answer("R")
    assert theatre.resume(make(several)).result == ["L", [1, "R"]]


def test_the_end_of_a_flow_withdraws_the_questions_of_all_its_branches(theatre: Any) -> None:
    theatre.run(make(several))
    theatre.answer(None, status="cancelled")
    with pytest.raises(FlowFailed):
        theatre.resume(make(several))
    assert sorted(theatre.announcer.settled_ids) == sorted(
        (asked, "cancelled") for asked in theatre.announcer.asked_ids
    )


def test_a_queued_request_may_be_answered_out_of_turn(theatre: Any) -> None:
    theatre.run(make(several))
    queued = theatre.announcer.asked_ids[1]
    theatre.answer("R", request_id=queued)
    assert theatre.resume(make(several)).actions == ("wait", "accept")
    theatre.answer("L")
    assert theatre.resume(make(several)).result == ["L", [1, "R"]]


def test_a_retry_keeps_its_place_before_the_queue(theatre: Any) -> None:
    theatre.run(make(several))
    theatre.answer(None, status="timeout")
    theatre.resume(make(several))
    assert (theatre.request()["prompt"], theatre.request()["retry_count"]) == ("left?", 1)


def test_a_map_is_a_branch_for_each_item(theatre: Any) -> None:
    def work(ctx: Context) -> list[str]:
        return ctx.map(
            "files", lambda branch, item: branch.ask("q", agent="a", prompt=item) + item, ["x", "y", "z"]
        )

    theatre.run(make(work))
    for answer in ("1", "2", "3"):
        theatre.answer(answer)
        last = theatre.resume(make(work))
    assert last.result == ["1x", "2y", "3z"]


def test_an_exception_in_one_branch_is_the_flows_to_handle(theatre: Any) -> None:
    def work(ctx: Context) -> str:
        try:
            ctx.gather(asking("q", agent="a", prompt="?"), lambda branch: branch.step("bad", lambda: 1 / 0))
        except StepFailed:
            return "handled"
        return "unreachable"

    assert theatre.run(make(work)).result == "handled"


def test_a_nested_flow_is_one_record_once_it_has_ended(theatre: Any, counter: Count) -> None:
    @flow("inner", version="3")
    def inner(ctx: Context, topic: str) -> str:
        counter("inner")
        return topic + ctx.ask("q", agent="a", prompt=topic)

    def outer(ctx: Context) -> list[Any]:
        with ctx.scope("part") as part:
            first = part.call(inner, topic="one")
        return [first, ctx.call(inner, topic="two"), ctx.ask("q", agent="a", prompt="last")]

    theatre.run(make(outer))
    for answer in ("1", "2", "3"):
        theatre.answer(answer)
        last = theatre.resume(make(outer))
    assert last.result == ["one1", "two2", "3"]
    # Two runs each, one before and one after its answer; none after it had ended.
    assert counter("inner") == 5
