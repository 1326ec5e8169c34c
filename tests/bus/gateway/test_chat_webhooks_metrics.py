"""Chat page, webhooks and metrics of a served bus, over real sockets."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.gateway.chat import SESSION_S
from bridgehead.bus.gateway.pending_answers import PendingAnswers
from bridgehead.bus.interfaces import AgentAnswer, AgentQuestion, Notice, Notices
from bridgehead.bus.participants.participants import Register
from bridgehead.bus.sockets.dial import (
    ClientConversation,
    ConnectionEnded,
    DialRefused,
    Target,
    dial,
)
from bridgehead.errors import UserError
from bridgehead.host.clock import SystemClock
from bus.support.pages import enter, page, told
from bus.support.running import run, until
from bus.support.serving import Served, http, served_bus

JSON = "application/json"


class SlowAgent:
    """Answers when it is let go."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def ask(self, question: AgentQuestion) -> AgentAnswer:
        if question.text != "quick":
            await self.gate.wait()
        return AgentAnswer(f"answer to {question.text}")


# -- webhooks ---------------------------------------------------------------------------------------------------


async def hook(
    server: Served,
    token: str | None,
    body: Any,
    path: str = "/hook/bot",
    **headers: str,
) -> Any:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    shown = {
        "Content_Type": JSON,
        **({"Authorization": f"Bearer {token}"} if token else {}),
        **headers,
    }
    return await http(server.gateway_address, "POST", path, sent, **shown)


