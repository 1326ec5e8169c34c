"""`python -m bench.soak [SECONDS]`: ten minutes of churn and faults on one bus, by default.

Satellites come, ask, break off, send garbage and floods, stop reading and come back, on the loopback only. At the end
every message must be accounted for (B-70) and the server must hold no more memory than it did after the warm-up.
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
import time
from typing import Any
from urllib.request import urlopen

from bench.bus_processes import ours
from bridgehead.bus.join_file import JoinFile
from bridgehead.bus.loop import run
from bridgehead.bus.message import Message
from bridgehead.bus.satellite import Refused, Satellite
from bridgehead.bus.sockets.mailbox import ConnectionEnded
from bridgehead.errors import BridgeheadError

SECONDS = 600
PARTICIPANTS = 40
WARM_UP = 0.2
ALLOWED_GROWTH = 1.10
ALLOWED_MIB = 16.0
GARBAGE = (b"not json", b"[]", b'{"l2":"what"}', b'{"l2":"msg","m":{"type":"a b"}}', b"\xff\xfe")


async def visit(join: JoinFile, dice: random.Random) -> None:
    """One stay of one satellite, good or bad."""
    satellite = await Satellite.connect(join)
    try:
        for number in range(dice.randint(1, 20)):
            await satellite.ask(f"question {number}", wait_s=0.05)
        if dice.random() < 0.3:
            for garbage in GARBAGE:
                await satellite._mailbox.send(garbage)
        if dice.random() < 0.2:
            for _ in range(200):
                await satellite.send(
                    Message("ovos.stop", {}, {"session": {"session_id": f"s{dice.random()}"}})
                )
        if dice.random() < 0.1:
            satellite._mailbox.peer.pause_reading()
            for _ in range(50):
                await satellite.say("x" * 2000)
            await asyncio.sleep(0.2)
    except (ConnectionEnded, Refused):
        pass
    finally:
        if dice.random() < 0.5:
            satellite._mailbox.peer.abort()
        else:
            await satellite.close(goodbye=dice.random() < 0.5)


async def churn(facts: dict[str, Any], until: float) -> int:
    """Everybody comes and goes until the time is up; how many visits there were."""
    visits = 0

    async def live(number: int) -> None:
        nonlocal visits
        dice = random.Random(number)
        token = facts["tokens"][number]
        join = JoinFile(1, facts["url"], token.rpartition(".")[0], token=token)
        while time.monotonic() < until:
            try:
                await visit(join, dice)
                visits += 1
            except BridgeheadError:
                await asyncio.sleep(0.1)
            await asyncio.sleep(dice.random() / 10)

    await asyncio.gather(*(live(number) for number in range(len(facts["tokens"]))))
    return visits


def metrics(facts: dict[str, Any]) -> str:
    address = re.sub(r"^ws://([^/]+)/.*$", r"http://\1/metrics", facts["url"])
    with urlopen(address, timeout=10) as answer:
        return str(answer.read().decode())


def accounted(text: str) -> tuple[int, int]:
    """Messages taken and offered, and messages with an outcome or still waiting; the two must be equal."""

    def value(name: str) -> int:
        return sum(
            int(float(n)) for n in re.findall(rf"^{name}(?:\{{[^}}]*\}})? ([0-9.e+]+)$", text, re.MULTILINE)
        )

    came = value("bridgehead_bus_taken_total") + value("bridgehead_bus_offered_total")
    ended = (
        value("bridgehead_bus_messages_total") + value("bridgehead_bus_held") + value("bridgehead_bus_queued")
    )
    return came, ended


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    server = ours("bridge", PARTICIPANTS)
    try:
        began = time.monotonic()
        visits = run(churn(server.facts, began + seconds * WARM_UP))
        before = server.resident_mib
        visits += run(churn(server.facts, began + seconds))
        after = server.resident_mib
        came, ended = accounted(metrics(server.facts))
    finally:
        server.stop()
    flat = after <= max(before * ALLOWED_GROWTH, before + ALLOWED_MIB)
    print(f"{visits} visits, {came} messages in {seconds:g} s")
    print(f"accounted for: {ended} of {came}   {'yes' if came == ended else 'NO'}")
    print(
        f"memory: {before:.1f} MiB after the warm-up, {after:.1f} MiB at the end   {'flat' if flat else 'GREW'}"
    )
    return 0 if flat and came == ended else 1


if __name__ == "__main__":
    sys.exit(main())
