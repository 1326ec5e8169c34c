"""What an `async def` flow works with: the calls of `Context`, awaited. Branches of a gather run side by side.

Calls of one branch keep their order, so a flow written this way is replayed like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from inspect import isawaitable
from typing import Any, Literal

from bridgehead.flows.calls import Outcome
from bridgehead.flows.definition import Flow
from bridgehead.flows.engine.asks import Ask, Blocked, OpenCall
from bridgehead.flows.engine.context import Context, as_branch, branch_for, step_value
from bridgehead.flows.engine.replay import BRANCH, Effort, Replay, encoded
from bridgehead.flows.errors import FlowMistake
from bridgehead.flows.journals.base import Record
from bridgehead.host.clock import time_limit


class AsyncContext:
    """What each call does is said at `Context`. What takes no time (`now`, `uuid`, `patched`) is not awaited."""

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
        """Call, or await, `function` until it has succeeded once."""
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
        """Ask an agent, and pause until it has answered; takes what `Context.ask` takes."""
        return self._context.ask(name, **described)

    async def sleep(self, seconds: float) -> None:
        self._context.sleep(seconds)

    async def ask_outcome(self, name: str, **described: Any) -> Outcome:
        return self._context.ask_outcome(name, **described)

    async def gather(self, *branches: Ask | Callable[[AsyncContext], Any]) -> list[Any]:
        """Run the branches side by side until each has ended or blocked, then pause once for all that wait."""
        return await self._branches(
            "gather", [as_branch(branch) for branch in branches]
        )

    async def map(
        self,
        name: str,
        function: Callable[[AsyncContext, Any], Any],
        items: Iterable[Any],
    ) -> list[Any]:
        """`function(ctx, item)` for each item as a branch of its own."""
        branches = [branch_for(function, item) for item in items]
        return await self._branches(name, branches)

    def scope(self, name: str) -> AsyncContext:
        return AsyncContext(self._context.scope(name))

    async def call(self, flow: Flow, **given: Any) -> Any:
        """Run another flow, async or not, as a part of this one."""
        replay = self._context.replay
        path, input_sha, record = self._context.find_flow(flow, given)
        if record is None:
            started = replay.now()
            inside = self._context.child(path)
            value = await _awaited(
                flow.function(
                    AsyncContext(inside) if flow.is_async else inside, **given
                )
            )
            recorded = encoded(value, f"flow {path} has run; its result")
            record = replay.add(path, "flow", input_sha, recorded, started)
        return step_value(record, flow.function, None)

    async def _branches(
        self, name: str, branches: list[Callable[[AsyncContext], Any]]
    ) -> list[Any]:
        parent = self._context.scope(name)
        scopes = [AsyncContext(parent.scope(BRANCH)) for _ in branches]
        placed = list(zip(branches, scopes, strict=True))
        # Where each result takes the next number of a queue, branches that raced would take different ones each time.
        ended: list[Any] = []
        for some in [[one] for one in placed] if parent.replay.in_order else [placed]:
            ended += await asyncio.gather(
                *(_awaited_call(*one) for one in some), return_exceptions=True
            )
            if isinstance(ended[-1], BaseException) and not isinstance(
                ended[-1], Blocked
            ):
                break
        waiting: list[OpenCall] | None = None
        for one in ended:
            if isinstance(one, Blocked):
                parent.gathered()
                waiting = [*(waiting or ()), *one.calls]
            elif isinstance(one, BaseException):
                raise one
        if waiting is not None:
            raise parent.blocked(waiting)
        return ended


def run_async(flow: Flow, context: Context, settings: Mapping[str, Any]) -> Any:
    """Run an `async def` flow to its end or its pause in a loop of its own."""
    return asyncio.run(flow.function(AsyncContext(context), **settings))


async def _perform(
    replay: Replay, path: str, input_sha: str, effort: Effort, work: Callable[[], Any]
) -> Record:
    """`Replay.perform` for work that may be awaited while other branches go on."""
    if replay.in_order:
        # It is done inside its record, so that work is not repeated when the record is there: from another thread.
        loop = asyncio.get_running_loop()

        def done_here() -> Any:
            return asyncio.run_coroutine_threadsafe(
                _awaited_call(lambda _: work(), None), loop
            ).result()

        return await asyncio.to_thread(
            replay.perform, path, "step", input_sha, done_here, effort
        )
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
            return replay.add(
                path,
                "step",
                input_sha,
                encoded(value, f"{path} has run; its result"),
                started,
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
