"""Notices and answers: record, hub, gateway and participants together (design §1)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bridgehead.assembly.application import Assembly, append_event
from bridgehead.assembly.bus.notices import RecordNotices
from bridgehead.bus.access.enrolment import set_key
from bridgehead.bus.client.participant import (
    Incoming,
    MessageRefused,
    Satellite,
)
from bridgehead.bus.interfaces import ItemAnswer, ItemAnswered, Notice, typed_answer
from bridgehead.bus.wire.message import Message
from bridgehead.bus.wire.topics import BRIDGE_ONLY, NOTICE
from bridgehead.contract.record_words import PendingState
from bus.support.pages import enter, page, told
from bus.support.records import asked, assembled, kept, served_with_record
from bus.support.running import run
from bus.support.serving import served_bus
from support.rig_bridges import make_bridge


async def noticed(satellite: Satellite) -> Message:
    while not (
        isinstance(event := await satellite.receive(), Incoming)
        and event.message.type == NOTICE
    ):
        pass
    return event.message


async def answered(satellite: Satellite) -> ItemAnswered:
    while not isinstance(event := await satellite.receive(), ItemAnswered):
        pass
    return event


def test_a_council_that_finished_is_told_to_those_who_hold_the_grant_and_to_nobody_else(
    tmp_path: Path,
) -> None:
    assembly = assembled(tmp_path)
    council = {
        "kind": "council",
        "id": "101502",
        "title": "review of src/",
        "status": "finished",
    }

    async def main() -> None:
        async with served_with_record(tmp_path, assembly) as server:
            kitchen = await server.satellite("kitchen", grants={"notices": True})
            den = await server.satellite("den")
            one = await page(server, await enter(server))
            await told(one, "welcome")
            append_event(
                assembly.project, "notice", council, run_id="101502", assembly=assembly
            )

            message = await noticed(kitchen)
            assert message.data == council
            assert message.context == {
                "source": "bridgehead",
                "destination": kitchen.source,
            }
            assert await told(one, "notice") == council
            assert server.relay.counters.of("den") == {}
            for participant in (kitchen, den, one):
                await participant.close()

    run(main())


def test_a_pending_item_is_answered_from_chat_once_and_everybody_sees_by_whom(
    tmp_path: Path,
) -> None:
    assembly = assembled(tmp_path)

    async def main() -> None:
        async with served_with_record(tmp_path, assembly) as server:
            kitchen = await server.satellite("kitchen", grants={"notices": True})
            pages = [await page(server, await enter(server)) for _ in range(2)]
            names = [(await told(one, "welcome"))["participant"] for one in pages]
            item = asked(assembly, "deploy")
            for one in pages:
                notice = await told(one, "notice")
                assert (notice["id"], notice["status"]) == (item.id, "needs_you")
                assert notice["choices"] == ["yes", "no"]

            await kitchen.answer(item.id, "yes")
            assert not (await answered(kitchen)).ok, "it may know, not answer"
            assert kept(assembly, item).state is PendingState.OPEN

            await pages[0].send(
                json.dumps({"text": f"answer {item.id} maybe"}).encode()
            )
            refused = await told(pages[0], "answered")
            assert not refused["ok"] and "yes, no" in refused["message"]
            await pages[0].send(json.dumps({"text": f"answer {item.id} yes"}).encode())
            assert await told(pages[0], "answered") == {
                "id": item.id,
                "ok": True,
                "message": f"{item.id} was answered: yes",
            }
            answer = kept(assembly, item).answer
            assert answer is not None and (answer.text, answer.by) == (
                "yes",
                f"bus {names[0]}",
            )

            await pages[1].send(
                json.dumps({"answer": {"id": item.id, "text": "no"}}).encode()
            )
            second = await told(pages[1], "answered")
            assert not second["ok"] and names[0] in second["message"]
            while (message := await noticed(kitchen)).data["status"] != "answered":
                pass
            assert (
                message.data["by"] == f"bus {names[0]}"
                and "yes" not in message.data.values()
            )
            for participant in (kitchen, *pages):
                await participant.close()

    run(main())


def test_a_grant_that_is_taken_away_counts_at_once(tmp_path: Path) -> None:
    assembly = assembled(tmp_path)

    async def main() -> None:
        async with served_with_record(tmp_path, assembly) as server:
            kitchen = await server.satellite("kitchen", grants={"approve": True})
            item = asked(assembly, "deploy")
            set_key(server.folder, "kitchen", "grants.approve", "false")
            server.gateway.reload()
            await kitchen.answer(item.id, "yes")
            assert not (await answered(kitchen)).ok
            assert kept(assembly, item).state is PendingState.OPEN
            await kitchen.close()

    run(main())


def test_a_page_that_opens_later_is_told_what_waits(tmp_path: Path) -> None:
    assembly = assembled(tmp_path)
    item = asked(assembly, "before anybody came", choices=())

    async def main() -> None:
        async with served_with_record(tmp_path, assembly) as server:
            one = await page(server, await enter(server))
            notice = await told(one, "notice")
            assert (notice["id"], notice["title"]) == (item.id, "bus: Deploy?")
            await one.close()

    run(main())


@pytest.mark.parametrize("topic", sorted(BRIDGE_ONLY))
def test_nobody_but_the_bridge_says_what_only_a_bridge_says(
    tmp_path: Path, topic: str
) -> None:
    async def main() -> None:
        async with served_bus(tmp_path) as server:
            forger = await server.satellite("forger", role="peer", publish=["*"])
            await forger.send(Message(topic, {"id": "q-1", "topics": []}))
            refused = await forger.receive()
            assert refused == MessageRefused(
                "policy_denied", {"field": "type", "value": topic}
            )
            await forger.close()

    run(main())


def test_an_envelope_that_was_pulled_is_a_notice_and_one_that_lay_there_before_is_not(
    tmp_path: Path,
) -> None:
    bridge = make_bridge(tmp_path)
    sender, receiver = bridge.clone("a", "rig-a"), bridge.clone("b", "rig-b")
    assembly = Assembly(receiver.path, receiver.environ())
    told_of: list[Notice] = []

    def pulled(thread: str) -> None:
        sender.rig("new", thread).ok()
        sender.rig(
            "send", "REQUEST", "--thread", thread, "--to", "rig-b", "--tldr", thread
        ).ok()
        receiver.rig("sync", "--auto").ok()

    async def main() -> None:
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def tell(notice: Notice) -> None:
            told_of.append(notice)
            loop.call_soon_threadsafe(news.set)

        end = RecordNotices(assembly).follow(tell)
        await asyncio.to_thread(pulled, "later")
        await news.wait()
        end()

    pulled("earlier")
    run(main())
    assert {notice.status for notice in told_of} == {"needs_you"}
    assert all("later" in notice.title for notice in told_of)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("answer q-12 yes", ItemAnswer("q-12", "yes")),
        (
            "/answer q-12 use cuda 12\nand gcc 13 ",
            ItemAnswer("q-12", "use cuda 12\nand gcc 13"),
        ),
        ("Answer r-0ab1 no", ItemAnswer("r-0ab1", "no")),
        ("answer q-12", None),
        ("answer me this", None),
        ("please answer q-12 yes", None),
        (7, None),
        (None, None),
    ],
)
def test_a_typed_line_is_an_answer_only_if_it_names_an_item(
    line: Any, expected: ItemAnswer | None
) -> None:
    assert typed_answer(line) == expected
