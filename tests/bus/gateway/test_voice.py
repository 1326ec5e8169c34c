"""The voice door: with satellites and services that the test plays itself, and with real ones."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.bus.bus import RecordApprovals
from bridgehead.assembly.bus.notices import RecordNotices
from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.gateway.pending_answers import Speaker
from bridgehead.bus.settings import BusSettings
from bridgehead.bus.wire.message import Message
from bridgehead.bus.wire.topics import STOP
from bridgehead.contract.record_words import PendingState
from bridgehead.errors import UserError
from bus.support.records import asked, assembled, kept
from bus.support.running import free_port, run, until
from bus.support.serving import Served, served_bus
from support.console_blocks import environment, matches, steps
from support.console_blocks import run as run_steps
from support.installed import machine

pytest.importorskip("wyoming", reason="the extra voice is not installed")
pytest.importorskip("pocketsphinx", reason="the extra voice is not installed")
from bridgehead.bus.gateway.doors import speech, voice
from bus.support.wyoming import (
    LOUD,
    QUIET,
    SECOND,
    Connection,
    LoudEndpointer,
    PlayedSatellite,
    PlayedServices,
    RealSatellite,
    espeak,
    served,
)

DEADLINE_S = 300.0
GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "voice.md"


class Here:
    """Played satellites, played services, and a bus between them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.agent = ScriptedAgent()
        self.services = PlayedServices()
        self.kitchen, self.den = PlayedSatellite(), PlayedSatellite()

    @asynccontextmanager
    async def bus(self, **table: Any) -> AsyncIterator[Served]:
        async with AsyncExitStack() as stack:
            for satellite in (self.kitchen, self.den):
                await stack.enter_async_context(satellite.there())
            named = await stack.enter_async_context(self.services.there())
            voice = [f"kitchen={self.kitchen.url}", f"den={self.den.url}"]
            settings = {"voice": voice, **named, **table}
            server = await stack.enter_async_context(
                served_bus(self.path, agent=self.agent, **settings)
            )
            await until(lambda: {"kitchen", "den"} <= set(server.relay.connected))
            yield server

    @property
    def asked(self) -> list[str]:
        return [question.text for question in self.agent.asked]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    monkeypatch.setattr(speech, "Endpointer", LoudEndpointer)
    return Here(tmp_path / "bus")


def door_of(server: Served, name: str) -> Any:
    return server.relay._connections[name]


def test_what_is_said_to_one_satellite_is_answered_there_and_nowhere_else(
    here: Here,
) -> None:
    async def main() -> None:
        here.services.words = ["good morning", "good night"]
        async with here.bus():
            await here.kitchen.says(QUIET + LOUD + QUIET)
            await until(lambda: here.kitchen.count("audio-stop") == 1)
            kinds = [event.type for event in here.kitchen.events]
            assert kinds[:5] == [
                "run-satellite",
                "voice-stopped",
                "transcript",
                "synthesize",
                "audio-start",
            ]
            assert here.kitchen.events[2].data == {"text": "good morning"}
            assert here.kitchen.sound == b"\x07" * SECOND
            assert here.services.spoken == ["You said: good morning"]
            # Only what was said went to the service, not the silence around it.
            assert abs(here.services.heard[0] - SECOND) < 2 * LoudEndpointer.frame_bytes

            await here.den.says()
            await until(lambda: here.den.count("audio-stop") == 1)
            assert here.kitchen.count("audio-stop") == 1 and here.asked == [
                "good morning",
                "good night",
            ]
            assert here.agent.asked[0].session_id != here.agent.asked[1].session_id

    run(main(), deadline_s=DEADLINE_S)


def test_whoever_calls_a_satellite_that_speaks_is_heard_and_the_speech_ends(
    here: Here,
) -> None:
    async def main() -> None:
        here.services.words = ["tell me everything", "thanks"]
        here.services.seconds = 600
        async with here.bus():
            await here.kitchen.says()
            await until(lambda: here.kitchen.count("audio-chunk") > 0)
            here.services.seconds = 1
            await here.kitchen.says()
            await until(lambda: here.kitchen.count("audio-stop") == 2)
            assert len(here.kitchen.sound) < 300 * SECOND
            assert here.asked == ["tell me everything", "thanks"]

    run(main(), deadline_s=DEADLINE_S)


