"""Run a program on an event loop: uvloop, or else asyncio's."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return the fastest event loop that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run `main` to its end on a new event loop.

    SIGTERM cancels it. Its handler is called only when everything is closed, because
    an exception it raised inside a callback of the loop would be logged and lost.
    """
    if threading.current_thread() is not threading.main_thread():
        return _run(main)
    handler = signal.getsignal(signal.SIGTERM)
    terminated = threading.Event()
    try:
        return _run(_cancelled_by_sigterm(main, terminated))
    finally:
        signal.signal(signal.SIGTERM, handler)
        if terminated.is_set():
            signal.raise_signal(signal.SIGTERM)


def _run(main: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


async def _cancelled_by_sigterm(
    main: Coroutine[Any, Any, Result], terminated: threading.Event
) -> Result:
    task = asyncio.current_task()
    assert task is not None

    def terminate() -> None:
        terminated.set()
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
    return await main


def settle_memory() -> None:
    """Exclude everything that exists from garbage collection, in a process that only
    serves from now on.

    Messages make no reference cycles, so collections are rare. A full one over a large
    heap would cost milliseconds in the middle of somebody's sentence.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 5, 5)
