"""Long answers: the person is told that it takes a while, and later gets the answer on whichever device is used."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.bus.bus import RecordApprovals
from bridgehead.assembly.bus.notices import question_notice
from bridgehead.bus.assistant.assistant import (
    LATER,
    SORRY,
    Ask,
    Assistant,
    AssistantConfig,
    Cancel,
    Defer,
    Emit,
    Late,
)
from bridgehead.bus.client.participant import Incoming, Satellite
from bridgehead.bus.gateway import later_answers, pending_answers
from bridgehead.bus.interfaces import AgentAnswer, AgentQuestion
from bridgehead.bus.wire.message import Message
from bridgehead.bus.wire.topics import SPEAK
from bridgehead.contract.record_words import PendingState
from bridgehead.control_plane.records import PendingFilter
from bus.support.running import run, until
from bus.support.serving import Served, served_bus


@pytest.fixture(autouse=True)
def _looked_at_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_answers, "ELSEWHERE_S", 0.01)
    monkeypatch.setattr(later_answers, "ELSEWHERE_S", 0.01)


class SlowAgent:
    """Answers `slow …` when it is let to, everything else at once."""

    def __init__(self) -> None:
        self.asked: list[AgentQuestion] = []
        self.ready = asyncio.Event()
        self.fails = False

    async def ask(self, question: AgentQuestion) -> AgentAnswer:
        self.asked.append(question)
        if question.text.startswith("slow"):
            await self.ready.wait()
        if self.fails:
            raise RuntimeError
        return AgentAnswer(f"answer to {question.text}")


class Here:
    """A bus with a record, and a slow agent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.agent = SlowAgent()
        self.assembly = Assembly(path, {"BRIDGEHEAD_HOME": str(path / "home")})

    def bus(self, **table: Any) -> Any:
        quick = {"assistant_timeout_s": 0.05, "assistant_later_s": 600, **table}
        return served_bus(
            self.path / "bus",
            agent=self.agent,
            approvals=RecordApprovals(self.assembly),
            **quick,
        )

    def items(self) -> list[tuple[PendingState, str | None]]:
        everything = PendingFilter(states=(PendingState.OPEN, PendingState.ANSWERED))
        with self.assembly.store() as store:
            items = store.pending(everything)
        return [
            (item.state, item.answer.text if item.answer else None) for item in items
        ]

    def kept(self) -> bytes:
        path = self.path / "bus" / "later.json"
        return path.read_bytes() if path.exists() else b""


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    yield Here(tmp_path)


async def spoken(satellite: Satellite) -> str:
    """What is said next without having been asked."""
    while not isinstance(
        event := await satellite.receive(), Incoming
    ) or not event.message.type.endswith("speak"):
        pass
    return str(event.message.data["utterance"])


def test_a_long_answer_is_a_pending_item_and_comes_later(here: Here) -> None:
    async def main() -> None:
        async with here.bus() as server, await server.satellite("kitchen") as kitchen:
            first = await kitchen.ask("slow question")
            assert (first.text, first.handled) == (LATER, True)
            await until(
                lambda: [state for state, _ in here.items()] == [PendingState.OPEN]
            )
            assert (await kitchen.ask("quick")).text == "answer to quick"
            here.agent.ready.set()
            assert (
                await spoken(kitchen)
                == "You asked: slow question\nanswer to slow question"
            )
            await until(
                lambda: (
                    here.items() == [(PendingState.ANSWERED, "answer to slow question")]
                )
            )
            await until(lambda: here.kept() == b"[]")

    run(main())


def test_it_goes_to_the_device_that_the_person_uses_then_and_to_nobody_elses(
    here: Here,
) -> None:
    async def main() -> None:
        async with (
            here.bus() as server,
            await server.satellite("kitchen", person="ada") as kitchen,
            await server.satellite("study", person="ada") as study,
            await server.satellite("attic") as attic,
        ):
            await kitchen.ask("slow question")
            await study.ask("hello")
            await attic.ask("hello")
            here.agent.ready.set()
            assert (await spoken(study)).endswith("answer to slow question")
            for other in (
                kitchen,
                attic,
            ):  # what they hear next is the answer to what they ask next
                assert (await other.ask("again")).speak[0][
                    "utterance"
                ] == "answer to again"

    run(main())


def test_an_answer_that_comes_in_the_middle_of_another_question_is_not_lost(
    here: Here,
) -> None:
    async def main() -> None:
        async with (
            here.bus(assistant_timeout_s=300) as server,
            await server.satellite("kitchen") as kitchen,
        ):
            heard: list[str] = []
            kitchen.aside = lambda message: heard.append(
                str(message.data.get("utterance"))
            )
            asking = asyncio.ensure_future(kitchen.ask("slow question"))
            await until(lambda: len(here.agent.asked) == 1)
            context = {
                "source": "bridgehead",
                "destination": "kitchen",
                "utterance_id": "of an hour ago",
            }
            assert server.hub is not None
            for more in (
                {"late": True},
                {},
            ):  # without the mark it is one of those that were asked twice
                server.hub.publish(
                    Message(SPEAK, {"utterance": "at last"}, {**context, **more})
                )
            await until(lambda: heard == ["at last"])
            here.agent.ready.set()
            assert (await asking).text == "answer to slow question" and heard == [
                "at last"
            ]

    run(main())


def test_a_person_who_is_away_is_told_on_the_device_that_comes_back(here: Here) -> None:
    async def main() -> None:
        async with here.bus() as server, await server.satellite("attic") as attic:
            phone = server.enrol("phone", person="ada")
            async with await Satellite.connect(
                server.enrol("kitchen", person="ada")
            ) as kitchen:
                await kitchen.ask("slow question")
            here.agent.ready.set()
            await until(
                lambda: (
                    (PendingState.ANSWERED, "answer to slow question") in here.items()
                )
            )
            assert (await attic.ask("hello")).text == "answer to hello"
            async with await Satellite.connect(phone) as came:
                assert (await spoken(came)).endswith("answer to slow question")

    run(main())