def test_a_speech_that_ends_slowly_does_not_keep_the_next_question_from_being_heard(
    here: Here,
) -> None:
    async def main() -> None:
        here.services.words = ["tell me everything", "thanks"]
        here.services.seconds = 600
        async with here.bus() as server:
            await here.kitchen.says()
            await until(lambda: here.kitchen.count("audio-chunk") > 0)
            peer, may_end = door_of(server, "kitchen")._peer, asyncio.Event()
            send = peer.send

            async def send_slowly(kind: str, *rest: Any) -> None:
                if kind == "audio-stop":
                    await may_end.wait()
                await send(kind, *rest)

            peer.send = send_slowly
            await here.kitchen.says()
            await until(lambda: here.asked == ["tell me everything", "thanks"])
            may_end.set()

    run(main(), deadline_s=DEADLINE_S)


def test_who_listens_all_the_time_hears_only_stop_while_it_speaks(here: Here) -> None:
    async def main() -> None:
        here.services.words = [
            "a long story",
            "you said a long story",
            "now stop please",
            "and a short one",
        ]
        here.services.seconds = 600
        async with here.bus():
            await here.kitchen.says(stage="wake")
            await until(lambda: here.kitchen.count("audio-chunk") > 0)
            here.services.seconds = 1
            await here.kitchen.connections[-1].send_audio(LOUD + QUIET)
            await until(lambda: here.kitchen.count("transcript") == 2)
            assert here.kitchen.count("audio-stop") == 0
            await here.kitchen.connections[-1].send_audio(LOUD + QUIET)
            await until(lambda: here.kitchen.count("audio-stop") == 1)
            await here.kitchen.connections[-1].send_audio(LOUD + QUIET)
            await until(lambda: here.kitchen.count("audio-stop") == 2)
            assert here.asked == ["a long story", "and a short one"]

    run(main(), deadline_s=DEADLINE_S)


def test_the_end_of_its_own_speech_is_no_question(here: Here) -> None:
    async def main() -> None:
        here.services.words = ["a long story", "you said a long story"]
        here.services.seconds = 600
        async with here.bus() as server:
            await here.kitchen.says(stage="wake")
            await until(lambda: here.kitchen.count("audio-chunk") > 0)
            before = LoudEndpointer.loud
            await here.kitchen.connections[-1].send_audio(LOUD)
            await until(lambda: LoudEndpointer.loud >= before + 30)
            door_of(server, "kitchen").hush()
            await until(lambda: here.kitchen.count("audio-stop") == 1)
            await here.kitchen.connections[-1].send_audio(QUIET)
            await until(lambda: here.kitchen.count("transcript") == 2)
            assert here.asked == ["a long story"]

    run(main(), deadline_s=DEADLINE_S)


def test_a_stop_on_the_bus_ends_the_speech_of_its_site(here: Here) -> None:
    async def main() -> None:
        here.services.words = ["tell me everything"]
        here.services.seconds = 600
        async with here.bus(routing=["destination", "session_id", "site_id"]) as server:
            for satellite in (here.kitchen, here.den):
                await satellite.says()
                await until(
                    lambda satellite=satellite: satellite.count("audio-chunk") > 0
                )
            session = {"session_id": "elsewhere", "site_id": "kitchen"}
            server.relay.publish(
                Message(STOP, {}, {"source": "somebody", "session": session})
            )
            await until(lambda: here.kitchen.count("audio-stop") == 1)
            assert here.den.count("audio-stop") == 0

    run(main(), deadline_s=DEADLINE_S)


