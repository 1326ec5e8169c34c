"""The gateway with real sockets: who gets in, what comes through, and what happens to those who misbehave."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridgehead.bus import frames
from bridgehead.bus.connections import AUTHENTICATION_S
from bridgehead.bus.credentials import NO_BINDING, NONCE_BYTES, Challenge, from_base64
from bridgehead.bus.enrolment import revoke, set_key
from bridgehead.bus.join_file import JoinFile
from bridgehead.bus.message import Message
from bridgehead.bus.satellite import Incoming, MessageRefused, NotAdmitted, NotOurBridge, Satellite
from bridgehead.bus.sockets.dialling import DialRefused, Target, WrongCertificate, dial
from bridgehead.bus.sockets.mailbox import ConnectionEnded, Mailbox
from bridgehead.host.clock import SystemClock
from bus.gateways import House, next_message, open_house
from bus.running import run, until

HANDLE = "ovos.utterance.handle"


def utterance(text: str, **context: Any) -> Message:
    return Message(HANDLE, {"utterances": [text]}, context)


# -- coming in --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("token", [False, True])
def test_a_satellite_asks_and_hears_the_answer_in_its_own_session(
    tmp_path: Path, secure: bool, token: bool
) -> None:
    async def main() -> None:
        async with open_house(tmp_path, secure=secure) as house:
            satellite = await house.satellite("kitchen", token=token)
            await satellite.send(utterance("hello"))
            (entry,) = await house.until_heard(HANDLE)
            assert entry.context["source"] == satellite.source == "kitchen"
            assert entry.context["session"]["session_id"].startswith("b")
            house.hub.publish(entry.reply("ovos.utterance.speak", {"utterance": "hi"}))
            answer = await next_message(satellite)
            assert answer.data == {"utterance": "hi"}
            assert answer.context["session"] == {"session_id": "default"}
            await satellite.close()
            await until(lambda: len(house.relay.bridge.known) == 0)

    run(main())


def test_the_claim_is_used_where_it_is_free(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            first = await house.satellite("p1", claimed_id="kitchen")
            second = await house.satellite("p2", claimed_id="kitchen")
            third = await house.satellite("p3", token=True, claimed_id="den")
            assert [s.source for s in (first, second, third)] == ["kitchen", "p2", "den"]
            for satellite in (first, second, third):
                await satellite.close()

    run(main())


async def knock(house: House, answer: dict[str, Any] | None) -> ConnectionEnded:
    """Open the framed profile, answer the challenge with this frame, and see how it ends."""
    mailbox = Mailbox()
    await dial(Target(house.url, subprotocol="bridgehead.v1"), mailbox)
    await mailbox.receive()
    if answer is not None:
        await mailbox.send(msgspec.json.encode(answer))
    with pytest.raises(ConnectionEnded) as ended:
        while True:
            frame = json.loads(await mailbox.receive())
            assert frame == {"l2": "err", "code": "not_authenticated"}
    return ended.value


GOOD_NONCE = "A" * 43 + "="


@pytest.mark.parametrize(
    "frame",
    [
        {"l2": "msg", "m": {"type": "ovos.stop"}},
        {"l2": "auth"},
        {"l2": "auth", "participant": "kitchen", "nonce": GOOD_NONCE, "mac": "AAAA"},
        {"l2": "auth", "participant": "kitchen", "nonce": "AAAA", "mac": "AAAA"},
        {"l2": "auth", "participant": "nobody", "nonce": GOOD_NONCE, "mac": GOOD_NONCE},
        {"l2": "auth", "participant": ["kitchen"], "nonce": GOOD_NONCE, "mac": GOOD_NONCE},
        {"l2": "answer", "id": "q-1", "text": "yes"},
        [1, 2],
    ],
    ids=lambda frame: str(frame)[:40],
)
def test_nothing_is_processed_before_authentication(tmp_path: Path, frame: Any) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            house.enrol("kitchen", publish=["*"])
            ended = await knock(house, frame)
            assert (ended.code, ended.reason) == (4001, "not_authenticated")
            assert house.heard == []
            assert len(house.relay.bridge.known) == 0
            assert house.announcements.of("bus.refused")[0]["reason"] == "not_authenticated"

    run(main())


def test_who_does_not_answer_the_challenge_in_time_is_turned_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridgehead.bus.connections.AUTHENTICATION_S", AUTHENTICATION_S / 100)

    async def main() -> None:
        async with open_house(tmp_path) as house:
            assert (await knock(house, None)).code == 4001

    run(main())


def test_a_recorded_answer_to_an_earlier_challenge_is_worth_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            join = house.enrol("kitchen")
            mailbox = Mailbox()
            await dial(Target(house.url, subprotocol="bridgehead.v1"), mailbox)
            nonce = from_base64(json.loads(await mailbox.receive())["nonce"])
            key = from_base64(join.key)
            assert nonce is not None and key is not None
            challenge = Challenge("kitchen", nonce, bytes(NONCE_BYTES), NO_BINDING)
            proof = frames.auth("kitchen", challenge.client_nonce, challenge.client_mac(key), None)
            await mailbox.send(proof)
            assert json.loads(await mailbox.receive())["l2"] == "welcome"
            assert (await knock(house, json.loads(proof))).code == 4001
            await mailbox.close()

    run(main())


def test_a_wrong_key_a_wrong_token_and_an_expired_token_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            keyed, tokened = house.enrol("kitchen"), house.enrol("study", token=True)
            other = house.enrol("hall")
            over = house.enrol("guest", token=True, expires_in_s=-1)
            wrong = [
                msgspec.structs.replace(keyed, key=other.key),
                msgspec.structs.replace(tokened, token=f"{tokened.token}x"),
                msgspec.structs.replace(tokened, token="study."),
                msgspec.structs.replace(tokened, token="kitchen." + str(tokened.token).rpartition(".")[2]),
                over,
            ]
            for join in wrong:
                with pytest.raises(NotAdmitted):
                    await Satellite.connect(join)
            assert house.heard == []

    run(main())


def test_the_token_counts_only_in_its_header(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            join = house.enrol("study", token=True)
            url = house.url.replace("/v1", "/raw")
            for target in (
                Target(f"{url}?token={join.token}"),
                Target(url, (("Cookie", f"token={join.token}"),)),
            ):
                with pytest.raises(DialRefused) as refused:
                    await dial(target, Mailbox())
                assert refused.value.status == 401

    run(main())


def test_too_many_failures_from_one_address_close_the_door_for_a_while(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path, gateway={"failed_attempts": 3}) as house:
            join = house.enrol("study", token=True)
            url = house.url.replace("/v1", "/raw")
            wrong = Target(url, (("Authorization", "Bearer study.wrong"),))
            statuses = []
            for target in (*[wrong] * 3, Target(url, (("Authorization", f"Bearer {join.token}"),))):
                with pytest.raises(DialRefused) as refused:
                    await dial(target, Mailbox())
                statuses.append(refused.value.status)
            assert statuses == [401, 401, 401, 429]

    run(main())


@pytest.mark.parametrize("path", ["/bridge/v1", "/bridge/raw"])
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:{port}"])
def test_no_page_reaches_the_participants_paths_even_with_a_token(
    tmp_path: Path, path: str, origin: str
) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            join = house.enrol("study", token=True)
            headers = (("Authorization", f"Bearer {join.token}"), ("Origin", origin.format(port=house.port)))
            with pytest.raises(DialRefused) as refused:
                await dial(Target(house.url.replace("/bridge/v1", path), headers), Mailbox())
            assert refused.value.status == 403

    run(main())


def test_a_name_rebound_to_this_machine_is_turned_away(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            join = house.enrol("study", token=True)
            headers = (("Authorization", f"Bearer {join.token}"), ("Host", "evil.example"))
            with pytest.raises(DialRefused) as refused:
                await dial(Target(house.url, headers), Mailbox())
            assert refused.value.status == 403

    run(main())


def test_strangers_are_limited_in_number_and_bytes(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path, gateway={"max_strangers": 2}) as house:
            strangers = [Mailbox(), Mailbox()]
            for mailbox in strangers:
                await dial(Target(house.url, subprotocol="bridgehead.v1"), mailbox)
                await mailbox.receive()
            with pytest.raises(DialRefused) as refused:
                await dial(Target(house.url, subprotocol="bridgehead.v1"), Mailbox())
            assert refused.value.status == 503
            await strangers[0].send(b"x" * 20_000)
            with pytest.raises(ConnectionEnded):
                await strangers[0].receive()
            satellite = await house.satellite("kitchen")
            await satellite.close()
            strangers[1].peer.abort()

    run(main())


# -- TLS --------------------------------------------------------------------------------------------------------


def test_a_pinned_satellite_shows_its_token_to_nobody_else(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            open_house(tmp_path / "one", secure=True) as house,
            open_house(tmp_path / "two", secure=True) as other,
        ):
            join = house.enrol("kitchen", token=True)
            with pytest.raises(WrongCertificate):
                await Satellite.connect(msgspec.structs.replace(join, url=other.url))
            assert other.announcements.events == []

    run(main())


def test_a_certificate_nobody_vouches_for_is_refused_without_a_pin(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path, secure=True) as house:
            join = msgspec.structs.replace(house.enrol("kitchen"), cert_sha256=None)
            with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"):
                await Satellite.connect(join)

    run(main())


def test_a_proof_made_for_one_server_is_worth_nothing_at_another(tmp_path: Path) -> None:
    """The certificate is part of what is signed, so a man in the middle cannot pass the handshake on."""

    async def main() -> None:
        async with open_house(tmp_path, secure=True) as house:
            join = house.enrol("kitchen")
            house.gateway.binding = bytes(range(32))
            with pytest.raises(NotAdmitted):
                await Satellite.connect(join)

    run(main())


def test_a_server_that_does_not_know_the_key_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            join = house.enrol("kitchen")
            monkeypatch.setattr(house.gateway, "answer_to", lambda challenge: bytes(32))
            with pytest.raises(NotOurBridge):
                await Satellite.connect(join)

    run(main())


# -- what comes through -----------------------------------------------------------------------------------------


def test_a_refusal_names_the_reason_and_the_reference_and_keeps_the_connection(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            satellite = await house.satellite("kitchen")
            await satellite._mailbox.send(b'{"l2":"msg","m":{"type":"secret.topic"},"ref":"r7"}')
            await satellite._mailbox.send(b'{"l2":"msg","m":5}')
            await satellite._mailbox.send(b"{oops")
            await satellite._mailbox.send(b'{"l2":"what"}')
            await satellite._mailbox.send(b'{"l2":"msg","m":{"type":"ovos.stop"},"hops":99}')
            assert [await satellite.receive() for _ in range(5)] == [
                MessageRefused("policy_denied", {"field": "type", "value": "secret.topic", "ref": "r7"}),
                MessageRefused("malformed", {"reason": "not_object"}),
                MessageRefused("malformed", {"reason": "not_json"}),
                MessageRefused("malformed", {"reason": "type_missing_or_not_string"}),
                MessageRefused("hop_limit", {}),
            ]
            await satellite.send(utterance("still here"))
            await house.until_heard(HANDLE)
            await satellite.close()

    run(main())


def test_frames_too_large_too_deep_or_too_many_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            limits = {"max_frame_bytes": 5000, "messages_per_second": 0.001, "burst": 2}
            satellite = await house.satellite("kitchen", limits=limits)
            await satellite.send(utterance("x" * 6000))
            deep = b'{"l2":"msg","m":{"type":"ovos.stop","data":{"x":' + b"[" * 70 + b"]" * 70 + b"}}}"
            await satellite._mailbox.send(deep)
            for text in ("one", "two"):
                await satellite.send(utterance(text))
            refused = [await satellite.receive() for _ in range(3)]
            assert [event.code for event in refused if isinstance(event, MessageRefused)] == [
                "too_large",
                "too_large",
                "rate_limited",
            ]
            assert [m.data["utterances"] for m in await house.until_heard(HANDLE)] == [["one"]]
            await satellite.close()

    run(main())


def test_ten_violations_in_a_minute_end_the_connection(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            satellite = await house.satellite("kitchen")
            for _ in range(10):
                await satellite.send(Message("not.allowed"))
            with pytest.raises(ConnectionEnded) as ended:
                while True:
                    await satellite.receive()
            assert (ended.value.code, ended.value.reason) == (4029, "violations")

    run(main())


def test_a_frame_above_the_hard_bound_is_not_read_to_its_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            satellite = await house.satellite("kitchen")
            await satellite._mailbox.send(b"x" * (17 * 1024 * 1024))
            with pytest.raises(ConnectionEnded):
                await satellite.receive()
            assert house.heard == []

    run(main())


def test_binary_frames_are_not_taken(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            join = house.enrol("study", token=True)
            reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
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
        async with open_house(tmp_path) as house:
            join = house.enrol("study", token=True, names="legacy")
            mailbox = Mailbox()
            headers = (("Authorization", f"Bearer {join.token}"), ("X-Bridgehead-Claimed-Id", "den"))
            await dial(Target(house.url.replace("/v1", "/raw"), headers), mailbox)
            await mailbox.send(b'{"type":"not.allowed"}')
            await mailbox.send(b'{"type":"recognizer_loop:utterance","data":{"utterances":["hi"]}}')
            (entry,) = await house.until_heard(HANDLE)
            assert entry.context["source"] == "den"
            house.hub.publish(entry.reply("ovos.utterance.speak", {"utterance": "hello"}))
            spoken = json.loads(await mailbox.receive())
            assert spoken["type"] == "speak" and spoken["data"]["expect_response"] is False
            await mailbox.close()

    run(main())


def test_a_peer_may_not_use_the_raw_profile(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            join = house.enrol("other", token=True, role="peer")
            target = Target(house.url.replace("/v1", "/raw"), (("Authorization", f"Bearer {join.token}"),))
            with pytest.raises(DialRefused) as refused:
                await dial(target, Mailbox())
            assert refused.value.status == 403

    run(main())


# -- coming back and being sent away ----------------------------------------------------------------------------


def test_messages_held_during_grace_arrive_in_order_on_reconnect(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            join = house.enrol("kitchen")
            satellite = await Satellite.connect(join)
            await satellite.send(utterance("hi"))
            (entry,) = await house.until_heard(HANDLE)
            await satellite.close(goodbye=False)
            await until(lambda: not list(house.relay.connected))
            for text in ("one", "two"):
                house.hub.publish(entry.reply("ovos.utterance.speak", {"utterance": text}))
            again = await Satellite.connect(join)
            assert again.source == satellite.source
            assert [(await next_message(again)).data["utterance"] for _ in range(2)] == ["one", "two"]
            await again.close()

    run(main())


def test_a_second_connection_replaces_the_first(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            join = house.enrol("kitchen")
            first = await Satellite.connect(join)
            second = await Satellite.connect(join)
            with pytest.raises(ConnectionEnded) as ended:
                await first.receive()
            assert (ended.value.code, ended.value.reason) == (4009, "replaced")
            await second.send(utterance("hi"))
            await house.until_heard(HANDLE)
            assert [e["gone"] for e in house.announcements.of("bus.left")] == []
            await second.close()

    run(main())


def test_revocation_closes_the_connection_and_cleans_up_on_the_hub(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            join = house.enrol("host", role="skill_host")
            satellite = await Satellite.connect(join)
            await satellite.send(Message("ovos.skill.loaded", {"skill_id": "lamp"}))
            await house.until_heard("ovos.skill.loaded")
            revoke(house.folder, "host")
            house.gateway.reload()
            with pytest.raises(ConnectionEnded) as ended:
                await satellite.receive()
            assert (ended.value.code, ended.value.reason) == (4003, "revoked")
            (gone,) = await house.until_heard("ovos.skill.deregister")
            assert gone.data == {"skill_id": "lamp"} and gone.context["source"] == "bridgehead"
            with pytest.raises(NotAdmitted):
                await Satellite.connect(join)
            fresh = await house.satellite("host", role="skill_host")
            await fresh.close()

    run(main())


def test_a_changed_record_counts_from_the_next_message_and_a_broken_file_changes_nothing(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            satellite = await house.satellite("kitchen")
            await satellite.send(utterance("one"))
            await house.until_heard(HANDLE)
            set_key(house.folder, "kitchen", "policy.blacklisted_skills", '["shell"]')
            house.gateway.reload()
            await satellite.send(utterance("two"))
            (_, second) = await house.until_heard(HANDLE, 2)
            assert second.context["session"]["blacklisted_skills"] == ["shell"]
            house.folder.records_file.write_text("[kitchen\nrole = ")
            house.gateway.reload()
            assert house.gateway.directory.problem is not None
            await satellite.send(utterance("three"))
            (*_, third) = await house.until_heard(HANDLE, 3)
            assert third.context["session"]["blacklisted_skills"] == ["shell"]
            await satellite.close()

    run(main())


def test_a_token_that_expires_ends_its_connection(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            join = house.enrol("study", token=True, expires_in_s=0.2)
            satellite = await Satellite.connect(join)
            reading = asyncio.ensure_future(satellite.receive())
            while not reading.done():
                house.gateway.reload()
                await asyncio.sleep(0.01)
            assert isinstance(reading.exception(), ConnectionEnded)

    run(main())


def test_half_open_participants_are_found_and_get_their_grace(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path, gateway={"ping_s": 0.02, "silence_s": 0.1}) as house:
            silent = await house.satellite("silent")
            silent._mailbox.peer.pause_reading()
            alive = await house.satellite("alive")
            hearing = asyncio.ensure_future(alive.receive())  # answers pings meanwhile
            await until(lambda: list(house.relay.connected) == ["alive"])
            assert house.relay.bridge.known.get("silent") is not None
            hearing.cancel()
            silent._mailbox.peer.abort()
            await alive.close()

    run(main())


def test_a_slow_participant_is_cut_off_and_nobody_else_waits(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path, max_queued_bytes=200_000) as house:
            slow = await house.satellite("slow")
            quick = await house.satellite("quick")
            for satellite in (slow, quick):
                await satellite.send(utterance("hi"))
            await house.until_heard(HANDLE, 2)
            slow._mailbox.peer.pause_reading()
            entries = {m.context["source"]: m for m in house.heard}
            rounds = 0
            while "slow" in house.relay.connected:
                for source in ("slow", "quick"):
                    house.hub.publish(
                        entries[source].reply("ovos.utterance.speak", {"utterance": "x" * 50_000})
                    )
                rounds += 1
                await next_message(quick)
            assert house.relay.ledger.outcomes["out", "dropped", "slow_consumer"] >= 1
            assert house.relay.ledger.by_participant["quick"]["out delivered"] == rounds
            slow._mailbox.peer.abort()
            await quick.close()

    run(main())


def test_a_gateway_that_stops_says_goodbye(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            satellite = await house.satellite("kitchen")
        with pytest.raises(ConnectionEnded) as ended:
            await satellite.receive()
        assert (ended.value.code, ended.value.reason) == (1001, "going_away")

    run(main())


def test_a_restarted_bridge_remembers_sources_sessions_and_skills(tmp_path: Path) -> None:
    async def main() -> None:
        joins: dict[str, JoinFile] = {}
        async with open_house(tmp_path) as house:
            joins["host"] = house.enrol("host", role="skill_host")
            satellite = await Satellite.connect(joins["host"], claimed_id="lamp-pi")
            await satellite.send(Message("ovos.skill.loaded", {"skill_id": "lamp"}))
            (loaded,) = await house.until_heard("ovos.skill.loaded")
        async with open_house(tmp_path, grace_s=0.2) as house:
            spoken = Message(
                "ovos.utterance.speak", {"utterance": "hi"}, {"session": loaded.context["session"]}
            )
            house.hub.publish(spoken)
            join = msgspec.structs.replace(joins["host"], url=house.url)
            again = await Satellite.connect(join)
            assert again.source == "lamp-pi"
            event = await again.receive()
            assert isinstance(event, Incoming) and event.message.context["session"] == {
                "session_id": "default"
            }
            await again.close(goodbye=False)
        async with open_house(tmp_path, grace_s=0.05) as house:
            (gone,) = await house.until_heard("ovos.skill.deregister")
            assert gone.context["session"] == loaded.context["session"]
        async with open_house(tmp_path, grace_s=0.05) as house:
            await until(lambda: len(house.relay.bridge.known) == 0)
            assert house.heard == []

    run(main())


def test_outcomes_and_arrivals_are_announced_without_payload(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path, debug=True) as house:
            satellite = await house.satellite("kitchen")
            await satellite.send(utterance("a secret"))
            await house.until_heard(HANDLE)
            await satellite.close()
            await until(lambda: bool(house.announcements.of("bus.left")))
            (outcome,) = house.announcements.of("bus.message.outcome")[:1]
            assert outcome["participant"] == "kitchen" and outcome["direction"] == "in"
            assert outcome["outcome"] == "delivered" and outcome["bytes"] > 0
            assert house.announcements.of("bus.joined")[0]["source"] == "kitchen"
            assert house.announcements.of("bus.left")[0]["reason"] == "goodbye"
            assert "secret" not in str(house.announcements.events)

    run(main())


def test_the_name_of_an_enrolled_participant_is_not_free_for_others(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            house.enrol("kitchen")
            thief = await house.satellite("p2", claimed_id="kitchen")
            assert thief.source == "p2"
            await thief.close()

    run(main())


def test_a_flood_of_frames_that_are_no_messages_ends_the_connection_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            limits = {"messages_per_second": 0.001, "burst": 3}
            flooder = await house.satellite("flooder", limits=limits)
            calm = await house.satellite("calm")
            for number in range(20):
                await flooder._mailbox.send(frames.ping(number))
            with pytest.raises(ConnectionEnded) as ended:
                while True:
                    await flooder.receive()
            assert (ended.value.code, ended.value.reason) == (4029, "violations")
            await calm.send(utterance("hello"))
            await house.until_heard(HANDLE)
            await calm.close()

    run(main())


def test_who_sends_pings_and_reads_nothing_is_cut_off(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_house(tmp_path) as house:
            plenty = {"messages_per_second": 1e9, "burst": 1_000_000_000}
            deaf = await house.satellite("deaf", limits=plenty)
            deaf._mailbox.peer.pause_reading()
            ping = msgspec.json.encode({"l2": "ping", "t": "x" * 100_000})
            while "deaf" in house.relay.connected:
                deaf._mailbox.peer.send(ping)
                await asyncio.sleep(0)
                assert deaf._mailbox.peer.unsent < 64 * 1024 * 1024
            deaf._mailbox.peer.abort()

    run(main())


class Jumping(SystemClock):
    """A wall clock that somebody sets; what measures time goes on as before."""

    offset = timedelta()

    def now(self) -> datetime:
        return super().now() + self.offset


def test_a_wall_clock_that_jumps_touches_only_what_has_a_date(tmp_path: Path) -> None:
    async def main() -> None:
        clock = Jumping()
        async with open_house(tmp_path, clock=clock, grace_s=30) as house:
            keyed = await house.satellite("keyed")
            away = await house.satellite("away")
            await away.close(goodbye=False)
            dated = await Satellite.connect(house.enrol("dated", token=True, expires_in_s=3600))
            for years in (-10, 10):
                clock.offset = timedelta(days=365 * years)
                house.gateway.reload()
                await keyed.send(utterance(str(years)))
            assert len(await house.until_heard(HANDLE, 2)) == 2
            assert house.relay.bridge.known.get("away") is not None, "grace is not measured by the wall"
            with pytest.raises(ConnectionEnded) as ended:
                await dated.receive()
            assert ended.value.code == 4003
            revoked = house.announcements.of("bus.revoked")
            assert [(event["participant"], event["reason"]) for event in revoked] == [("dated", "expired")]
            await keyed.close()

    run(main())
