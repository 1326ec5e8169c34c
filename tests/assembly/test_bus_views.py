"""The running bus as another process on this machine sees it: the operator's door and the view behind it."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.bus.views import BusView, bus_view, message_content
from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.gateway.running import (
    RunningBridge,
    read_running,
    running_url,
    write_running,
)
from bridgehead.bus.gateway.status import (
    MAX_CONTENT_BYTES,
    MAX_HEADS,
    WATCHED_S,
    Rates,
    Tail,
)
from bridgehead.bus.wire.message import Message
from bus.support.running import run, until
from bus.support.serving import http, served_bus


def seen_from(tmp_path: Path) -> Assembly:
    return Assembly(
        tmp_path, {"HOME": str(tmp_path), "BRIDGEHEAD_BUS_STATE": str(tmp_path / "bus")}
    )


def test_a_running_bus_shows_participants_rates_outcomes_health_and_heads_without_payload(
    tmp_path: Path,
) -> None:
    assembly = seen_from(tmp_path)

    async def scenario() -> None:
        async with served_bus(tmp_path / "bus", agent=ScriptedAgent()) as server:
            server.enrol("away")
            await asyncio.to_thread(
                bus_view, assembly
            )  # the first look starts the tail
            async with await server.satellite(
                "kitchen", site_determination="downstairs"
            ) as kitchen:
                assert (await kitchen.ask("a secret word")).handled
                view = await asyncio.to_thread(
                    bus_view, assembly, participant="kitchen"
                )

                assert view.running and view.status is not None
                stands = {p.id: (p.state, p.site) for p in view.status.participants}
                assert stands == {
                    "kitchen": ("connected", "downstairs"),
                    "away": ("absent", None),
                }
                assert view.status.participants[0].outcomes["in delivered"] == 1
                assert [(link.link, link.state) for link in view.status.links] == [
                    ("hub", "connected")
                ]
                assert ("in", "delivered", 1) in [
                    (o.direction, o.outcome, o.count) for o in view.status.outcomes
                ]
                heads = view.status.tail
                assert heads[0].topic == "ovos.utterance.handle"
                assert heads[-1].destination == (view.status.participants[0].source,)
                assert "secret" not in repr(view)

                content = await asyncio.to_thread(
                    message_content, assembly, heads[0].number
                )
                assert content is not None and content.data["utterances"] == [
                    "a secret word"
                ]
                assert (
                    await asyncio.to_thread(message_content, assembly, 10_000) is None
                )

                later = await asyncio.to_thread(
                    bus_view, assembly, after=heads[-1].number
                )
                assert later.status is not None and later.status.tail == ()
                await until(
                    lambda: any(rate.taken for rate in server.status_site.rates.recent)
                )

    run(scenario())


def test_the_door_opens_to_the_token_of_the_owner_only(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served_bus(tmp_path / "bus") as server:
            bridge = read_running(server.folder.path)
            assert bridge is not None
            assert running_url(server.folder.path) == server.join_url
            assert (
                stat.S_IMODE((server.folder.path / "running.json").stat().st_mode)
                == 0o600
            )
            address, token = f"127.0.0.1:{bridge.port}", f"Bearer {bridge.token}"
            for status, headers in (
                (200, {"Authorization": token}),
                (401, {}),
                (401, {"Authorization": token[:-1]}),
                (401, {"Authorization": bridge.token}),
                (403, {"Authorization": token, "Origin": f"http://{address}"}),
                (403, {"Authorization": token, "Origin": "null"}),
                (403, {"Authorization": token, "Host": "evil.example"}),
            ):
                assert (await http(address, "GET", "/status", **headers))[
                    0
                ] == status, headers
            assert (await http(address, "POST", "/status", Authorization=token))[
                0
            ] == 405
        assert read_running(tmp_path / "bus") is None

    run(scenario())


def test_the_address_of_a_bridge_that_died_is_not_handed_out(tmp_path: Path) -> None:
    write_running(
        tmp_path, RunningBridge(1, "t", 2**22 + 1, "ws://127.0.0.1:1/bridge/v1")
    )

    assert running_url(tmp_path) is None


@pytest.mark.parametrize(
    "left_behind", [b'{"port":1,"token":"t","pid":1}', b"not json", None]
)
def test_without_a_running_bus_the_view_says_so_and_names_who_is_enrolled(
    tmp_path: Path, left_behind: bytes | None
) -> None:
    (tmp_path / "bus").mkdir(mode=0o700)
    (tmp_path / "bus" / "participants.toml").write_text("[kitchen]\n")
    if left_behind is not None:
        (tmp_path / "bus" / "running.json").write_bytes(left_behind)

    view: BusView = bus_view(seen_from(tmp_path))

    assert (view.running, view.status) == (False, None)
    assert view.note is not None and [p.id for p in view.enrolled] == ["kitchen"]
    assert message_content(seen_from(tmp_path), 1) is None


def test_watching_keeps_a_bounded_number_of_small_messages_and_forgets_when_nobody_looks() -> (
    None
):
    tail = Tail()
    tail.heads(0, now=0.0)
    for number in range(MAX_HEADS + 5):
        tail.note(Message("a", {"n": number}), "2026-01-01T00:00:00.000Z")
    tail.note(
        Message("b", {"audio": "x" * MAX_CONTENT_BYTES}), "2026-01-01T00:00:00.000Z"
    )

    heads = tail.heads(0, now=1.0)
    assert len(heads) == MAX_HEADS and heads[-1].topic == "b"
    assert tail.content(heads[-1].number) is None, "too large to be kept"
    assert tail.content(heads[-2].number) is not None

    tail.expire(now=1.0 + WATCHED_S)
    assert not tail.is_watched and tail.heads(0, now=30.0) == ()


def test_rates_are_differences_of_growing_counters() -> None:
    rates = Rates()
    rates.sample(10, 5)
    rates.sample(12, 5)

    assert [(rate.taken, rate.offered) for rate in rates.recent] == [(10, 5), (2, 0)]
