"""With OVOS as it is today: a real ovos-messagebus, and an unmodified program behind the side-car."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridgehead.bus.access.join_file import JoinFile
from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.client.hub_client import HubClient
from bridgehead.bus.client.loopback_hub import LoopbackHub
from bridgehead.bus.hub.check import CheckOptions, check_hub
from bridgehead.bus.sockets.dial import ConnectionEnded
from bridgehead.bus.sockets.listen import listen
from bridgehead.bus.wire.message import Message
from bus.support.gateways import next_message
from bus.support.hubs import OVOS, needs_ovos, ovos_environment, run_ovos
from bus.support.running import free_port, run
from bus.support.serving import http, served_bus

# -- a real ovos-messagebus -------------------------------------------------------------------------------------


@asynccontextmanager
async def messagebus(folder: Path) -> AsyncIterator[str]:
    port = free_port()
    process = subprocess.Popen(
        [str(OVOS / "ovos-messagebus")],
        env=ovos_environment(folder, host="127.0.0.1", port=port, route="/core"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                assert process.poll() is None
                await asyncio.sleep(0.05)
            else:
                writer.close()
                break
        yield f"ws://127.0.0.1:{port}/core"
    finally:
        process.terminate()
        process.wait(10)


LEGACY_CORE = """
import sys
from threading import Event
from ovos_bus_client import Message, MessageBusClient
client = MessageBusClient(host="127.0.0.1", port=int(sys.argv[1]), route="/core")
done = Event()
def handle(message):
    said = message.data["utterances"][0]
    client.emit(message.reply("mycroft.skill.handler.start", {"name": "Toy.handle"}))
    client.emit(message.reply("speak", {"utterance": "you said " + said, "expect_response": False}))
    client.emit(message.reply("ovos.utterance.handled", {}))
    if said == "bye":
        done.set()
client.on("recognizer_loop:utterance", handle)
client.run_in_thread()
assert client.connected_event.wait(20)
client.emit(Message("toy.ready"))
assert done.wait(40)
"""


@pytest.mark.peer
@needs_ovos()
def test_a_satellite_speaks_through_a_real_messagebus_to_a_legacy_core(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with messagebus(tmp_path / "ovos") as url:
            port = url.rpartition(":")[2].partition("/")[0]
            watcher = await HubClient.connect(url)
            core = asyncio.ensure_future(
                run_ovos(LEGACY_CORE, ovos_environment(tmp_path / "core"), port)
            )
            while (await watcher.receive()).type != "toy.ready":
                pass
            async with served_bus(tmp_path / "bus", hub=url, profile="auto") as server:
                satellites = [
                    await server.satellite(name) for name in ("kitchen", "study")
                ]
                for number, satellite in enumerate(satellites):
                    spoken = await satellite.ask(f"hello {number}")
                    assert (spoken.text, spoken.handled) == (
                        f"you said hello {number}",
                        True,
                    )
                    assert spoken.speak[0]["listen"] is False
                await satellites[0].ask("bye")
                outcomes = server.relay.counters.outcomes
                assert outcomes["out", "dropped", "echo"] == 3
                assert outcomes["out", "dropped", "hardened"] >= 3, (
                    "handler events stay inside"
                )
                assert not server.relay.counters.hub_ignored
                for satellite in satellites:
                    await satellite.close()
            await core
            await watcher.close()

    run(main())


WAITING_CORE = """
import sys
from threading import Event
from ovos_bus_client import Message, MessageBusClient
from ovos_bus_client.session import SessionManager
client = MessageBusClient(host="127.0.0.1", port=int(sys.argv[1]), route="/core")
done, heard = Event(), Event()
def ended(message):
    if SessionManager.get(message).session_id == asked_in[0]:
        heard.set()
asked_in = [None]
def handle(message):
    asked_in[0] = SessionManager.get(message).session_id
    client.emit(message.reply("speak", {"utterance": "a long story", "expect_response": False}))
    heard.wait(60)  # as speak(wait=True) does
    client.emit(message.reply("ovos.utterance.handled", {}))
    done.set()
