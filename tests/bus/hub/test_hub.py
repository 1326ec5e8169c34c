"""The embedded hub: what an unmodified client relies on, and what a hostile one does not achieve."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bridgehead.bus.access.join_file import JoinFile
from bridgehead.bus.client.loopback_hub import LoopbackHub
from bridgehead.bus.hub.hub import Hub, HubSettings, MemoryTransport
from bridgehead.bus.sockets.base import Answer, Ends, Request, Upgrade
from bridgehead.bus.sockets.dial import (
    ClientConversation,
    ConnectionEnded,
    DialRefused,
    Target,
    dial,
)
from bridgehead.bus.sockets.origin import find_user
from bridgehead.bus.transports.base import HubListener
from bridgehead.bus.wire.message import Message
from bus.support.hubs import member, needs_ovos, ovos_environment, run_ovos, served_hub
from bus.support.running import run, until

HELLO = b'{"type": "a.b",   "data": {"x": 1}, "context": {}, "extra": true}'
BAD_FRAMES = [
    b"not json",
    b"[1]",
    b'{"type":"a"}{"type":"b"}',
    b'{"data":{}}',
    b'{"type":"a b"}',
    b'{"type":"a.b","data":[]}',
    b'{"type":"a.b","data":{"x":NaN}}',
    b'{"type":"a.b","data":{"x":1e999}}',
    b'{"type":"a.b","data":{"x":"\\ud800"}}',
    b'{"type":"a\xff"}',
    b"\xef\xbb\xbf" + HELLO,
    b'{"type":"a.b","data":{"x":' + b"[" * 3000 + b"]" * 3000 + b"}}",
]


def test_a_frame_goes_verbatim_to_everybody_including_its_sender() -> None:
    async def main() -> None:
        async with served_hub() as (_hub, url):
            members = [await member(url) for _ in range(3)]
            await members[0].send(HELLO)
            assert [await one.receive() for one in members] == [HELLO] * 3

    run(main())


def test_a_member_may_ask_not_to_hear_itself() -> None:
    async def main() -> None:
        async with served_hub() as (_hub, url):
            quiet = await member(url, X_Bridgehead_No_Echo="1")
            other = await member(url)
            await quiet.send(b'{"type":"from.quiet"}')
            assert await other.receive() == b'{"type":"from.quiet"}'
            await other.send(b'{"type":"from.other"}')
            assert await quiet.receive() == b'{"type":"from.other"}'

    run(main())


def test_a_subscription_limits_what_is_heard_and_is_not_passed_on() -> None:
    async def main() -> None:
        async with served_hub() as (_hub, url):
            choosy, other = await member(url), await member(url)
            await choosy.send(
                b'{"type":"bridgehead.subscribe","data":{"topics":["a.*","z"]}}'
            )
            await choosy.send(b'{"type":"bridgehead.subscribe","data":{"topics":[5]}}')
            await choosy.send(b'{"type":"z"}')
            assert await choosy.receive() == b'{"type":"z"}'
            for topic in ("b.c", "a.x", "z.y", "z"):
                await other.send(json.dumps({"type": topic}).encode())
            assert [json.loads(await choosy.receive())["type"] for _ in range(2)] == [
                "a.x",
                "z",
            ]
            assert json.loads(await other.receive())["type"] == "z"

    run(main())


@pytest.mark.parametrize("bad", BAD_FRAMES, ids=lambda frame: repr(frame[:20]))
def test_a_bad_frame_reaches_nobody_and_costs_nobody_the_connection(bad: bytes) -> None:
    async def main() -> None:
        async with served_hub() as (hub, url):
            sender, other = await member(url), await member(url)
            await sender.send(bad)
            await sender.send(HELLO)
            assert await other.receive() == HELLO
            assert await sender.receive() == HELLO
            assert (
                sum(
                    count
                    for name, count in hub.counts.items()
                    if name.startswith("dropped_")
                )
                == 1
            )

    run(main())


def test_a_malformed_session_is_answered_by_exactly_one_announcement() -> None:
    async def main() -> None:
        async with served_hub() as (_hub, url):
            sender, other = await member(url), await member(url)
            await sender.send(
                b'{"type":"a.b","context":{"session":"s1","utterance_id":"u1"}}'
            )
            await sender.send(HELLO)
            announced = json.loads(await other.receive())
            assert announced == {
                "type": "ovos.session.rejected",
                "data": {"msg_type": "a.b", "reason": "malformed_carrier"},
                "context": {"utterance_id": "u1"},
            }
            assert await other.receive() == HELLO

    run(main())


def test_messages_of_one_sender_arrive_in_one_order_everywhere() -> None:
    async def main() -> None:
        async with served_hub() as (hub, url):
            heard: list[str] = []
            hub.listen(lambda message: heard.append(message.type))
            senders = [await member(url) for _ in range(2)]
            reader = await member(url)
            for number in range(100):
                for name, sender in zip("ab", senders, strict=True):
                    await sender.send(b'{"type":"%s.%d"}' % (name.encode(), number))
            read = [json.loads(await reader.receive())["type"] for _ in range(200)]
            assert read == heard
            for name in "ab":
                assert [t for t in read if t.startswith(name)] == [
                    f"{name}.{number}" for number in range(100)
                ]

    run(main())


def test_what_a_listener_publishes_while_being_told_comes_after_what_it_was_told() -> (
    None
):
    async def main() -> None:
        async with served_hub() as (hub, url):
            heard: list[str] = []

            def answer(message: Message) -> None:
                if message.type == "question":
                    hub.publish(Message("answer"))

            hub.listen(answer)
            hub.listen(lambda message: heard.append(message.type))
            asker = await member(url)
            await asker.send(b'{"type":"question"}')
            assert [json.loads(await asker.receive())["type"] for _ in range(2)] == [
                "question",
                "answer",
            ]
            assert heard == ["question", "answer"]

    run(main())


def test_a_place_at_the_hub_gets_its_own_messages_unless_it_wants_none_back() -> None:
    class Place(HubListener):
        def __init__(self) -> None:
            self.heard: list[str] = []

        def received(self, message: Message) -> None:
            self.heard.append(message.type)

    async def main() -> None:
        hub, first, second = Hub(), Place(), Place()
        transport, other = MemoryTransport(hub), MemoryTransport(hub)
        await transport.connect(first)
        await other.connect(second)
        for echo in (True, False):
            assert transport.send(Message(f"echo.{echo}"), echo=echo)
        assert (first.heard, second.heard) == (
            ["echo.True"],
            ["echo.True", "echo.False"],
        )
        await other.close()
        assert not other.send(Message("too.late"))
        transport.send(Message("alone"))
        assert (first.heard[1:], second.heard[2:]) == (["alone"], [])

    run(main())


def test_a_member_that_does_not_read_is_cut_off_and_nobody_else_notices() -> None:
    async def main() -> None:
        async with served_hub(max_unsent_bytes=1_000_000) as (hub, url):
            stuck, reader, sender = (
                await member(url),
                await member(url),
                await member(url),
            )
            stuck.peer.pause_reading()
            big = json.dumps({"type": "big", "data": {"x": "y" * 200_000}}).encode()
            for _ in range(100):
                await sender.send(big)
                assert await reader.receive() == big
                await sender.receive()
            assert hub.counts["slow_members"] == 1
            assert hub.members() == 2
            stuck.peer.abort()

    run(main())


def test_a_frame_above_the_bound_ends_only_its_senders_connection() -> None:
    async def main() -> None:
        async with served_hub(max_frame_bytes=1000) as (_hub, url):
            sender, other = await member(url), await member(url)
            await sender.send(b'{"type":"a","data":{"x":"%s"}}' % (b"y" * 2000))
            with pytest.raises(ConnectionEnded):
                await sender.receive()
            await other.send(HELLO)
            assert await other.receive() == HELLO

    run(main())


@pytest.mark.parametrize(
    ("origin", "host", "admitted"),
    [
        (None, None, True),
        ("http://{netloc}", None, True),  # what the stock client sends
        ("http://chat.example", None, False),
        ("null", None, False),
        ("https://{netloc}", None, False),
        ("http://127.0.0.1:1", None, False),
        (
            "http://evil.example:8181",
            "evil.example:8181",
            False,
        ),  # a name rebound to this machine
        (None, "evil.example", False),
        (None, "[::1]:8181", True),
        ("http://listed.example", None, True),
    ],
)
def test_pages_and_foreign_names_are_turned_away_before_the_upgrade(
    origin: str | None, host: str | None, admitted: bool
) -> None:
    async def main() -> None:
        async with served_hub(origins=("http://listed.example",)) as (hub, url):
            headers = (
                [("Origin", origin.format(netloc=urlsplit(url).netloc))]
                if origin
                else []
            )
            headers += [("Host", host)] if host else []
            try:
                await dial(Target(url, tuple(headers)), ClientConversation())
            except DialRefused as refused:
                assert refused.status == 403 and not admitted
                assert hub.members() == 0
            else:
                assert admitted

    run(main())


@pytest.mark.parametrize(
    ("authorization", "status"),
    [(None, 401), ("Bearer wrong", 401), ("secret", 401), ("Bearer secret", 101)],
)
def test_a_hub_with_a_token_admits_only_those_who_show_it(
    authorization: str | None, status: int
) -> None:
    async def main() -> None:
        async with served_hub(token="secret") as (_hub, url):
            headers = (("Authorization", authorization),) if authorization else ()
            try:
                await dial(Target(url, headers), ClientConversation())
            except DialRefused as refused:
                assert refused.status == status
            else:
                assert status == 101

    run(main())


def test_other_paths_do_not_exist_and_a_plain_request_is_no_upgrade() -> None:
    async def main() -> None:
        async with served_hub() as (_hub, url):
            parts = urlsplit(url)
            for path, status in (("/", b"404"), ("/core", b"400")):
                reader, writer = await asyncio.open_connection(
                    parts.hostname, parts.port
                )
                writer.write(
                    b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path.encode()
                )
                assert (await reader.read()).split(b" ")[1] == status
                writer.close()
            with pytest.raises(DialRefused) as refused:
                await dial(Target(url.replace("/core", "/other")), ClientConversation())
            assert refused.value.status == 404

    run(main())


def test_a_hub_that_stops_says_goodbye() -> None:
    async def main() -> None:
        async with served_hub() as (_hub, url):
            one = await member(url)
        with pytest.raises(ConnectionEnded) as ended:
            await one.receive()
        assert ended.value.code == 1001

    run(main())


def test_a_half_open_connection_is_found_and_dropped() -> None:
    async def main() -> None:
        async with served_hub(ping_s=0.02, silence_s=0.1) as (hub, url):
            alive = await member(url)
            silent = await member(url)
            silent.peer.pause_reading()
            await until(lambda: hub.members() == 1)
            await alive.send(HELLO)
            assert await alive.receive() == HELLO
            silent.peer.abort()

    run(main())


STOCK_CLIENT = """
import sys, time
from threading import Event
from ovos_bus_client import Message, MessageBusClient
port, me, other = int(sys.argv[1]), sys.argv[2], sys.argv[3]
client = MessageBusClient(host="127.0.0.1", port=port, route="/core")
client.run_in_thread()
assert client.connected_event.wait(20)
opened, heard, done = [], [], Event()
client.on("open", lambda *a: opened.append(1))
client.on("question", lambda m: client.emit(m.reply("answer", {"to": m.data["n"]})))
client.on("answer", lambda m: heard.append(m.data["to"]))
client.on("finish", lambda m: done.set())
client.emit(Message("ready", {"who": me}))
assert done.wait(30)
print("heard", sorted(heard), "reconnects", len(opened))
"""


@pytest.mark.peer
@needs_ovos()
def test_stock_clients_talk_through_the_hub_and_survive_garbage_of_others(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_hub() as (_hub, url):
            hostile = await member(url)
            port = str(urlsplit(url).port)
            environment = ovos_environment(tmp_path)
            stock = asyncio.create_task(
                run_ovos(STOCK_CLIENT, environment, port, "one", "two")
            )
            while json.loads(await hostile.receive())["type"] != "ready":
                pass
            for bad in BAD_FRAMES:
                await hostile.send(bad)
            await hostile.send(b'{"type":"a.b","context":{"session":"s1"}}')
            for number in range(5):
                await hostile.send(
                    json.dumps({"type": "question", "data": {"n": number}}).encode()
                )
            answers = 0
            while answers < 5:
                answers += json.loads(await hostile.receive())["type"] == "answer"
            await hostile.send(b'{"type":"finish"}')
            assert (await stock).splitlines()[
                -1
            ] == "heard [0, 1, 2, 3, 4] reconnects 0"

    run(main())


# -- other users of this machine ----------------------------------------------------------------------------------

STRANGER = 65534
UPGRADE = (
    b"GET /core HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


async def status_for_user(
    url: str, user: int, family: socket.AddressFamily = socket.AF_INET
) -> int:
    """What the hub answers to a socket that was opened by this user."""
    port = int(url.rpartition(":")[2].partition("/")[0])
    os.seteuid(user)
    try:
        client = socket.socket(family)
    finally:
        os.seteuid(0)
    client.setblocking(False)
    host = "127.0.0.1" if family == socket.AF_INET else "::ffff:127.0.0.1"
    await asyncio.get_running_loop().sock_connect(client, (host, port))
    reader, writer = await asyncio.open_connection(sock=client)
    writer.write(UPGRADE)
    first = await reader.readline()
    writer.transport.abort()
    return int(first.split()[1])


@pytest.mark.skipif(
    not Path("/proc/net/tcp").exists() or os.geteuid() != 0,
    reason="needs /proc and a second user",
)
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_the_hub_is_for_the_user_it_runs_as(family: socket.AddressFamily) -> None:
    async def main() -> None:
        async with served_hub() as (hub, url):
            assert await status_for_user(url, 0, family) == 101
            assert await status_for_user(url, STRANGER, family) == 401
            assert hub.counts["refused_user"] == 1

    run(main())


@pytest.mark.parametrize(
    ("user", "status"), [(os.geteuid(), 101), (0, 101), (4242, 401), (None, 401)]
)
def test_who_is_not_known_to_be_its_user_does_not_reach_the_hub(
    user: int | None, status: int
) -> None:
    hub = Hub(user_of=lambda _request: user)
    decision = hub.upgrade(
        Request("GET", "/core", {}, {"host": "127.0.0.1"}, "127.0.0.1", False)
    )
    assert (decision.status if isinstance(decision, Answer) else 101) == status


def test_a_token_lets_other_users_in() -> None:
    hub = Hub(HubSettings(token="secret"), user_of=lambda _request: 4242)
    headers = {"host": "127.0.0.1", "authorization": "Bearer secret"}
    assert isinstance(
        hub.upgrade(Request("GET", "/core", {}, headers, "127.0.0.1", False)), Upgrade
    )


def test_a_side_car_lends_its_participant_to_no_other_user() -> None:
    request = Request("GET", "/core", {}, {"host": "127.0.0.1"}, "127.0.0.1", False)
    join = JoinFile(1, "ws://127.0.0.1:1/bridge/v1", "stock", token="stock.x")
    assert isinstance(
        LoopbackHub(join, user_of=lambda _request: 4242).upgrade(request), Answer
    )
    assert isinstance(
        LoopbackHub(join, user_of=lambda _request: os.geteuid()).upgrade(request),
        Upgrade,
    )


CONNECTIONS = b"""\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1FF5 00000000:0000 0A 00000000:00000000 00:00000000 00000000     7        0 1 1 x 100 0 0 10 0
   1: 0100007F:95A4 0100007F:1FF5 06 00000000:00000000 03:00000DDE 00000000     0        0 0 3 x
   2: 0100007F:95A5 0100007F:1FF5 01 00000000:00000000 00:00000000 00000000  1000        0 2 1 x 20 4 30 10 -1
   3: 0100007F:1FF5 0100007F:95A5 01 00000000:00000000 00:00000000 00000000     7        0 3 1 x 20 4 30 10 -1
"""


@pytest.mark.skipif(
    sys.byteorder != "little",
    reason="the table is written in the byte order of the machine",
)
@pytest.mark.parametrize(
    ("port", "user"), [(0x95A5, 1000), (0x95A4, None), (0x95A6, None)]
)
def test_only_the_owner_of_an_open_socket_counts(port: int, user: int | None) -> None:
    ends = Ends(("127.0.0.1", port), ("127.0.0.1", 0x1FF5))
    assert find_user(ends, [CONNECTIONS]) == user
    mapped = Ends(("::ffff:127.0.0.1", port), ("::ffff:127.0.0.1", 0x1FF5))
    assert find_user(mapped, [CONNECTIONS]) == user
