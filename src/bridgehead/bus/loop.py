"""The event loop of the bus: uvloop where it is installed."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """The fastest loop there is on this machine."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run `main` to its end on a loop of its own."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


def settle_memory() -> None:
    """For a process that only serves from now on: what exists stays, and is not looked through again and again.

    Messages make no reference cycles, so collections are rare; a full one over a large heap would cost milliseconds
    in the middle of somebody's sentence.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 5, 5)
