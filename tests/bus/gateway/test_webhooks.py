"""Webhooks outlive whatever a client posts and a hub says."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from bridgehead.bus.actions import Delivery
from bridgehead.bus.gateway.webhooks import HttpCall, HttpParticipant, _read_question
from bridgehead.bus.sockets.base import Answer, Request
from bridgehead.bus.wire.message import Message, encode


def posted(body: bytes) -> Request:
    headers = {"content-type": "application/json"}
    return Request("POST", "/hook/bot", {}, headers, "127.0.0.1", False, body=body)


@pytest.mark.parametrize(
    "body", [b"[" * 200_000, b'{"text":"\xff"}', b"", b'{"text":"\\ud800"}']
)
def test_a_body_that_cannot_be_read_is_the_clients_mistake(body: bytes) -> None:
    answer = _read_question(posted(body))
    assert isinstance(answer, Answer) and answer.status == 400


def test_words_with_an_odd_utterance_id_go_to_the_one_who_has_waited_longest() -> None:
    async def main() -> None:
        participant, call = HttpParticipant(), HttpCall()
        participant.waiting["u1"] = call
        for odd in ([], {}, 5, ""):
            said = Message(
                "ovos.utterance.speak", {"utterance": "hm"}, {"utterance_id": odd}
            )
            participant.deliver(Delivery("p", said.type, encode(said), 1, None, 0.0))
        assert msgspec.json.encode(call.speak).count(b"hm") == 4

    asyncio.run(main())


def test_words_without_an_id_stay_in_their_channel() -> None:
    async def main() -> None:
        participant = HttpParticipant()
        calls = {
            name: HttpCall(channel)
            for name, channel in (("u1", "one"), ("u2", "two"), ("u3", None))
        }
        participant.waiting |= calls
        for session in ("two", "the-managed-session", "one"):
            context = {"session": {"session_id": session}}
            said = Message("ovos.utterance.speak", {"utterance": session}, context)
            participant.deliver(Delivery("p", said.type, encode(said), 1, None, 0.0))
        heard = {
            name: [said["utterance"] for said in call.speak]
            for name, call in calls.items()
        }
        assert heard == {"u1": ["one"], "u2": ["two"], "u3": ["the-managed-session"]}

    asyncio.run(main())


@pytest.mark.parametrize("channel", [7, "", "a\nb"])
def test_a_channel_that_is_none_is_the_clients_mistake(channel: object) -> None:
    answer = _read_question(
        posted(msgspec.json.encode({"text": "hi", "channel": channel}))
    )
    assert isinstance(answer, Answer) and answer.status == 400
