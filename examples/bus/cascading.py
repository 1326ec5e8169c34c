# ruff: noqa: T201  # what an example prints is its result
"""A small deployment answers what it can and asks a bigger one for the rest."""

from __future__ import annotations

from shared import invite, join, running_bus, small_core

from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.sockets.event_loop import run


async def main() -> None:
    async with (
        running_bus(
            agent=ScriptedAgent({"why is the sky blue": "It scatters blue light most."})
        ) as big,
        running_bus(upstream=invite(big, "small-house", role="peer")) as small,
    ):
        small_core(small, {"lamp on": "The lamp is on."})
        async with await join(small, "kitchen") as kitchen:
            for words in ("lamp on", "why is the sky blue"):
                spoken = await kitchen.ask(words)
                print(f"{words}: {spoken.text} (one end marker: {spoken.handled})")


if __name__ == "__main__":
    run(main())