def test_a_wake_word_service_says_when_somebody_speaks_to_a_satellite_that_always_listens(
    here: Here,
) -> None:
    forwarded: list[int] = []

    async def wakes(connection: Connection) -> None:
        size = 0
        while (event := await connection.read()) is not None:
            size += len(event.payload or b"")
            if size > 2 * SECOND:
                forwarded.append(size)
                await connection.send("detection", name="ok_nabu")
                return

    async def main() -> None:
        here.services.words = ["is anybody there"]
        async with served(wakes) as wake, here.bus(voice_wake=wake):
            await here.kitchen.says(LOUD + QUIET + LOUD, stage="wake")
            await until(lambda: here.kitchen.count("detection") == 1)
            assert here.asked == [] and here.services.heard == []
            await here.kitchen.connections[-1].send_audio(LOUD + QUIET)
            await until(lambda: here.kitchen.count("audio-stop") == 1)
            assert here.asked == ["is anybody there"]

    run(main(), deadline_s=DEADLINE_S)


def test_whoever_is_called_and_hears_nothing_is_told_so(here: Here) -> None:
    async def main() -> None:
        async with here.bus():
            await here.kitchen.says(QUIET * 16)
            await until(lambda: here.kitchen.count("transcript") == 1)
            assert here.kitchen.events[-1].data == {"text": ""} and here.asked == []

    run(main(), deadline_s=DEADLINE_S)


def test_nobody_speaks_for_longer_than_there_is_room(here: Here) -> None:
    async def main() -> None:
        here.services.words = ["and so on"]
        async with here.bus():
            await here.kitchen.says(LOUD * 31)
            await until(lambda: here.kitchen.count("audio-stop") == 1)
            assert here.services.heard == [30 * SECOND]

    run(main(), deadline_s=DEADLINE_S)


@pytest.mark.parametrize(
    "sent",
    [
        b'{"type": "audio-chunk", "payload_length": 99999999999}\n',
        b'{"type": "audio-chunk", "data_length": 99999999999}\n',
        b'{"type": "audio-chunk", "data_length": "many"}\n',
        b'{"type": "audio-chunk", "data": {"rate": 8000, "width": 1, "channels": 2}, "payload_length": 2}\n..',
        b'{"type": "run-pipeline", "data": []}\n',
        b'{"type": ' + b"[" * 60_000 + b"\n",
        b"[]\n",
        b"x" * 200_000,
    ],
)
def test_a_satellite_that_sends_nonsense_is_dropped_and_tried_again_and_nobody_else_notices(
    here: Here, sent: bytes
) -> None:
    async def main() -> None:
        here.services.words = ["hello"]
        async with here.bus():
            here.kitchen.connections[-1].writer.write(sent)
            await until(lambda: len(here.kitchen.connections) == 2)
            for satellite in (here.den, here.kitchen):
                await satellite.says()
                await until(
                    lambda satellite=satellite: satellite.count("audio-stop") == 1
                )

    run(main(), deadline_s=DEADLINE_S)


def test_a_recognition_that_fails_is_said_and_ends_the_listening(here: Here) -> None:
    async def main() -> None:
        async with here.bus(voice_stt=f"tcp://127.0.0.1:{free_port()}"):
            await here.kitchen.says()
            await until(lambda: here.kitchen.count("audio-stop") == 1)
            assert here.services.spoken == ["I cannot understand speech right now."]
            assert [
                event.data
                for event in here.kitchen.events
                if event.type == "transcript"
            ] == [{"text": ""}]

    run(main(), deadline_s=DEADLINE_S)