def test_a_posted_text_is_answered_with_what_was_spoken(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bus(tmp_path, agent=ScriptedAgent()) as server:
            token = server.enrol("bot", token=True, mode="manage", role="opaque").token
            status, _, body = await hook(server, token, {"text": "hi", "lang": "en"})
            assert status == 200
            assert json.loads(body) == {
                "schema_version": "1.0",
                "speak": [{"utterance": "You said: hi", "lang": "en"}],
                "handled": True,
            }
            status, headers, body = await hook(
                server,
                token,
                b"plain words",
                Content_Type="text/plain",
                Accept="text/plain",
            )
            assert (status, body) == (200, b"You said: plain words\n")
            assert headers["content-type"].startswith("text/plain")

    run(main())


def test_what_was_spoken_so_far_is_returned_when_the_end_does_not_come_in_time(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        agent = SlowAgent()
        async with served_bus(tmp_path, agent=agent) as server:
            token = server.enrol("bot", token=True, mode="manage").token
            status, _, body = await hook(
                server, token, {"text": "slow"}, "/hook/bot?wait_s=0.05"
            )
            assert (status, json.loads(body)["speak"], json.loads(body)["handled"]) == (
                200,
                [],
                False,
            )
            # The answer to the first request comes late and must not end up in the second.
            second = asyncio.ensure_future(hook(server, token, {"text": "quick"}))
            agent.gate.set()
            _, _, body = await second
            assert [said["utterance"] for said in json.loads(body)["speak"]] == [
                "answer to quick"
            ]

    run(main())


def test_requests_of_one_participant_at_the_same_time_get_their_own_answers(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bus(tmp_path, agent=ScriptedAgent()) as server:
            token = server.enrol("bot", token=True, mode="manage").token
            answers = await asyncio.gather(
                *(hook(server, token, {"text": f"n{n}"}) for n in range(10))
            )
            spoken = [
                json.loads(body)["speak"][0]["utterance"] for _, _, body in answers
            ]
            assert spoken == [f"You said: n{n}" for n in range(10)]
            await until(lambda: not list(server.relay.connected))

    run(main())


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ({"text": "hi"}, {"Authorization": "Bearer bot.wrong"}, 401),
        ({"text": "hi"}, {"Authorization": "Basic x"}, 401),
        ({"text": "  "}, {}, 400),
        ({"text": 5}, {}, 400),
        ([1], {}, 400),
        (b"{oops", {}, 400),
        (b"\xff", {"Content_Type": "text/plain"}, 400),
        ({"text": "hi", "lang": 7}, {}, 400),
        ({"text": "hi"}, {"Content_Type": "image/png"}, 415),
        ({"text": "hi"}, {"Origin": "http://evil.example"}, 403),
        ({"text": "hi"}, {"Host": "evil.example"}, 403),
    ],
)
def test_bad_requests_to_a_webhook_are_refused(
    tmp_path: Path, body: Any, headers: dict[str, str], status: int
) -> None:
    async def main() -> None:
        async with served_bus(tmp_path, agent=ScriptedAgent()) as server:
            token = server.enrol("bot", token=True, mode="manage").token
            given, _, _ = await hook(server, token, body, **headers)
            assert given == status
            assert server.relay.bridge.taken == 0

    run(main())


def test_a_webhook_is_for_its_own_participant_and_managing_mode_only(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bus(tmp_path, agent=ScriptedAgent()) as server:
            bot = server.enrol("bot", token=True, mode="manage").token
            relay = server.enrol("sat", token=True).token
            assert (await hook(server, bot, {"text": "hi"}, "/hook/sat"))[0] == 401
            assert (await hook(server, relay, {"text": "hi"}, "/hook/sat"))[0] == 403
            assert (await hook(server, bot, {"text": "hi"}, "/hook/bot?wait_s=1000"))[
                0
            ] == 400
            assert (await http(server.gateway_address, "GET", "/hook/bot"))[0] == 405

    run(main())


def test_a_refused_message_reaches_the_caller_as_an_error(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bus(tmp_path, agent=ScriptedAgent()) as server:
            limits = {"messages_per_second": 0.001, "burst": 1}
            token = server.enrol("bot", token=True, mode="manage", limits=limits).token
            assert (await hook(server, token, {"text": "one"}))[0] == 200
            status, _, body = await hook(server, token, {"text": "two"})
            assert (status, json.loads(body)["error"]["code"]) == (429, "rate_limited")

    run(main())


@pytest.mark.parametrize(("most", "status"), [(0, 429), (1, 200)])
def test_requests_that_wait_at_a_hook_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, status: int
) -> None:
    monkeypatch.setattr("bridgehead.bus.gateway.webhooks.MAX_WAITING", most)

    async def main() -> None:
        async with served_bus(tmp_path, agent=ScriptedAgent()) as server:
            token = server.enrol("bot", token=True, mode="manage").token
            assert (await hook(server, token, {"text": "one"}))[0] == status

    run(main())


# -- metrics ----------------------------------------------------------------------------------------------------


def test_metrics_count_outcomes_by_reason_and_name_no_participant(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bus(tmp_path, agent=ScriptedAgent()) as server:
            satellite = await server.satellite("kitchen")
            assert (await satellite.ask("hello")).text == "You said: hello"
            _, headers, body = await http(server.gateway_address, "GET", "/metrics")
            text = body.decode()
            assert (
                'bridgehead_bus_messages_total{direction="in",outcome="delivered",reason=""} 1'
                in text
            )
            assert (
                'bridgehead_bus_messages_total{direction="out",outcome="dropped",reason="echo"} 1'
                in text
            )
            assert "bridgehead_bus_participants_connected 1" in text
            assert "bridgehead_hub_members 0" in text
            assert "kitchen" not in text
            assert headers["content-type"].startswith("text/plain; version=0.0.4")
            assert (
                await http(
                    server.gateway_address, "GET", "/metrics", Host="evil.example"
                )
            )[0] == 403
            await satellite.close()

    run(main())


# -- chat -------------------------------------------------------------------------------------------------------


def test_a_page_talks_in_a_session_of_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        agent = ScriptedAgent()
        async with served_bus(tmp_path, agent=agent) as server:
            pages = [await page(server, await enter(server)) for _ in range(2)]
            names = [(await told(one, "welcome"))["participant"] for one in pages]
            assert names[0] != names[1] and names[0].startswith("chat-")
            for number, one in enumerate(pages):
                await one.send(json.dumps({"text": f"<b>hi {number}</b>"}).encode())
            for number, one in enumerate(pages):
                assert (await told(one, "speak"))[
                    "utterance"
                ] == f"You said: <b>hi {number}</b>"
                assert await told(one, "handled") is True
            assert len({question.session_id for question in agent.asked}) == 2
            for one in pages:
                await one.close()

    run(main())


def test_reloading_the_page_goes_on_as_the_same_participant(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bus(tmp_path, agent=ScriptedAgent()) as server:
            cookie = await enter(server)
            first = await page(server, cookie)
            name = (await told(first, "welcome"))["participant"]
            status, _, _ = await http(
                server.gateway_address, "GET", "/chat", Cookie=cookie
            )
            assert status == 200
            second = await page(server, cookie)
            assert (await told(second, "welcome"))["participant"] == name
            with pytest.raises(ConnectionEnded) as ended:
                await first.receive()
            assert ended.value.code == 4009
            await second.close()

    run(main())


@pytest.mark.parametrize(
    ("headers", "with_cookie", "status"),
    [
        ({}, False, 401),
        ({"Origin": "http://evil.example"}, True, 403),
        ({"Origin": "null"}, True, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, True, 403),
        ({"Cookie": "bridgehead_chat=guess"}, False, 401),
    ],
)
def test_only_the_page_that_was_served_here_gets_a_socket(
    tmp_path: Path, headers: dict[str, str], with_cookie: bool, status: int
) -> None:
    async def main() -> None:
        async with served_bus(tmp_path) as server:
            cookie = await enter(server) if with_cookie else None
            with pytest.raises(DialRefused) as refused:
                await page(server, cookie, **headers)
            assert refused.value.status == status

    run(main())


def test_a_program_without_an_origin_does_not_pass_for_a_page(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bus(tmp_path) as server:
            cookie = await enter(server)
            with pytest.raises(DialRefused) as refused:
                await dial(
                    Target(
                        f"ws://{server.gateway_address}/chat", (("Cookie", cookie),)
                    ),
                    ClientConversation(),
                )
            assert refused.value.status == 403

    run(main())


def test_stop_ends_the_round_and_bad_input_is_answered(tmp_path: Path) -> None:
    async def main() -> None:
        agent = SlowAgent()
        async with served_bus(tmp_path, agent=agent) as server:
            one = await page(server, await enter(server))
            await told(one, "welcome")
            await one.send(b'{"text":"slow"}')
            await one.send(b'{"stop":true}')
            assert await told(one, "handled") is True
            for bad in (b"nonsense", b"[1]", b'{"text":7}', b'{"text":" "}'):
                await one.send(bad)
                assert (await told(one, "error"))["code"] == "malformed"
            await one.send(b'{"text":"quick"}')
            assert (await told(one, "speak"))["utterance"] == "answer to quick"
            await one.close()

    run(main())


class Approvals:
    """Approvals in memory."""

    def __init__(self) -> None:
        self.answered: dict[str, tuple[str, str]] = {}

    def ask(self, request: Any) -> None: ...

    def answer_to(self, key: str) -> str | None:
        return None

    def withdraw(self, key: str) -> None: ...

    def answer(self, item_id: str, text: str, by: str, shown: str) -> None:
        if item_id in self.answered:
            raise UserError(f"{item_id} was answered before")
        self.answered[item_id] = (text, by)


@pytest.mark.parametrize("granted", [True, False])
def test_notices_and_answers_need_their_grants(tmp_path: Path, granted: bool) -> None:
    async def main() -> None:
        pending_answers = Approvals()
        grants = ["notices", "approve"] if granted else []
        async with served_bus(
            tmp_path, approvals=pending_answers, chat_grants=grants
        ) as server:
            one = await page(server, await enter(server))
            welcome = await told(one, "welcome")
            assert welcome["may_answer"] is granted
            notice = Notice(
                kind="pending", id="q-7", title="Deploy?", status="needs_you"
            )
            assert server.notify(notice) == int(granted)
            if granted:
                assert (await told(one, "notice"))["id"] == "q-7"
            answer = json.dumps({"answer": {"id": "q-7", "text": "yes"}}).encode()
            for _ in range(2):
                await one.send(answer)
            replies = [await told(one, "answered") for _ in range(2)]
            assert [reply["ok"] for reply in replies] == [granted, False]
            assert all(reply["id"] == "q-7" for reply in replies)
            assert pending_answers.answered == (
                {"q-7": ("yes", f"bus {welcome['participant']}")} if granted else {}
            )
            await one.close()

    run(main())


def test_the_cookie_of_a_chat_is_worth_nothing_to_another_account(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bus(tmp_path) as server:
            cookie = await enter(server)
            assert cookie.startswith(
                f"bridgehead_chat_{server.gateway_address.rpartition(':')[2]}="
            )
            assert (await http(server.gateway_address, "GET", "/chat", Cookie=cookie))[
                0
            ] == 200
            server.chat._user_of = lambda _request: 4242
            assert (await http(server.gateway_address, "GET", "/chat", Cookie=cookie))[
                0
            ] == 401
            with pytest.raises(DialRefused):
                await page(server, cookie)

    run(main())


def test_a_login_of_the_chat_ends(tmp_path: Path) -> None:
    class Later(SystemClock):
        def now(self) -> datetime:
            return super().now() + timedelta(seconds=SESSION_S + 1)

    async def main() -> None:
        async with served_bus(tmp_path) as server:
            cookie = await enter(server)
            server.chat._clock = Later()
            assert (await http(server.gateway_address, "GET", "/chat", Cookie=cookie))[
                0
            ] == 401

    run(main())


def test_what_waits_is_not_looked_up_for_one_who_may_not_know() -> None:
    sent: list[Notice] = []
    nobody = cast(Register, {})
    PendingAnswers(nobody, None, cast(Notices, object())).send_open_items(
        "stranger", sent.append
    )
    assert sent == []


def test_nothing_of_a_chat_session_outlives_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bus(tmp_path, agent=ScriptedAgent(), grace_s=0.05) as server:
            one = await page(server, await enter(server))
            await told(one, "welcome")
            await one.send(b'{"text":"hi"}')
            await told(one, "handled")
            await one.close()
            await until(lambda: len(server.relay.bridge.known) == 0)
            await server.relay.saved()
            assert server.folder.state().load().sources == {}

    run(main())
