"""Links to hubs: ours in another process, one that comes and goes, one that falls silent, one that refuses."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bridgehead.bus.hub.check import CheckOptions, check_hub
from bridgehead.bus.hub.health import HealthEvent
from bridgehead.bus.hub.hub import Hub, HubSettings, MemoryTransport
from bridgehead.bus.hub.reconnect import HubLink
from bridgehead.bus.sockets.base import Answer, Peer, Request, Upgrade, text_frame
from bridgehead.bus.sockets.listen import listen
from bridgehead.bus.transports.websocket import WebSocketTransport
from bridgehead.bus.wire.message import Message
from bridgehead.bus.wire.topics import HEALTH
from bus.support.hubs import served_hub
from bus.support.running import Server, free_port, run, until
from bus.support.serving import served_bus

WEBSOCKET_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class RecordingListener:
    """Remembers what a transport told it."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.ignored_reasons: list[str] = []
        self.losses: list[str] = []
        self.openings = 0

    def received(self, message: Message) -> None:
        self.messages.append(message)

    def ignored(self, reason: str) -> None:
        self.ignored_reasons.append(reason)

    def turn_lost(self, message: Message) -> None: ...

    def opened(self) -> None:
        self.openings += 1

    def lost(self, reason: str) -> None:
        self.losses.append(reason)


# -- the suite of transports ------------------------------------------------------------------------------------


@asynccontextmanager
async def memory_place() -> AsyncIterator[Any]:
    hub = Hub()
    yield lambda: MemoryTransport(hub)
    await hub.close()


@asynccontextmanager
async def websocket_place() -> AsyncIterator[Any]:
    async with served_hub() as (_hub, url):
        yield lambda: WebSocketTransport(url)


PLACES = {"memory": memory_place, "websocket": websocket_place}


@pytest.mark.parametrize("place", PLACES)
def test_every_transport_hears_everything_in_one_order_itself_included(
    place: str,
) -> None:
    async def main() -> None:
        async with PLACES[place]() as make:
            recordings = [RecordingListener(), RecordingListener()]
            transports = [make(), make()]
            for transport, recording in zip(transports, recordings, strict=True):
                await transport.connect(recording)
            for number in range(50):
                assert transports[0].send(
                    Message("n.n", {"n": number}, {"session": {"x": "ü"}})
                )
            for recording in recordings:
                await until(
                    lambda recording=recording: (
                        len([m for m in recording.messages if m.type == "n.n"]) == 50
                    )
                )
                numbers = [
                    message.data["n"]
                    for message in recording.messages
                    if message.type == "n.n"
                ]
                assert numbers == list(range(50))
            for transport in transports:
                await transport.close()
            assert not transports[0].send(Message("n.n"))
            assert recordings[0].losses == []

    run(main())


@pytest.mark.parametrize("place", PLACES)
def test_every_transport_can_be_connected_again(place: str) -> None:
    async def main() -> None:
        async with PLACES[place]() as make:
            transport, recording = make(), RecordingListener()
            for round_ in range(3):
                await transport.connect(recording)
                transport.send(Message("round", {"n": round_}))
                await until(
                    lambda round_=round_: (
                        Message("round", {"n": round_}) in recording.messages
                    )
                )
                await transport.close()

    run(main())


# -- links ------------------------------------------------------------------------------------------------------


def test_a_hub_that_vanishes_is_dialled_again_and_health_says_so() -> None:
    async def main() -> None:
        port, recording = free_port(), RecordingListener()
        said: list[HealthEvent] = []
        link = HubLink(
            WebSocketTransport(f"ws://127.0.0.1:{port}/core"), recording, said.append
        )
        link.start()
        for round_ in range(2):
            hub = Hub()
            listener = await listen(hub, "127.0.0.1", port)
            await link.connected()
            hub.publish(Message("hello", {"n": round_}))
            await until(
                lambda round_=round_: (
                    Message("hello", {"n": round_}) in recording.messages
                )
            )
            await listener.close()
            await hub.close()
            await until(lambda round_=round_: len(recording.losses) == round_ + 1)
        await link.stop()
        assert [str(event.state) for event in said] == [
            "starting",
            "connecting",
            "connected",
            "transient_disconnect",
            "connected",
            "transient_disconnect",
            "stopped",
        ]
        assert recording.openings == 2

    run(main())


class Deaf:
    """Dials with a library that swallows the first time it is cancelled."""

    def __init__(self, fails: bool) -> None:
        self.dialling = asyncio.Event()
        self._fails = fails
        self.closed = 0

    async def connect(self, listener: Any) -> None:
        hears = self.dialling.is_set()
        self.dialling.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if hears:  # the end of a test that fails
                raise
        if self._fails:
            raise OSError("timed out")

    async def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("fails", [False, True])
def test_a_link_that_is_dialling_is_stopped_although_its_library_does_not_hear_of_it(
    fails: bool,
) -> None:
    async def main() -> None:
        dialled, recording, said = Deaf(fails), RecordingListener(), list[HealthEvent]()
        link = HubLink(dialled, recording, said.append)
        link.start()
        await dialled.dialling.wait()
        await link.stop()
        assert (dialled.closed, recording.openings, str(said[-1].state)) == (
            1,
            0,
            "stopped",
        )

    run(main())