def test_who_listens_all_the_time_is_not_deaf_for_ever(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(voice, "RETRY_S", 0.01)

    async def main() -> None:
        here.services.words = ["hello again"]
        port = free_port()
        async with here.bus(voice_stt=f"tcp://127.0.0.1:{port}"):
            await here.kitchen.says(stage="wake")
            await until(lambda: here.kitchen.count("audio-stop") == 1)
            async with served(here.services.recognise, port):
                while not here.asked:  # what is said before it listens again is lost
                    await here.kitchen.connections[-1].send_audio(LOUD + QUIET)
                    await asyncio.sleep(0.05)
                await until(lambda: here.kitchen.count("audio-stop") == 2)
        assert here.services.spoken[:2] == [
            "I cannot understand speech right now.",
            "You said: hello again",
        ]

    run(main(), deadline_s=DEADLINE_S)


def test_a_site_is_told_and_a_person_is_asked_by_voice(here: Here) -> None:
    async def main() -> None:
        approvals = RecordApprovals(
            Assembly(here.path, {"BRIDGEHEAD_HOME": str(here.path / "home")})
        )
        here.services.words = ["half past seven"]
        async with here.bus() as server:
            speaker = Speaker(server.relay, approvals)
            assert speaker.announce(
                "dinner is ready", None, "kitchen"
            ).participants == ("kitchen",)
            await until(lambda: here.kitchen.count("audio-stop") == 1)
            asking = asyncio.create_task(
                speaker.ask("den", "when do you come?", None, DEADLINE_S)
            )
            await until(lambda: here.den.count("audio-stop") == 1)
            await here.den.says()
            assert (await asking).text == "half past seven"
            assert (
                here.services.spoken == ["dinner is ready", "when do you come?"]
                and here.asked == []
            )
            assert here.kitchen.count("audio-stop") == 1

    run(main(), deadline_s=DEADLINE_S)


def test_a_pending_question_is_said_with_its_choices_and_answered_by_voice(
    here: Here,
) -> None:
    async def main() -> None:
        here.path.mkdir()
        assembly = assembled(here.path)
        lent = {
            "approvals": RecordApprovals(assembly),
            "notices": RecordNotices(assembly),
        }
        here.services.words = [
            "answer the phone",
            "answer maybe",
            "answer Yes.",
            "answer the door",
            "answer yes",
        ]
        async with served_bus(here.path) as server:
            server.enrol(
                "kitchen", mode="manage", grants={"notices": True, "approve": True}
            )
            server.enrol("den", mode="manage", grants={"notices": True})
        async with here.bus(**lent):
            await here.kitchen.says()
            await until(lambda: here.kitchen.count("audio-stop") == 1)
            item = asked(assembly, "deploy", prompt="Deploy?\nBuild 812 passed.")
            await until(
                lambda: (
                    here.kitchen.count("audio-stop") == 2
                    and here.den.count("audio-stop") == 1
                )
            )
            told = f"bus: Deploy? ({item.id})\nBuild 812 passed."
            assert sorted(here.services.spoken[1:]) == [
                told,
                f"{told}\nTo answer, say: answer yes or answer no",
            ]
            await here.kitchen.says()
            await until(lambda: here.kitchen.count("audio-stop") == 3)
            assert (
                "yes, no" in here.services.spoken[-1]
                and kept(assembly, item).state is PendingState.OPEN
            )
            await here.kitchen.says()
            await until(lambda: here.kitchen.count("audio-stop") == 4)
            assert here.services.spoken[-1] == f"{item.id} was answered: yes"
            await until(lambda: kept(assembly, item).state is PendingState.ANSWERED)
            assert (answer := kept(assembly, item).answer) is not None and (
                answer.text,
                answer.by,
            ) == (
                "yes",
                "bus kitchen",
            )
            again = asked(assembly, "deploy again")
            await until(lambda: here.den.count("audio-stop") == 2)
            await here.den.says()
            await until(lambda: here.den.count("audio-stop") == 3)
            assert kept(assembly, again).state is PendingState.OPEN, (
                "the den has no right to answer"
            )
            third = asked(assembly, "deploy a third time")
            await until(
                lambda: (
                    here.den.count("audio-stop") == 4
                    and here.kitchen.count("audio-stop") == 6
                )
            )
            await here.kitchen.says()
            await until(lambda: here.kitchen.count("audio-stop") == 7)
            assert (
                here.services.spoken[-1]
                == f"several questions are open; say which: answer {third.id} yes"
            )
            assert {kept(assembly, one).state for one in (again, third)} == {
                PendingState.OPEN
            }
        assert here.asked == ["answer the phone", "answer the door"], (
            "what is no answer is for the assistant"
        )

    run(main(), deadline_s=DEADLINE_S)


def test_a_satellite_that_is_away_is_not_there_and_comes_back(here: Here) -> None:
    async def main() -> None:
        here.services.words = ["hello"]
        attic, port = PlayedSatellite(), free_port()
        async with here.services.there() as named, AsyncExitStack() as stack:
            table = {"voice": [f"attic=tcp://127.0.0.1:{port}"], **named}
            server = await stack.enter_async_context(
                served_bus(here.path, agent=here.agent, **table)
            )
            assert (
                Speaker(server.relay, None)
                .announce("anybody?", None, None)
                .participants
                == ()
            )
            for _ in range(2):
                async with attic.there(port):
                    attic.events.clear()
                    await attic.says()
                    await until(lambda: attic.count("audio-stop") == 1)
                await until(lambda: "attic" not in server.relay.connected)

    run(main(), deadline_s=DEADLINE_S)


def test_its_record_is_that_of_a_managed_participant(here: Here) -> None:
    async def main() -> None:
        async with served_bus(here.path) as server:
            server.enrol("kitchen")
        with pytest.raises(UserError, match="needs mode manage"):
            async with here.bus():
                pass

    run(main(), deadline_s=DEADLINE_S)


def test_without_espeak_and_without_a_service_there_is_no_voice(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")

    async def main() -> None:
        with pytest.raises(UserError, match="espeak-ng is not installed"):
            async with here.bus(voice_tts=None):
                pass

    run(main(), deadline_s=DEADLINE_S)


@pytest.mark.parametrize(
    "table",
    [
        {"voice": ["kitchen"]},
        {"voice": ["kitchen=http://127.0.0.1:10700"]},
        {"voice": ["kitchen=tcp://127.0.0.1"]},
        {"voice": ["kitchen=tcp://127.0.0.1:many"]},
        {"voice_stt": "10300"},
        {"voice": ["kitchen=tcp://127.0.0.1:10700"], "assistant_lang": "de"},
    ],
)
def test_an_address_that_is_none_and_a_language_nobody_understands_are_refused(
    table: dict[str, Any],
) -> None:
    with pytest.raises(UserError, match=r"tcp://HOST:PORT|voice_stt"):
        BusSettings.parse(table)


# -- a real satellite, pocketsphinx and espeak-ng ---------------------------------------------------------------------

WORDS = "what is the weather"
STORY = "Once upon a time there was a king, who had a garden with a golden gate. " * 27


@pytest.mark.peer
def test_a_spoken_sentence_comes_back_as_speech_to_that_satellite_only_also_after_a_restart(
    tmp_path: Path,
) -> None:
    kitchen, den = RealSatellite(tmp_path, "kitchen"), RealSatellite(tmp_path, "den")
    answer = espeak(f"You said: {WORDS}")

    async def main() -> None:
        agent = ScriptedAgent()
        async with served_bus(
            tmp_path / "bus", agent=agent, voice=[kitchen.setting, den.setting]
        ) as server:
            with den.running():
                await den.begins()
                for turn in (1, 2):
                    with kitchen.running():
                        await kitchen.begins()
                        kitchen.hears(WORDS)
                        await until(lambda turn=turn: kitchen.sound == answer * turn)
                        await kitchen.begins()  # that it has understood
                    kitchen.microphone.write_bytes(b"")
                    await until(lambda: "kitchen" not in server.relay.connected)
        assert [question.text for question in agent.asked] == [WORDS] * 2
        assert den.sound == b""

    run(main(), deadline_s=DEADLINE_S)


@pytest.mark.peer
def test_stop_ends_what_a_real_satellite_is_saying(tmp_path: Path) -> None:
    kitchen = RealSatellite(tmp_path, "kitchen")

    async def main() -> None:
        agent = ScriptedAgent({WORDS: STORY})
        async with served_bus(
            tmp_path / "bus", agent=agent, voice=[kitchen.setting]
        ) as server:
            with kitchen.running():
                await kitchen.begins()
                kitchen.hears(WORDS)
                await until(lambda: len(kitchen.sound) > 0)
                kitchen.hears("stop")
                door = door_of(server, "kitchen")
                await until(lambda: door._speaking.done())
        assert 0 < len(kitchen.sound) < len(espeak(STORY))
        assert [question.text for question in agent.asked] == [WORDS]

    run(main(), deadline_s=DEADLINE_S)


@pytest.mark.peer
def test_a_real_satellite_with_a_wake_word_of_its_own_is_called_while_it_speaks(
    tmp_path: Path,
) -> None:
    kitchen = RealSatellite(tmp_path, "kitchen")
    waiting: list[Connection] = []

    async def wakes(connection: Connection) -> None:
        waiting.append(connection)
        while await connection.read() is not None:
            pass

    async def main() -> None:
        agent = ScriptedAgent({WORDS: STORY})
        async with (
            served(wakes) as wake,
            served_bus(
                tmp_path / "bus", agent=agent, voice=[kitchen.setting]
            ) as server,
        ):
            with kitchen.running("--wake-uri", wake):
                await until(lambda: "kitchen" in server.relay.connected)
                door = door_of(server, "kitchen")

                def listens() -> bool:
                    return door._listening is not None and not door._listening.done()

                async def calls_and_asks(turn: int) -> None:
                    """Somebody calls it and asks, again until it is heard: a satellite that is starting is deaf."""
                    told = None
                    while len(agent.asked) < turn:
                        if listened := listens():
                            if door._listening is not told:
                                kitchen.hears(WORDS)
                            told = door._listening
                        elif waiting:
                            await waiting[-1].send("detection", name="here")
                        for _ in range(50):
                            await asyncio.sleep(0.1)
                            if len(agent.asked) >= turn or listens() > listened:
                                break

                for turn in (1, 2):
                    speaking = door._speaking
                    await calls_and_asks(turn)
                    assert turn == 1 or speaking.cancelling() > 0
                    await until(
                        lambda: door._speaking is not None and not door._speaking.done()
                    )
        assert [question.text for question in agent.asked] == [WORDS] * 2

    run(main(), deadline_s=DEADLINE_S)


@pytest.mark.peer
def test_the_guide_does_what_it_shows(tmp_path: Path) -> None:
    shown = steps(
        GUIDE.read_text(encoding="utf-8").replace("```console no-run", "```console")
    )
    place = next(
        number for number, step in enumerate(shown) if "bus serve" in step.command
    )
    assert [step.command.split()[0] for step in shown[: place + 1]] == [
        "wyoming-satellite",
        "export",
        "bridgehead",
    ]
    home, kitchen = machine(tmp_path), RealSatellite(tmp_path, "kitchen")
    door = {
        "BRIDGEHEAD_BUS_VOICE": kitchen.setting,
        **{
            f"BRIDGEHEAD_BUS_{name}": f"127.0.0.1:{free_port()}"
            for name in ("LISTEN", "HUB_LISTEN")
        },
    }
    around = {**environment(home.home, Path(sys.executable).parent), **door}
    announced, over = espeak("dinner is ready"), threading.Event()

    def answers() -> None:
        """Somebody in the kitchen, who says it again until it is heard."""
        while not over.is_set():
            if kitchen.sound != announced and kitchen.sound.startswith(announced):
                kitchen.hears(WORDS)
            over.wait(5)

    process = home.start("bus", "serve", "--json", "--assistant", "scripted", **door)
    somebody = threading.Thread(target=answers)
    try:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline(), process.stderr.read()
        with kitchen.running():
            run(kitchen.begins(), deadline_s=DEADLINE_S)
            somebody.start()
            for step in shown[place + 1 :]:
                (result,) = run_steps([step], home.project, around)
                assert result.code == step.exit_code, (
                    f"$ {step.command}\n{result.output}"
                )
                assert matches(step.expected, result.output), (
                    f"$ {step.command}\n{result.output}"
                )
                assert "bus ask" not in step.command or result.output.strip() == WORDS
    finally:
        over.set()
        if somebody.is_alive():
            somebody.join()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0
