"""What comes through the gateway, who comes back, and what happens to those who misbehave, with real sockets."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from bridgehead.bus.access.enrolment import revoke, set_key
from bridgehead.bus.access.join_file import JoinFile
from bridgehead.bus.client.participant import (
    Incoming,
    MessageRefused,
    NotAdmitted,
    Satellite,
)
from bridgehead.bus.sockets.dial import (
    ClientConversation,
    ConnectionEnded,
    DialRefused,
    Target,
    dial,
)
from bridgehead.bus.wire.message import Message
from bridgehead.bus.wire.topics import SPEAK
from bridgehead.host.clock import ManualClock, SystemClock
from bus.support.gateways import HANDLE, next_message, served_bridge, utterance
from bus.support.running import run, until

# -- what comes through -----------------------------------------------------------------------------------------


def test_a_refusal_names_the_reason_and_the_reference_and_keeps_the_connection(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            satellite = await served.satellite("kitchen")
            await satellite._conversation.send(
                b'{"l2":"msg","m":{"type":"secret.topic"},"ref":"r7"}'
            )
            await satellite._conversation.send(b'{"l2":"msg","m":5}')
            await satellite._conversation.send(b"{oops")
            await satellite._conversation.send(b'{"l2":"what"}')
            await satellite._conversation.send(
                b'{"l2":"msg","m":{"type":"ovos.stop"},"hops":99}'
            )
            assert [await satellite.receive() for _ in range(5)] == [
                MessageRefused(
                    "policy_denied",
                    {"field": "type", "value": "secret.topic", "ref": "r7"},
                ),
                MessageRefused("malformed", {"reason": "not_object"}),
                MessageRefused("malformed", {"reason": "not_json"}),
                MessageRefused("malformed", {"reason": "type_missing_or_not_string"}),
                MessageRefused("hop_limit", {}),
            ]
            await satellite.send(utterance("still here"))
            await served.until_heard(HANDLE)
            await satellite.close()

    run(main())


def test_frames_too_large_too_deep_or_too_many_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            limits = {"max_frame_bytes": 5000, "messages_per_second": 0.001, "burst": 2}
            satellite = await served.satellite("kitchen", limits=limits)
            await satellite.send(utterance("x" * 6000))
            deep = (
                b'{"l2":"msg","m":{"type":"ovos.stop","data":{"x":'
                + b"[" * 70
                + b"]" * 70
                + b"}}}"
            )
            await satellite._conversation.send(deep)
            for text in ("one", "two"):
                await satellite.send(utterance(text))
            refused = [await satellite.receive() for _ in range(3)]
            assert [
                event.code for event in refused if isinstance(event, MessageRefused)
            ] == [
                "too_large",
                "too_large",
                "rate_limited",
            ]
            assert [m.data["utterances"] for m in await served.until_heard(HANDLE)] == [
                ["one"]
            ]
            await satellite.close()

    run(main())


def test_ten_violations_in_a_minute_end_the_connection(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            satellite = await served.satellite("kitchen")
            for _ in range(10):
                await satellite.send(Message("not.allowed"))
            with pytest.raises(ConnectionEnded) as ended:
                while True:
                    await satellite.receive()
            assert (ended.value.code, ended.value.reason) == (4029, "violations")

    run(main())


def test_a_frame_above_the_hard_bound_is_not_read_to_its_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            satellite = await served.satellite("kitchen")
            await satellite._conversation.send(b"x" * (17 * 1024 * 1024))
            with pytest.raises(ConnectionEnded):
                await satellite.receive()
            assert served.heard == []

    run(main())


def test_binary_frames_are_not_taken(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            join = served.enrol("study", token=True)
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(
                f"GET /bridge/raw HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
                f"Authorization: Bearer {join.token}\r\n\r\n".encode()
                + b"\x82\x82\x00\x00\x00\x00hi"
            )
            answered = await reader.readuntil(b"\r\n\r\n")
            assert answered.startswith(b"HTTP/1.1 101")
            assert (1003).to_bytes(2, "big") in await reader.read(64)
            writer.close()

    run(main())


def test_the_raw_profile_carries_bare_messages_and_no_errors(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            join = served.enrol("study", token=True, names="legacy")
            conversation = ClientConversation()
            headers = (
                ("Authorization", f"Bearer {join.token}"),
                ("X-Bridgehead-Claimed-Id", "den"),
            )
            await dial(Target(served.url.replace("/v1", "/raw"), headers), conversation)
            await conversation.send(b'{"type":"not.allowed"}')
            await conversation.send(
                b'{"type":"recognizer_loop:utterance","data":{"utterances":["hi"]}}'
            )
            (entry,) = await served.until_heard(HANDLE)
            assert entry.context["source"] == "den"
            served.hub.publish(
                entry.reply("ovos.utterance.speak", {"utterance": "hello"})
            )
            spoken = json.loads(await conversation.receive())
            assert (
                spoken["type"] == "speak" and spoken["data"]["expect_response"] is False
            )
            await conversation.close()

    run(main())


def test_a_peer_may_not_use_the_raw_profile(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            join = served.enrol("other", token=True, role="peer")
            target = Target(
                served.url.replace("/v1", "/raw"),
                (("Authorization", f"Bearer {join.token}"),),
            )
            with pytest.raises(DialRefused) as refused:
                await dial(target, ClientConversation())
            assert refused.value.status == 403

    run(main())


# -- coming back and being sent away ----------------------------------------------------------------------------


def test_messages_held_during_grace_arrive_in_order_on_reconnect(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            join = served.enrol("kitchen")
            satellite = await Satellite.connect(join)
            await satellite.send(utterance("hi"))
            (entry,) = await served.until_heard(HANDLE)
            await satellite.close(goodbye=False)
            await until(lambda: not list(served.relay.connected))
            for text in ("one", "two"):
                served.hub.publish(
                    entry.reply("ovos.utterance.speak", {"utterance": text})
                )
            again = await Satellite.connect(join)
            assert again.source == satellite.source
            assert [
                (await next_message(again)).data["utterance"] for _ in range(2)
            ] == ["one", "two"]
            await again.close()

    run(main())


def test_a_second_connection_replaces_the_first(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            join = served.enrol("kitchen")
            first = await Satellite.connect(join)
            second = await Satellite.connect(join)
            with pytest.raises(ConnectionEnded) as ended:
                await first.receive()
            assert (ended.value.code, ended.value.reason) == (4009, "replaced")
            await second.send(utterance("hi"))
            await served.until_heard(HANDLE)
            assert [e["gone"] for e in served.announcements.of("bus.left")] == []
            await second.close()

    run(main())


def test_revocation_closes_the_connection_and_cleans_up_on_the_hub(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            join = served.enrol("host", role="skill_host")
            satellite = await Satellite.connect(join)
            await satellite.send(Message("ovos.skill.loaded", {"skill_id": "lamp"}))
            await served.until_heard("ovos.skill.loaded")
            revoke(served.folder, "host")
            served.gateway.reload()
            with pytest.raises(ConnectionEnded) as ended:
                await satellite.receive()
            assert (ended.value.code, ended.value.reason) == (4003, "revoked")
            (gone,) = await served.until_heard("ovos.skill.deregister")
            assert (
                gone.data == {"skill_id": "lamp"}
                and gone.context["source"] == "bridgehead"
            )
            with pytest.raises(NotAdmitted):
                await Satellite.connect(join)
            fresh = await served.satellite("host", role="skill_host")
            await fresh.close()

    run(main())


def test_a_changed_record_counts_from_the_next_message_and_a_broken_file_changes_nothing(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            satellite = await served.satellite("kitchen")
            await satellite.send(utterance("one"))
            await served.until_heard(HANDLE)
            set_key(served.folder, "kitchen", "policy.blacklisted_skills", '["shell"]')
            served.gateway.reload()
            await satellite.send(utterance("two"))
            (_, second) = await served.until_heard(HANDLE, 2)
            assert second.context["session"]["blacklisted_skills"] == ["shell"]
            served.folder.records_file.write_text("[kitchen\nrole = ")
            served.gateway.reload()
            assert served.gateway.directory.problem is not None
            await satellite.send(utterance("three"))
            (*_, third) = await served.until_heard(HANDLE, 3)
            assert third.context["session"]["blacklisted_skills"] == ["shell"]
            await satellite.close()

    run(main())


def test_a_token_that_expires_ends_its_connection(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock(SystemClock().now())
        async with served_bridge(tmp_path, clock=clock) as served:
            satellite = await Satellite.connect(
                served.enrol("study", token=True, expires_in_s=86_400)
            )
            served.gateway.reload()
            assert not served.announcements.of("bus.revoked")
            clock.advance(2 * 86_400)
            served.gateway.reload()
            (revoked,) = served.announcements.of("bus.revoked")
            assert (revoked["participant"], revoked["reason"]) == ("study", "expired")
            with pytest.raises(ConnectionEnded):
                await satellite.receive()

    run(main())


def test_half_open_participants_are_found_and_get_their_grace(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bridge(
            tmp_path, gateway={"ping_s": 0.02, "silence_s": 0.1}
        ) as served:
            silent = await served.satellite("silent")
            silent._conversation.peer.pause_reading()
            alive = await served.satellite("alive")
            hearing = asyncio.ensure_future(alive.receive())  # answers pings meanwhile
            await until(lambda: list(served.relay.connected) == ["alive"])
            assert served.relay.bridge.known.get("silent") is not None
            hearing.cancel()
            silent._conversation.peer.abort()
            await alive.close()

    run(main())


def test_a_slow_participant_is_cut_off_and_nobody_else_waits(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path, max_queued_bytes=200_000) as served:
            slow = await served.satellite("slow")
            quick = await served.satellite("quick")
            for satellite in (slow, quick):
                await satellite.send(utterance("hi"))
            await served.until_heard(HANDLE, 2)
            slow._conversation.peer.pause_reading()
            entries = {m.context["source"]: m for m in served.heard}
            rounds = 0
            while "slow" in served.relay.connected:
                for source in ("slow", "quick"):
                    served.hub.publish(
                        entries[source].reply(
                            "ovos.utterance.speak", {"utterance": "x" * 50_000}
                        )
                    )
                rounds += 1
                await next_message(quick)
            assert (
                served.relay.counters.outcomes["out", "dropped", "slow_consumer"] >= 1
            )
            assert served.relay.counters.of("quick")["out delivered"] == rounds
            slow._conversation.peer.abort()
            await quick.close()

    run(main())


def test_a_gateway_that_stops_says_goodbye(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            satellite = await served.satellite("kitchen")
        with pytest.raises(ConnectionEnded) as ended:
            await satellite.receive()
        assert (ended.value.code, ended.value.reason) == (1001, "going_away")

    run(main())


def test_a_restarted_bridge_remembers_sources_sessions_and_skills(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        joins: dict[str, JoinFile] = {}
        async with served_bridge(tmp_path) as served:
            joins["host"] = served.enrol("host", role="skill_host")
            satellite = await Satellite.connect(joins["host"], claimed_id="lamp-pi")
            await satellite.send(Message("ovos.skill.loaded", {"skill_id": "lamp"}))
            (loaded,) = await served.until_heard("ovos.skill.loaded")
        async with served_bridge(tmp_path, grace_s=0.2) as served:
            spoken = Message(
                "ovos.utterance.speak",
                {"utterance": "hi"},
                {"session": loaded.context["session"]},
            )
            served.hub.publish(spoken)
            join = msgspec.structs.replace(joins["host"], url=served.url)
            again = await Satellite.connect(join)
            assert again.source == "lamp-pi"
            event = await again.receive()
            assert isinstance(event, Incoming) and event.message.context["session"] == {
                "session_id": "default"
            }
            await again.close(goodbye=False)
        async with served_bridge(tmp_path, grace_s=0.05) as served:
            (gone,) = await served.until_heard("ovos.skill.deregister")
            assert gone.context["session"] == loaded.context["session"]
        async with served_bridge(tmp_path, grace_s=0.05) as served:
            await until(lambda: len(served.relay.bridge.known) == 0)
            assert served.heard == []

    run(main())


def test_outcomes_and_arrivals_are_announced_without_payload(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path, debug=True) as served:
            satellite = await served.satellite("kitchen")
            await satellite.send(utterance("a secret"))
            await served.until_heard(HANDLE)
            await satellite.close()
            await until(lambda: bool(served.announcements.of("bus.left")))
            (outcome,) = served.announcements.of("bus.message.outcome")[:1]
            assert outcome["participant"] == "kitchen" and outcome["direction"] == "in"
            assert outcome["outcome"] == "delivered" and outcome["bytes"] > 0
            assert served.announcements.of("bus.joined")[0]["source"] == "kitchen"
            assert served.announcements.of("bus.left")[0]["reason"] == "goodbye"
            assert "secret" not in str(served.announcements.events)

    run(main())


@pytest.mark.parametrize("debug", [False, True])
def test_every_message_is_counted_once_and_announced_as_counted(
    tmp_path: Path, debug: bool
) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path, debug=debug) as served:
            counters, bridge = served.relay.counters, served.relay.bridge
            answering = served.hub.listen(
                lambda said: (
                    said.type == HANDLE
                    and served.hub.publish(said.reply(SPEAK, {"utterance": "ok"}))
                )
            )
            join = served.enrol("kitchen")
            satellite = await Satellite.connect(join, reconnect=False)
            await satellite.send(utterance("a question"))
            await next_message(satellite, SPEAK)
            await satellite.send(Message("secret.topic"))
            assert isinstance(await satellite.receive(), MessageRefused)
            served.hub.stop_listening(answering)
            asked = served.heard[0]
            satellite._conversation.peer.abort()
            await until(lambda: not served.relay.listens("kitchen"))
            served.hub.publish(asked.reply(SPEAK, {"utterance": "later"}))
            back = await Satellite.connect(join, reconnect=False)
            await next_message(back, SPEAK)
            await served.transport.close()
            await back.send(utterance("nobody is there"))
            assert (
                isinstance(refused := await back.receive(), MessageRefused)
                and refused.code == "hub_down"
            )
            assert counters.outcomes == {
                ("in", "delivered", ""): 1,
                ("out", "dropped", "echo"): 1,
                ("out", "delivered", ""): 2,
                ("in", "refused", "policy_denied"): 1,
                ("in", "dropped", "hub_down"): 1,
            }
            assert (
                bridge.taken + bridge.offered
                == counters.total
                == sum(counters.of("kitchen").values())
            )
            told = served.announcements.of("bus.message.outcome")
            announced = Counter(
                (one["direction"], one["outcome"], one["reason"] or "") for one in told
            )
            assert announced == (counters.outcomes if debug else {})
            assert all(one["topic"] in (HANDLE, SPEAK, "secret.topic") for one in told)
            await back.close()

    run(main())
