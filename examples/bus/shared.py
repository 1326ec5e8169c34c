"""What the examples share: a bus on free ports, participants of it, and a core that knows a few phrases."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bridgehead.bus.access.enrolment import Enrolment, enrol
from bridgehead.bus.access.join_file import JoinFile
from bridgehead.bus.access.state_folder import StateFolder
from bridgehead.bus.client.participant import Incoming, Satellite
from bridgehead.bus.interfaces import Agent, BusServices
from bridgehead.bus.serve import BusServer
from bridgehead.bus.settings import BusSettings
from bridgehead.bus.wire.message import Message
from bridgehead.host.clock import SystemClock


@asynccontextmanager
async def running_bus(
    *, agent: Agent | None = None, upstream: JoinFile | None = None, **table: Any
) -> AsyncIterator[BusServer]:
    """A bus that is gone when the example is over."""
    settings = BusSettings.parse(
        {"listen": "127.0.0.1:0", "hub_listen": "127.0.0.1:0", **table}
    )
    with tempfile.TemporaryDirectory(prefix="bridgehead-example-") as folder:
        server = BusServer(
            settings,
            StateFolder(Path(folder)),
            BusServices(agent=agent),
            upstream=upstream,
        )
        await server.start()
        await server.link.connected()
        if server.upstream is not None:
            await server.upstream.link.connected()
        try:
            yield server
        finally:
            await server.stop()


def invite(server: BusServer, participant: str, **record: Any) -> JoinFile:
    """Enrol a participant; what `bridgehead bus participant add` does."""
    join = enrol(
        server.folder, Enrolment(participant, record, server.join_url), SystemClock()
    )
    server.gateway.reload()
    return join


async def join(server: BusServer, participant: str, **record: Any) -> Satellite:
    return await Satellite.connect(invite(server, participant, **record))


async def wait_for(satellite: Satellite, topic: str) -> Message:
    """The next message of this topic."""
    while True:
        event = await satellite.receive()
        if isinstance(event, Incoming) and event.message.type == topic:
            return event.message


def small_core(server: BusServer, answers: Mapping[str, str]) -> None:
    """An orchestrator in a few lines: says what it knows, and that it does not know the rest."""
    hub = server.hub
    assert hub is not None

    def heard(message: Message) -> None:
        if message.type != "ovos.utterance.handle":
            return
        said = message.data["utterances"][0]
        if said in answers:
            hub.publish(
                message.reply("ovos.utterance.speak", {"utterance": answers[said]})
            )
        else:
            hub.publish(message.reply("ovos.intent.unmatched", {"utterances": [said]}))
        hub.publish(message.reply("ovos.utterance.handled", {}))

    hub.listen(heard)
