"""The Matrix door against a real Synapse: rooms, threads, edits, invitations, encryption, and restarts."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.bus.bus import RecordApprovals
from bridgehead.assembly.bus.notices import RecordNotices
from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.gateway.doors.door import STOP_WORDS
from bridgehead.bus.interfaces import AgentAnswer, AgentQuestion
from bridgehead.bus.settings import BusSettings
from bridgehead.errors import UserError
from bus.support.matrix_people import Person, SlowAgent, body
from bus.support.records import asked, assembled, kept
from bus.support.running import free_port, run, until
from bus.support.serving import Served, served_bus
from bus.support.synapse import PYTHON, SERVER, Synapse, running_synapse
from support.console_blocks import Step, environment, matches, steps
from support.console_blocks import run as run_steps
from support.installed import Machine, machine

pytestmark = [
    pytest.mark.peer,
    pytest.mark.xdist_group("synapse"),
]  # one server for each file
nio = pytest.importorskip("nio", reason="the extra matrix is not installed")
DEADLINE_S = 300.0
GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "matrix.md"


@pytest.fixture(scope="module")
def synapse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Synapse]:
    with running_synapse(tmp_path_factory.mktemp("synapse")) as server:
        yield server


class Here:
    """A bot, its friend, and a bus with its door."""

    def __init__(self, synapse: Synapse, path: Path) -> None:
        self.url = synapse.url
        self.path = path
        self.bot, self.ada, self.eve = (
            Person(synapse, kind) for kind in ("bot", "ada", "eve")
        )

    @asynccontextmanager
    async def bus(self, agent: Any = None, **table: Any) -> AsyncIterator[Served]:
        door = {
            "matrix": self.url,
            "matrix_token": self.bot.token,
            "matrix_allow": [self.ada.id],
        }
        async with served_bus(
            self.path / "bus", agent=agent or ScriptedAgent(), **door, **table
        ) as server:
            connection: Any = server.relay._connections["matrix"]
            await until(lambda: connection.is_ready)
            yield server

    async def room(self, **more: Any) -> str:
        room = await self.ada.room_with(self.bot, **more)
        await self.ada.comes(self.bot, room, "join")
        return room


@pytest.fixture
def here(synapse: Synapse, tmp_path: Path) -> Here:
    return Here(synapse, tmp_path)


def test_a_person_invites_asks_and_is_answered_and_a_stranger_is_not(
    here: Here,
) -> None:
    async def main() -> None:
        agent = SlowAgent()
        async with here.bus(agent):
            room = await here.room()
            since = (await here.ada.call("GET", "/sync", timeout=0))["next_batch"]
            asked = await here.ada.say(room, "slow morning")
            seen: dict[str, Any] = {}
            while not {"m.typing", "m.receipt"} <= seen.keys():
                synced = await here.ada.call("GET", "/sync", timeout=1000, since=since)
                since = synced["next_batch"]
                here_now = (
                    synced.get("rooms", {})
                    .get("join", {})
                    .get(room, {"ephemeral": {"events": []}})
                )
                for event in here_now["ephemeral"]["events"]:
                    seen[event["type"]] = event["content"]
            assert (
                seen["m.typing"] == {"user_ids": [here.bot.id]}
                and asked in seen["m.receipt"]
            )
            agent.ready.set()
            (answer,) = await here.ada.hears(here.bot, room)
            assert body(answer) == "You said: slow morning"
            assert answer["content"]["m.relates_to"] == {
                "m.in_reply_to": {"event_id": asked}
            }

            strange = await here.eve.room_with(here.bot)
            await here.eve.comes(here.bot, strange, "leave")
            await here.ada.call(
                "POST", f"/rooms/{room}/invite", {"user_id": here.eve.id}
            )
            await here.eve.call("POST", f"/rooms/{room}/join", {})
            await here.eve.say(room, f"{here.bot.name}, what did she ask?")
            await here.ada.say(room, "not for you")
            await here.ada.say(room, f"hello {here.bot.name}")
            heard = await here.ada.hears(here.bot, room, 2)
            assert body(heard[1]) == f"You said: hello {here.bot.name}"
            assert [question.text for question in agent.asked] == [
                "slow morning",
                f"hello {here.bot.name}",
            ]

    run(main(), deadline_s=DEADLINE_S)


def test_a_thread_is_a_conversation_of_its_own_and_an_edit_changes_the_answer(
    here: Here,
) -> None:
    async def main() -> None:
        agent = ScriptedAgent()
        async with here.bus(agent):
            room = await here.room()
            root = await here.ada.say(room, "first")
            await here.ada.hears(here.bot, room)
            thread = {"rel_type": "m.thread", "event_id": root}
            inside = await here.ada.say(room, "second", **{"m.relates_to": thread})
            answers = await here.ada.hears(here.bot, room, 2)
            relation = answers[1]["content"]["m.relates_to"]
            assert (relation["rel_type"], relation["event_id"]) == ("m.thread", root)
            assert relation["m.in_reply_to"] == {"event_id": inside}
            assert (
                agent.asked[0].session_id != agent.asked[1].session_id
                and agent.asked[1].earlier == ()
            )

            changed = {"msgtype": "m.text", "body": "first, corrected"}
            replaces = {"rel_type": "m.replace", "event_id": root}
            await here.ada.say(
                room,
                "* first, corrected",
                **{"m.new_content": changed, "m.relates_to": replaces},
            )
            edited = (await here.ada.hears(here.bot, room, 3))[2]["content"]
            assert edited["m.new_content"]["body"] == "You said: first, corrected"
            assert edited["m.relates_to"] == {
                "rel_type": "m.replace",
                "event_id": answers[0]["event_id"],
            }

    run(main(), deadline_s=DEADLINE_S)


def test_a_pending_question_is_posted_once_in_each_room_and_answered_there(
    here: Here,
) -> None:
    async def main() -> None:
        assembly = assembled(here.path)
        async with served_bus(here.path / "bus") as server:
            server.enrol(
                "matrix",
                mode="manage",
                role="opaque",
                grants={"notices": True, "approve": True},
            )
        agent = ScriptedAgent()
        async with here.bus(
            agent, approvals=RecordApprovals(assembly), notices=RecordNotices(assembly)
        ) as server:
            room = await here.room()
            await until(
                lambda: any(
                    name.startswith("chat-matrix-") for name in server.relay.connected
                )
            )
            item = asked(assembly, "deploy", prompt="Deploy?\nBuild 812 passed.")
            (told,) = await here.ada.hears(here.bot, room)
            assert body(told).splitlines()[1:] == [
                "Build 812 passed.",
                "To answer, say: answer yes or answer no",
            ]
            await here.ada.say(room, f"answer {item.id} no")
            answers = await here.ada.hears(here.bot, room, 2)
            assert (
                body(answers[1]) == f"{item.id} was answered: no" and agent.asked == []
            )
            assert (
                answer := kept(assembly, item).answer
            ) is not None and answer.text == "no"
            assert answer.by.startswith("bus chat-matrix-")

    run(main(), deadline_s=DEADLINE_S)


def test_media_are_refused_politely_and_nonsense_is_left_out(here: Here) -> None:
    async def main() -> None:
        agent = ScriptedAgent()
        async with here.bus(agent):
            room = await here.room()
            picture = await here.ada.send(
                room,
                {"msgtype": "m.image", "body": "cat.png", "url": "mxc://here.test/abc"},
            )
            (answer,) = await here.ada.hears(here.bot, room)
            assert body(answer) == "I can only read text."
            assert (
                answer["content"]["m.relates_to"]["m.in_reply_to"]["event_id"]
                == picture
            )
            await here.ada.send(room, {"msgtype": "m.notice", "body": "a bot says"})
            await here.ada.say(
                room,
                "* x",
                **{"m.new_content": 7, "m.relates_to": {"rel_type": "m.replace"}},
            )
            await here.ada.say(room, "", **{"m.relates_to": [7]})
            await here.ada.say(room, "still there?")
            assert (
                body((await here.ada.hears(here.bot, room, 2))[1])
                == "You said: still there?"
            )
            assert [question.text for question in agent.asked] == ["still there?"]

    run(main(), deadline_s=DEADLINE_S)


def test_after_a_restart_nothing_is_posted_twice_and_nothing_open_is_forgotten(
    here: Here,
) -> None:
    state = here.path / "bus" / "matrix" / "state.json"

    async def main() -> None:
        agent = SlowAgent()
        async with here.bus(agent):
            room = await here.room()
            one = await here.ada.say(room, "one")
            await here.ada.hears(here.bot, room)
            await until(
                lambda: one in state.read_text()
            )  # it is noted after it is posted
            kept = state.read_bytes()
            await here.ada.say(room, "two")
            await here.ada.hears(here.bot, room, 2)
            await here.ada.say(room, "slow three")
            await until(lambda: len(agent.asked) == 3)
        await here.ada.say(room, "four")  # while nobody is there

        agent = SlowAgent()
        agent.ready.set()
        async with here.bus(agent):
            said = await here.ada.hears(here.bot, room, 4)
            assert sorted(map(body, said)) == [
                f"You said: {word}" for word in ("four", "one", "slow three", "two")
            ]
            assert sorted(question.text for question in agent.asked) == [
                "four",
                "slow three",
            ]

        # A process that was killed after it had posted and before it had noted that: it asks again, and posts nothing.
        state.write_bytes(kept)
        agent = SlowAgent()
        agent.ready.set()
        async with here.bus(agent):
            await here.ada.say(room, "five")
            await until(lambda: "five" in [question.text for question in agent.asked])
            said = await here.ada.hears(here.bot, room, 5)
            assert sorted(map(body, said))[0] == "You said: five"
            assert {"two", "slow three", "four", "five"} == {
                question.text for question in agent.asked
            }
            assert len(await here.ada.said_by(here.bot, room)) == 5

    run(main(), deadline_s=DEADLINE_S)


def test_stop_ends_an_answer_that_is_being_made(here: Here) -> None:
    async def main() -> None:
        agent = SlowAgent()
        async with here.bus(agent) as server:
            room = await here.room()
            await here.ada.say(room, "slow question")
            await until(lambda: len(agent.asked) == 1)
            await here.ada.say(room, next(iter(STOP_WORDS)).upper())
            door: Any = server.relay._connections["matrix"]
            await until(lambda: not door._open)
            await here.ada.say(room, "quick")
            assert [body(event) for event in await here.ada.hears(here.bot, room)] == [
                "You said: quick"
            ]

    run(main(), deadline_s=DEADLINE_S)


class TellingAgent(SlowAgent):
    """Makes its answer piece by piece, each when it is told to go on."""

    def __init__(self, *pieces: tuple[str, ...]) -> None:
        super().__init__()
        self.pieces = pieces

    async def ask(self, question: AgentQuestion) -> AgentAnswer:
        self.asked.append(question)
        assert question.heard is not None
        for together in self.pieces:
            for piece in together:
                question.heard(piece)
            await self.ready.wait()
            self.ready.clear()
        return AgentAnswer("".join(itertools.chain(*self.pieces)))


def test_an_answer_in_pieces_grows_by_edits_and_ends_as_the_whole(here: Here) -> None:
    words = tuple(f"{number} " for number in range(200))

    async def main() -> None:
        agent = TellingAgent(("Counting: ",), words, ("done.",))
        async with here.bus(agent):
            room = await here.room()
            asked = await here.ada.say(room, "count")
            (first,) = await here.ada.hears(here.bot, room)
            assert body(first) == "Counting: "
            assert first["content"]["m.relates_to"] == {
                "m.in_reply_to": {"event_id": asked}
            }
            agent.ready.set()
            told = await here.ada.hears(here.bot, room, 2)
            assert told[1]["content"]["m.new_content"][
                "body"
            ] == "Counting: " + "".join(words), "not an edit each"
            agent.ready.set()
            await until(lambda: not agent.ready.is_set())
            agent.ready.set()
            whole = "Counting: " + "".join(words) + "done."
            while (told := await here.ada.said_by(here.bot, room))[-1]["content"][
                "m.new_content"
            ]["body"] != whole:
                await asyncio.sleep(0.1)
            replaces = {"rel_type": "m.replace", "event_id": first["event_id"]}
            assert [event["content"]["m.relates_to"] for event in told[1:]] == [
                replaces
            ] * (len(told) - 1)
            assert len(told[-1]["content"]["body"]) <= 502 and len(told) <= 4

    run(main(), deadline_s=DEADLINE_S)


def test_the_beginning_of_an_answer_becomes_the_whole_after_a_restart(
    here: Here,
) -> None:
    state = here.path / "bus" / "matrix" / "state.json"

    async def main() -> None:
        async with here.bus(TellingAgent(("It beg",), ("ins.",))):
            room = await here.room()
            await here.ada.say(room, "tell me")
            (first,) = await here.ada.hears(here.bot, room)
            await until(lambda: first["event_id"].encode() in state.read_bytes())
        async with here.bus(
            ScriptedAgent({"tell me": "Another beginning, and an end."})
        ):
            _first, last = await here.ada.hears(here.bot, room, 2)
            assert (
                last["content"]["m.new_content"]["body"]
                == "Another beginning, and an end."
            )
            assert last["content"]["m.relates_to"] == {
                "rel_type": "m.replace",
                "event_id": first["event_id"],
            }

    run(main(), deadline_s=DEADLINE_S)


def test_what_one_room_waits_for_is_not_told_in_another(here: Here) -> None:
    async def main() -> None:
        agent = SlowAgent()
        table = {"assistant_timeout_s": 0.2, "assistant_later_s": 600}
        approvals = RecordApprovals(
            Assembly(here.path, {"BRIDGEHEAD_HOME": str(here.path / "home")})
        )
        async with here.bus(agent, approvals=approvals, **table):
            private, other = await here.room(), await here.room()
            await here.ada.say(private, "slow secret")
            assert body((await here.ada.hears(here.bot, private))[0]).startswith(
                "That takes a while"
            )
            await here.ada.say(other, "hello")
            await here.ada.hears(here.bot, other)
            agent.ready.set()
            late = (await here.ada.hears(here.bot, private, 2))[1]
            assert body(late) == "You asked: slow secret\nYou said: slow secret"
            assert [
                body(event) for event in await here.ada.said_by(here.bot, other)
            ] == ["You said: hello"]

    run(main(), deadline_s=DEADLINE_S)


def test_an_encrypted_room_is_read_and_answered_encrypted(here: Here) -> None:
    async def main() -> None:
        folder = here.path / "ada"
        folder.mkdir()
        ada = nio.AsyncClient(here.url, here.ada.id, store_path=str(folder))
        assert isinstance(await ada.login(f"pw-{here.ada.name}"), nio.LoginResponse)
        ada.access_token, here.ada.token = ada.access_token, ada.access_token
        async with here.bus():
            encryption = {
                "type": "m.room.encryption",
                "content": {"algorithm": "m.megolm.v1.aes-sha2"},
            }
            room = await here.room(initial_state=[encryption])
            await ada.sync(full_state=True)
            await ada.keys_upload()
            while (
                not ada.rooms[room].encrypted
                or here.bot.id not in ada.rooms[room].users
            ):
                await ada.sync(1000)
            await ada.keys_query()
            await ada.room_send(
                room,
                "m.room.message",
                {"msgtype": "m.text", "body": "a secret"},
                ignore_unverified_devices=True,
            )
            said: list[str] = []
            while "You said: a secret" not in said:
                synced = await ada.sync(1000)
                events = (
                    synced.rooms.join[room].timeline.events
                    if room in synced.rooms.join
                    else []
                )
                said += [
                    event.body
                    for event in events
                    if isinstance(event, nio.RoomMessageText)
                ]
        posted = [
            event
            for event in await here.ada.events(room)
            if event["sender"] == here.bot.id
        ]
        assert "m.room.encrypted" in [event["type"] for event in posted]
        assert "m.room.message" not in [event["type"] for event in posted], (
            "nothing goes out in the clear"
        )
        await ada.close()

    run(main(), deadline_s=DEADLINE_S, uvloop=False)


def test_what_is_announced_is_said_in_every_room(here: Here) -> None:
    async def main() -> None:
        async with here.bus() as server:
            one, two = await here.room(), await here.room()
            door: Any = server.relay._connections["matrix"]
            await until(lambda: {one, two} <= set(door._client.rooms))
            from bridgehead.bus.gateway.pending_answers import Speaker

            speaker = Speaker(server.relay, None)
            for count in (1, 2):  # the same words on another day are said again
                told = speaker.announce("dinner is ready", None, None).participants
                assert sorted(told) == sorted(
                    name for name in server.relay.connected if name != "matrix"
                )
                for room in (one, two):
                    said = await here.ada.hears(here.bot, room, count)
                    assert [body(event) for event in said] == [
                        "dinner is ready"
                    ] * count
            assert (
                await speaker.ask("matrix", "who is there?", None, 1)
            ).problem == "matrix is not connected"

    run(main(), deadline_s=DEADLINE_S)


def test_a_server_that_is_away_is_tried_again_and_the_bus_runs_on(here: Here) -> None:
    async def main() -> None:
        door = {
            "matrix": "http://127.0.0.1:9",
            "matrix_token": "t",
            "matrix_allow": ["*:here.test"],
        }
        async with (
            served_bus(here.path / "bus", agent=ScriptedAgent(), **door) as server,
            await server.satellite("kitchen") as kitchen,
        ):
            assert (await kitchen.ask("hello")).text == "You said: hello"
            assert not server.relay.listens("matrix")

    run(main(), deadline_s=DEADLINE_S)


@pytest.mark.parametrize("missing", ["matrix_token", "matrix_allow"])
def test_a_door_that_is_open_to_everybody_or_nobody_is_refused(missing: str) -> None:
    table = {
        "matrix": "http://127.0.0.1:8008",
        "matrix_token": "t",
        "matrix_allow": ["*:here.test"],
    }
    del table[missing]
    with pytest.raises(UserError, match="matrix needs"):
        BusSettings.parse(table)


def test_the_guide_does_what_it_shows(synapse: Synapse, tmp_path: Path) -> None:
    as_a_user = GUIDE.read_text(encoding="utf-8").partition(
        "## As an application service"
    )[0]
    shown = as_a_user.replace("```console no-run", "```console")
    here = [
        Step(step.command.replace("http://127.0.0.1:8008", synapse.url), step.expected)
        for step in steps(shown)
    ]
    place = next(
        number for number, step in enumerate(here) if "bus serve" in step.command
    )
    home = machine(tmp_path)
    (home.project / "homeserver.yaml").symlink_to(synapse.folder / "homeserver.yaml")
    around = environment(home.home, Path(sys.executable).parent)
    around["PATH"] = os.pathsep.join([around["PATH"], str(PYTHON.parent)])
    check(here[:place], home, around)
    door = {
        "BRIDGEHEAD_BUS_MATRIX": synapse.url,
        "BRIDGEHEAD_BUS_MATRIX_ALLOW": f"*:{SERVER}",
        "BRIDGEHEAD_BUS_MATRIX_TOKEN": (home.project / "butler.token")
        .read_text()
        .strip(),
        **{
            f"BRIDGEHEAD_BUS_{name}": f"127.0.0.1:{free_port()}"
            for name in ("LISTEN", "HUB_LISTEN")
        },
    }
    assert (home.project / "butler.token").stat().st_mode & 0o777 == 0o600
    process = home.start("bus", "serve", "--json", "--assistant", "scripted", **door)
    try:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline(), process.stderr.read()
        check(here[place + 1 :], home, {**around, **door})

        async def main() -> None:
            ada, butler = Person(synapse, "ada"), Person.__new__(Person)
            butler.id = f"@butler:{SERVER}"
            room = await ada.room_with(butler)
            await ada.comes(butler, room, "join")
            await ada.say(room, "hello")
            assert [body(event) for event in await ada.hears(butler, room)] == [
                "You said: hello"
            ]

        run(main(), deadline_s=DEADLINE_S)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0


def check(shown: list[Step], home: Machine, around: dict[str, str]) -> None:
    for step, result in zip(shown, run_steps(shown, home.project, around), strict=True):
        assert result.code == step.exit_code, f"$ {step.command}\n{result.output}"
        assert matches(step.expected, result.output), (
            f"$ {step.command}\n{result.output}"
        )
