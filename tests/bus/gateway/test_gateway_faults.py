"""Floods, deaf participants and clocks that jump: defined outcomes, and nobody else notices."""

from __future__ import annotations

import asyncio
import gc
import weakref
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from bridgehead.bus.client.participant import Satellite
from bridgehead.bus.sockets.dial import ConnectionEnded
from bridgehead.bus.wire import frames
from bridgehead.host.clock import SystemClock
from bus.support.gateways import HANDLE, served_bridge, utterance
from bus.support.running import run, until


def test_a_flood_of_frames_that_are_no_messages_ends_the_connection_too(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            limits = {"messages_per_second": 0.001, "burst": 3}
            flooder = await served.satellite("flooder", limits=limits)
            calm = await served.satellite("calm")
            for number in range(20):
                await flooder._conversation.send(frames.ping(number))
            with pytest.raises(ConnectionEnded) as ended:
                while True:
                    await flooder.receive()
            assert (ended.value.code, ended.value.reason) == (4029, "violations")
            await calm.send(utterance("hello"))
            await served.until_heard(HANDLE)
            await calm.close()

    run(main())


def test_who_sends_pings_and_reads_nothing_is_cut_off(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            plenty = {"messages_per_second": 1e9, "burst": 1_000_000_000}
            deaf = await served.satellite("deaf", limits=plenty)
            deaf._conversation.peer.pause_reading()
            ping = msgspec.json.encode({"l2": "ping", "t": "x" * 100_000})
            while "deaf" in served.relay.connected:
                deaf._conversation.peer.send(ping)
                await asyncio.sleep(0)
                assert deaf._conversation.peer.unsent < 64 * 1024 * 1024
            deaf._conversation.peer.abort()

    run(main())


@pytest.mark.parametrize("ending", ["abort", "close", "goodbye"])
def test_a_connection_that_ended_is_freed_without_waiting_for_the_collector(
    tmp_path: Path, ending: str
) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            visitor = await served.satellite("visitor")
            connection = weakref.ref(served.relay._connections["visitor"])
            peer = weakref.ref(connection()._peer)  # type: ignore[union-attr]
            if ending == "abort":
                visitor._conversation.peer.abort()
            else:
                await visitor.close(goodbye=ending == "goodbye")
            await until(lambda: connection() is None and peer() is None)

    gc.disable()
    try:
        run(main())
    finally:
        gc.enable()


class Jumping(SystemClock):
    """A wall clock that somebody sets; what measures time goes on as before."""

    offset = timedelta()

    def now(self) -> datetime:
        return super().now() + self.offset


def test_a_wall_clock_that_jumps_touches_only_what_has_a_date(tmp_path: Path) -> None:
    async def main() -> None:
        clock = Jumping()
        async with served_bridge(tmp_path, clock=clock, grace_s=30) as served:
            keyed = await served.satellite("keyed")
            away = await served.satellite("away")
            await away.close(goodbye=False)
            dated = await Satellite.connect(
                served.enrol("dated", token=True, expires_in_s=3600)
            )
            for years in (-10, 10):
                clock.offset = timedelta(days=365 * years)
                served.gateway.reload()
                await keyed.send(utterance(str(years)))
            assert len(await served.until_heard(HANDLE, 2)) == 2
            assert served.relay.bridge.known.get("away") is not None, (
                "grace is not measured by the wall"
            )
            with pytest.raises(ConnectionEnded) as ended:
                await dated.receive()
            assert ended.value.code == 4003
            revoked = served.announcements.of("bus.revoked")
            assert [(event["participant"], event["reason"]) for event in revoked] == [
                ("dated", "expired")
            ]
            await keyed.close()

    run(main())
