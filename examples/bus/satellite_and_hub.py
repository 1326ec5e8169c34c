# ruff: noqa: T201  # what an example prints is its result
"""A satellite with its own ears and mouth asks; the assistant on the hub answers."""

from __future__ import annotations

from shared import join, running_bus

from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.sockets.event_loop import run


async def main() -> None:
    async with (
        running_bus(agent=ScriptedAgent({"what time is it": "Noon."})) as server,
        await join(server, "kitchen") as kitchen,
        await join(server, "study") as study,
    ):
        for satellite in (kitchen, study):
            spoken = await satellite.ask("what time is it")
            print(f"{satellite.participant} heard: {spoken.text}")


if __name__ == "__main__":
    run(main())