def test_a_chat_program_gets_it_with_its_next_question(here: Here) -> None:
    async def main() -> None:
        async with here.bus() as server:
            token = server.enrol("webui", token=True, mode="manage").token
            client = openai.AsyncOpenAI(
                base_url=f"http://{server.gateway_address}/v1", api_key=str(token)
            )

            async def ask(*texts: str) -> str | None:
                said: Any = [
                    {"role": ("user", "assistant")[number % 2], "content": text}
                    for number, text in enumerate(texts)
                ]
                answer = await client.chat.completions.create(
                    model="assistant", messages=said
                )
                return answer.choices[0].message.content

            assert await ask("slow question") == LATER
            here.agent.ready.set()
            await until(lambda: b"answer to slow question" in here.kept())
            assert await ask("slow question", LATER, "hi") == (
                "You asked: slow question\nanswer to slow question\nanswer to hi"
            )
            assert (
                await ask("slow question", LATER, "hi", "…", "bye") == "answer to bye"
            )
            await client.close()

    run(main())


def test_what_somebody_answers_elsewhere_is_said(here: Here) -> None:
    async def main() -> None:
        async with here.bus() as server, await server.satellite("kitchen") as kitchen:
            await kitchen.ask("slow question")
            await until(lambda: len(here.items()) == 1)
            with here.assembly.store() as store:
                (item,) = store.pending()
            RecordApprovals(here.assembly).answer(
                item.id, "ask me instead", "a person", question_notice(item).digest
            )
            assert (await spoken(kitchen)).endswith("ask me instead")

    run(main())


def test_a_long_answer_that_fails_is_apologised_for_later(here: Here) -> None:
    async def main() -> None:
        here.agent.fails = True
        async with here.bus() as server, await server.satellite("kitchen") as kitchen:
            await kitchen.ask("slow question")
            here.agent.ready.set()
            assert (await spoken(kitchen)).endswith(SORRY)

    run(main())


def test_an_open_question_survives_a_restart_and_is_asked_under_the_same_name(
    here: Here,
) -> None:
    async def main() -> None:
        async with here.bus() as server:
            join = server.enrol("kitchen")
            async with await Satellite.connect(join) as kitchen:
                await kitchen.ask("slow question")
                await until(lambda: b"slow question" in here.kept())
        before = here.agent.asked[0].id
        async with here.bus() as server:
            await until(lambda: len(here.agent.asked) == 2)
            assert here.agent.asked[1].id == before
            here.agent.ready.set()
            await until(
                lambda: (
                    (PendingState.ANSWERED, "answer to slow question") in here.items()
                )
            )
            again = await comes_back(server, "kitchen")
            async with again:
                assert (await spoken(again)).endswith("answer to slow question")

    run(main())


async def comes_back(server: Served, name: str) -> Satellite:
    return await Satellite.connect(server.enrol(name))


def test_a_file_that_is_damaged_keeps_no_bus_from_starting(here: Here) -> None:
    async def main() -> None:
        (here.path / "bus").mkdir()
        (here.path / "bus" / "later.json").write_text('[{"id": 1')
        async with here.bus() as server, await server.satellite("kitchen") as kitchen:
            assert (await kitchen.ask("quick")).text == "answer to quick"

    run(main())


# -- the decisions ---------------------------------------------------------------------------------------------------


def asked(assistant: Assistant, *texts: str) -> list[str]:
    requests = []
    for number, text in enumerate(texts):
        context = {"source": f"s{number}", "session": {"session_id": f"s{number}"}}
        effects = assistant.received(
            Message("ovos.utterance.handle", {"utterances": [text]}, context), 0
        )
        requests += [effect.request for effect in effects if isinstance(effect, Ask)]
    return requests


def kinds(effects: list[Any]) -> list[str]:
    return [
        effect.message.type.rpartition(".")[2]
        if isinstance(effect, Emit)
        else type(effect).__name__
        for effect in effects
    ]


def test_a_deferred_request_has_its_end_marker_once_and_is_given_up_in_the_end() -> (
    None
):
    assistant = Assistant(AssistantConfig(timeout_s=10, later_s=100))
    (request,) = asked(assistant, "hi")
    assert kinds(assistant.tick(10)) == ["speak", "handled", "Defer"]
    assert assistant.next_deadline() == 110
    stop = Message("ovos.stop", {}, {"source": "s0", "session": {"session_id": "s0"}})
    assert assistant.received(stop, 11) == []
    assert assistant.piece(request, "by and by") == []
    assert assistant.tick(110) == [Cancel(request), Late(request, "")]
    assert assistant.answered(request, "too late") == []


def test_a_deferred_answer_is_handed_over_and_not_spoken_on_the_spot() -> None:
    assistant = Assistant(AssistantConfig(timeout_s=10, later_s=100))
    one, two = asked(assistant, "hi", "ho")
    assert kinds(assistant.tick(10)).count("Defer") == 2
    assert assistant.answered(one, "forty-two", now=20) == [Late(one, "forty-two")]
    assert assistant.failed(two, now=20) == [Late(two, "")]


def test_half_of_the_places_stay_for_those_who_wait() -> None:
    assistant = Assistant(AssistantConfig(timeout_s=10, later_s=100, max_running=4))
    assert len(asked(assistant, *"abcd")) == 4
    effects = assistant.tick(10)
    assert sum(isinstance(effect, Defer) for effect in effects) == 2
    assert sum(isinstance(effect, Cancel) for effect in effects) == 2
