"""Pairing: six digits on both ends, a person in between, and nothing for whoever sits in the middle."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from bridgehead.bus.access.credentials import Credential
from bridgehead.bus.access.enrolment import revoke
from bridgehead.bus.access.join_file import Pin
from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.client.participant import Satellite
from bridgehead.bus.gateway import pairing
from bridgehead.bus.gateway.gateway import BUSY
from bridgehead.bus.gateway.pairing import (
    PairingEndpoint,
    PairingRefused,
    pair,
    pairing_code,
)
from bridgehead.bus.interfaces import ApprovalRequest
from bridgehead.bus.participants.record import Grant
from bridgehead.bus.sockets.base import Request, Upgrade
from bridgehead.bus.sockets.dial import (
    ClientConversation,
    ConnectionEnded,
    DialRefused,
    Target,
    dial,
)
from bridgehead.bus.wire.frames import to_base64
from bus.support.running import run, until
from bus.support.serving import Served, served_bus


class Approver:
    """A person who answers what is asked."""

    def __init__(self) -> None:
        self.asked: list[ApprovalRequest] = []
        self.answers: dict[str, str] = {}
        self.withdrawn: list[str] = []

    def ask(self, request: ApprovalRequest) -> None:
        self.asked.append(request)

    def answer_to(self, key: str) -> str | None:
        return self.answers.get(key)

    def withdraw(self, key: str) -> None:
        self.withdrawn.append(key)

    def answer(self, item_id: str, text: str, by: str, shown: str) -> None: ...


async def ask_to_join(
    server: Served, pending_answers: Approver, participant: str, answer: str
) -> Any:
    """A device asks; the person compares the digits and answers."""
    endpoint = server.gateway.endpoints["pair"]
    assert isinstance(endpoint, PairingEndpoint)
    endpoint.poll_s = 0.01
    shown: list[str] = []
    url = server.join_url.replace("/bridge/v1", "/pair")
    device = asyncio.ensure_future(pair(url, participant, shown.append))
    await until(lambda: bool(pending_answers.asked) or device.done())
    if pending_answers.asked:
        assert (
            shown[0] in pending_answers.asked[-1].title
            and shown[0] in pending_answers.asked[-1].prompt
        )
        pending_answers.answers[pending_answers.asked[-1].key] = answer
    return await device


@pytest.mark.parametrize("secure", [False, True])
def test_a_device_that_was_answered_yes_can_join(tmp_path: Path, secure: bool) -> None:
    async def main() -> None:
        pending_answers = Approver()
        table = (
            {"client_ca": None, "tls_cert": None}
            if not secure
            else _certificate(tmp_path)
        )
        async with served_bus(
            tmp_path / "bus",
            agent=ScriptedAgent(),
            approvals=pending_answers,
            pairing=True,
            **table,
        ) as server:
            join = await ask_to_join(server, pending_answers, "den", "yes")
            assert (join.key_sha256 is not None) is secure
            async with await Satellite.connect(join) as satellite:
                assert (await satellite.ask("hi")).text == "You said: hi"
            with pytest.raises(PairingRefused, match="already in use"):
                await ask_to_join(server, Approver(), "den", "yes")

    run(main())


def test_a_bridge_that_names_another_key_than_it_showed_is_not_believed(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        pending_answers = Approver()
        async with served_bus(
            tmp_path, approvals=pending_answers, pairing=True
        ) as server:
            endpoint = server.gateway.endpoints["pair"]
            assert isinstance(endpoint, PairingEndpoint)
            endpoint.pin = Pin(key_sha256="0" * 64)
            with pytest.raises(PairingRefused, match="a different key"):
                await ask_to_join(server, pending_answers, "den", "yes")

    run(main())


def _certificate(folder: Path) -> dict[str, str]:
    from bridgehead.bus.access.certificates import ensure_certificate

    cert, key = ensure_certificate(folder / "tls", "127.0.0.1")
    return {"tls_cert": str(cert), "tls_key": str(key)}


def test_a_stranger_under_the_name_of_a_revoked_participant_gets_none_of_its_rights(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        pending_answers = Approver()
        async with served_bus(
            tmp_path, approvals=pending_answers, pairing=True
        ) as server:
            server.enrol(
                "phone",
                role="skill_host",
                mode="manage",
                managed_session_id="hers",
                publish=["*"],
                grants={"approve": True, "notices": True},
            )
            revoke(server.folder, "phone")
            assert server.folder.records()["phone"].grants == frozenset()
            await ask_to_join(server, pending_answers, "phone", "yes")
            record = server.folder.records()["phone"]
            assert (record.grants, record.publish, record.managed_session_id) == (
                frozenset(),
                None,
                None,
            )
            assert "role satellite, grants: none" in pending_answers.asked[-1].prompt

    run(main())


def test_a_name_revoked_by_an_older_version_has_no_rights_either(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        pending_answers = Approver()
        async with served_bus(
            tmp_path, approvals=pending_answers, pairing=True
        ) as server:
            server.enrol("phone", grants={"approve": True})
            server.folder.put_credential("phone", Credential(revoked=True))
            await ask_to_join(server, pending_answers, "phone", "yes")
            assert server.folder.records()["phone"].grants == frozenset()

    run(main())


def test_the_question_names_the_rights_of_a_record_that_was_prepared(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        pending_answers = Approver()
        async with served_bus(
            tmp_path, approvals=pending_answers, pairing=True
        ) as server:
            server.folder.put_table("phone", {"grants": {"approve": True}})
            await ask_to_join(server, pending_answers, "phone", "yes")
            assert "grants: approve" in pending_answers.asked[-1].prompt
            assert server.folder.records()["phone"].has(Grant.APPROVE)

    run(main())


def test_a_yes_gives_the_rights_that_were_shown_and_no_others(tmp_path: Path) -> None:
    async def main() -> None:
        pending_answers = Approver()
        async with served_bus(
            tmp_path, approvals=pending_answers, pairing=True
        ) as server:
            shown = pending_answers.ask

            def ask(request: ApprovalRequest) -> None:
                shown(request)
                server.folder.put_table("phone", {"grants": {"approve": True}})

            pending_answers.ask = ask  # type: ignore[method-assign]
            await ask_to_join(server, pending_answers, "phone", "yes")
            assert "grants: none" in pending_answers.asked[-1].prompt
            assert not server.folder.records()["phone"].has(Grant.APPROVE)

    run(main())


def test_a_late_yes_does_not_replace_somebody_who_was_enrolled_meanwhile(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        pending_answers = Approver()
        async with served_bus(
            tmp_path, approvals=pending_answers, pairing=True
        ) as server:
            shown = pending_answers.ask

            def ask(request: ApprovalRequest) -> None:
                shown(request)
                server.enrol("phone")

            pending_answers.ask = ask  # type: ignore[method-assign]
            with pytest.raises(PairingRefused):
                await ask_to_join(server, pending_answers, "phone", "yes")

    run(main())


def test_no_means_no(tmp_path: Path) -> None:
    async def main() -> None:
        pending_answers = Approver()
        async with served_bus(
            tmp_path, approvals=pending_answers, pairing=True
        ) as server:
            with pytest.raises(PairingRefused, match="operator"):
                await ask_to_join(server, pending_answers, "den", "no")
            assert server.folder.credentials() == {}

    run(main())


def test_a_device_that_goes_away_takes_its_question_with_it(tmp_path: Path) -> None:
    async def main() -> None:
        pending_answers = Approver()
        async with served_bus(
            tmp_path, approvals=pending_answers, pairing=True
        ) as server:
            url = server.join_url.replace("/bridge/v1", "/pair")
            device = asyncio.ensure_future(pair(url, "den", lambda _code: None))
            await until(lambda: bool(pending_answers.asked))
            device.cancel()
            await until(
                lambda: pending_answers.withdrawn == [pending_answers.asked[0].key]
            )

    run(main())


def test_without_pairing_there_is_no_such_place(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bus(tmp_path, approvals=Approver()) as server:
            with pytest.raises(
                PairingRefused, match="does not offer pairing"
            ) as refused:
                await pair(server.join_url.replace("/bridge/v1", "/pair"), "den", print)
            assert (
                isinstance(refused.value.__cause__, DialRefused)
                and refused.value.__cause__.status == 404
            )

    run(main())


def test_no_page_asks_to_be_paired_not_even_one_that_was_served_here(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bus(tmp_path, approvals=Approver(), pairing=True) as server:
            host = server.join_url.split("/")[2]
            for page, status in ((f"http://{host}", 404), ("http://evil.example", 403)):
                asked = Request(
                    "GET",
                    "/pair",
                    {},
                    {"host": host, "origin": page},
                    "127.0.0.1",
                    False,
                )
                answer = server.gateway.upgrade(asked)
                assert not isinstance(answer, Upgrade) and answer.status == status

    run(main())


COMMIT = to_base64(hashlib.sha256(bytes(32)).digest())
HELLO = {"l2": "pair", "participant": "den", "commit": COMMIT}


@pytest.mark.parametrize(
    "frames",
    [
        [{"l2": "pair", "participant": "bad name!", "commit": COMMIT}],
        [{"l2": "pair", "participant": "den"}],
        [{"l2": "msg", "m": {}}],
        [
            {"l2": "pair", "participant": "den", "commit": COMMIT},
            {"l2": "reveal", "nonce": to_base64(bytes(31) + b"x")},
        ],
        [
            {"l2": "pair", "participant": "den", "commit": COMMIT},
            {"l2": "pair", "participant": "x", "commit": COMMIT},
        ],
    ],
    ids=["name", "no-commitment", "message", "another-number", "twice"],
)
def test_a_device_that_does_not_keep_to_the_steps_is_turned_out(
    tmp_path: Path, frames: list[Any]
) -> None:
    async def main() -> None:
        pending_answers = Approver()
        async with served_bus(
            tmp_path, approvals=pending_answers, pairing=True
        ) as server:
            conversation = ClientConversation()
            await dial(
                Target(server.join_url.replace("/bridge/v1", "/pair")), conversation
            )
            for frame in frames:
                await conversation.send(json.dumps(frame).encode())
            with pytest.raises(ConnectionEnded):
                while True:
                    await conversation.receive()
            assert pending_answers.asked == []

    run(main())


def test_the_digits_depend_on_everything_both_ends_saw() -> None:
    seen = ("den", bytes(32), bytes(32), bytes(32))
    code = pairing_code(*seen)
    assert len(code) == 7 and code.replace(" ", "").isdigit()
    others = {
        pairing_code("hall", *seen[1:]),
        pairing_code("den", b"\x01" * 32, bytes(32), bytes(32)),
        pairing_code("den", bytes(32), b"\x01" * 32, bytes(32)),
        pairing_code("den", bytes(32), bytes(32), b"\x01" * 32),
    }
    assert len(others) == 4 and code not in others


def test_one_address_leaves_room_for_others(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bus(tmp_path, approvals=Approver(), pairing=True) as server:
            url = server.join_url.replace("/bridge/v1", "/pair")
            waiting = [ClientConversation() for _ in range(pairing.WAITING_EACH)]
            for conversation in waiting:
                await dial(Target(url), conversation)
            endpoint = server.gateway.endpoints["pair"]
            here, elsewhere = (
                Request("GET", "/pair", {}, {"host": "127.0.0.1"}, address, False)
                for address in ("127.0.0.1", "192.0.2.7")
            )
            answers = endpoint.upgrade(here), endpoint.upgrade(elsewhere)
            with pytest.raises(PairingRefused, match="too many devices wait"):
                await pair(url, "den", print)
            for conversation in waiting:
                conversation.peer.abort()
        assert answers[0] == BUSY
        assert isinstance(answers[1], Upgrade)

    run(main())


def test_who_asks_again_and_again_does_not_fill_the_record(tmp_path: Path) -> None:
    async def main() -> None:
        pending_answers = Approver()
        async with served_bus(
            tmp_path, approvals=pending_answers, pairing=True
        ) as server:
            url = server.join_url.replace("/bridge/v1", "/pair")
            for number in range(pairing.QUESTIONS_EACH):
                device = asyncio.ensure_future(
                    pair(url, f"den-{number}", lambda _code: None)
                )
                await until(lambda: len(pending_answers.asked) == number + 1)  # noqa: B023
                device.cancel()
                await until(lambda: len(pending_answers.withdrawn) == number + 1)  # noqa: B023
            with pytest.raises(PairingRefused, match="too many"):
                await pair(url, "den", lambda _code: None)
            assert len(pending_answers.asked) == pairing.QUESTIONS_EACH
            assert server.announcements.of("bus.refused")[-1]["reasons"] == {
                "pairing": 1
            }

    run(main())


def test_whoever_holds_the_places_makes_room_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairing, "MAX_WAITING", 1)

    async def main() -> None:
        async with served_bus(tmp_path, approvals=Approver(), pairing=True) as server:
            url = server.join_url.replace("/bridge/v1", "/pair")
            holding, next_one = ClientConversation(), ClientConversation()
            await dial(Target(url), holding)
            await dial(Target(url), next_one)
            with pytest.raises(ConnectionEnded, match="other devices are waiting"):
                await holding.receive()
            await next_one.send(json.dumps(HELLO).encode())
            assert b"nonce" in await next_one.receive()
            next_one.peer.abort()

    run(main())


def test_bad_keys_from_one_address_do_not_keep_a_device_there_from_pairing(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bus(tmp_path, approvals=Approver(), pairing=True) as server:
            for _ in range(100):
                server.gateway.authentication_failed("127.0.0.1")
            assert server.gateway.is_blocked("127.0.0.1")
            device = ClientConversation()
            await dial(Target(server.join_url.replace("/bridge/v1", "/pair")), device)
            await device.send(json.dumps(HELLO).encode())
            assert b"nonce" in await device.receive()
            device.peer.abort()

    run(main())


@pytest.mark.parametrize(
    ("address", "share"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2::7", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::7", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("local", "local"),
    ],
)
def test_a_network_of_ipv6_is_one_neighbour(address: str, share: str) -> None:
    assert Request("GET", "/", {}, {}, address, False).share == share
