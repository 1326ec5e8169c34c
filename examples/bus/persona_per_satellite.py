# ruff: noqa: T201  # what an example prints is its result
"""The hub says the same to everybody; each satellite lets its own dialog transformer rewrite it before speaking.

The bridge has no part in this beyond carrying the session out and back unchanged.
"""

from __future__ import annotations

from collections.abc import Callable

from shared import join, running_bus

from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.client.participant import Satellite
from bridgehead.bus.sockets.event_loop import run

TRANSFORMERS: dict[str, Callable[[str], str]] = {
    "pirate": lambda text: f"Arr! {text}",
    "butler": lambda text: f"If I may, sir: {text}",
}


async def speak(satellite: Satellite, persona: str) -> None:
    satellite.session = {"session_id": "default", "dialog_transformers": [persona]}
    spoken = await satellite.ask("is it raining")
    words = spoken.text
    for name in satellite.session[
        "dialog_transformers"
    ]:  # as it came back from the hub
        words = TRANSFORMERS[name](words)
    print(f"{satellite.participant} says: {words}")


async def main() -> None:
    async with (
        running_bus(agent=ScriptedAgent({"is it raining": "It is raining."})) as server,
        await join(server, "attic") as attic,
        await join(server, "hall") as hall,
    ):
        await speak(attic, "pirate")
        await speak(hall, "butler")


if __name__ == "__main__":
    run(main())
