"""Load for the bus benchmarks: one thin client for both sides, so that only the servers differ."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec

from bridgehead.bus.sockets.base import Conversation, Peer
from bridgehead.bus.sockets.dial import Target, Unreachable, dial
from bridgehead.bus.sockets.event_loop import run

FRAME_BYTES = 300
WINDOW = 200
PATIENCE_S = 60
AGAIN_S = 0.2


class Counter(Conversation):
    """Counts what it gets."""

    def __init__(self) -> None:
        self.count = 0
        self.peer: Peer

    def opened(self, peer: Peer) -> None:
        self.peer = peer

    def received(self, payload: bytes, *, text: bool) -> None:
        self.count += 1


class PingPong(Counter):
    """One message in flight: sends the next one when the answer is there."""

    def __init__(self, payload: bytes, seconds: float) -> None:
        super().__init__()
        self._payload = payload
        self._seconds = seconds
        self._sent = 0.0
        self.times: list[float] = []
        self.over = asyncio.Event()

    def begin(self) -> None:
        self._end = time.perf_counter() + self._seconds
        self._send()

    def _send(self) -> None:
        self._sent = time.perf_counter()
        self.peer.send(self._payload)

    def received(self, payload: bytes, *, text: bool) -> None:
        if payload.startswith(b'{"l2":"welcome"'):
            return
        now = time.perf_counter()
        self.times.append(now - self._sent)
        if now < self._end:
            self._send()
        else:
            self.over.set()


def _message(topic: str) -> dict[str, Any]:
    context = {"source": "bench", "session": {"session_id": "s", "lang": "en-US"}}
    message: dict[str, Any] = {
        "type": topic,
        "data": {"utterances": [""]},
        "context": context,
    }
    missing = FRAME_BYTES - len(msgspec.json.encode(message))
    message["data"]["utterances"] = ["x" * max(0, missing)]
    return message


def fan_out(url: str, receivers: int, messages: int) -> float:
    """Messages a second that one sender gets to `receivers` others, each read to its end."""

    async def main() -> float:
        others = [Counter() for _ in range(receivers)]
        sender = Counter()
        for member in (*others, sender):
            await dial(Target(url), member)
        while any(member.count == 0 for member in (*others, sender)):  # the greeting
            await asyncio.sleep(0.001)
        for member in (*others, sender):
            member.count = 0
        frame, sent, began = (
            msgspec.json.encode(_message("bench.fan.out")),
            0,
            time.perf_counter(),
        )
        while min(member.count for member in (*others, sender)) < messages:
            while sent < messages and sent - sender.count < WINDOW:
                sender.peer.send(frame)
                sent += 1
            await asyncio.sleep(0)
            if time.perf_counter() - began > PATIENCE_S:
                raise SystemExit(
                    f"bench: {url} did not deliver {messages} messages in {PATIENCE_S} s"
                )
        rate = messages / (time.perf_counter() - began)
        for member in (*others, sender):
            member.peer.abort()
        return rate

    return run(main())


def _target(facts: dict[str, Any], number: int = 0) -> Target:
    if "tokens" not in facts:
        return Target(facts["url"])
    bearer = (("Authorization", f"Bearer {facts['tokens'][number]}"),)
    return Target(facts["url"], bearer, "bridgehead.v1")


def round_trips(facts: dict[str, Any], seconds: float = 2.0) -> float:
    """Round trips a second with one message in flight."""

    async def main() -> float:
        payload = msgspec.json.encode(
            {"l2": "msg", "m": _message("ovos.utterance.handle")}
        )
        satellite = PingPong(payload, seconds)
        await dial(_target(facts), satellite)
        satellite.begin()
        await asyncio.wait_for(satellite.over.wait(), seconds + PATIENCE_S)
        satellite.peer.abort()
        return len(satellite.times) / seconds

    return run(main())


def busy_trips(
    servers: list[dict[str, Any]], seconds: float = 2.0, satellites: int = 2
) -> int:
    """Round trips that several satellites at each of these bridges make at the same time."""

    async def main() -> int:
        payload = msgspec.json.encode(
            {"l2": "msg", "m": _message("ovos.utterance.handle")}
        )
        everybody = [
            PingPong(payload, seconds) for _ in servers for _ in range(satellites)
        ]
        places = [
            _target(facts, number) for facts in servers for number in range(satellites)
        ]
        for satellite, place in zip(everybody, places, strict=True):
            await dial(place, satellite)
        for satellite in everybody:
            satellite.begin()
        for satellite in everybody:
            await asyncio.wait_for(satellite.over.wait(), seconds + PATIENCE_S)
            satellite.peer.abort()
        return sum(len(satellite.times) for satellite in everybody)

    return run(main())


class Paced(Counter):
    """Notes how long after its sending each answer came; answers come in order."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[float] = []
        self.times: list[float] = []

    def received(self, payload: bytes, *, text: bool) -> None:
        if not payload.startswith(b'{"l2":"welcome"'):
            self.times.append(time.perf_counter() - self.sent[len(self.times)])


