# ruff: noqa: T201  # what an example prints is its result
"""A skill on a satellite: registered in the satellite's own session, dispatched to it, gone when it leaves."""

from __future__ import annotations

from shared import join, running_bus, wait_for

from bridgehead.bus.serve import BusServer
from bridgehead.bus.sockets.event_loop import run
from bridgehead.bus.wire.message import Message

SKILL = {
    "skill_id": "lamp.skill",
    "intent_name": "on",
    "lang": "en-US",
    "samples": ["lamp on"],
}


def dispatching_core(server: BusServer) -> None:
    """A core that knows what was registered with it, session by session."""
    hub = server.hub
    assert hub is not None
    registered: dict[tuple[str, str], str] = {}

    def heard(message: Message) -> None:
        session = message.context.get("session", {}).get("session_id", "default")
        if message.type == "ovos.intent.register.template":
            topic = f"{message.data['skill_id']}:{message.data['intent_name']}"
            registered[session, message.data["samples"][0]] = topic
        elif message.type == "ovos.utterance.handle":
            words = message.data["utterances"][0]
            hub.publish(message.reply(registered[session, words], {"utterance": words}))
        elif message.type == "ovos.skill.deregister":
            print(f"the hub forgets {message.data['skill_id']}")

    hub.listen(heard)


async def main() -> None:
    async with running_bus() as server:
        dispatching_core(server)
        async with await join(server, "bedroom", role="skill_host") as bedroom:
            await bedroom.send(Message("ovos.intent.register.template", dict(SKILL)))
            await bedroom.say("lamp on")
            dispatched = await wait_for(bedroom, "lamp.skill:on")
            print(
                f"bedroom runs {dispatched.type} for {dispatched.data['utterance']!r}"
            )
            await bedroom.send(
                dispatched.forward(
                    "ovos.utterance.speak", {"utterance": "The lamp is on."}
                )
            )
        # Leaving with a goodbye cleans up at once; without one, when the grace period is over.


if __name__ == "__main__":
    run(main())
