"""How much one participant may take, and that a speaker is told when no answer can come."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridgehead.bus.actions import Refused
from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.client.participant import MessageRefused, SendRefused
from bridgehead.bus.gateway.pending_answers import AT_ONCE_EACH, PendingAnswers
from bridgehead.bus.interfaces import ItemAnswer, ItemAnswered
from bridgehead.bus.participants.participants import Register
from bridgehead.bus.wire.message import Message
from bus.support.bridging import frame, make_bridge, make_record, outcomes, written
from bus.support.gateways import served_bridge
from bus.support.running import run, until
from bus.support.serving import http, served_bus

SESSION = {"session_id": "s"}


def _handled(bridge: Any, session: dict[str, Any], **context: Any) -> None:
    bridge.hub_sent(
        Message(
            "ovos.utterance.handled",
            {},
            {"destination": "p", "session": session, **context},
        ),
        0,
    )


def test_large_messages_are_bounded_by_their_bytes() -> None:
    bridge = make_bridge()
    limits = {"bytes_per_second": 100_000, "burst": 4, "max_frame_bytes": 300_000}
    bridge.connected(make_record("p", limits=limits), 0)
    large = frame("ovos.utterance.handle", {"utterances": ["x" * 200_000]})
    assert outcomes(bridge.received("p", large, 0)) == [("p", "delivered")]
    assert outcomes(bridge.received("p", large, 0)) == [("p", "refused:rate_limited")]
    assert outcomes(bridge.received("p", frame("ovos.stop"), 0)) == [("p", "delivered")]
    assert outcomes(bridge.received("p", large, 2)) == [("p", "delivered")]


def test_questions_without_an_end_are_bounded_on_a_hub_that_marks_ends() -> None:
    bridge = make_bridge()
    bridge.connected(make_record("p", limits={"open_questions": 2}), 0)
    question = frame("ovos.utterance.handle", {"utterances": ["x"]}, session=SESSION)
    for _ in range(4):  # whether this hub marks ends is not known yet
        [message] = written(bridge.received("p", question, 0))
    session = message.context["session"]
    for _ in range(3):
        _handled(bridge, session)
    assert outcomes(bridge.received("p", question, 0)) == [("p", "delivered")]
    refused = bridge.received("p", question, 0)
    assert refused[0] == Refused("p", "too_many_questions", {})
    assert outcomes(bridge.received("p", frame("ovos.stop", session=SESSION), 0)) == [
        ("p", "delivered")
    ]
    _handled(bridge, session)
    assert outcomes(bridge.received("p", question, 0)) == [("p", "delivered")]
    assert outcomes(bridge.received("p", question, 1000)) == [
        ("p", "delivered")
    ]  # the old ones are forgotten


def test_every_open_question_is_reported_when_the_hub_is_lost() -> None:
    bridge = make_bridge()
    for name in ("p", "q"):
        bridge.connected(make_record(name), 0)
    sent = {}
    for name, word in (("p", "u1"), ("p", "u2"), ("q", "u3")):
        question = frame(
            "ovos.utterance.handle",
            {"utterances": ["x"]},
            session=SESSION,
            utterance_id=word,
        )
        [sent[word]] = written(bridge.received(name, question, 0))
    _handled(bridge, sent["u2"].context["session"], utterance_id="u2")
    assert bridge.hub_lost() == [
        Refused("p", "turn_lost", {"utterance_id": "u1"}),
        Refused("q", "turn_lost", {"utterance_id": "u3"}),
    ]
    assert bridge.hub_lost() == []
    refused = bridge.received("p", frame("ovos.stop", session=SESSION), 0)
    assert refused[0] == Refused("p", "hub_down", {})
    assert outcomes(refused) == [("p", "dropped:hub_down")]


def test_a_speaker_is_told_that_the_hub_is_down_in_every_profile(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            framed = await served.satellite("framed")
            served.relay.lost("gone")
            with pytest.raises(SendRefused, match="hub_down") as refused:
                await framed.ask("anybody there")
            assert (
                refused.value.hint
                == "The assistant cannot be reached right now; say it again in a moment."
            )
            served.relay.opened()
            await framed.close()

    run(main())


def test_a_webhook_answers_503_when_the_hub_is_down_or_lost_on_the_way(
    tmp_path: Path,
) -> None:
    class Never:
        async def ask(self, question: Any) -> Any:
            if question.text != "first":
                await asyncio.Event().wait()
            return await ScriptedAgent().ask(question)

    async def main() -> None:
        async with served_bus(tmp_path, agent=Never()) as server:
            join = server.enrol("bot", token=True, mode="manage")
            headers = {
                "Authorization": f"Bearer {join.token}",
                "Content-Type": "text/plain",
            }

            async def post(text: str) -> tuple[int, Any]:
                status, _, body = await http(
                    server.gateway_address,
                    "POST",
                    "/hook/bot",
                    text.encode(),
                    **headers,
                )
                return status, msgspec.json.decode(body)

            assert (await post("first"))[0] == 200
            waiting = asyncio.create_task(post("second"))
            known = server.relay.bridge.known
            await until(
                lambda: (
                    (bot := known.get("bot")) is not None and bool(bot.questions._open)
                )
            )
            server.relay.lost("gone")
            status, document = await waiting
            assert status == 503 and document["error"]["code"] == "turn_lost"
            status, document = await post("third")
            assert status == 503 and document["error"]["code"] == "hub_down"

    run(main())


def test_answers_of_one_participant_leave_places_for_the_others() -> None:
    async def main() -> None:
        asked: list[str] = []
        replies: list[ItemAnswered] = []
        go_on = asyncio.Event()
        known = Register()
        for name in ("loud", "quiet"):
            known.add(make_record(name, grants={"approve": True}), name, 0)

        class Slow:
            def answer(self, item_id: str, text: str, by: str, shown: str) -> None:
                asked.append(by)
                asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()

        loop = asyncio.get_running_loop()
        answers = PendingAnswers(known, Slow(), None)
        for _ in range(AT_ONCE_EACH + 5):
            answers.answer("loud", ItemAnswer("q-1", "yes"), replies.append)
        assert len(replies) == 5 and "too many answers" in replies[0].sentence
        answers.answer("quiet", ItemAnswer("q-2", "yes"), replies.append)
        await until(lambda: "bus quiet" in asked)
        go_on.set()
        await until(lambda: len(replies) == AT_ONCE_EACH + 6)

    run(main())


def test_a_program_without_frames_hears_of_a_lost_hub(tmp_path: Path) -> None:
    from bridgehead.bus.sockets.dial import ClientConversation, Target, dial

    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            join = served.enrol("old", token=True)
            conversation = ClientConversation()
            url = served.url.replace("/v1", "/raw")
            await dial(
                Target(url, (("Authorization", f"Bearer {join.token}"),)), conversation
            )
            served.relay.lost("gone")
            await conversation.send(
                frame("ovos.utterance.handle", {"utterances": ["hi"]})
            )
            told = msgspec.json.decode(await conversation.receive())
            assert told == {
                "type": "bridgehead.refused",
                "data": {"code": "hub_down"},
                "context": {},
            }
            served.relay.opened()
            await conversation.close()

    run(main())


def test_a_refusal_with_the_reference_of_its_frame_is_not_one_of_an_earlier_turn(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            satellite = await served.satellite("k")
            await satellite.say("one")
            [asked] = await served.until_heard("ovos.utterance.handle")
            served.hub.publish(asked.reply("ovos.utterance.handled", {}))
            await satellite.say("two")
            await served.until_heard("ovos.utterance.handle", 2)
            await satellite.receive()
            served.relay.lost("gone")
            assert await satellite.receive() == MessageRefused("turn_lost", {})
            served.relay.opened()
            await satellite.close()

    run(main())
