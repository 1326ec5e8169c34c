"""Hole 5: a program on the hub forged what an approver saw, and the yes to it paired a stranger's device."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bridgehead.assembly.application import append_event
from bridgehead.bus.client.hub_client import HubClient
from bridgehead.bus.client.participant import Incoming, MessageRefused, Satellite
from bridgehead.bus.gateway.doors.door import Door
from bridgehead.bus.interfaces import ItemAnswered, Notice, ShownQuestions
from bridgehead.bus.participants.record import ParticipantRecord, Role
from bridgehead.bus.wire.message import Message
from bridgehead.bus.wire.topics import GATEWAY_ONLY, NOTICE, SPEAK
from bridgehead.contract.pending import PendingItem, shown_digest
from bridgehead.contract.record_words import PendingState
from bus.support.pages import enter, page, told
from bus.support.records import asked, assembled, kept, served_with_record
from bus.support.running import run, until
from bus.support.serving import Served, http

APPROVER = {"notices": True, "approve": True}


def harmless(item: PendingItem, **more: Any) -> dict[str, Any]:
    """Return a notice that gives a real question a harmless title."""
    words = {"title": "bus: water the plants?", "prompt": "Water the plants?"}
    label = {"kind": "pending", "id": item.id, "status": "needs_you"}
    return {**label, **words, "choices": ["yes", "no"], **more}


@asynccontextmanager
async def hub_program(server: Served) -> AsyncIterator[HubClient]:
    async with await HubClient.connect(server.hub_url) as program:
        yield program


async def answered(satellite: Satellite) -> ItemAnswered:
    while not isinstance(event := await satellite.receive(), ItemAnswered):
        pass
    return event


async def next_notice(satellite: Satellite) -> dict[str, Any]:
    while not isinstance(event := await satellite.receive(), Incoming):
        pass
    assert event.message.type == NOTICE
    return event.message.data


def refused_by_hub(server: Served) -> int:
    return server.relay.counters.hub_ignored["reserved_topic"]


def test_what_a_hub_program_sends_as_a_notice_reaches_nobody_and_is_reported(
    tmp_path: Path,
) -> None:
    assembly = assembled(tmp_path)

    async def main() -> None:
        async with served_with_record(tmp_path, assembly) as server:
            phone = await server.satellite("phone", grants=APPROVER)
            peer = await server.satellite("peer", role="peer", grants=APPROVER)
            one = await page(server, await enter(server))
            await told(one, "welcome")
            item = asked(assembly, "pair stranger", prompt="Pair the device stranger?")
            for reader in (phone, peer):
                assert (await next_notice(reader))["prompt"] == item.question.prompt
            await told(one, "notice")
            pages = [name for name in server.relay.connected if "chat-" in name]
            async with hub_program(server) as forger:
                for name in ("phone", "peer", *pages):
                    for source in ("bridgehead", "phone", "a-skill"):
                        context = {"source": source, "destination": name}
                        await forger.send(Message(NOTICE, harmless(item), context))
                await until(lambda: refused_by_hub(server) == 9)
            assert server.announcements.of("bus.refused")[0]["reason"] == (
                "reserved_topic"
            )
            marker = asked(assembly, "marker", prompt="The next that arrives")
            for reader in (phone, peer):
                assert (await next_notice(reader))["id"] == marker.id
            assert (await told(one, "notice"))["id"] == marker.id
            metrics = server.relay.counters.prometheus()
            assert 'hub_ignored_total{reason="reserved_topic"} 9' in metrics
            for participant in (phone, peer, one):
                await participant.close()

    run(main())


@pytest.mark.parametrize("topic", sorted(GATEWAY_ONLY))
def test_no_participant_sends_what_only_the_gateway_says(
    tmp_path: Path, topic: str
) -> None:
    assembly = assembled(tmp_path)

    async def main() -> None:
        async with served_with_record(tmp_path, assembly) as server:
            skill = await server.satellite(
                "skill",
                role="skill_host",
                publish=["*"],
                grants={"peer_messaging": True},
            )
            await skill.send(Message(topic, {}, {"destination": "phone"}))
            assert await skill.receive() == MessageRefused(
                "policy_denied", {"field": "type", "value": topic}
            )
            assert server.relay.counters.of("skill")["in refused:policy_denied"] == 1
            await skill.close()

    run(main())


def test_a_yes_to_other_words_than_those_of_the_question_answers_nothing(
    tmp_path: Path,
) -> None:
    assembly = assembled(tmp_path)

    async def main() -> None:
        async with served_with_record(tmp_path, assembly) as server:
            phone = await server.satellite("phone", grants=APPROVER)
            item = asked(assembly, "pair stranger", prompt="Pair the device stranger?")
            true_digest = (await next_notice(phone))["digest"]
            forged = shown_digest(item.id, "Water the plants?", ("yes", "no"))
            for digest in ("", forged, true_digest[:8]):
                await phone.answer(item.id, "yes", digest)
                became = await answered(phone)
                assert not became.ok and became.notice is not None
                assert became.notice.prompt == "Pair the device stranger?"
                assert kept(assembly, item).state is PendingState.OPEN
            await phone.answer(item.id, "yes", true_digest)
            assert (await answered(phone)).ok
            await phone.close()

    run(main())


@pytest.mark.parametrize(
    "reworded",
    [
        {"prompt": "Pair the device stranger?"},
        {"choices": ("yes", "no", "always")},
    ],
)
def test_an_answer_to_an_older_wording_is_refused_with_the_new_one(
    tmp_path: Path, reworded: dict[str, Any]
) -> None:
    assembly = assembled(tmp_path)

    async def main() -> None:
        async with served_with_record(tmp_path, assembly) as server:
            one = await page(server, await enter(server))
            await told(one, "welcome")
            item = asked(assembly, "same key", prompt="Water the plants?")
            older = (await told(one, "notice"))["digest"]
            asked(assembly, "same key", **{"prompt": "Water the plants?", **reworded})
            newer = (await told(one, "notice"))["digest"]
            assert newer != older

            answer = {"id": item.id, "text": "yes", "shown": older}
            await one.send(json.dumps({"answer": answer}).encode())
            back = await told(one, "answered")
            assert not back["ok"] and back["notice"]["digest"] == newer
            assert kept(assembly, item).state is PendingState.OPEN
            answer["shown"] = newer
            await one.send(json.dumps({"answer": answer}).encode())
            assert (await told(one, "answered"))["ok"]
            await one.close()

    run(main())


def test_words_that_a_hub_program_says_after_a_question_do_not_become_the_question(
    tmp_path: Path,
) -> None:
    """Speech is free for everybody on the hub; a typed yes counts only for a question that is the last thing said."""
    assembly = assembled(tmp_path)

    async def main() -> None:
        async with served_with_record(tmp_path, assembly) as server:
            phone = await server.satellite("phone", grants=APPROVER)
            one = await page(server, await enter(server))
            name = (await told(one, "welcome"))["participant"]
            item = asked(assembly, "pair stranger", prompt="Pair the device stranger?")
            await next_notice(phone)
            await told(one, "notice")
            lure = {"utterance": f"Water the plants? Type: answer {item.id} yes"}
            async with hub_program(server) as forger:
                for reader in ("phone", name):
                    await forger.send(Message(SPEAK, lure, {"destination": reader}))
                await told(one, "speak")
                event = await phone.receive()
                assert isinstance(event, Incoming) and event.message.type == SPEAK

            await phone.answer(item.id, "yes")
            became = await answered(phone)
            line = json.dumps({"text": f"answer {item.id} yes"}).encode()
            await one.send(line)
            back = await told(one, "answered")

            assert kept(assembly, item).state is PendingState.OPEN
            assert not became.ok and became.notice is not None and not back["ok"]
            assert back["notice"]["prompt"] == "Pair the device stranger?"
            await one.send(line)
            assert (await told(one, "answered"))["ok"], "now it was read"
            for participant in (phone, one):
                await participant.close()

    run(main())


class Room(Door):
    """A door whose network is a list."""

    def __init__(self, server: Served) -> None:
        record = ParticipantRecord("room", Role.OPAQUE, "manage")
        stored = server.gateway.directory.records.get("room", record)
        super().__init__(server.relay, stored)
        self.said: list[str] = []

    async def run(self) -> None: ...

    def speak(
        self, room: str, text: str, message_id: str | None, *, is_open: bool
    ) -> None:
        self.said.append(text)

    def think(self, room: str, message_id: str, *, on: bool) -> None: ...


def test_in_a_room_a_yes_counts_for_the_question_that_was_said_last(
    tmp_path: Path,
) -> None:
    """Matrix rooms and voice satellites have no cards: what is said there is all there is."""
    assembly = assembled(tmp_path)

    async def main() -> None:
        async with served_with_record(tmp_path, assembly) as server:
            server.enrol("room", mode="manage", grants=APPROVER)
            earlier = asked(assembly, "pair stranger", prompt="Pair stranger?")
            await until(lambda: bool(server.gateway.pending_answers._announced))
            room = Room(server)
            await room.join()

            room.heard("", "answer yes", "1")
            await until(lambda: len(room.said) == 1)
            assert "Pair stranger?" in room.said[0], "it had never been said here"
            assert kept(assembly, earlier).state is PendingState.OPEN

            lure = {"utterance": "Water the plants? To answer, say: answer yes"}
            async with hub_program(server) as forger:
                await forger.send(Message(SPEAK, lure, {"destination": "room"}))
                await until(lambda: len(room.said) == 2)
            room.heard("", "answer yes", "2")
            await until(lambda: len(room.said) == 3)
            assert "Pair stranger?" in room.said[2]
            assert kept(assembly, earlier).state is PendingState.OPEN

            room.heard("", "answer yes", "3")
            await until(lambda: len(room.said) == 4)
            assert kept(assembly, earlier).state is PendingState.ANSWERED
            await room.stop()

    run(main())


def test_a_webhook_answers_nothing(tmp_path: Path) -> None:
    assembly = assembled(tmp_path)

    async def main() -> None:
        async with served_with_record(tmp_path, assembly) as server:
            join = server.enrol("script", token=True, mode="manage", grants=APPROVER)
            item = asked(assembly, "pair stranger")
            await http(
                server.gateway_address,
                "POST",
                "/hook/script?wait_s=0",
                f"answer {item.id} yes".encode(),
                Authorization=f"Bearer {join.token}",
                Content_Type="text/plain",
            )
            assert kept(assembly, item).state is PendingState.OPEN

    run(main())


def test_an_event_of_the_record_cannot_pose_as_a_question(tmp_path: Path) -> None:
    assembly = assembled(tmp_path)

    async def main() -> None:
        async with served_with_record(tmp_path, assembly) as server:
            phone = await server.satellite("phone", grants=APPROVER)
            item = asked(assembly, "pair stranger", prompt="Pair the device stranger?")
            await next_notice(phone)
            append_event(assembly.project, "notice", harmless(item), assembly=assembly)
            council = {"kind": "council", "id": "7", "title": "t", "status": "failed"}
            append_event(assembly.project, "notice", council, assembly=assembly)
            assert (await next_notice(phone))["kind"] == "council"
            await phone.close()

    run(main())


def test_the_digest_depends_on_everything_that_is_shown() -> None:
    digests = {
        shown_digest("q-1", "Deploy?", ("yes", "no")),
        shown_digest("q-2", "Deploy?", ("yes", "no")),
        shown_digest("q-1", "Deploy!", ("yes", "no")),
        shown_digest("q-1", "Deploy?", ("no", "yes")),
        shown_digest("q-1", "Deploy?", ("yes, no",)),
        shown_digest("q-1", "Deploy?", ()),
    }
    assert len(digests) == 6
    assert ShownQuestions().digest_of("q-1") == ""


def test_a_question_in_view_is_not_shown_twice_until_something_else_was_said() -> None:
    notice = Notice(kind="pending", id="q-7", title="Deploy?", status="needs_you")
    shown = ShownQuestions()

    assert not shown.has_in_view(notice)
    shown.show(notice)
    assert shown.has_in_view(notice)
    shown.speak()
    assert not shown.has_in_view(notice)
