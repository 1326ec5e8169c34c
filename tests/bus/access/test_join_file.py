"""A join file fits the bridge that runs, whatever it was started with."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from urllib.parse import urlsplit

import msgspec
import pytest

from bridgehead.bus.access.credentials import (
    NO_BINDING,
    Challenge,
    Credential,
    mac_fits,
    make_token,
    token_fits,
    token_hash,
)
from bridgehead.bus.access.join_file import JoinFile, read_join_file
from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.client.participant import NotOurBridge, Satellite, _shake_hands
from bridgehead.bus.sockets.dial import ClientConversation
from bridgehead.bus.wire.frames import to_base64
from bus.support.running import run
from bus.support.serving import served_bus
from support.installed import machine


def test_a_join_file_pins_the_certificate_of_the_bridge_that_runs(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        home, state = machine(tmp_path), tmp_path / "bus"
        async with served_bus(
            state, agent=ScriptedAgent(), listen="0.0.0.0:0"
        ) as server:
            assert not urlsplit(server.chat_url).netloc.startswith("0.0.0.0")
            url = (
                f"wss://127.0.0.1:{server.gateway_address.rsplit(':', 1)[1]}/bridge/v1"
            )
            command = (
                "bus",
                "participant",
                "add",
                "den",
                "--state",
                str(state),
                "--url",
                url,
            )
            added = await asyncio.to_thread(home.run, *command)
            assert added.code == 0, added.err
            join = read_join_file(state / "join" / "den.join.json")
            async with await Satellite.connect(join) as satellite:
                assert (await satellite.ask("hi")).text == "You said: hi"

    run(main())


# -- who is believed ----------------------------------------------------------------------------------------------

NOW = datetime(2026, 11, 15, tzinfo=UTC)
TOKEN = make_token("study", bytes(32))


@pytest.mark.parametrize(
    "known",
    [None, Credential(revoked=True), Credential(token_sha256=token_hash(TOKEN))],
)
@pytest.mark.parametrize("key", [bytes(32), b"", b"\xff" * 32])
def test_who_has_no_key_here_is_not_admitted_with_a_key_of_zeros(
    known: Credential | None, key: bytes
) -> None:
    challenge = Challenge("ghost", b"s" * 32, b"c" * 32, NO_BINDING)
    assert not mac_fits(known, challenge, challenge.client_mac(key))


@pytest.mark.parametrize("at", range(64))
def test_every_digit_of_a_token_s_hash_counts(at: int) -> None:
    right = token_hash(TOKEN)
    other = "0" if right[at] != "0" else "1"
    assert token_fits(Credential(token_sha256=right), TOKEN, NOW)
    for stored in (right[:at], right[:at] + other + right[at + 1 :], right[at + 1 :]):
        assert not token_fits(Credential(token_sha256=stored), TOKEN, NOW)


class Says:
    """A bridge that sends these frames, whatever it hears."""

    def __init__(self, *frames: dict[str, object]) -> None:
        self._frames = [msgspec.json.encode(frame) for frame in frames]
        self.peer = SimpleNamespace(certificate=None)

    async def receive(self) -> bytes:
        return self._frames.pop(0)

    async def send(self, payload: bytes) -> None: ...


WELCOME = {"l2": "welcome", "source": "kitchen"}
CHALLENGE = {"l2": "challenge", "nonce": to_base64(bytes(32))}
BRIDGES = [
    (WELCOME,),
    (WELCOME | {"mac": to_base64(bytes(32))},),
    (CHALLENGE, WELCOME),
    (CHALLENGE, WELCOME | {"mac": to_base64(bytes(32))}),
    (CHALLENGE, WELCOME | {"mac": ""}),
]


@pytest.mark.parametrize(
    "said",
    BRIDGES,
    ids=["no-challenge", "a-mac-of-nothing", "no-mac", "wrong-mac", "empty"],
)
def test_a_device_with_a_key_believes_only_a_bridge_that_proves_to_know_it(
    said: tuple[dict[str, object], ...],
) -> None:
    join = JoinFile(
        1, "ws://127.0.0.1:1/bridge/v1", "kitchen", key=to_base64(b"k" * 32)
    )
    with pytest.raises(NotOurBridge):
        asyncio.run(_shake_hands(cast(ClientConversation, Says(*said)), join, None))