client.on("recognizer_loop:utterance", handle)
client.on("recognizer_loop:audio_output_end", ended)
client.run_in_thread()
assert client.connected_event.wait(20)
SessionManager.connect_to_bus(client)  # what ovos-core does at its start
client.emit(Message("toy.ready"))
assert done.wait(60) and heard.is_set()
print("spoken to its end")
"""


@pytest.mark.peer
@needs_ovos()
def test_a_legacy_core_on_our_own_hub_is_heard_and_not_kept_waiting_for_audio(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bus(tmp_path / "bus") as server:
            assert server.settings.bridge.profile == "auto"
            watcher = await HubClient.connect(server.hub_url)
            environment = ovos_environment(tmp_path / "core")
            port = server.hub_address.rpartition(":")[2]
            core = asyncio.ensure_future(run_ovos(WAITING_CORE, environment, port))
            while (await watcher.receive()).type != "toy.ready":
                pass
            found = {
                f.kind: f
                for f in await check_hub(CheckOptions(server.hub_url, listen_s=1))
            }
            assert "legacy" in found["hub-names"].sentence
            join = server.enrol("page", token=True, mode="manage")
            headers = {
                "Authorization": f"Bearer {join.token}",
                "Content-Type": "text/plain",
            }
            headers["Accept"] = "text/plain"
            address = server.gateway_address
            status, _, body = await http(
                address, "POST", "/hook/page", b"tell me a story", **headers
            )
            assert (status, body) == (200, b"a long story\n")
            assert (await core).splitlines()[-1] == "spoken to its end"
            spec = await check_hub(
                CheckOptions(server.hub_url, listen_s=0.05, profile="spec")
            )
            assert all(f.state != "broken" for f in spec), "the core is gone"
            await watcher.close()

    run(main())


@pytest.mark.peer
@needs_ovos()
def test_garbage_on_a_real_messagebus_does_not_shake_the_bridge(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            messagebus(tmp_path / "ovos") as url,
            served_bus(tmp_path / "bus", hub=url) as server,
        ):
            hostile = await HubClient.connect(url)
            for bad in (
                b"not json",
                b"[1]",
                b'{"type":"a","context":{"session":"s"}}',
                b'{"type":"a.b","data":[]}',
            ):
                await hostile._conversation.send(bad)
            satellite = await server.satellite("kitchen")
            await hostile.send(
                Message(
                    "ovos.utterance.speak",
                    {"utterance": "hi"},
                    {"destination": "kitchen"},
                )
            )
            assert (await next_message(satellite)).data["utterance"] == "hi"
            assert server.relay.counters.hub_ignored["malformed"] == 4
            await satellite.close()
            await hostile.close()

    run(main())


@pytest.mark.peer
@needs_ovos()
def test_check_says_what_a_real_messagebus_lacks(tmp_path: Path) -> None:
    async def main() -> None:
        async with messagebus(tmp_path) as url:
            found = {
                f.kind: f.state
                for f in await check_hub(CheckOptions(url, listen_s=0.1))
            }
            assert (
                found["hub-reachable"]
                == found["hub-echo"]
                == found["hub-greeting"]
                == "fine"
            )
            assert found["hub-origin"] == "look"

    run(main())


# -- the side-car -----------------------------------------------------------------------------------------------

STOCK_SATELLITE = """
import sys
from threading import Event
from ovos_bus_client import Message, MessageBusClient
client = MessageBusClient(host="127.0.0.1", port=int(sys.argv[1]), route="/core")
answered, spoken = Event(), []
client.on("speak", lambda m: spoken.append(m.data["utterance"]))
client.on("ovos.utterance.handled", lambda m: answered.set())
client.run_in_thread()
assert client.connected_event.wait(20)
client.emit(Message("recognizer_loop:utterance", {"utterances": ["hello"], "lang": "en-us"}))
assert answered.wait(20)
print("spoken", spoken)
"""


@pytest.mark.peer
@needs_ovos()
def test_an_unmodified_bus_program_takes_part_through_the_side_car(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bus(tmp_path / "bus", agent=ScriptedAgent()) as server:
            sidecar = LoopbackHub(server.enrol("stock", token=True, names="legacy"))
            listener = await listen(sidecar, "127.0.0.1", 0)
            out = await run_ovos(
                STOCK_SATELLITE, ovos_environment(tmp_path / "ovos"), str(listener.port)
            )
            assert out.splitlines()[-1] == "spoken ['You said: hello']"
            await listener.close()
            await sidecar.close()
            # The stock client asks for the default session when it connects; that is no violation.
            assert (
                server.relay.counters.outcomes["in", "dropped", "session_bootstrap"]
                == 1
            )

    run(main())


def test_a_side_car_without_a_bridge_says_so_and_stays(tmp_path: Path) -> None:
    async def main() -> None:
        sidecar = LoopbackHub(
            JoinFile(
                1, f"ws://127.0.0.1:{free_port()}/bridge/v1", "stock", token="stock.x"
            )
        )
        listener = await listen(sidecar, "127.0.0.1", 0)
        for _ in range(2):
            program = await HubClient.connect(f"ws://127.0.0.1:{listener.port}/core")
            assert (await program.receive()).type == "connected"
            with pytest.raises(ConnectionEnded) as ended:
                await program.receive()
            assert ended.value.code == 1013
        await listener.close()
        await sidecar.close()

    run(main())
