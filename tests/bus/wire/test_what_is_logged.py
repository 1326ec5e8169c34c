"""What is overlooked is logged, with enough to find its producer (bus §1.1, §2)."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.assistant.host import AssistantHost
from bridgehead.bus.hub.hub import Hub, HubMember
from bridgehead.bus.wire.message import Message


class Producer:
    address = "10.1.2.3"


def test_a_session_field_left_out_is_named_with_the_type_it_had(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        hub = Hub()
        assistant = AssistantHost(hub, ScriptedAgent())
        assistant.start()
        session = {
            "session_id": "s",
            "persona_id": None,
            "location": {"lat": "north"},
            "unknown": None,
        }
        hub.publish(
            Message(
                "ovos.utterance.handle", {"utterances": ["hi"]}, {"session": session}
            )
        )
        await assistant.stop()

    with caplog.at_level("WARNING", "bridgehead.bus.assistant"):
        asyncio.run(main())
    assert [record.getMessage() for record in caplog.records] == [
        "session field location.lat was dropped: it is str",
        "session field persona_id was dropped: it is NoneType",
    ]


def test_an_odd_frame_is_taken_and_its_producer_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hub, producer = Hub(), cast(HubMember, Producer())
    with caplog.at_level("INFO", "bridgehead.bus.hub"):
        hub.take(b'{"type":"a.b","data":null,"id":7}', producer)
        hub.take(b'{"type":"a.b"}', producer)
        hub.take(b"{oops", producer)
    assert [record.getMessage() for record in caplog.records] == [
        "a frame from 10.1.2.3 was accepted with unknown_top_level_key, data_null",
        "dropped a frame from 10.1.2.3: not_json",
    ]
