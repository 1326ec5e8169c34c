"""`async def` flows and steps: replayed like any other, with branches side by side."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bridgehead.flows import AsyncContext, Context, Flow, StepFailed, asking, flow
from bridgehead.flows.errors import FlowFailed, NonDeterministic


async def fetch(name: str) -> set[str]:
    await asyncio.sleep(0)
    return {name, name.upper()}


async def conversation(ctx: AsyncContext, tag: str) -> list[Any]:
    """Two questions side by side after a step, and a flow of the other kind inside."""
    found = await ctx.step("fetch", fetch, tag)
    left, right = await ctx.gather(
        asking("left", agent="a", prompt=f"left of {tag}?"),
        lambda branch: _right(branch, tag),
    )
    return [sorted(found), left, right, await ctx.call(NESTED, word=tag), ctx.uuid()]


async def _right(ctx: AsyncContext, tag: str) -> str:
    size = await ctx.step("size", len, tag)
    answer = await ctx.ask("right", agent="b", prompt=f"right of {size}?")
    return f"{answer}/{await ctx.step('after', fetch, 'z')}"


@flow("nested")
def nested(ctx: Context, word: str) -> str:
    return ctx.step("reverse", lambda: word[::-1])


NESTED = nested
FLOW = Flow("talk", "1", conversation)


def test_an_async_flow_pauses_once_for_its_branches_and_goes_on(
    flow_project: Any,
) -> None:
    paused = flow_project.run(FLOW, given={"tag": "ab"})
    assert paused.pause.outstanding == 2
    flow_project.answer("L")
    assert flow_project.resume(FLOW).pause.outstanding == 1
    flow_project.answer("R")
    done = flow_project.resume(FLOW)
    assert done.result[:2] == [["AB", "ab"], "L"]
    assert done.result[2].startswith("R/{") and done.result[3] == "ba"
    assert flow_project.resume(FLOW).result == done.result


def test_an_async_flow_whose_code_has_changed_is_refused_before_anything_runs(
    flow_project: Any,
) -> None:
    flow_project.run(FLOW, given={"tag": "ab"})

    async def changed(ctx: AsyncContext, tag: str) -> None:
        await ctx.step("other", fetch, tag)

    with pytest.raises(
        NonDeterministic,
        match=r"the code now has the step other#0, recorded is the step at fetch#0",
    ):
        flow_project.resume(Flow("talk", "1", changed))


def test_branches_of_an_async_flow_run_side_by_side(flow_project: Any) -> None:
    """Each waits for the other: one after the other they would wait for ever."""

    async def work(ctx: AsyncContext) -> list[str]:
        here, there = asyncio.Event(), asyncio.Event()

        async def meet(mine: asyncio.Event, other: asyncio.Event) -> str:
            mine.set()
            await asyncio.wait_for(other.wait(), 60)
            return "met"

        return await ctx.gather(
            lambda branch: branch.step("one", lambda: meet(here, there)),
            lambda branch: branch.step("two", lambda: meet(there, here)),
        )

    assert flow_project.run(Flow("meet", "1", work)).result == ["met", "met"]


def test_an_async_step_is_retried_limited_and_its_failure_recorded(
    flow_project: Any, counter: Any
) -> None:
    async def fragile() -> str:
        if counter("try") < 3:
            raise ValueError("not yet")
        return "done"

    async def endless() -> None:
        await asyncio.sleep(3600)

    async def work(ctx: AsyncContext) -> list[str]:
        said = [await ctx.step("fragile", fragile, retries=2, backoff=0)]
        try:
            await ctx.step("endless", endless, timeout=0.01)
        except StepFailed as failure:
            said.append(f"{failure.error_type}: {failure.message}")
        return [*said, await ctx.ask("q", agent="a", prompt="?")]

    flow_project.run(Flow("try", "1", work))
    flow_project.answer("x")
    assert flow_project.resume(Flow("try", "1", work)).result == [
        "done",
        "TimeoutError: it took longer than 0.01 s",
        "x",
    ]
    assert counter("try") == 4


def test_a_plain_flow_may_have_async_steps_and_flows_inside(flow_project: Any) -> None:
    async def inner(ctx: AsyncContext) -> list[str]:
        return sorted(await ctx.step("fetch", fetch, "i"))

    def work(ctx: Context) -> list[Any]:
        return [
            sorted(ctx.step("fetch", fetch, "a")),
            ctx.call(Flow("inner", "1", inner)),
        ]

    assert flow_project.run(Flow("plain", "1", work)).result == [["A", "a"], ["I", "i"]]


def test_an_async_flow_that_raises_has_failed(flow_project: Any) -> None:
    async def work(ctx: AsyncContext) -> None:
        raise RuntimeError("boom")

    with pytest.raises(FlowFailed, match="RuntimeError: boom"):
        flow_project.run(Flow("bad", "1", work))
