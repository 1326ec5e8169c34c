"""Links say how they stand in time, and escalation works on hubs of both generations."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from bridgehead.bus.bridge.escalation import Escalate, Escalation, Release
from bridgehead.bus.hub.health import HealthEvent, HealthState
from bridgehead.bus.hub.reconnect import HubLink
from bridgehead.bus.wire.message import Message
from bridgehead.bus.wire.topics import to_spec

CONTEXT = {"session": {"session_id": "h1"}}
OLD_UNMATCHED = Message("complete_intent_failure", {"utterances": ["why"]}, CONTEXT)


class QuickLoop(asyncio.SelectorEventLoop):
    """A loop on which an hour of waiting passes at once."""

    def __init__(self) -> None:
        super().__init__()
        self._skipped = 0.0
        select = self._selector.select

        def skip(timeout: float | None = None) -> Any:
            self._skipped += timeout or 0.0
            return select(0)

        self._selector.select = skip

    def time(self) -> float:
        return super().time() + self._skipped


class Hub:
    """Lets the link in once and no longer exists after that."""

    def __init__(self) -> None:
        self.listener: Any = None

    async def connect(self, listener: Any) -> None:
        if self.listener is not None:
            await asyncio.Event().wait()
        self.listener = listener

    async def close(self) -> None:
        pass


class Nobody:
    def received(self, message: Message) -> None: ...

    def ignored(self, reason: str) -> None: ...

    def turn_lost(self, message: Message) -> None: ...

    def opened(self) -> None: ...

    def lost(self, reason: str) -> None: ...


def test_a_lost_link_is_refreshed_at_the_pace_of_a_lost_link() -> None:
    async def main() -> None:
        hub, refreshed = Hub(), asyncio.Queue[float]()
        now = asyncio.get_running_loop().time

        def announce(event: HealthEvent) -> None:
            if event.refresh:
                assert (
                    event.state is HealthState.TRANSIENT_DISCONNECT
                    and event.reason == "connection_lost"
                )
                refreshed.put_nowait(now())

        link = HubLink(hub, Nobody(), announce)
        link.start()
        await link.connected()
        await asyncio.sleep(40)
        times = [now()]
        hub.listener.lost("gone")
        times += [await refreshed.get(), await refreshed.get()]
        await link.stop()
        assert all(
            29 < later - earlier < 60 for earlier, later in itertools.pairwise(times)
        )

    with asyncio.Runner(loop_factory=QuickLoop) as runner:
        runner.run(main())


def test_a_hub_that_says_it_under_both_names_escalates_once_and_tells_nobody_yet() -> (
    None
):
    cascade, read = Escalation(), to_spec(OLD_UNMATCHED)
    assert read is not None
    cascade.upstream(there=True)
    assert cascade.holds_back(read, 0.0) and cascade.holds_back(read, 0.1)
    assert [type(effect) for effect in cascade.take_due()] == [Escalate]
    cascade.upstream(there=False)
    assert cascade.take_due() == [Release(read)]
