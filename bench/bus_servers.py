"""Servers the bus benchmarks load, each in a process of its own: `python -m bench.bus_servers KIND [NUMBER]`.

Every one prints one JSON line with its address when it is ready, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from bridgehead.bus.access.credentials import make_token, token_hash
from bridgehead.bus.access.state_folder import StateFolder
from bridgehead.bus.client.hub_client import HubClient
from bridgehead.bus.hub.hub import Hub
from bridgehead.bus.interfaces import BusServices
from bridgehead.bus.serve import BusServer
from bridgehead.bus.settings import BusSettings
from bridgehead.bus.sockets.base import (
    Answer,
    Conversation,
    Peer,
    Request,
    Site,
    Upgrade,
)
from bridgehead.bus.sockets.event_loop import run, settle_memory
from bridgehead.bus.sockets.listen import listen
from bridgehead.bus.wire.message import Message

UNLIMITED = {"messages_per_second": 1_000_000_000, "burst": 1_000_000_000}
PARTICIPANTS = 8
Facts = dict[str, Any]


class Echo(Conversation):
    """Sends back what it gets: the floor under every round trip over this library."""

    def opened(self, peer: Peer) -> None:
        self._peer = peer

    def received(self, payload: bytes, *, text: bool) -> None:
        self._peer.send(payload)


class EchoSite(Site):
    def upgrade(self, request: Request) -> Upgrade | Answer:
        return Upgrade(Echo(), 1 << 20)

    async def respond(self, request: Request) -> Answer:
        return Answer(404)


async def _echo() -> Facts:
    return {"url": f"ws://{(await listen(EchoSite(), '127.0.0.1', 0)).address}/"}


async def _hub() -> Facts:
    return {"url": f"ws://{(await listen(Hub(), '127.0.0.1', 0)).address}/core"}


async def _bridge(
    participants: int = PARTICIPANTS, limits: dict[str, int] = UNLIMITED, **table: Any
) -> Facts:
    """A whole bus with somebody on its hub who answers every utterance at once."""
    settings = {
        "listen": "127.0.0.1:0",
        "hub_listen": "127.0.0.1:0",
        "profile": "spec",
        "max_participants": 20_000,
        **table,
    }
    folder = StateFolder(Path(tempfile.mkdtemp()))
    server = BusServer(BusSettings.parse(settings), folder, BusServices())
    await server.start()
    await server.link.connected()
    if server.hub is not None:
        _answer_on(server.hub)
    tokens = _enrol_all(folder, participants, limits)
    server.gateway.directory.read_ahead()
    server.gateway.reload()
    return {"url": server.join_url, "tokens": tokens, "state": str(folder.path)}


def _answer_on(hub: Hub) -> None:
    def answer(message: Message) -> None:
        if message.type == "ovos.utterance.handle":
            hub.publish(message.reply("ovos.utterance.speak", {"utterance": "ok"}))

    hub.listen(answer)


async def _bridge_auto() -> Facts:
    """The same, ready to translate names, which is how it is set when nothing is said."""
    return await _bridge(profile="auto")


async def _bridge_on_nats(port: int) -> Facts:
    """One hub of several that share a fabric; its bridge id keeps it apart from the others."""
    return await _bridge(
        nats=f"nats://127.0.0.1:{port}", bridge_id=f"bench-{os.getpid()}"
    )


async def _answering_hub(port: int) -> Facts:
    hub = Hub()
    _answer_on(hub)
    await listen(hub, "127.0.0.1", port)
    return {}


async def _bridge_at_hub(port: int, participants: int) -> Facts:
    """A bridge in front of a hub of another process, with the limits everybody has."""
    return await _bridge(participants, {}, hub=f"ws://127.0.0.1:{port}/core", grace_s=2)


async def _responder(port: int) -> Facts:
    """Somebody on a foreign hub who answers every utterance, in the names of that hub."""
    client = await HubClient.connect(f"ws://127.0.0.1:{port}/core")

    async def answer() -> None:
        while True:
            message = await client.receive()
            if message.type == "recognizer_loop:utterance":
                await client.send(message.reply("speak", {"utterance": "ok"}))

    _tasks.append(asyncio.get_running_loop().create_task(answer()))
    return {}


def _enrol_all(folder: StateFolder, count: int, limits: dict[str, int]) -> list[str]:
    """Records and credentials of many participants, written in one go."""
    names = [f"sat{os.getpid()}-{number}" for number in range(count)]
    limited = "".join(f"{key} = {value}\n" for key, value in limits.items())
    folder.records_file.write_text(
        "".join(f"[{name}.limits]\n{limited}" for name in names)
    )
    tokens = [make_token(name, os.urandom(32)) for name in names]
    kept = {
        name: {"token_sha256": token_hash(token)}
        for name, token in zip(names, tokens, strict=True)
    }
    folder.credentials_file.write_text(json.dumps(kept))
    return tokens


KINDS = {
    "echo": _echo,
    "hub": _hub,
    "bridge": _bridge,
    "bridge_auto": _bridge_auto,
    "bridge_on_nats": _bridge_on_nats,
    "bridge_at_hub": _bridge_at_hub,
    "answering_hub": _answering_hub,
    "responder": _responder,
}
_tasks: list[asyncio.Task[None]] = []


async def _serve(kind: str, arguments: list[int]) -> None:
    facts = await KINDS[kind](*arguments)  # type: ignore[operator]
    settle_memory()  # as `bus serve` does
    print(json.dumps(facts), flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    run(_serve(sys.argv[1], [int(argument) for argument in sys.argv[2:]]))
