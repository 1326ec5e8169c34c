"""People with accounts on a Matrix server, and an assistant that takes its time."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from typing import Any

import httpx

from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.interfaces import AgentAnswer, AgentQuestion
from bus.support.synapse import SERVER, Synapse

_number = itertools.count()


class Person:
    """Somebody with an account."""

    def __init__(self, synapse: Synapse, kind: str) -> None:
        self.name = f"{kind}{next(_number)}"
        self.id = f"@{self.name}:{SERVER}"
        self.token = synapse.account(self.name)
        self._url = f"{synapse.url}/_matrix/client/v3"

    async def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        async with httpx.AsyncClient(
            headers=headers, timeout=120, trust_env=False
        ) as client:
            reply = await client.request(
                method, f"{self._url}{path}", json=body, params=query
            )
        assert reply.status_code == 200, reply.text
        return reply.json()

    async def room_with(self, *others: Person, **more: Any) -> str:
        body = {
            "invite": [other.id for other in others],
            "preset": "private_chat",
            **more,
        }
        return str((await self.call("POST", "/createRoom", body))["room_id"])

    async def send(
        self, room: str, content: dict[str, Any], kind: str = "m.room.message"
    ) -> str:
        path = f"/rooms/{room}/send/{kind}/{secrets.token_hex(8)}"
        return str((await self.call("PUT", path, content))["event_id"])

    async def say(self, room: str, text: str, **more: Any) -> str:
        return await self.send(room, {"msgtype": "m.text", "body": text, **more})

    async def events(self, room: str) -> list[dict[str, Any]]:
        return list(
            (await self.call("GET", f"/rooms/{room}/messages", dir="b", limit=100))[
                "chunk"
            ]
        )[::-1]

    async def said_by(self, other: Person, room: str) -> list[dict[str, Any]]:
        return [
            event
            for event in await self.events(room)
            if event["sender"] == other.id and event["type"] == "m.room.message"
        ]

    async def hears(
        self, other: Person, room: str, count: int = 1
    ) -> list[dict[str, Any]]:
        """What the other has said in the room, once it has said that much."""
        while len(said := await self.said_by(other, room)) < count:
            await asyncio.sleep(0.1)
        return said

    async def membership(self, other: Person, room: str) -> str:
        members = (await self.call("GET", f"/rooms/{room}/members"))["chunk"]
        return str(
            next(
                event["content"]["membership"]
                for event in members
                if event["state_key"] == other.id
            )
        )

    async def comes(self, other: Person, room: str, membership: str) -> None:
        while await self.membership(other, room) != membership:
            await asyncio.sleep(0.1)


class SlowAgent(ScriptedAgent):
    """Waits before it answers `slow …`."""

    def __init__(self) -> None:
        super().__init__()
        self.ready = asyncio.Event()

    async def ask(self, question: AgentQuestion) -> AgentAnswer:
        answer = await super().ask(question)
        if question.text.startswith("slow"):
            await self.ready.wait()
        return answer


def body(event: dict[str, Any]) -> str:
    return str(event["content"]["body"])
