"""Clients come back by themselves: to the same bridge, to another one, with their session and their open question."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridgehead.bus.access.enrolment import revoke
from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.client import participant as client
from bridgehead.bus.client.hub_client import HubClient
from bridgehead.bus.client.participant import (
    NotAdmitted,
    Satellite,
    SendRefused,
    Spoken,
)
from bridgehead.bus.interfaces import AgentAnswer, AgentQuestion
from bridgehead.bus.sockets.dial import ConnectionEnded
from bridgehead.bus.wire.message import Message
from bus.support.gateways import next_message
from bus.support.nats_servers import enrol_everywhere, hub_of, nats_server, needs_nats
from bus.support.running import free_port, run, until
from bus.support.serving import Served, served_bus


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(client, "LONGEST_WAIT_S", 0.1)


def cut(server: Served, participant: str) -> None:
    connection: Any = server.relay._connections[participant]
    connection.cut_off()


class Waiting:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go_on = asyncio.Event()

    async def ask(self, question: AgentQuestion) -> AgentAnswer:
        self.asked.append(question.text)
        await self.go_on.wait()
        return AgentAnswer(f"you said {question.text}")


async def cut_while_asking(
    server: Served, agent: Waiting
) -> tuple[Satellite, asyncio.Task[Spoken]]:
    """A satellite that lost its connection with a question open, and is back."""
    satellite = await server.satellite("kitchen")
    heard: list[str] = []
    satellite.report = heard.append
    asking = asyncio.create_task(satellite.ask("why"))
    await until(lambda: agent.asked == ["why"])
    cut(server, "kitchen")
    await until(lambda: heard[-1:] == ["connected again"])
    return satellite, asking


def test_a_lost_connection_is_made_again_and_an_open_question_is_asked_once(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        agent = Waiting()
        async with served_bus(tmp_path, agent=agent) as server:
            satellite, asking = await cut_while_asking(server, agent)
            agent.go_on.set()
            assert (await asking).text == "you said why"
            assert agent.asked == ["why"]
            twins = server.relay.counters.outcomes["in", "dropped", "twin"]
            assert twins == 1, "it was sent again, and taken for the same one"
            assert (await satellite.ask("and now")).text == "you said and now"
            await satellite.close()

    run(main())


def test_an_answer_that_waited_for_the_reconnect_is_not_asked_for_again(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        agent = Waiting()
        async with served_bus(tmp_path, agent=agent) as server:
            satellite = await server.satellite("kitchen")
            asking = asyncio.create_task(satellite.ask("why"))
            await until(lambda: agent.asked == ["why"])
            async with satellite._turn:  # it notices the loss, and waits here
                cut(server, "kitchen")
                known = server.relay.bridge.known.get("kitchen")
                assert known is not None
                await until(lambda: not known.connected)
                agent.go_on.set()
                await until(lambda: len(known.held) == 2)
            assert (await asking).text == "you said why"
            await until(
                lambda: server.relay.counters.outcomes["in", "dropped", "twin"] == 1
            )
            assert agent.asked == ["why"]
            await satellite.close()

    run(main())


def test_an_answer_that_was_on_its_way_when_the_connection_broke_is_asked_for_again(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        agent = ScriptedAgent()
        async with served_bus(tmp_path, agent=agent) as server:
            satellite = await server.satellite("kitchen")
            connection: Any = server.relay._connections["kitchen"]
            connection.deliver = lambda delivery: (
                connection.cut_off()
            )  # taken by the system, and never read
            assert (await satellite.ask("why")).text == "You said: why"
            assert [question.text for question in agent.asked] == ["why", "why"]
            await satellite.close()

    run(main())


def test_a_bus_that_is_started_again_is_asked_again(tmp_path: Path) -> None:
    async def main() -> None:
        agent = Waiting()
        places = {
            "listen": f"127.0.0.1:{free_port()}",
            "hub_listen": f"127.0.0.1:{free_port()}",
        }
        async with served_bus(tmp_path, agent=agent, **places) as server:
            satellite = await server.satellite("kitchen")
            satellite.session = {"session_id": "mine", "lang": "de-DE"}
            member = await HubClient.connect(server.hub_url)
            asking = asyncio.create_task(satellite.ask("why"))
            await until(lambda: agent.asked == ["why"])
        async with served_bus(tmp_path, agent=ScriptedAgent(), **places):
            spoken = await asking
            assert (spoken.text, spoken.handled) == ("You said: why", True)
            assert satellite.session == {"session_id": "mine", "lang": "de-DE"}
            assert (await member.ask("hello")).text == "You said: hello"
            await satellite.close()
            await member.close()

    run(main())


def test_whoever_was_sent_away_does_not_come_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bus(tmp_path) as server:
            satellite = await server.satellite("kitchen")
            revoke(server.folder, "kitchen")
            server.gateway.reload()
            with pytest.raises(ConnectionEnded) as ended:
                await satellite.receive()
            assert ended.value.reason == "revoked"
            away = await server.satellite("study")
            cut(server, "study")
            await until(
                lambda: "study" not in server.relay.connected
            )  # it comes back when it listens again
            revoke(server.folder, "study")
            server.gateway.reload()
            with pytest.raises(NotAdmitted):
                await away.receive()

    run(main())


def test_another_address_is_tried_where_the_first_does_not_answer(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bus(tmp_path, agent=ScriptedAgent()) as server:
            join = server.enrol("kitchen")
            dead = f"ws://127.0.0.1:{free_port()}/bridge/v1"
            both = msgspec.structs.replace(join, url=dead, alternatives=(join.url,))
            satellite = await Satellite.connect(both)
            assert (await satellite.ask("hello")).text == "You said: hello"
            await satellite.close()

    run(main())


@pytest.mark.peer
@needs_nats
def test_a_satellite_moves_to_another_bridge_with_its_name_and_its_question(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        agent = Waiting()
        async with (
            nats_server(tmp_path / "nats") as nats,
            hub_of(nats.url, tmp_path / "hub", agent=agent),
            served_bus(tmp_path / "b2", hub=nats.url) as two,
        ):
            async with served_bus(tmp_path / "b1", hub=nats.url) as one:
                here, there = enrol_everywhere([one, two], "kitchen")
                join = msgspec.structs.replace(here, alternatives=(there.url,))
                satellite = await Satellite.connect(join, claimed_id="lamp-pi")
                registry = two._registry
                assert registry is not None
                await until(lambda: registry.sources.get("kitchen") == "lamp-pi")
                asking = asyncio.create_task(satellite.ask("why"))
                await until(lambda: agent.asked == ["why"])
            await until(lambda: two.relay.bridge.known.get("kitchen") is not None)
            agent.go_on.set()
            assert (await asking).text == "you said why"
            assert satellite.source == "lamp-pi"
            assert (await satellite.ask("still")).text == "you said still"
            await satellite.close()

    run(main())


def test_words_that_were_heard_before_the_connection_broke_are_not_there_twice(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        agent = Waiting()
        async with served_bus(tmp_path, agent=agent) as server:
            satellite = await server.satellite("kitchen")
            heard: list[str] = []
            adopt = satellite._adopt
            satellite.report = heard.append
            satellite._adopt = lambda message: (
                heard.append(message.type),
                adopt(message),
            )[1]  # type: ignore[method-assign]
            asking = asyncio.create_task(satellite.ask("why"))
            await until(lambda: agent.asked == ["why"])
            assert satellite._open is not None and server.hub is not None
            context = {
                "destination": "kitchen",
                "utterance_id": satellite._open.context["utterance_id"],
            }
            for said in ("first of all", "you said why"):
                server.hub.publish(
                    Message("ovos.utterance.speak", {"utterance": said}, context)
                )
            await until(lambda: heard == ["ovos.utterance.speak"] * 2)
            cut(server, "kitchen")
            await until(lambda: heard[-1:] == ["connected again"])
            agent.go_on.set()
            assert (await asking).text == "first of all\nyou said why"
            await satellite.close()

    run(main())


@pytest.mark.parametrize("follows", [True, False])
def test_an_end_without_words_is_not_the_answer_to_a_question_that_was_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, follows: bool
) -> None:
    monkeypatch.setattr(client, "SECOND_ANSWER_S", 60.0 if follows else 0.05)

    async def main() -> None:
        agent = Waiting()
        async with served_bus(tmp_path, agent=agent) as server:
            satellite, asking = await cut_while_asking(server, agent)
            assert satellite._open is not None and server.hub is not None
            # as it is where the words came to a bridge that we had left
            ended = {
                "destination": "kitchen",
                "utterance_id": satellite._open.context["utterance_id"],
            }
            server.hub.publish(Message("ovos.utterance.handled", {}, ended))
            if follows:
                agent.go_on.set()
            spoken = await asking
            assert (spoken.text, spoken.handled) == (
                "you said why" if follows else "",
                True,
            )
            agent.go_on.set()
            await satellite.close()

    run(main())


def test_a_refused_question_is_not_sent_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bus(tmp_path) as server:
            satellite = await server.satellite("kitchen")
            server.relay.lost("gone")
            with pytest.raises(SendRefused):
                await satellite.ask("why")
            server.relay.opened()
            cut(server, "kitchen")
            assert server.hub is not None
            await until(
                lambda: server.relay.bridge.known.get("kitchen").connected is False
            )
            server.hub.publish(
                Message(
                    "ovos.utterance.speak",
                    {"utterance": "hi"},
                    {"destination": "kitchen"},
                )
            )
            assert (await next_message(satellite)).data == {"utterance": "hi"}
            assert server.relay.counters.outcomes["in", "delivered", ""] == 0
            await satellite.close()

    run(main())