class HalfWay:
    """Gets as far as a connection the first time, and fails behind it."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    async def connect(self, listener: Any) -> None:
        self.steps.append("connected")
        if len(self.steps) == 1:
            raise OSError("the subscription was not answered")

    async def close(self) -> None:
        self.steps.append("closed")


def test_a_connection_that_came_half_way_is_closed_before_the_next_attempt() -> None:
    async def main() -> None:
        dialled = HalfWay()
        link = HubLink(dialled, RecordingListener(), list[HealthEvent]().append)
        link.start()
        await link.connected()
        assert dialled.steps == ["connected", "closed", "connected"]
        await link.stop()

    run(main())


def test_refused_credentials_are_not_hammered() -> None:
    async def main() -> None:
        hub = Hub(HubSettings(token="new"))
        listener = await listen(hub, "127.0.0.1", 0)
        said: list[HealthEvent] = []
        transport = WebSocketTransport(
            f"ws://127.0.0.1:{listener.port}/core", token="old"
        )
        link = HubLink(transport, RecordingListener(), said.append)
        link.start()
        await until(lambda: said[-1].state == "bad_credentials")
        await asyncio.sleep(0.05)
        assert [str(event.state) for event in said] == [
            "starting",
            "connecting",
            "bad_credentials",
        ]
        assert hub.counts["refused_token"] == 1
        await link.stop()
        await listener.close()
        await hub.close()

    run(main())


def test_an_encrypted_hub_is_refused_clearly() -> None:
    async def main() -> None:
        class Secretive(Server):
            def opened(self, peer: Peer) -> None:
                super().opened(peer)
                peer.send(b'{"ciphertext":"00","tag":"00","nonce":"00"}')

        class Site:
            def upgrade(self, request: Request) -> Upgrade | Answer:
                return Upgrade(Secretive(), 1 << 20)

            async def respond(self, request: Request) -> Answer:
                return Answer(404)

        listener = await listen(Site(), "127.0.0.1", 0)
        recording = RecordingListener()
        url = f"ws://127.0.0.1:{listener.port}/core"
        transport = WebSocketTransport(url)
        await transport.connect(recording)
        await until(lambda: bool(recording.losses))
        assert "secret_key" in recording.losses[0] and recording.messages == []
        found = await check_hub(CheckOptions(url, listen_s=0.05))
        assert ("hub-encrypted", "broken") in [(f.kind, f.state) for f in found]
        await listener.close()

    run(main())


def test_participants_are_told_nothing_went_through_while_the_hub_is_away(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        port = free_port()
        hub = Hub()
        listener = await listen(hub, "127.0.0.1", port)
        async with served_bus(
            tmp_path, hub=f"ws://127.0.0.1:{port}/core", profile="spec", grace_s=0.05
        ) as server:
            host = await server.satellite("host", role="skill_host")
            await host.send(Message("ovos.skill.loaded", {"skill_id": "lamp"}))
            await until(
                lambda: server.relay.counters.outcomes["in", "delivered", ""] == 1
            )
            await listener.close()
            await hub.close()
            await until(lambda: str(server.link.health.state) == "transient_disconnect")
            await host.send(Message("ovos.stop"))
            await until(
                lambda: server.relay.counters.outcomes["in", "dropped", "hub_down"] == 1
            )
            await host.close()
            await until(lambda: len(server.relay.bridge.known) == 0)
            again, heard = Hub(), []
            again.listen(heard.append)
            listener = await listen(again, "127.0.0.1", port)
            await until(lambda: any(m.type == "ovos.skill.deregister" for m in heard))
            await listener.close()
            await again.close()

    run(main())


@pytest.mark.parametrize("end", ["cut", "silent"])
def test_a_hub_that_ends_in_the_middle_of_a_message_is_dialled_again(
    tmp_path: Path, end: str
) -> None:
    """Half a frame is nothing; a hub that falls silent without a word is found out by its missing pongs."""
    whole = text_frame(
        b'{"type":"ovos.utterance.speak","data":{"utterance":"half"},"context":{}}'
    )

    async def main() -> None:
        dialled, over = 0, asyncio.Event()

        async def hub(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            nonlocal dialled
            dialled += 1
            head = await reader.readuntil(b"\r\n\r\n")
            key = re.search(rb"(?i)sec-websocket-key: (\S+)", head)
            assert key is not None
            accept = base64.b64encode(hashlib.sha1(key[1] + WEBSOCKET_GUID).digest())
            writer.write(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n" + whole + whole[:30]
            )
            await writer.drain()
            if end == "silent":
                await over.wait()
            writer.close()

        server = await asyncio.start_server(hub, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        transport = WebSocketTransport(
            f"ws://127.0.0.1:{port}/core", ping_s=0.02, silence_s=0.1
        )
        recording, health = RecordingListener(), []
        link = HubLink(
            transport, recording, lambda event: health.append(str(event.state))
        )
        link.start()
        await until(lambda: dialled == 2 and len(recording.messages) == 2)
        over.set()
        await link.stop()
        server.close()
        assert [message.data["utterance"] for message in recording.messages] == [
            "half",
            "half",
        ]
        assert "transient_disconnect" in health

    run(main())


def test_changes_of_health_are_put_on_the_hub_where_that_is_wanted(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_hub() as (hub, url):
            heard: list[Message] = []
            hub.listen(heard.append)
            async with served_bus(tmp_path, hub=url, health_on_bus=True):
                await until(lambda: any(message.type == HEALTH for message in heard))
        (said,) = [message for message in heard if message.type == HEALTH]
        assert (said.data["link"], said.data["state"], said.data["previous"]) == (
            "hub",
            "connected",
            "connecting",
        )
        assert said.context == {"source": "bridgehead"}

    run(main())
