"""Whoever sends something that is not taken learns of it, and of which frame."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.bus.client.participant import (
    MessageRefused,
    NotOurBridge,
    SendRefused,
    _frame,
)
from bridgehead.bus.sockets.dial import ClientConversation, DialRefused, Target, dial
from bridgehead.bus.wire.message import Message
from bus.support.gateways import served_bridge
from bus.support.running import run


def test_a_sender_that_waits_is_told_whether_its_message_was_taken(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with (
            served_bridge(tmp_path) as served,
            await served.satellite("kitchen") as satellite,
        ):
            await satellite.send(Message("ovos.stop"))
            await satellite.settled()
            await satellite.send(Message("shell.run"))
            with pytest.raises(SendRefused, match="policy_denied") as refused:
                await satellite.settled()
            assert "`bridgehead bus policy show kitchen`" in str(refused.value.hint)

    run(main())


@pytest.mark.parametrize("kind", [b"", b'"l2":"nonsense",', b'"l2":"msg","m":5,'])
def test_an_error_names_the_frame_it_is_about(tmp_path: Path, kind: bytes) -> None:
    async def main() -> None:
        async with (
            served_bridge(tmp_path) as served,
            await served.satellite("kitchen") as satellite,
        ):
            await satellite._conversation.send(b"{" + kind + b'"ref":["f",7]}')
            event = await satellite.receive()
            assert isinstance(event, MessageRefused) and event.code == "malformed"
            assert event.details["ref"] == ["f", 7]

    run(main())


@pytest.mark.parametrize("payload", [b"hello", b"[]", b"\xff"])
def test_a_bridge_that_speaks_something_else_is_named_as_such(payload: bytes) -> None:
    with pytest.raises(NotOurBridge):
        _frame(payload)


def test_a_client_that_does_not_offer_the_frames_is_refused_before_the_upgrade(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            for offered in (None, "chat", "bridgehead.v2"):
                with pytest.raises(DialRefused, match="400"):
                    await dial(Target(served.url, (), offered), ClientConversation())

    run(main())
