"""A bridge that is full turns the next one away and still does what it owes to others."""

from __future__ import annotations

from typing import cast

import pytest

from bridgehead.bus.participants.participants import (
    RememberedState,
    TooManyParticipants,
)
from bridgehead.bus.relay import ParticipantConnection, Relay
from bridgehead.bus.transports.base import Audience, HubListener
from bridgehead.bus.wire.message import Message
from bridgehead.host.clock import ManualClock
from bus.support.bridging import make_bridge, make_record
from bus.support.running import run


class Written:
    """A hub that remembers what was put on it."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def connect(self, listener: HubListener) -> None: ...

    def send(self, message: Message, echo: bool = True) -> bool:
        self.messages.append(message)
        return True

    def expect(self, audience: Audience) -> None: ...

    async def close(self) -> None: ...


class Present:
    listens = True

    def welcome(self, source: str) -> None: ...


def test_who_left_for_good_is_cleaned_up_after_although_the_next_one_is_turned_away() -> (
    None
):
    async def main() -> None:
        hub, clock = Written(), ManualClock()
        records = {name: make_record(name) for name in ("gone", "here", "next")}
        past = RememberedState(
            {"gone": "gone", "here": "here"}, {}, {"gone": (("h", "lamp"),)}
        )
        bridge = make_bridge(
            max_participants=1,
            grace_s=30,
            remembered=past,
            records=records,
            now=clock.monotonic(),
        )
        relay = Relay(bridge, hub, clock=clock)
        connection = cast(ParticipantConnection, Present())
        relay.join(records["here"], connection)
        clock.advance(31)
        with pytest.raises(TooManyParticipants):
            relay.join(records["next"], connection)
        assert [message.type for message in hub.messages] == ["ovos.skill.deregister"]

    run(main())