def p99_ms(facts: dict[str, Any], rate: int = 1000, seconds: float = 3.0) -> float:
    """The 99th percentile of the round trip at a steady rate, in milliseconds."""

    async def main() -> float:
        satellite = Paced()
        await dial(_target(facts), satellite)
        payload = msgspec.json.encode(
            {"l2": "msg", "m": _message("ovos.utterance.handle")}
        )
        began = time.perf_counter()
        while (elapsed := time.perf_counter() - began) < seconds:
            while len(satellite.sent) < elapsed * rate:
                satellite.sent.append(time.perf_counter())
                satellite.peer.send(payload)
            await asyncio.sleep(0.0005)
        while (
            len(satellite.times) < len(satellite.sent)
            and time.perf_counter() - began < PATIENCE_S
        ):
            await asyncio.sleep(0.01)
        satellite.peer.abort()
        ordered = sorted(satellite.times)
        return ordered[int(len(ordered) * 0.99)] * 1000

    return run(main())


async def idle(facts: dict[str, Any], count: int) -> list[Counter]:
    """So many connected participants that say nothing."""
    connected = []
    for number in range(count):
        member = Counter()
        await dial(_target(facts, number), member)
        connected.append(member)
    return connected


def reconnect_s(facts: dict[str, Any], count: int) -> float:
    """Seconds until all of so many participants, cut off at the same time, are welcome again.

    They come from one address, whose share of unfinished handshakes is smaller: who is turned away tries again.
    """

    async def come_back(number: int, member: Counter) -> None:
        while True:
            try:
                await dial(_target(facts, number), member)
                return
            except Unreachable:
                await asyncio.sleep(AGAIN_S)

    async def main() -> float:
        for member in await idle(facts, count):
            member.peer.abort()
        members = [Counter() for _ in range(count)]
        began = time.perf_counter()
        await asyncio.gather(
            *(come_back(number, member) for number, member in enumerate(members))
        )
        while any(member.count == 0 for member in members):
            await asyncio.sleep(0.01)
        took = time.perf_counter() - began
        for member in members:
            member.peer.abort()
        return took

    return run(main())


def longest_trip_ms(
    facts: dict[str, Any], meanwhile: Callable[[], None], seconds: float = 3.0
) -> float:
    """The longest round trip of somebody who talks without pause while something is done to the server."""

    async def main() -> float:
        payload = msgspec.json.encode(
            {"l2": "msg", "m": _message("ovos.utterance.handle")}
        )
        satellite = PingPong(payload, seconds)
        await dial(_target(facts), satellite)
        satellite.begin()
        await asyncio.sleep(seconds / 6)
        meanwhile()
        await asyncio.wait_for(satellite.over.wait(), seconds + PATIENCE_S)
        satellite.peer.abort()
        return max(satellite.times) * 1000

    return run(main())
