"""Many hubs over a real NATS server: bridges that share their participants, hubs that share the work."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bridgehead.bus.access.state_folder import StateFolder
from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.client.participant import Satellite
from bridgehead.bus.interfaces import BusServices
from bridgehead.bus.serve import BusServer
from bridgehead.bus.settings import BusSettings
from bridgehead.bus.sockets.dial import ConnectionEnded
from bridgehead.bus.transports.nats_client import (
    NatsAccess,
    NatsUnreachable,
    Subjects,
    open_nats,
    token,
    untoken,
)
from bridgehead.bus.wire.message import Message
from bus.support.gateways import next_message
from bus.support.nats_servers import enrol_everywhere, hub_of, nats_server, needs_nats
from bus.support.running import run, until
from bus.support.serving import Served, served_bus

pytestmark = [pytest.mark.peer]


@pytest.mark.parametrize(
    "identifier", ["", "a", "kitchen", "a.b *>", "ü/\x00", "x" * 200]
)
def test_any_identifier_becomes_one_token_and_back(identifier: str) -> None:
    made = token(identifier)
    assert made and not set(made) & set(". *>/\x00 =") and made == made.lower()
    assert untoken(made) == identifier


def test_subjects_are_those_of_the_specification() -> None:
    subjects = Subjects("home")
    assert subjects.said_by("sat.1") == f"bh.home.in.{token('sat.1')}"
    assert subjects.for_source("sat.1") == f"bh.home.out.{token('sat.1')}"
    assert subjects.for_site("hall") == f"bh.home.site.{token('hall')}"


def test_whoever_stops_dialling_leaves_no_connection_behind() -> None:
    async def main() -> None:
        came, gone, lost = asyncio.Event(), asyncio.Event(), list[str]()

        async def say_nothing(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            came.set()
            await reader.read()
            gone.set()
            writer.close()

        async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
            access = NatsAccess.parse(
                f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            )
            dialling = asyncio.ensure_future(
                open_nats(access, lost.append, name="test")
            )
            await came.wait()
            for _ in range(
                100
            ):  # until it waits for the first word: wait_for of 3.11 forgets that it was cancelled
                await asyncio.sleep(0)
            dialling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await dialling
            await gone.wait()
        assert not lost

    run(main())


@needs_nats
def test_satellites_at_two_bridges_are_answered_by_hubs_that_share_the_work(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        agents = [ScriptedAgent(), ScriptedAgent()]
        async with (
            nats_server(tmp_path / "nats") as nats,
            hub_of(nats.url, tmp_path / "hub1", agent=agents[0]),
            hub_of(nats.url, tmp_path / "hub2", agent=agents[1]),
            served_bus(tmp_path / "b1", hub=nats.url) as one,
            served_bus(tmp_path / "b2", hub=nats.url) as two,
        ):
            satellites = [await one.satellite("kitchen"), await two.satellite("study")]
            for number in range(20):
                for satellite in satellites:
                    spoken = await satellite.ask(f"{satellite.participant} {number}")
                    assert spoken.text == f"You said: {satellite.participant} {number}"
            for satellite in satellites:
                await satellite.close()
        asked = [len(agent.asked) for agent in agents]
        assert sum(asked) == 40 and min(asked) > 0

    run(main())


@needs_nats
def test_a_participant_that_moves_to_another_bridge_keeps_everything(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with (
            nats_server(tmp_path / "nats") as nats,
            hub_of(nats.url, tmp_path / "hub") as hub,
            served_bus(tmp_path / "b1", hub=nats.url) as one,
            served_bus(tmp_path / "b2", hub=nats.url) as two,
        ):
            heard: list[Message] = []
            assert hub.hub is not None
            hub.hub.listen(heard.append)
            here, there = enrol_everywhere([one, two], "host", role="skill_host")
            first = await Satellite.connect(here, claimed_id="lamp-pi")
            await first.send(Message("ovos.skill.loaded", {"skill_id": "lamp"}))
            await until(lambda: len(heard) == 1)
            await one.relay.saved()
            await until(
                lambda: (
                    two.relay.bridge.known.get("host") is None and _knows(two, "host")
                )
            )
            second = await Satellite.connect(there)
            assert second.source == "lamp-pi"
            with pytest.raises(ConnectionEnded) as ended:
                await first.receive()
            assert ended.value.reason == "replaced"
            await until(lambda: len(one.relay.bridge.known) == 0)
            await until(lambda: follows(two, "lamp-pi"))
            # A broadcast in its session finds it at its new place, under its own session id.
            session = heard[0].context["session"]
            hub.hub.publish(Message("lamp:on", {}, {"session": session}))
            dispatched = await next_message(second)
            assert dispatched.type == "lamp:on"
            assert dispatched.context["session"] == {"session_id": "default"}
            assert [m.type for m in heard] == ["ovos.skill.loaded", "lamp:on"]
            await second.close()
            await until(lambda: heard[-1].type == "ovos.skill.deregister")

    run(main())


@needs_nats
def test_speech_for_a_participant_that_just_left_another_bridge_is_reported_and_once(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with (
            nats_server(tmp_path / "nats") as nats,
            hub_of(nats.url, tmp_path / "hub") as hub,
            served_bus(tmp_path / "b1", hub=nats.url) as bridge,
        ):
            heard: list[Message] = []
            assert hub.hub is not None and hub._registry is not None
            hub.hub.listen(heard.append)
            owner_of = hub._registry.owners.owner_of
            kitchen = await bridge.satellite("kitchen")
            await until(
                lambda: owner_of("kitchen") == "kitchen" and follows(bridge, "kitchen")
            )
            await until(lambda: hub._registry.is_elsewhere("kitchen"))
            speech = Message(
                "ovos.utterance.speak",
                {"utterance": "hello"},
                {"source": "x", "destination": "kitchen"},
            )
            hub.hub.publish(speech)
            assert await next_message(kitchen) == speech
            await kitchen.close()
            await until(lambda: not follows(bridge, "kitchen"))
            assert hub._registry.is_elsewhere("kitchen"), (
                "its presence ends by itself, later"
            )
            absent = {"participant": "kitchen", "reason": "absent"}
            hub.hub.publish(speech)
            await until(lambda: reports(heard) == [absent])
            hub.hub.publish(speech)
            await until(lambda: reports(heard) == [absent, absent])

            await bridge.satellite("hall")
            await bridge.satellite("attic")
            for name in ("hall", "attic"):
                await until(
                    lambda name=name: (
                        hub._registry.is_elsewhere(name) and owner_of(name) == name
                    )
                )
            nats.stop()
            await until(lambda: hub.fabric_link._dialled._client.is_closed)
            hub.hub.publish(
                Message(
                    speech.type, speech.data, {"source": "x", "destination": "hall"}
                )
            )
            await until(
                lambda: (
                    reports(heard)[2:] == [{"participant": "hall", "reason": "absent"}]
                )
            )
            await until(lambda: not hub._registry.reaches_others)
            hub.hub.publish(
                Message(
                    speech.type, speech.data, {"source": "x", "destination": "attic"}
                )
            )
            await until(
                lambda: (
                    reports(heard)[3:] == [{"participant": "attic", "reason": "absent"}]
                )
            )

    def reports(heard: list[Message]) -> list[dict[str, object]]:
        return [
            message.data
            for message in heard
            if message.type == "bridgehead.undelivered"
        ]

    run(main())


@needs_nats
def test_whoever_speaks_learns_at_any_hub_that_it_did_not_arrive(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with (
            nats_server(tmp_path / "nats") as nats,
            hub_of(nats.url, tmp_path / "hub") as hub,
            hub_of(nats.url, tmp_path / "far", max_held=1) as far,
            served_bus(tmp_path / "b1", hub=nats.url, max_held=1) as bridge,
        ):
            heard: list[Message] = []
            assert hub.hub is not None and hub._registry is not None
            hub.hub.listen(heard.append)

            def send(to: str, topic: str = "ovos.utterance.speak") -> None:
                hub.hub.publish(
                    Message(topic, {}, {"source": "bridgehead-cli", "destination": to})
                )  # type: ignore[union-attr]

            def reports() -> list[tuple[object, object]]:
                told = [
                    message.data
                    for message in heard
                    if message.type == "bridgehead.undelivered"
                ]
                return [(data["participant"], data["reason"]) for data in told]

            for at, name in ((far, "den"), (bridge, "attic")):
                satellite = await at.satellite(name)
                await until(
                    lambda at=at, name=name: (
                        follows(at, name) and hub._registry.is_elsewhere(name)
                    )
                )
                heard.clear()
                send(name, "system.reboot")
                await until(lambda name=name: reports() == [(name, "hardened")])
                satellite._conversation.peer.abort()
                await until(
                    lambda at=at, name=name: (
                        not at.relay.bridge.known.get(name).connected
                    )
                )
                send(name)
                send(name)
                await until(
                    lambda name=name: reports()[1:] == [(name, "hold_overflow")]
                )
            heard.clear()
            send("nobody")
            await until(lambda: reports() == [("nobody", "absent")])

    run(main())


def follows(server: Served, name: str) -> bool:
    """Whether the fabric brings this server what is for this source or site."""
    subjects = Subjects("home")
    carrier = (
        server.relay._transport if server.hub is None else server.fabric_link._dialled
    )
    followed = carrier._follower.followed
    return subjects.for_source(name) in followed or subjects.for_site(name) in followed


def _knows(server: Served, participant: str) -> bool:
    registry = server._registry
    return (
        registry is not None
        and bool(registry.skills.get(participant))
        and participant in registry.sources
    )


@needs_nats
def test_skills_of_a_bridge_that_died_are_cleaned_up_exactly_once(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with (
            nats_server(tmp_path / "nats") as nats,
            hub_of(nats.url, tmp_path / "hub", grace_s=1) as hub,
            served_bus(tmp_path / "b2", hub=nats.url, grace_s=1) as two,
            served_bus(tmp_path / "b3", hub=nats.url, grace_s=1) as three,
        ):
            others = (two, three)
            heard: list[Message] = []
            assert hub.hub is not None
            hub.hub.listen(heard.append)
            async with served_bus(tmp_path / "b1", hub=nats.url, grace_s=1) as dying:
                satellite = await dying.satellite("host", role="skill_host")
                await satellite.send(Message("ovos.skill.loaded", {"skill_id": "lamp"}))
                await until(lambda: len(heard) == 1)
                await until(lambda: _knows(two, "host"))
                # It stops without a goodbye to the hub, as a killed process would.
                dying.relay.bridge.hub_lost()
            await until(lambda: any(m.type == "ovos.skill.deregister" for m in heard))
            await until(lambda: not any(_knows(other, "host") for other in others))
            assert [m.type for m in heard] == [
                "ovos.skill.loaded",
                "ovos.skill.deregister",
            ]
            assert (
                heard[1].context["session"]["session_id"]
                == heard[0].context["session"]["session_id"]
            )

    run(main())


@needs_nats
def test_a_group_reaches_its_members_at_every_bridge(tmp_path: Path) -> None:
    async def main() -> None:
        options: dict[str, Any] = {"routing": ["destination", "session_id", "site_id"]}
        async with (
            nats_server(tmp_path / "nats") as nats,
            hub_of(nats.url, tmp_path / "hub") as hub,
            served_bus(tmp_path / "b1", hub=nats.url, **options) as one,
            served_bus(tmp_path / "b2", hub=nats.url, **options) as two,
        ):
            members = []
            for bridge, name, site in (
                (one, "a", "home"),
                (two, "b", "home"),
                (two, "c", "office"),
            ):
                member = await bridge.satellite(name, site_determination=site)
                await member.send(Message("ovos.listener.record.started"))
                members.append(member)
            await until(
                lambda: (
                    follows(one, "home")
                    and follows(two, "home")
                    and follows(two, "office")
                )
            )
            assert hub.hub is not None
            hub.hub.publish(
                Message(
                    "ovos.stop", {}, {"session": {"session_id": "x", "site_id": "home"}}
                )
            )
            for member in members[:2]:
                assert (await next_message(member)).type == "ovos.stop"
            assert two.relay.counters.of("c")["out delivered"] == 0
            for member in members:
                await member.close()

    run(main())


async def _heard_after_saying(
    message: Message, speaker: Satellite, listener: Satellite
) -> dict[str, Any]:
    """Say it until it is heard: the other hub learns of a participant in its own time, and nothing is kept for it."""
    while True:
        await speaker.send(message)
        try:
            async with asyncio.timeout(1):
                return (await next_message(listener)).data
        except TimeoutError:
            continue


@needs_nats
def test_participants_of_two_serving_hubs_can_write_to_each_other(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with (
            nats_server(tmp_path / "nats") as nats,
            hub_of(nats.url, tmp_path / "h1") as one,
            hub_of(nats.url, tmp_path / "h2") as two,
        ):
            grants = {"peer_messaging": True}
            kitchen = await one.satellite("kitchen", publish=["*"], grants=grants)
            study = await two.satellite("study")
            await until(lambda: follows(two, "study"))
            whisper = Message(
                "ovos.utterance.speak",
                {"utterance": "psst"},
                {"destination": "study", "session": {"session_id": "s"}},
            )
            assert await _heard_after_saying(whisper, kitchen, study) == {
                "utterance": "psst"
            }
            await kitchen.close()
            await study.close()

    run(main())


@needs_nats
def test_a_nats_server_that_vanishes_and_returns(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            nats_server(tmp_path / "nats") as nats,
            served_bus(tmp_path / "b1", hub=nats.url) as one,
        ):
            satellite = await one.satellite("kitchen")
            nats.stop()
            await until(lambda: str(one.link.health.state) == "transient_disconnect")
            await satellite.send(Message("ovos.stop"))
            await until(
                lambda: one.relay.counters.outcomes["in", "dropped", "hub_down"] == 1
            )
            await nats.start()
            await one.link.connected()
            await satellite.send(Message("ovos.stop"))
            await until(lambda: one.relay.counters.outcomes["in", "delivered", ""] == 1)
            await satellite.close()

    run(main())


@needs_nats
def test_a_message_too_large_for_the_server_is_dropped_and_nothing_else(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with (
            nats_server(tmp_path / "nats") as nats,
            served_bus(tmp_path / "b1", hub=nats.url) as one,
        ):
            satellite = await one.satellite(
                "kitchen", limits={"max_frame_bytes": 4_000_000}
            )
            await satellite.send(
                Message("ovos.utterance.handle", {"utterances": ["x" * 1_500_000]})
            )
            await satellite.send(Message("ovos.stop"))
            await until(lambda: one.relay.counters.total == 3)
            outcomes = one.relay.counters.outcomes
            assert outcomes["in", "dropped", "hub_down"] == 1
            assert outcomes["in", "delivered", ""] == 1
            await satellite.close()

    run(main())


@needs_nats
def test_a_server_without_jetstream_is_refused_with_what_to_do(tmp_path: Path) -> None:
    async def main() -> None:
        async with nats_server(tmp_path / "nats", "-m", "0") as nats:
            secret = nats.url.replace("//", "//bridge:hunter2@")
            with pytest.raises(NatsUnreachable, match="-js") as refused:
                async with served_bus(tmp_path / "b1", hub=secret):
                    pass
            assert nats.url in str(refused.value) and "hunter2" not in str(
                refused.value
            )

    run(main())


def test_an_address_is_shown_without_what_opens_it(tmp_path: Path) -> None:
    settings = BusSettings.parse({"hub": "nats://bridge:hunter2@127.0.0.1:4222/x"})
    server = BusServer(settings, StateFolder(tmp_path), BusServices())

    assert server.hub_url == "nats://127.0.0.1:4222/x"
    refused = NatsUnreachable("nats://bridge:hunter2@127.0.0.1:4222", "no answer")
    assert str(refused) == "nats://127.0.0.1:4222 cannot be reached: no answer"
