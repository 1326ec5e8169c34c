"""The event loop of the bus: uvloop where it is installed."""

from __future__ import annotations

import asyncio
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
