"""The bus as an application service of a real Synapse: rooms, invitations, tokens, and restarts."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.gateway.doors.matrix_appservice import (
    TRANSACTION_BYTES,
    registration_in,
)
from bridgehead.errors import ConfigError
from bus.support.matrix_people import Person, SlowAgent, body
from bus.support.running import free_port, run, until
from bus.support.serving import Served, http, served_bus
from bus.support.synapse import SERVER, Synapse, running_synapse
from support.console_blocks import steps
from support.installed import Machine, machine

pytestmark = [
    pytest.mark.peer,
    pytest.mark.xdist_group("synapse"),
]  # one server for each file
pytest.importorskip("nio", reason="the extra matrix is not installed")
DEADLINE_S = 300.0
GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "matrix.md"
NAMES = ("rooms", "again", "tokens", "closed")


class Service:
    """A registration that the server knows, and the port at which it calls."""

    def __init__(self, folder: Path, name: str) -> None:
        self.port = free_port()
        self.name = name
        self.path = folder / f"{name}.yaml"
        self.id = f"@{name}:{SERVER}"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class Place:
    """A server, and what it knows."""

    def __init__(self, synapse: Synapse, services: dict[str, Service]) -> None:
        self.synapse = synapse
        self.services = services


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("synapse")
    services = {name: Service(folder, name) for name in (*NAMES, "bridgehead")}
    for name in NAMES:
        registration_in(services[name].path, services[name].url)
        told = services[name].path.read_text().replace("bridgehead", name)
        services[name].path.write_text(told)
    # The last one is made as the guide makes it: by a bus that the server does not know yet.
    with guided_bus(
        services["bridgehead"],
        machine(tmp_path_factory.mktemp("guide")),
        "http://127.0.0.1:9",
    ):
        assert services["bridgehead"].path.stat().st_mode & 0o777 == 0o600
    with running_synapse(
        folder, *(service.path for service in services.values())
    ) as server:
        yield Place(server, services)


@contextmanager
def guided_bus(service: Service, home: Machine, matrix: str) -> Iterator[None]:
    """`bus serve` with the variables that the guide sets, and a port of our own."""
    section = GUIDE.read_text(encoding="utf-8").partition(
        "## As an application service"
    )[2]
    (exported, served) = [
        step.command
        for step in steps(section.replace("```console no-run", "```console"))
    ]
    names = {word.partition("=")[0] for word in exported.split() if "=" in word}
    table = {
        "BRIDGEHEAD_BUS_MATRIX": matrix,
        "BRIDGEHEAD_BUS_MATRIX_ALLOW": f"*:{SERVER}",
    }
    words = served.replace("registration.yaml", str(service.path)).split()
    assert names == set(table) and words[:3] == ["bridgehead", "bus", "serve"]
    ports = {
        "BRIDGEHEAD_BUS_LISTEN": service.port,
        "BRIDGEHEAD_BUS_HUB_LISTEN": free_port(),
    }
    around = {**table, **{name: f"127.0.0.1:{port}" for name, port in ports.items()}}
    process = home.start(*words[1:], "--json", **around)
    try:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline(), process.stderr.read()
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0


class Here:
    """A service, somebody who may talk to it, somebody who may not, and the bus."""

    def __init__(self, place: Place, name: str, path: Path) -> None:
        self.url = place.synapse.url
        self.service = place.services[name]
        self.registration = registration_in(self.service.path, self.service.url)
        self.path = path
        self.ada, self.eve = (Person(place.synapse, kind) for kind in ("ada", "eve"))
        self.bot: Any = Person.__new__(Person)
        self.bot.id = self.service.id

    @asynccontextmanager
    async def bus(self, agent: Any = None) -> AsyncIterator[Served]:
        table = {
            "matrix": self.url,
            "matrix_appservice": str(self.service.path),
            "matrix_allow": [self.ada.id],
            "listen": f"127.0.0.1:{self.service.port}",
        }
        async with served_bus(
            self.path / "bus", agent=agent or ScriptedAgent(), **table
        ) as server:
            await until(lambda: door(server).is_ready)
            yield server

    async def room(self, **more: Any) -> str:
        room = await self.ada.room_with(self.bot, **more)
        await self.ada.comes(self.bot, room, "join")
        return room

    async def brings(
        self, server: Served, name: str, events: Any, token: str | None = None
    ) -> tuple[int, Any]:
        """A transaction, as a server would bring it; without a token of its own with the right one."""
        content = (
            events
            if isinstance(events, bytes)
            else json.dumps({"events": events}).encode()
        )
        token = self.registration.hs_token if token is None else token
        path = f"/_matrix/app/v1/transactions/{name}"
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        status, _headers, answer = await http(
            server.gateway_address, "PUT", path, content, **headers
        )
        return status, json.loads(answer)


def door(server: Served) -> Any:
    return server.relay._connections["matrix"]


def test_rooms_take_part_each_for_itself_and_a_stranger_does_not(
    place: Place, tmp_path: Path
) -> None:
    here = Here(place, "rooms", tmp_path)

    async def main() -> None:
        agent = SlowAgent()
        async with here.bus(agent) as server:
            first, second = await here.room(), await here.room()
            strange = await here.eve.room_with(here.bot)
            await here.eve.comes(here.bot, strange, "leave")

            # More than one participant may have under way at a time: another room is answered all the same.
            for number in range(6):
                await here.ada.say(first, f"slow {number}")
            await until(lambda: len(agent.asked) == 4)
            asked = await here.ada.say(second, "good morning")
            (answer,) = await here.ada.hears(here.bot, second)
            assert body(answer) == "You said: good morning"
            assert answer["content"]["m.relates_to"] == {
                "m.in_reply_to": {"event_id": asked}
            }
            assert len(await here.ada.said_by(here.bot, first)) == 0
            rooms = [
                name
                for name in server.relay.connected
                if name.startswith("chat-matrix-")
            ]
            assert (
                len(rooms) == 2
                and len({question.participant for question in agent.asked}) == 2
            )
            agent.ready.set()
            said = await here.ada.hears(here.bot, first, 6)
            assert sorted(map(body, said)) == [
                f"You said: slow {number}" for number in range(6)
            ]
            assert len(await here.ada.said_by(here.bot, second)) == 1

            # Among others it is spoken to by name, and nobody speaks who is not allowed to.
            await here.ada.call(
                "POST", f"/rooms/{second}/invite", {"user_id": here.eve.id}
            )
            await here.eve.call("POST", f"/rooms/{second}/join", {})
            await here.eve.say(second, "rooms, what did she ask?")
            await here.ada.say(second, "not for you")
            await here.ada.say(second, "hello rooms")
            assert (
                body((await here.ada.hears(here.bot, second, 2))[1])
                == "You said: hello rooms"
            )

            await here.ada.call(
                "POST", f"/rooms/{first}/kick", {"user_id": here.bot.id}
            )
            await until(
                lambda: (
                    len(
                        [
                            name
                            for name in server.relay.connected
                            if name.startswith("chat-")
                        ]
                    )
                    == 1
                )
            )

    run(main(), deadline_s=DEADLINE_S)


def test_after_a_restart_nothing_is_posted_twice_and_nothing_open_is_forgotten(
    place: Place, tmp_path: Path
) -> None:
    here = Here(place, "again", tmp_path)
    state = tmp_path / "bus" / "matrix" / "state.json"

    async def main() -> None:
        agent = SlowAgent()
        async with here.bus(agent) as server:
            room = await here.room()
            await here.ada.say(room, "one")
            await here.ada.hears(here.bot, room)
            await here.ada.say(room, "slow two")
            await until(lambda: len(agent.asked) == 2)
            await until(lambda: b"slow two" in state.read_bytes())
            kept = state.read_bytes()
            agent.ready.set()
            await here.ada.hears(here.bot, room, 2)
        await here.ada.say(room, "three")  # while nobody is there; the server keeps it

        # As if the process had been killed after it had posted and before it had noted that.
        state.write_bytes(kept)
        agent = SlowAgent()
        agent.ready.set()
        async with here.bus(agent) as server:
            said = await here.ada.hears(here.bot, room, 3)
            assert sorted(map(body, said)) == [
                "You said: one",
                "You said: slow two",
                "You said: three",
            ]
            assert sorted(question.text for question in agent.asked) == [
                "slow two",
                "three",
            ]
            await until(lambda: not door(server)._state.brought)

    run(main(), deadline_s=DEADLINE_S)


def test_only_the_server_of_the_registration_is_read_and_each_transaction_counts_once(
    place: Place, tmp_path: Path
) -> None:
    here = Here(place, "tokens", tmp_path)
    state = tmp_path / "bus" / "matrix" / "state.json"

    def said(room: str, text: str, number: int) -> dict[str, Any]:
        content = {"msgtype": "m.text", "body": text}
        head = {
            "type": "m.room.message",
            "room_id": room,
            "sender": here.ada.id,
            "event_id": f"$forged{number}",
        }
        return {**head, "origin_server_ts": 1, "content": content}

    async def main() -> None:
        agent = ScriptedAgent()
        async with here.bus(agent) as server:
            room = await here.room()
            await here.ada.say(room, "hello")
            await here.ada.hears(here.bot, room)
            await until(lambda: not door(server)._state.brought)
            kept = state.read_bytes()
            for wrong in (
                "",
                "wrong",
                here.registration.as_token,
                here.registration.hs_token[:-1],
                "é",
            ):
                assert (
                    await here.brings(server, "t1", [said(room, "forged", 1)], wrong)
                )[0] == 403
            # The answer is there although the body has not even been sent.
            head = {
                "Authorization": "Bearer wrong",
                "Content_Length": str(TRANSACTION_BYTES),
            }
            status, _headers, answer = await http(
                server.gateway_address, "PUT", "/_matrix/app/v1/transactions/t1", **head
            )
            assert (status, json.loads(answer)["errcode"]) == (403, "M_FORBIDDEN")
            assert state.read_bytes() == kept and [
                asked.text for asked in agent.asked
            ] == ["hello"]
            assert (
                server.announcements.of("bus.refused")[0]["reason"]
                == "not_authenticated"
            )

            for nonsense in (b"", b"[]", b'{"events": 7}', b"[" * 100_000):
                assert (await here.brings(server, "t1", nonsense))[0] == 400
            odd = [
                7,
                {},
                {"room_id": 7},
                {"room_id": room},
                {"room_id": room, "content": [], "type": "m.room.message"},
            ]
            elsewhere = said("!nobody:here.test", "hello?", 2)
            many = [
                said("!nobody:here.test", "x" * 50_000, 10 + number)
                for number in range(20)
            ]
            assert await here.brings(
                server, "t1", [*odd, elsewhere, *many, said(room, "once", 3)]
            ) == (200, {})
            assert await here.brings(server, "t1", [said(room, "never", 4)]) == (
                200,
                {},
            )
            await until(lambda: "t1" in json.loads(state.read_bytes())["transactions"])
        async with here.bus(agent) as server:
            assert await here.brings(server, "t1", [said(room, "never", 5)]) == (
                200,
                {},
            )
            assert await here.brings(server, "t2", [said(room, "twice", 6)]) == (
                200,
                {},
            )
            await until(lambda: "twice" in [asked.text for asked in agent.asked])
            assert [asked.text for asked in agent.asked if asked.text != "once"] == [
                "hello",
                "twice",
            ]
            route = "/_matrix/app/v1/"
            for method, path, status in (
                ("GET", f"{route}transactions/t3", 404),
                ("GET", f"{route}users/@other:{SERVER}", 404),
                ("GET", f"{route}rooms/%23room:{SERVER}", 404),
                ("GET", "/_matrix/client/versions", 404),
            ):
                token = f"Bearer {here.registration.hs_token}"
                assert (
                    await http(
                        server.gateway_address, method, path, Authorization=token
                    )
                )[0] == status, path
            assert (
                await http(
                    server.gateway_address, "GET", f"{route}users/@other:{SERVER}"
                )
            )[0] == 403

    run(main(), deadline_s=DEADLINE_S)


def test_in_an_encrypted_room_it_says_once_that_it_cannot_read_and_nothing_else(
    place: Place, tmp_path: Path
) -> None:
    here = Here(place, "closed", tmp_path)

    async def main() -> None:
        agent = ScriptedAgent()
        async with here.bus(agent) as server:
            encryption = {
                "type": "m.room.encryption",
                "content": {"algorithm": "m.megolm.v1.aes-sha2"},
            }
            secret = await here.room(initial_state=[encryption])
            await here.ada.say(secret, "in the clear by mistake")
            (answer,) = await here.ada.hears(here.bot, secret)
            assert body(answer).startswith("I cannot read encrypted rooms")
            await here.ada.say(secret, "again")
            door(server).speak(secret, "nothing of this", None, is_open=False)
            plain = await here.room()
            await here.ada.say(plain, "hello")
            await here.ada.hears(here.bot, plain)
            await asyncio.wait(tuple(door(server)._sending.values()))
            assert len(await here.ada.said_by(here.bot, secret)) == 1
            assert [question.text for question in agent.asked] == ["hello"]

    run(main(), deadline_s=DEADLINE_S)


def test_a_registration_is_private_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "registration.yaml"
    made = registration_in(path, "http://127.0.0.1:1")
    assert path.stat().st_mode & 0o777 == 0o600
    assert (
        len({made.as_token, made.hs_token}) == 2
        and min(len(made.as_token), len(made.hs_token)) >= 43
    )
    assert registration_in(path, "http://127.0.0.1:2") == made


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "as_token: 1",
        "as_token: a\nhs_token: ''\nsender_localpart: b",
        "? [a, b]\n: c",
        "\xff",
    ],
)
def test_a_file_that_is_no_registration_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "registration.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match="is not the registration"):
        registration_in(path, "http://127.0.0.1:1")


def test_the_guide_does_what_it_shows(place: Place, tmp_path: Path) -> None:
    service = place.services["bridgehead"]

    async def main() -> None:
        ada, bot = Person(place.synapse, "ada"), Person.__new__(Person)
        bot.id = service.id
        room = await ada.room_with(bot)
        await ada.comes(bot, room, "join")
        await ada.say(room, "hello")
        assert [body(event) for event in await ada.hears(bot, room)] == [
            "You said: hello"
        ]

    with guided_bus(service, machine(tmp_path), place.synapse.url):
        run(main(), deadline_s=DEADLINE_S)
