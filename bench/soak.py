"""`python -m bench.soak [SECONDS]`: ten minutes of churn and faults on one bus, by default.

Satellites come, ask, break off, send garbage and floods, stop reading and come back; the hub is killed and started
again; records change under way. At the end every message must be accounted for (B-70), nothing may have been counted
that no satellite sent or missed that one received, and the bridge must hold no more memory than after the warm-up.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

from bench.bus_processes import Server, free_port, ours
from bench.soak_verdict import Counted, Verdict, counted, judge
from bridgehead.bus.access.join_file import JoinFile
from bridgehead.bus.client.participant import Incoming, Satellite, SendRefused
from bridgehead.bus.sockets.dial import ConnectionEnded
from bridgehead.bus.sockets.event_loop import run
from bridgehead.bus.wire.message import Message
from bridgehead.errors import BridgeheadError

SECONDS = 600.0
PARTICIPANTS = 40
WARM_UP_S = 60.0
SAMPLE_S = 1.0
HUB_LIVES_S = 7.0
RECORDS_LAST_S = 2.0
SETTLE_S = 10.0
GARBAGE = (
    b"not json",
    b"[]",
    b'{"l2":"what"}',
    b'{"l2":"msg","m":{"type":"a b"}}',
    b"\xff\xfe",
)


@dataclass
class Seen:
    """What the satellites know to have happened, counted on their side."""

    visits: int = 0
    sent: int = 0
    received: int = 0
    outages: int = 0
    memory: list[float] = field(default_factory=list)


class Visitor:
    """One satellite that comes again and again, well-behaved or not."""

    def __init__(self, join: JoinFile, number: int, seen: Seen) -> None:
        self._join = join
        self._dice = random.Random(number)
        self._seen = seen

    async def live(self, until: float) -> None:
        while time.monotonic() < until:
            try:
                await self._visit()
                self._seen.visits += 1
            except (BridgeheadError, TimeoutError):
                await asyncio.sleep(0.1)  # refused, replaced or cut off; it comes again
            await asyncio.sleep(self._dice.random() / 10)

    async def _visit(self) -> None:
        dice = self._dice
        satellite = await Satellite.connect(self._join, reconnect=False)
        try:
            async with asyncio.timeout(20):
                await self._talk(satellite)
                if dice.random() < 0.3:
                    await self._litter(satellite)
                if dice.random() < 0.2:
                    await self._flood(satellite)
                if dice.random() < 0.1:
                    await self._stop_reading(satellite)
        except (ConnectionEnded, SendRefused):
            pass
        finally:
            if dice.random() < 0.5:
                satellite._conversation.peer.abort()
            else:
                await satellite.close(goodbye=dice.random() < 0.5)

    async def _talk(self, satellite: Satellite) -> None:
        for number in range(self._dice.randint(1, 20)):
            self._seen.sent += 1
            await satellite.say(f"question {number}")
            try:
                async with asyncio.timeout(0.05):
                    event = await satellite.receive()
                    self._seen.received += isinstance(event, Incoming)
            except TimeoutError:
                pass

    async def _litter(self, satellite: Satellite) -> None:
        for garbage in GARBAGE:
            self._seen.sent += 1
            await satellite._conversation.send(garbage)

    async def _flood(self, satellite: Satellite) -> None:
        for _ in range(200):
            self._seen.sent += 1
            session = {"session_id": f"s{self._dice.random()}"}
            await satellite.send(Message("ovos.stop", {}, {"session": session}))

    async def _stop_reading(self, satellite: Satellite) -> None:
        satellite._conversation.peer.pause_reading()
        for _ in range(50):
            self._seen.sent += 1
            await satellite.say("x" * 2000)
        await asyncio.sleep(0.2)


async def kill_and_restart(
    hub: list[Server], port: int, until: float, seen: Seen
) -> None:
    """The hub vanishes in the middle of whatever it was doing, and comes back a moment later."""
    while time.monotonic() + HUB_LIVES_S < until:
        await asyncio.sleep(HUB_LIVES_S)
        await asyncio.to_thread(hub.pop().stop)
        hub.append(await asyncio.to_thread(ours, "answering_hub", port))
        seen.outages += 1


async def edit_records(folder: Path, until: float) -> None:
    """An operator who cannot leave the records alone; now and then with a mistake."""
    records, turn = folder / "participants.toml", 0
    good = records.read_text()
    while time.monotonic() < until:
        turn += 1
        broken, changed = f"{good}[", f"{good}# turn {turn}\n"
        records.write_text(broken if turn % 5 == 0 else changed)
        await asyncio.sleep(RECORDS_LAST_S)
    records.write_text(good)


async def watch_memory(bridge: Server, until: float, seen: Seen) -> None:
    while time.monotonic() < until:
        seen.memory.append(bridge.resident_mib)
        await asyncio.sleep(SAMPLE_S)


async def churn(
    bridge: Server, hub: list[Server], port: int, seconds: float, seen: Seen
) -> None:
    until = time.monotonic() + seconds
    visitors = [
        Visitor(_join(bridge.facts, token), number, seen)
        for number, token in _tokens(bridge)
    ]
    await asyncio.gather(
        *(visitor.live(until) for visitor in visitors),
        kill_and_restart(hub, port, until, seen),
        edit_records(Path(bridge.facts["state"]), until),
        watch_memory(bridge, until, seen),
    )


def _tokens(bridge: Server) -> Sequence[tuple[int, str]]:
    return list(enumerate(bridge.facts["tokens"]))


def _join(facts: dict[str, Any], token: str) -> JoinFile:
    return JoinFile(1, facts["url"], token.rpartition(".")[0], token=token)


def settled(bridge: Server) -> Counted:
    """The bridge's counters once nothing is under way any more."""
    address = urlsplit(bridge.facts["url"]).netloc
    deadline, last = time.monotonic() + SETTLE_S, None
    while time.monotonic() < deadline:
        with urlopen(f"http://{address}/metrics", timeout=10) as answer:
            now = counted(answer.read().decode())
        if now == last:
            return now
        last = now
        time.sleep(0.5)
    raise SystemExit("soak: the bridge does not come to rest")


def soak(seconds: float) -> tuple[Seen, Verdict]:
    """Everything from the start of the processes to the verdict."""
    seen, port = Seen(), free_port()
    hub = [ours("answering_hub", port)]
    bridge = ours("bridge_at_hub", port, PARTICIPANTS)
    try:
        run(churn(bridge, hub, port, seconds, seen))
        counted = settled(bridge)
    finally:
        bridge.stop()
        hub[0].stop()
    warm_up = int(min(WARM_UP_S, seconds / 2) / SAMPLE_S)
    return seen, judge(
        counted, sent=seen.sent, received=seen.received, memory=seen.memory[warm_up:]
    )


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    seen, verdict = soak(seconds)
    print(
        f"{seen.visits} visits, {seen.outages} hub outages, {seen.sent} messages sent in {seconds:g} s"
    )
    print(
        f"memory: {statistics.median(seen.memory):.1f} MiB in the middle, {max(seen.memory):.1f} MiB at most"
    )
    for line in verdict.lines:
        print(line)
    return 0 if verdict.passed else 1


if __name__ == "__main__":
    sys.exit(main())
