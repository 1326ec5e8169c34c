"""Requests to stop a running council: signals to this process, or a token another thread cancels (council §20)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Final

import anyio

from bridgehead.host.cancel import Cancel

STOPPED_FROM_OUTSIDE: Final = signal.SIGINT.name
"""A token that was cancelled counts as Ctrl-C: what is there is kept and reported."""


async def signals_to_stop() -> AsyncIterator[str]:
    """The names of the signals that arrive; only in a process's main thread."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            yield signal.Signals(number).name


async def token_to_stop(token: Cancel) -> AsyncIterator[str]:
    """One Ctrl-C when `token` is cancelled, whichever thread does it and however early."""
    cancelled = anyio.Event()
    loop = asyncio.get_running_loop()

    def wake() -> None:
        loop.call_soon_threadsafe(cancelled.set)

    with token.waking(wake):
        if not token.cancelled:
            await cancelled.wait()
        yield STOPPED_FROM_OUTSIDE
