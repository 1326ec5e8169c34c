# ruff: noqa: T201  # what an example prints is its result
"""A satellite without a voice of its own: the hub renders what is said, and the satellite plays the audio."""

from __future__ import annotations

import base64

from shared import join, running_bus, wait_for

from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.serve import BusServer
from bridgehead.bus.sockets.event_loop import run
from bridgehead.bus.wire.message import Message


def speech_service(server: BusServer) -> None:
    """Stands for a TTS service on the hub; its "audio" is the text in base64."""
    hub = server.hub
    assert hub is not None

    def heard(message: Message) -> None:
        if message.type == "ovos.utterance.speak.b64":
            audio = base64.b64encode(message.data["utterance"].encode()).decode()
            hub.publish(
                message.forward(
                    "ovos.audio.speech", {"audio": audio, "mime": "audio/x-text"}
                )
            )

    hub.listen(heard)


async def main() -> None:
    async with running_bus(agent=ScriptedAgent({"hello": "Good morning."})) as server:
        speech_service(server)
        async with await join(server, "speaker", tts=False) as speaker:
            await speaker.say("hello")
            speech = await wait_for(speaker, "ovos.audio.speech")
            print(
                f"speaker plays {speech.data['mime']}: {base64.b64decode(speech.data['audio']).decode()}"
            )


if __name__ == "__main__":
    run(main())
