"""A bridge that is killed in the middle of a conversation and started again: nothing arrives twice (hazard 38)."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bridgehead.bus.access.enrolment import Enrolment, enrol
from bridgehead.bus.access.join_file import JoinFile
from bridgehead.bus.access.state_folder import StateFolder
from bridgehead.bus.client.hub_client import HubClient
from bridgehead.bus.client.participant import Incoming, Satellite
from bridgehead.bus.sockets.dial import ConnectionEnded
from bridgehead.bus.wire.message import Message
from bridgehead.bus.wire.topics import SPEAK
from bridgehead.host.clock import SystemClock
from bus.support.running import free_port
from support.installed import Machine, machine

PATIENCE_S = 120
BURST = 200
WORDS_EVERY = 20  # a participant may not say as much as a hub


class Conversation:
    """A satellite behind a bridge and a member of the hub, and what each of them heard."""

    def __init__(self, hub: HubClient, join: JoinFile) -> None:
        self.hub = hub
        self.join = join
        self.number = 0
        self.heard: list[str] = []
        self.others: list[Message] = []
        self.on_hub: list[str] = []
        self.news = asyncio.Event()

    async def listen_on_hub(self) -> None:
        while True:
            message = await self.hub.receive()
            if (
                "utterances" in message.data
            ):  # an older hub has another name for the same message
                self.on_hub.append(str(message.data["utterances"]))

    async def listen(self, satellite: Satellite) -> None:
        with suppress(ConnectionEnded):
            while True:
                event = await satellite.receive()
                if isinstance(event, Incoming) and event.message.type == SPEAK:
                    self.heard.append(str(event.message.data["utterance"]))
                    self.news.set()
                elif isinstance(event, Incoming):
                    self.others.append(event.message)

    async def speak(self, satellite: Satellite, count: int) -> None:
        """The hub speaks to the satellite and the satellite to the hub, by turns."""
        for _ in range(count):
            self.number += 1
            spoken = Message(
                SPEAK,
                {"utterance": f"n{self.number}"},
                {"source": "core", "destination": satellite.source},
            )
            await self.hub.send(spoken)
            if self.number % WORDS_EVERY == 0:
                with suppress(ConnectionEnded):
                    await satellite.say(f"w{self.number}")
            await asyncio.sleep(0)

    async def until_heard_more(self, satellite: Satellite) -> None:
        wanted = len(self.heard) + BURST // 2
        while len(self.heard) < wanted:
            self.news.clear()
            await self.speak(satellite, WORDS_EVERY)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await self.news.wait()


def started(home: Machine, *words: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    process = home.start("bus", *words, "--json")
    assert process.stdout is not None and process.stderr is not None
    line = process.stdout.readline()
    assert line, process.stderr.read()
    return process, json.loads(line)


@pytest.mark.timeout(300)
def test_nothing_is_delivered_twice_and_nobody_hears_their_own_words(
    tmp_path: Path,
) -> None:
    home = machine(tmp_path)
    address, state = f"127.0.0.1:{free_port()}", StateFolder(tmp_path / "bridge")
    state.prepare()
    url = f"ws://{address}/bridge/v1"
    join = enrol(state, Enrolment("kitchen", {}, url), SystemClock())
    hub, facts = started(
        home, "serve", "--listen", "127.0.0.1:0", "--hub-listen", "127.0.0.1:0"
    )
    bridge_words = (
        "bridge",
        "--hub",
        facts["hub"],
        "--listen",
        address,
        "--state",
        str(state.path),
    )
    bridges = [started(home, *bridge_words)[0]]

    async def main() -> Conversation:
        async with (
            asyncio.timeout(PATIENCE_S),
            await HubClient.connect(facts["hub"]) as member,
        ):
            held = Conversation(member, join)
            ears = asyncio.create_task(held.listen_on_hub())
            for restart in range(2):
                satellite = await Satellite.connect(join, reconnect=False)
                listening = asyncio.create_task(held.listen(satellite))
                await held.until_heard_more(satellite)
                await held.speak(satellite, BURST)
                bridges[-1].send_signal(
                    signal.SIGKILL if restart == 0 else signal.SIGTERM
                )
                await held.speak(satellite, BURST)
                await listening
                bridges[-1].communicate(timeout=60)
                bridges.append(
                    (await asyncio.to_thread(started, home, *bridge_words))[0]
                )
            satellite = await Satellite.connect(join, reconnect=False)
            listening = asyncio.create_task(held.listen(satellite))
            await held.until_heard_more(satellite)
            await satellite.close()
            listening.cancel()
            ears.cancel()
            return held

    try:
        held = asyncio.run(main())
    finally:
        for process in (*bridges, hub):
            process.kill()
            process.communicate(timeout=60)

    numbers = [int(text.removeprefix("n")) for text in held.heard]
    assert len(numbers) > 3 and numbers == sorted(set(numbers)), (
        "each at most once, and in order"
    )
    assert len(held.on_hub) == len(set(held.on_hub)) > 3, (
        "what the satellite said reached the hub once"
    )
    own = [message for message in held.others if "utterances" in message.data]
    assert own == [], "nobody hears their own words"
