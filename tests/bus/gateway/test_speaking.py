"""Speaking to participants that have asked nothing: announcements, and questions whose answer comes back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.bus.bus import RecordApprovals
from bridgehead.assembly.bus.notices import question_notice
from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.client.participant import Incoming, Satellite
from bridgehead.bus.gateway.pending_answers import Speaker, SpokenAnswer
from bus.support.running import run, until
from bus.support.serving import served_bus


async def heard(satellite: Satellite) -> dict[str, Any]:
    """What is spoken next."""
    while (
        not isinstance(event := await satellite.receive(), Incoming)
        or "speak" not in event.message.type
    ):
        pass
    return event.message.data


def record(tmp_path: Path) -> RecordApprovals:
    return RecordApprovals(
        Assembly(tmp_path, {"BRIDGEHEAD_HOME": str(tmp_path / "home")})
    )


def test_an_announcement_reaches_the_site_and_nobody_else(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            served_bus(tmp_path) as server,
            await server.satellite(
                "kitchen", site_determination="downstairs"
            ) as kitchen,
            await server.satellite("attic", site_determination="upstairs"),
        ):
            speaker = Speaker(server.relay, None)
            assert speaker.announce(
                "the oven is hot", "en", "downstairs"
            ).participants == ("kitchen",)
            assert (await heard(kitchen))["utterance"] == "the oven is hot"
            assert speaker.announce("dinner", None, None).participants == (
                "kitchen",
                "attic",
            )
            assert speaker.announce("anybody", None, "the moon").participants == ()

    run(main())


def test_what_is_said_next_answers_the_question_and_goes_to_nobody_else(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        agent, approvals = ScriptedAgent(), record(tmp_path)
        async with (
            served_bus(tmp_path / "bus", agent=agent, approvals=approvals) as server,
            await server.satellite("kitchen") as kitchen,
            await server.satellite("attic") as attic,
        ):
            speaker = Speaker(server.relay, approvals)
            asking = asyncio.ensure_future(
                speaker.ask("kitchen", "shall I turn it off?", None, 60)
            )
            assert (await heard(kitchen))["utterance"] == "shall I turn it off?"
            assert (await attic.ask("hello")).text == "You said: hello"
            again = await speaker.ask("kitchen", "and the light?", None, 60)
            assert again.text is None and "has not answered" in str(again.problem)
            spoken = await kitchen.ask("yes please")
            assert spoken.handled and spoken.text == ""
            assert await asking == SpokenAnswer("yes please")
            assert [question.text for question in agent.asked] == ["hello"]
            assert (await kitchen.ask("hello again")).text == "You said: hello again"

    run(main())


def test_a_question_may_be_answered_elsewhere_and_is_withdrawn_when_nobody_waits_any_more(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        approvals = record(tmp_path)
        store = approvals._assembly.store

        def waiting() -> list[str]:
            with store(read_only=True) as opened:
                return [item.id for item in opened.pending()]

        async with (
            served_bus(tmp_path / "bus", approvals=approvals) as server,
            await server.satellite("kitchen") as kitchen,
        ):
            speaker = Speaker(server.relay, approvals)
            asking = asyncio.ensure_future(
                speaker.ask("kitchen", "who is there?", None, 60)
            )
            await heard(kitchen)
            (item,) = waiting()
            with store(read_only=True) as opened:
                shown = question_notice(opened.pending_item(item)).digest
            approvals.answer(item, "the postman", "somebody at a desk", shown)
            assert await asking == SpokenAnswer("the postman")

            given_up = asyncio.ensure_future(
                speaker.ask("kitchen", "who is there?", None, 60)
            )
            await heard(kitchen)
            assert len(waiting()) == 1
            given_up.cancel()
            await until(lambda: not waiting())
            assert (
                await speaker.ask("kitchen", "now?", None, 0.01)
            ).problem == "kitchen did not answer in time"
            assert (
                await speaker.ask("cellar", "now?", None, 1)
            ).problem == "cellar is not connected"

    run(main())
