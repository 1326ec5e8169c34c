"""Who gets in at the gateway, and who does not, with real sockets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridgehead.bus.access.credentials import (
    NO_BINDING,
    NONCE_BYTES,
    Challenge,
    RefusalCount,
    RefusalSummary,
)
from bridgehead.bus.access.enrolment import revoke
from bridgehead.bus.client.participant import NotAdmitted, NotOurBridge, Satellite
from bridgehead.bus.gateway.connections import AUTHENTICATION_S
from bridgehead.bus.sockets.dial import (
    ClientConversation,
    ConnectionEnded,
    DialRefused,
    Target,
    dial,
)
from bridgehead.bus.wire import frames
from bridgehead.bus.wire.frames import from_base64
from bridgehead.errors import BridgeheadError
from bridgehead.host.clock import ManualClock
from bus.support.gateways import (
    HANDLE,
    ServedBridge,
    next_message,
    served_bridge,
    utterance,
)
from bus.support.running import run, until

# -- coming in --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("token", [False, True])
def test_a_satellite_asks_and_hears_the_answer_in_its_own_session(
    tmp_path: Path, secure: bool, token: bool
) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path, secure=secure) as served:
            satellite = await served.satellite("kitchen", token=token)
            await satellite.send(utterance("hello"))
            (entry,) = await served.until_heard(HANDLE)
            assert entry.context["source"] == satellite.source == "kitchen"
            assert entry.context["session"]["session_id"].startswith("b")
            served.hub.publish(entry.reply("ovos.utterance.speak", {"utterance": "hi"}))
            answer = await next_message(satellite)
            assert answer.data == {"utterance": "hi"}
            assert answer.context["session"] == {"session_id": "default"}
            await satellite.close()
            await until(lambda: len(served.relay.bridge.known) == 0)

    run(main())


def test_the_claim_is_used_where_it_is_free(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            first = await served.satellite("p1", claimed_id="kitchen")
            second = await served.satellite("p2", claimed_id="kitchen")
            third = await served.satellite("p3", token=True, claimed_id="den")
            assert [s.source for s in (first, second, third)] == [
                "kitchen",
                "p2",
                "den",
            ]
            for satellite in (first, second, third):
                await satellite.close()

    run(main())


async def knock(served: ServedBridge, answer: dict[str, Any] | None) -> ConnectionEnded:
    """Open the framed profile, answer the challenge with this frame, and see how it ends."""
    conversation = ClientConversation()
    await dial(Target(served.url, subprotocol="bridgehead.v1"), conversation)
    await conversation.receive()
    if answer is not None:
        await conversation.send(msgspec.json.encode(answer))
    with pytest.raises(ConnectionEnded) as ended:
        while True:
            frame = json.loads(await conversation.receive())
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
        {
            "l2": "auth",
            "participant": ["kitchen"],
            "nonce": GOOD_NONCE,
            "mac": GOOD_NONCE,
        },
        {"l2": "answer", "id": "q-1", "text": "yes"},
        [1, 2],
    ],
    ids=lambda frame: str(frame)[:40],
)
def test_nothing_is_processed_before_authentication(tmp_path: Path, frame: Any) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            served.enrol("kitchen", publish=["*"])
            ended = await knock(served, frame)
            assert (ended.code, ended.reason) == (4001, "not_authenticated")
            assert served.heard == []
            assert len(served.relay.bridge.known) == 0
            assert (
                served.announcements.of("bus.refused")[0]["reason"]
                == "not_authenticated"
            )

    run(main())


def test_who_does_not_answer_the_challenge_in_time_is_turned_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "bridgehead.bus.gateway.connections.AUTHENTICATION_S", AUTHENTICATION_S / 100
    )

    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            assert (await knock(served, None)).code == 4001

    run(main())


def test_a_recorded_answer_to_an_earlier_challenge_is_worth_nothing(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            join = served.enrol("kitchen")
            conversation = ClientConversation()
            await dial(Target(served.url, subprotocol="bridgehead.v1"), conversation)
            nonce = from_base64(json.loads(await conversation.receive())["nonce"])
            key = from_base64(join.key)
            assert nonce is not None and key is not None
            challenge = Challenge("kitchen", nonce, bytes(NONCE_BYTES), NO_BINDING)
            proof = frames.auth(
                "kitchen", challenge.client_nonce, challenge.client_mac(key), None
            )
            await conversation.send(proof)
            assert json.loads(await conversation.receive())["l2"] == "welcome"
            assert (await knock(served, json.loads(proof))).code == 4001
            await conversation.close()

    run(main())


def test_a_failed_proof_is_the_last_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            key = from_base64(served.enrol("kitchen").key)
            conversation = ClientConversation()
            await dial(Target(served.url, subprotocol="bridgehead.v1"), conversation)
            nonce = from_base64(json.loads(await conversation.receive())["nonce"])
            assert nonce is not None and key is not None
            challenge = Challenge("kitchen", nonce, bytes(NONCE_BYTES), NO_BINDING)
            for mac in (bytes(32), challenge.client_mac(key)):
                await conversation.send(
                    frames.auth("kitchen", challenge.client_nonce, mac, None)
                )
            said = json.loads(await conversation.receive())
            conversation.peer.abort()
            assert said == {"l2": "err", "code": "not_authenticated"}

    run(main())


def test_a_wrong_key_a_wrong_token_and_an_expired_token_are_refused(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            keyed, tokened = served.enrol("kitchen"), served.enrol("study", token=True)
            other = served.enrol("hall")
            over = served.enrol("guest", token=True, expires_in_s=-1)
            wrong = [
                msgspec.structs.replace(keyed, key=other.key),
                msgspec.structs.replace(tokened, token=f"{tokened.token}x"),
                msgspec.structs.replace(tokened, token="study."),
                msgspec.structs.replace(
                    tokened, token="kitchen." + str(tokened.token).rpartition(".")[2]
                ),
                over,
            ]
            for join in wrong:
                with pytest.raises(NotAdmitted):
                    await Satellite.connect(join)
            assert served.heard == []

    run(main())


@pytest.mark.parametrize("token", [False, True])
def test_who_was_revoked_a_moment_ago_is_refused(tmp_path: Path, token: bool) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            join = served.enrol("kitchen", token=token)
            revoke(served.folder, "kitchen")
            with pytest.raises(NotAdmitted):
                await Satellite.connect(join)

    run(main())


def test_the_token_counts_only_in_its_header(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            join = served.enrol("study", token=True)
            url = served.url.replace("/v1", "/raw")
            for target in (
                Target(f"{url}?token={join.token}"),
                Target(url, (("Cookie", f"token={join.token}"),)),
            ):
                with pytest.raises(DialRefused) as refused:
                    await dial(target, ClientConversation())
                assert refused.value.status == 401

    run(main())


def test_too_many_failures_from_one_address_close_the_door_for_a_while(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path, gateway={"failed_attempts": 3}) as served:
            join = served.enrol("study", token=True)
            url = served.url.replace("/v1", "/raw")
            wrong = Target(url, (("Authorization", "Bearer study.wrong"),))
            statuses = []
            for target in [wrong] * 4:
                with pytest.raises(DialRefused) as refused:
                    await dial(target, ClientConversation())
                statuses.append(refused.value.status)
            assert statuses == [401, 401, 401, 429]
            # Others behind the same address are not locked out: neither by token nor by key.
            good = ClientConversation()
            await dial(Target(url, (("Authorization", f"Bearer {join.token}"),)), good)
            await (await served.satellite("kitchen")).close()
            good.peer.abort()

    run(main())


def test_refusals_are_counted_and_not_recorded_one_by_one(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with served_bridge(tmp_path, clock=clock) as served:
            wrong = Target(
                served.url.replace("/v1", "/raw"),
                (("Authorization", "Bearer study.wrong"),),
            )
            page = Target(served.url, (("Origin", "http://evil.example"),))
            for target in [wrong] * 30 + [page] * 5:
                with pytest.raises(DialRefused):
                    await dial(target, ClientConversation())
            first = served.announcements.of("bus.refused")
            assert [event["count"] for event in first] == [1]
            clock.advance(60)
            with pytest.raises(DialRefused):
                await dial(wrong, ClientConversation())
            summary = served.announcements.of("bus.refused")[1]
            assert summary["reasons"] == {"not_authenticated": 30, "origin": 5}
            assert (summary["count"], summary["addresses"]) == (35, 1)

    run(main())


def test_a_summary_that_is_due_does_not_wait_for_the_next_stranger() -> None:
    counted = RefusalCount()
    counted.note("192.0.2.1", "origin")
    assert counted.take(0) is not None
    counted.note("192.0.2.2", "origin")
    counted.note("192.0.2.3", "pairing")
    assert counted.take(59.9) is None
    assert counted.take(60) == RefusalSummary(
        2, {"origin": 1, "pairing": 1}, 2, "192.0.2.3", "pairing"
    )
    assert counted.take(120) is None


@pytest.mark.parametrize("path", ["/bridge/v1", "/bridge/raw"])
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:{port}"]
)
def test_no_page_reaches_the_participants_paths_even_with_a_token(
    tmp_path: Path, path: str, origin: str
) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            join = served.enrol("study", token=True)
            headers = (
                ("Authorization", f"Bearer {join.token}"),
                ("Origin", origin.format(port=served.port)),
            )
            with pytest.raises(DialRefused) as refused:
                await dial(
                    Target(served.url.replace("/bridge/v1", path), headers),
                    ClientConversation(),
                )
            assert refused.value.status == 403

    run(main())


def test_a_name_rebound_to_this_machine_is_turned_away(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            join = served.enrol("study", token=True)
            headers = (
                ("Authorization", f"Bearer {join.token}"),
                ("Host", "evil.example"),
            )
            with pytest.raises(DialRefused) as refused:
                await dial(Target(served.url, headers), ClientConversation())
            assert refused.value.status == 403

    run(main())


def test_strangers_are_limited_in_number_and_bytes(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path, gateway={"max_handshakes": 2}) as served:
            strangers = [ClientConversation(), ClientConversation()]
            for conversation in strangers:
                await dial(
                    Target(served.url, subprotocol="bridgehead.v1"), conversation
                )
                await conversation.receive()
            # The oldest of the address that holds most places gives way to the next.
            await dial(
                Target(served.url, subprotocol="bridgehead.v1"),
                newest := ClientConversation(),
            )
            with pytest.raises(ConnectionEnded) as ended:
                await strangers[0].receive()
            assert ended.value.code == 1013
            await newest.receive()
            await newest.send(b"x" * 20_000)
            with pytest.raises(ConnectionEnded):
                await newest.receive()
            satellite = await served.satellite("kitchen")
            await satellite.close()
            strangers[1].peer.abort()

    run(main())


def test_the_name_of_an_enrolled_participant_is_not_free_for_others(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            served.enrol("kitchen")
            thief = await served.satellite("p2", claimed_id="kitchen")
            assert thief.source == "p2"
            await thief.close()

    run(main())


# -- TLS --------------------------------------------------------------------------------------------------------


def test_a_pinned_satellite_shows_its_token_to_nobody_else(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            served_bridge(tmp_path / "one", secure=True) as served,
            served_bridge(tmp_path / "two", secure=True) as other,
        ):
            join = served.enrol("kitchen", token=True)
            with pytest.raises(BridgeheadError, match="a different key or certificate"):
                await Satellite.connect(msgspec.structs.replace(join, url=other.url))
            assert other.announcements.events == []

    run(main())


def test_a_certificate_nobody_vouches_for_is_refused_without_a_pin(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path, secure=True) as served:
            join = msgspec.structs.replace(served.enrol("kitchen"), key_sha256=None)
            with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"):
                await Satellite.connect(join)

    run(main())


def test_a_proof_made_for_one_server_is_worth_nothing_at_another(
    tmp_path: Path,
) -> None:
    """The certificate is part of what is signed, so a man in the middle cannot pass the handshake on."""

    async def main() -> None:
        async with served_bridge(tmp_path, secure=True) as served:
            join = served.enrol("kitchen")
            served.gateway.bindings = (bytes(range(32)),)
            with pytest.raises(NotAdmitted):
                await Satellite.connect(join)

    run(main())


def test_a_server_that_does_not_know_the_key_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with served_bridge(tmp_path) as served:
            join = served.enrol("kitchen")
            monkeypatch.setattr(
                served.gateway, "answer_to", lambda challenge: bytes(32)
            )
            with pytest.raises(NotOurBridge):
                await Satellite.connect(join)

    run(main())
