"""Hole 6: a late answer was handed to the next question on the same key, whoever asked it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.bus.bus import RecordApprovals
from bridgehead.bus.assistant.assistant import LATER
from bridgehead.bus.gateway import later_answers, pending_answers
from bridgehead.bus.interfaces import AgentAnswer, AgentQuestion
from bus.support.running import run, until
from bus.support.serving import Served, http, served_bus

SECRET = "the salary is 4711"


@pytest.fixture(autouse=True)
def _looked_at_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_answers, "ELSEWHERE_S", 0.01)
    monkeypatch.setattr(later_answers, "ELSEWHERE_S", 0.01)


class SlowAgent:
    """Answers the first `slow …` in confidence when it is let to, everything else at once."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()

    async def ask(self, question: AgentQuestion) -> AgentAnswer:
        if self.ready.is_set() or not question.text.startswith("slow"):
            return AgentAnswer(f"answer to {question.text}")
        await self.ready.wait()
        return AgentAnswer(SECRET)


class Bus:
    """A bus whose participant `shared` is one key for many people."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.agent = SlowAgent()
        self.assembly = Assembly(path, {"BRIDGEHEAD_HOME": str(path / "home")})
        self.server: Served
        self.token = ""

    def serve(self) -> Any:
        return served_bus(
            self.path / "bus",
            agent=self.agent,
            approvals=RecordApprovals(self.assembly),
            assistant_timeout_s=0.05,
            assistant_later_s=600,
        )

    def open(self, server: Served, **table: Any) -> None:
        self.server = server
        join = server.enrol("shared", token=True, mode="manage", **table)
        self.token = str(join.token)

    async def post(self, path: str, **body: Any) -> Any:
        status, _, content = await http(
            self.server.gateway_address,
            "POST",
            path,
            json.dumps(body).encode(),
            Authorization=f"Bearer {self.token}",
            Content_Type="application/json",
        )
        assert status == 200, content
        return json.loads(content)

    async def chat(self, *texts: str, **more: Any) -> str:
        """Ask through the OpenAI door; every second text is the assistant's."""
        roles = ("user", "assistant")
        messages = [
            {"role": roles[number % 2], "content": text}
            for number, text in enumerate(texts)
        ]
        answer = await self.post("/v1/chat/completions", messages=messages, **more)
        return str(answer["choices"][0]["message"]["content"])

    async def respond(self, text: str, **more: Any) -> tuple[str, str]:
        """Ask through the newer OpenAI door; the text and the id of the response."""
        answer = await self.post("/v1/responses", input=text, **more)
        return answer["output"][0]["content"][0]["text"], answer["id"]

    async def hook(self, text: str, **more: Any) -> str:
        answer = await self.post("/hook/shared", text=text, **more)
        return "\n".join(said["utterance"] for said in answer["speak"])

    async def is_answered(self) -> None:
        """Wait until the answer is there and nobody has collected it."""
        self.agent.ready.set()
        kept = self.path / "bus" / "later.json"
        await until(lambda: kept.exists() and SECRET.encode() in kept.read_bytes())


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[Bus]:
    yield Bus(tmp_path)


def test_another_user_of_the_same_openai_key_is_not_told(bus: Bus) -> None:
    async def main() -> None:
        async with bus.serve() as server:
            bus.open(server)
            assert await bus.chat("slow question", user="ada") == LATER
            await bus.is_answered()
            for more in ({"user": "mallory"}, {}, {"user": ""}):
                assert SECRET not in await bus.chat("hi", **more)
                assert SECRET not in await bus.chat("slow question", "…", "hi", **more)
                assert SECRET not in (await bus.respond("hi", **more))[0]
            assert SECRET not in await bus.chat("other conversation", user="ada")
            told = await bus.chat("slow question", LATER, "hi", user="ada")
            assert SECRET in told, "whoever asked gets it"

    run(main())


def test_without_a_user_only_who_has_asked_all_of_it_is_told(bus: Bus) -> None:
    async def main() -> None:
        async with bus.serve() as server:
            bus.open(server)
            assert await bus.chat("hi", "hello", "slow question") == LATER
            await bus.is_answered()
            strangers = (
                ("hi",),
                ("hi", "hello", "another"),
                ("hi", "hello", "slow question"),
                ("slow question", LATER, "well?"),
            )
            for texts in strangers:
                assert SECRET not in await bus.chat(*texts)
            assert SECRET not in await bus.hook("hi")
            told = await bus.chat("hi", "hello", "slow question", LATER, "well?")
            assert SECRET in told

    run(main())


def test_a_response_is_continued_by_its_own_id_and_not_by_an_equal_beginning(
    bus: Bus,
) -> None:
    async def main() -> None:
        async with bus.serve() as server:
            bus.open(server)
            _, hers = await bus.respond("hi")
            text, hers = await bus.respond("slow question", previous_response_id=hers)
            assert text == LATER
            await bus.is_answered()
            _, his = await bus.respond("hi")
            for text in ("slow question", "well?"):
                said, his = await bus.respond(text, previous_response_id=his)
                assert SECRET not in said
            made_up = hers[:-16] + "0" * 16
            said, _ = await bus.respond("well?", previous_response_id=made_up)
            assert SECRET not in said
            said, _ = await bus.respond("well?", previous_response_id=hers)
            assert SECRET in said

    run(main())


@pytest.mark.parametrize(
    ("asked", "others"),
    [
        ({"channel": "ada"}, [{"channel": "bob"}, {}, {"user": "ada"}]),
        ({"user": "ada"}, [{"user": "bob"}, {}, {"channel": "ada"}]),
        (
            {"channel": "room", "user": "ada"},
            [{"channel": "room", "user": "bob"}, {"channel": "room"}, {"user": "ada"}],
        ),
    ],
)
def test_another_channel_or_user_of_a_webhook_is_not_told(
    bus: Bus, asked: dict[str, str], others: list[dict[str, str]]
) -> None:
    async def main() -> None:
        async with bus.serve() as server:
            bus.open(server)
            assert await bus.hook("slow question", **asked) == LATER
            await bus.is_answered()
            for other in others:
                assert SECRET not in await bus.hook("hi", **other)
            assert SECRET not in await bus.chat("hi")
            assert SECRET in await bus.hook("hi", **asked)
            assert SECRET not in await bus.hook("hi", **asked), "it is told once"

    run(main())


def test_a_webhook_that_says_neither_channel_nor_user_leaves_nothing_to_the_next(
    bus: Bus,
) -> None:
    async def main() -> None:
        async with bus.serve() as server:
            bus.open(server)
            assert await bus.hook("slow question") == LATER
            await bus.is_answered()
            for other in ({}, {"channel": "a"}, {"user": "a"}):
                assert SECRET not in await bus.hook("hi", **other)

    run(main())


def test_a_key_of_one_person_is_told_as_that_person(bus: Bus) -> None:
    """The operator's record says whose it is; a request that names somebody else is somebody else's."""

    async def main() -> None:
        async with bus.serve() as server:
            bus.open(server, person="ada")
            assert await bus.hook("slow question") == LATER
            await bus.is_answered()
            assert SECRET not in await bus.hook("hi", user="bob")
            assert SECRET not in await bus.chat("hi", user="bob")
            assert SECRET in await bus.hook("hi")

    run(main())
