"""A join file fits the bridge that runs, whatever it was started with."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

from bridgehead.bus.access.join_file import read_join_file
from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.client.participant import Satellite
from bus.support.running import run
from bus.support.serving import served_bus
from support.installed import machine


def test_a_join_file_pins_the_certificate_of_the_bridge_that_runs(tmp_path: Path) -> None:
    async def main() -> None:
        home, state = machine(tmp_path), tmp_path / "bus"
        async with served_bus(state, agent=ScriptedAgent(), listen="0.0.0.0:0") as server:
            assert not urlsplit(server.chat_url).netloc.startswith("0.0.0.0")
            url = f"wss://127.0.0.1:{server.gateway_address.rsplit(':', 1)[1]}/bridge/v1"
            command = ("bus", "participant", "add", "den", "--state", str(state), "--url", url)
            added = await asyncio.to_thread(home.run, *command)
            assert added.code == 0, added.err
            join = read_join_file(home.project / "den.join.json")
            async with await Satellite.connect(join) as satellite:
                assert (await satellite.ask("hi")).text == "You said: hi"

    run(main())
