"""Keep a hub connected: dial, notice the loss, dial again after growing pauses, and
report the state of the link.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol

from bridgehead.bus.client.participant import waits
from bridgehead.bus.hub.health import REFUSED_RETRY_S, HealthEvent, LinkHealth
from bridgehead.bus.transports.base import HubListener, HubRefused
from bridgehead.errors import BridgeheadError

_log: Final = logging.getLogger("bridgehead.bus")


class Dialled(Protocol):
    """Something that can be connected to: a hub's transport, an upstream bridge."""

    async def connect(self, listener: Any) -> None: ...

    async def close(self) -> None: ...


class HubLink:
    """Keeps one link up until it is stopped."""

    def __init__(
        self,
        dialled: Dialled,
        listener: HubListener,
        announce: Callable[[HealthEvent], None],
    ) -> None:
        self._dialled = dialled
        self._listener = listener
        # We are the transport's listener. Messages go straight on to the real one; what
        # becomes of the link is handled here.
        self.received = listener.received
        self.ignored = listener.ignored
        self.turn_lost = listener.turn_lost
        self._announce = announce
        self.health = LinkHealth()
        self._down = asyncio.Event()
        self._up = asyncio.Event()
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False

    def start(self) -> None:
        self._report(self.health.start(self._now()))
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._keep_up()),
            loop.create_task(self._refresh()),
        ]

    async def connected(self) -> None:
        """Return as soon as the link is up."""
        await self._up.wait()

    async def stop(self) -> None:
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._dialled.close()
        self._report(self.health.stop(self._now()))

    # -- HubListener of the transport -----------------------------------------

    def lost(self, reason: str) -> None:
        self._up.clear()
        self._listener.lost(reason)
        # The other side's words go to the log only; the event has a code (B-73).
        _log.warning("the link was lost: %s", reason)
        self._report(self.health.lost(self._now(), "connection_lost"))
        self._down.set()

    # -- inside ---------------------------------------------------------------

    async def _keep_up(self) -> None:
        pauses = waits()
        while True:
            refused = await self._dial()
            if self._stopping:
                return
            if self._up.is_set():
                pauses = waits()
                await self._down.wait()
            else:
                await self._dialled.close()  # it may have come half-way
            await asyncio.sleep(REFUSED_RETRY_S if refused else next(pauses))

    async def _dial(self) -> bool:
        """Try once, and return whether we were refused."""
        self._report(self.health.dialled(self._now()))
        self._down.clear()
        try:
            await self._dialled.connect(self)
        except HubRefused as error:
            _log.warning("%s", error)
            self._report(self.health.refused(self._now(), "refused"))
            return True
        except BridgeheadError as error:
            _log.info("%s", error)
            self._report(self.health.lost(self._now()))
            return False
        except Exception:  # a transport is a plug-in; the link goes on trying
            _log.exception("dialling failed")
            self._report(self.health.lost(self._now()))
            return False
        # A link that is being stopped can get here too, because a library may swallow
        # our cancellation (nats does while it writes).
        if not self._down.is_set() and not self._stopping:
            self._up.set()
            self._report(self.health.opened(self._now()))
            self._listener.opened()
        return False

    async def _refresh(self) -> None:
        while self.health.next_refresh is not None:
            # A change may bring the next refresh forward: a lost link is announced more
            # often (B-74).
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self.health.next_refresh):
                    await self._changed.wait()
            self._report(self.health.tick(self._now()))

    def _report(self, event: HealthEvent | None) -> None:
        if event is not None:
            self._changed.set()
            self._announce(event)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
