# ruff: noqa: T201  # what an example prints is its result
"""Two participants that trust one another name the same session, without translation of session ids.

What the assistant says in that session reaches both; a third participant with a session of its own hears none of it.
"""

from __future__ import annotations

from shared import join, running_bus, wait_for

from bridgehead.bus.sockets.event_loop import run
from bridgehead.bus.wire.message import Message


async def main() -> None:
    async with running_bus(nat=False) as server:
        together = {"session": {"session_id": "family"}}
        async with (
            await join(server, "phone") as phone,
            await join(server, "tablet") as tablet,
        ):
            await tablet.send(Message("ovos.listener.record.started", {}, together))
            await phone.send(
                Message(
                    "ovos.utterance.handle",
                    {"utterances": ["dinner is ready"]},
                    together,
                )
            )
            overheard = await wait_for(tablet, "ovos.utterance.handle")
            print(f"tablet heard the phone say: {overheard.data['utterances'][0]}")
            assert server.hub is not None
            server.hub.publish(
                Message(
                    "ovos.utterance.speak", {"utterance": "Enjoy your meal."}, together
                )
            )
            for satellite in (phone, tablet):
                spoken = await wait_for(satellite, "ovos.utterance.speak")
                print(f"{satellite.participant} heard: {spoken.data['utterance']}")


if __name__ == "__main__":
    run(main())
