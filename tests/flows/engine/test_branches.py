"""Several outstanding requests, and flows inside flows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bridgehead.flows import Context, Flow, StepFailed, asking, flow
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
        lambda branch: [
            branch.step("s", lambda: 1),
            branch.ask("right", agent="b", prompt="right?"),
        ],
    )


def test_branches_wait_together_and_are_handed_out_one_by_one(
    flow_project: Any,
) -> None:
    paused = flow_project.run(make(several))
    assert paused.pause.outstanding == 2
    assert flow_project.request()["prompt"] == "left?"
    flow_project.clock.advance(60)
    flow_project.answer("L")
    assert flow_project.resume(make(several)).actions == ("accept",)
    # Queueing does not use up the time of a request.
    assert (flow_project.request()["prompt"], flow_project.request()["created_at"]) == (
        "right?",
        "2026-11-15T10:16:02Z",
    )
    flow_project.answer("R")
    assert flow_project.resume(make(several)).result == ["L", [1, "R"]]


def test_the_end_of_a_flow_withdraws_the_questions_of_all_its_branches(
    flow_project: Any,
) -> None:
    flow_project.run(make(several))
    flow_project.answer(None, status="cancelled")
    with pytest.raises(FlowFailed):
        flow_project.resume(make(several))
    assert sorted(flow_project.announcer.settled_ids) == sorted(
        (asked, "cancelled") for asked in flow_project.announcer.asked_ids
    )


def test_a_queued_request_may_be_answered_out_of_turn(flow_project: Any) -> None:
    flow_project.run(make(several))
    queued = flow_project.announcer.asked_ids[1]
    flow_project.answer("R", request_id=queued)
    assert flow_project.resume(make(several)).actions == ("wait", "accept")
    flow_project.answer("L")
    assert flow_project.resume(make(several)).result == ["L", [1, "R"]]


def test_a_retry_keeps_its_place_before_the_queue(flow_project: Any) -> None:
    flow_project.run(make(several))
    flow_project.answer(None, status="timeout")
    flow_project.resume(make(several))
    assert (
        flow_project.request()["prompt"],
        flow_project.request()["retry_count"],
    ) == ("left?", 1)


def test_a_map_is_a_branch_for_each_item(flow_project: Any) -> None:
    def work(ctx: Context) -> list[str]:
        return ctx.map(
            "files",
            lambda branch, item: branch.ask("q", agent="a", prompt=item) + item,
            ["x", "y", "z"],
        )

    flow_project.run(make(work))
    for answer in ("1", "2", "3"):
        flow_project.answer(answer)
        last = flow_project.resume(make(work))
    assert last.result == ["1x", "2y", "3z"]


def test_an_exception_in_one_branch_is_the_flows_to_handle(flow_project: Any) -> None:
    def work(ctx: Context) -> str:
        try:
            ctx.gather(
                asking("q", agent="a", prompt="?"),
                lambda branch: branch.step("bad", lambda: 1 / 0),
            )
        except StepFailed:
            return "handled"
        return "unreachable"

    assert flow_project.run(make(work)).result == "handled"


def test_a_nested_flow_is_one_record_once_it_has_ended(
    flow_project: Any, counter: Count
) -> None:
    @flow("inner", version="3")
    def inner(ctx: Context, topic: str) -> str:
        counter("inner")
        return topic + ctx.ask("q", agent="a", prompt=topic)

    def outer(ctx: Context) -> list[Any]:
        with ctx.scope("part") as part:
            first = part.call(inner, topic="one")
        return [
            first,
            ctx.call(inner, topic="two"),
            ctx.ask("q", agent="a", prompt="last"),
        ]

    flow_project.run(make(outer))
    for answer in ("1", "2", "3"):
        flow_project.answer(answer)
        last = flow_project.resume(make(outer))
    assert last.result == ["one1", "two2", "3"]
    # Two runs each, one before and one after its answer; none after it had ended.
    assert counter("inner") == 5
