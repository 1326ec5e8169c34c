"""Provide the context of an `async def` flow: the calls of `Context`, awaited.

The branches of a gather run concurrently. Calls within one branch keep their order, so
an async flow is replayed like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from inspect import isawaitable
from typing import Any, Literal

from bridgehead.flows.calls import Outcome
from bridgehead.flows.definition import Flow
from bridgehead.flows.engine.asks import Ask, Blocked
from bridgehead.flows.engine.context import Context, as_branch, branch_for, step_value
from bridgehead.flows.engine.replay import BRANCH, Effort, Replay, encoded
from bridgehead.flows.errors import FlowMistake
from bridgehead.flows.journals.base import Record
from bridgehead.host.clock import time_limit

BranchCall = Callable[[], Coroutine[Any, Any, Any]]


class AsyncContext:
    """The calls of `Context`, awaited; see there for what each does.

    Calls that take no time (`now`, `uuid`, `patched`) are not awaited.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.now = context.now
        self.uuid = context.uuid
        self.random = context.random
        self.env = context.env
        self.fence = context.fence
        self.patched = context.patched

    async def step(
        self,
        name: str,
        function: Callable[..., Any],
        *arguments: Any,
        result: Any = None,
        on_change: Literal["refuse", "rerun"] = "refuse",
        retries: int = 0,
        backoff: float = 1.0,
        timeout: float | None = None,
        **keywords: Any,
    ) -> Any:
        """Call or await `function` until it has succeeded once; return its result."""
        effort = Effort(retries, backoff, timeout)
        context = self._context
        path, input_sha, record = context.find_step(
            name, arguments, keywords, effort, rerun=on_change == "rerun"
        )
        if record is None:
            work = partial(function, *arguments, **keywords)
            record = await _perform(context.replay, path, input_sha, effort, work)
        return step_value(record, function, result)

    async def ask(self, name: str, **described: Any) -> Any:
        """Ask an agent, and pause until it has answered.

        It takes the same arguments as `Context.ask`.
        """
        return self._context.ask(name, **described)

    async def sleep(self, seconds: float) -> None:
        self._context.sleep(seconds)

    async def ask_outcome(self, name: str, **described: Any) -> Outcome:
        return self._context.ask_outcome(name, **described)

    async def gather(self, *branches: Ask | Callable[[AsyncContext], Any]) -> list[Any]:
        """Run the branches concurrently until each has ended or blocked.

        Pause once for all that are blocked, or return their results in order.
        """
        return await self._branches(
            "gather", [as_branch(branch) for branch in branches]
        )

    async def map(
        self,
        name: str,
        function: Callable[[AsyncContext, Any], Any],
        items: Iterable[Any],
    ) -> list[Any]:
        """Run `function(ctx, item)` for each item as a branch of its own."""
        branches = [branch_for(function, item) for item in items]
        return await self._branches(name, branches)

    def scope(self, name: str) -> AsyncContext:
        return AsyncContext(self._context.scope(name))

    async def call(self, flow: Flow, **given: Any) -> Any:
        """Run another flow, async or not, as part of this one."""
        replay = self._context.replay
        path, input_sha, record = self._context.find_flow(flow, given)
        if record is None:
            started = replay.now()
            child = self._context.child(path)
            context = AsyncContext(child) if flow.is_async else child
            value = await _awaited(flow.function(context, **given))
            recorded = encoded(value, f"flow {path} has run; its result")
            record = replay.add(path, "flow", input_sha, recorded, started)
        return step_value(record, flow.function, None)

    async def _branches(
        self, name: str, branches: list[Callable[[AsyncContext], Any]]
    ) -> list[Any]:
        parent = self._context.scope(name)
        scopes = [AsyncContext(parent.scope(BRANCH)) for _ in branches]
        calls = [
            partial(_awaited_call, branch, scope)
            for branch, scope in zip(branches, scopes, strict=True)
        ]
        run_branches = _in_turn if parent.replay.in_order else _at_once
        results = await run_branches(calls)
        pauses: list[Blocked] = []
        for result in results:
            if isinstance(result, Blocked):
                parent.note_caught_pause()
                pauses.append(result)
            elif isinstance(result, BaseException):
                raise result
        if pauses:
            raise parent.joined(pauses)
        return results


async def _at_once(calls: Sequence[BranchCall]) -> list[Any]:
    """Run the branches concurrently; return what each returned or raised."""
    return await asyncio.gather(*(call() for call in calls), return_exceptions=True)


async def _in_turn(calls: Sequence[BranchCall]) -> list[Any]:
    """Run one branch after another, up to the first that fails.

    Return what each returned or raised. On a fleet each result takes the next number of
    a queue, and concurrent branches would get different numbers in each replay.
    """
    results: list[Any] = []
    for call in calls:
        results += await _at_once([call])
        failed = isinstance(results[-1], BaseException)
        if failed and not isinstance(results[-1], Blocked):
            break
    return results


def run_async(flow: Flow, context: Context, settings: Mapping[str, Any]) -> Any:
    """Run an `async def` flow to its end or its pause in a loop of its own."""
    return asyncio.run(flow.function(AsyncContext(context), **settings))


async def _perform(
    replay: Replay, path: str, input_sha: str, effort: Effort, work: Callable[[], Any]
) -> Record:
    """Do what `Replay.perform` does, without blocking the other branches."""
    if replay.in_order:
        return await _perform_in_thread(replay, path, input_sha, effort, work)
    started = replay.now()
    tries_left = effort.retries
    while True:
        try:
            value = await _limited(replay, effort, work)
        except FlowMistake:
            raise
        except Exception as error:
            if not tries_left:
                raise replay.failed(path, "step", input_sha, error, started) from error
            await asyncio.sleep(effort.wait_before(effort.retries - tries_left + 1))
            tries_left -= 1
        else:
            result = encoded(value, f"{path} has run; its result")
            return replay.add(path, "step", input_sha, result, started)


async def _perform_in_thread(
    replay: Replay, path: str, input_sha: str, effort: Effort, work: Callable[[], Any]
) -> Record:
    """Run the work in this loop while another thread records it.

    The thread calls the work only if it has not been recorded.
    """
    loop = asyncio.get_running_loop()

    def work_in_loop() -> Any:
        awaited = _awaited_call(lambda _: work(), None)
        return asyncio.run_coroutine_threadsafe(awaited, loop).result()

    return await asyncio.to_thread(
        replay.perform, path, "step", input_sha, work_in_loop, effort
    )


async def _limited(replay: Replay, effort: Effort, work: Callable[[], Any]) -> Any:
    seconds = effort.timeout_seconds
    if seconds is None:
        return await _awaited(work())
    with time_limit(replay.clock, seconds):
        value = work()
    try:
        async with asyncio.timeout(seconds):
            return await _awaited(value)
    except TimeoutError as error:
        raise TimeoutError(
            str(error) or f"it took longer than {seconds:g} s"
        ) from error


async def _awaited(value: Any) -> Any:
    return await value if isawaitable(value) else value


async def _awaited_call(
    branch: Callable[[Any], Any], scope: AsyncContext | None
) -> Any:
    return await _awaited(branch(scope))
