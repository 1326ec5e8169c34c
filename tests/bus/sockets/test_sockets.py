"""What a WebSocket must do for the bus, as server and as client, and what the door lets through."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from bridgehead.bus.sockets import listen as listen_module
from bridgehead.bus.sockets.base import UNREAD_PONGS, WaitingConnections, text_frame
from bridgehead.bus.sockets.dial import (
    FULL,
    ClientConversation,
    ConnectionEnded,
    DialRefused,
    Target,
    Unreachable,
    dial,
)
from bridgehead.bus.sockets.listen import AddressInUse, Listener, listen, listen_unix
from bus.support.running import OneSite, run, until

Play = Callable[[OneSite, Listener, Any], Coroutine[Any, Any, None]]


@pytest.fixture(params=(True, False), ids=("uvloop", "asyncio"))
def on_both_loops(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Runs an exchange between a listener and a dialler on both event loops."""

    def run_it(exchange: Play, **upgrade: Any) -> None:
        async def main() -> None:
            site = OneSite(**upgrade)
            listener = await listen(site, "127.0.0.1", 0)

            async def call(path: str = "/", **options: Any) -> ClientConversation:
                conversation = ClientConversation()
                target = Target(f"ws://127.0.0.1:{listener.port}{path}", **options)
                await dial(target, conversation)
                return conversation

            try:
                await exchange(site, listener, call)
            finally:
                if site.server.is_open:
                    site.server.peer.abort()
                await listener.close()

        run(main(), uvloop=request.param)

    return run_it


def test_messages_travel_both_ways_in_order(on_both_loops: Callable[..., None]) -> None:
    async def exchange(site: OneSite, _listener: Listener, call: Any) -> None:
        site.server.echo = True
        conversation = await call()
        sent = [
            f"message {number} ü".encode() * (number % 7 + 1) for number in range(200)
        ]
        for message in sent:
            await conversation.send(message)
        assert [await conversation.receive() for _ in sent] == sent
        assert all(text for _payload, text in site.server.messages)
        assert site.server.batches > 0

    on_both_loops(exchange)


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65535, 65536, 700_000])
def test_every_length_of_frame_arrives_whole(
    on_both_loops: Callable[..., None], size: int
) -> None:
    async def exchange(site: OneSite, _listener: Listener, call: Any) -> None:
        site.server.echo = True
        conversation = await call()
        await conversation.send(b"x" * size)
        assert await conversation.receive() == b"x" * size
        site.server.peer.write(text_frame(b"y" * size))
        assert await conversation.receive() == b"y" * size

    on_both_loops(exchange)


def test_a_message_above_the_bound_ends_the_connection_with_1009(
    on_both_loops: Callable[..., None],
) -> None:
    async def exchange(site: OneSite, _listener: Listener, call: Any) -> None:
        conversation = await call()
        await conversation.send(b"x" * 2001)
        with pytest.raises(ConnectionEnded) as ended:
            await conversation.receive()
        assert ended.value.code == 1009
        assert site.server.messages == []

    on_both_loops(exchange, max_message_bytes=2000)


def test_the_close_code_and_its_reason_reach_the_other_side(
    on_both_loops: Callable[..., None],
) -> None:
    async def exchange(site: OneSite, _listener: Listener, call: Any) -> None:
        conversation = await call()
        site.server.peer.close(4008, "slow_consumer")
        with pytest.raises(ConnectionEnded) as ended:
            await conversation.receive()
        assert (ended.value.code, ended.value.reason) == (4008, "slow_consumer")
        await until(lambda: site.server.end is not None)

    on_both_loops(exchange)


def test_a_client_that_says_goodbye_is_heard(
    on_both_loops: Callable[..., None],
) -> None:
    async def exchange(site: OneSite, _listener: Listener, call: Any) -> None:
        conversation = await call()
        await conversation.close(4100, "done")
        await until(lambda: site.server.end is not None)
        assert site.server.end == (4100, "done")

    on_both_loops(exchange)


def test_a_connection_that_breaks_is_noticed(
    on_both_loops: Callable[..., None],
) -> None:
    async def exchange(site: OneSite, _listener: Listener, call: Any) -> None:
        conversation = await call()
        conversation.peer.abort()
        await until(lambda: site.server.end is not None)
        assert site.server.end == (1006, "")

    on_both_loops(exchange)


def test_pings_are_answered(on_both_loops: Callable[..., None]) -> None:
    async def exchange(site: OneSite, _listener: Listener, call: Any) -> None:
        await call()
        site.server.peer.ping()
        await until(lambda: site.server.pongs == 1)

    on_both_loops(exchange)


def test_a_reader_that_does_not_keep_up_pauses_the_writer_and_later_gets_everything(
    on_both_loops: Callable[..., None],
) -> None:
    async def exchange(site: OneSite, _listener: Listener, call: Any) -> None:
        conversation = await call()
        conversation.peer.pause_reading()
        written = 0
        while not site.server.pauses:
            site.server.peer.send(b"z" * 100_000)
            written += 1
            await asyncio.sleep(0)
        assert site.server.peer.unsent > 0
        conversation.peer.resume_reading()
        for _ in range(written):
            assert len(await conversation.receive()) == 100_000
        await until(lambda: site.server.resumes == site.server.pauses)

    on_both_loops(exchange)


def test_a_full_client_stops_reading_until_it_is_emptied(
    on_both_loops: Callable[..., None],
) -> None:
    async def exchange(site: OneSite, _listener: Listener, call: Any) -> None:
        conversation = await call()
        for number in range(FULL * 3):
            site.server.peer.send(b"%d" % number)
        assert [int(await conversation.receive()) for _ in range(FULL * 3)] == list(
            range(FULL * 3)
        )

    on_both_loops(exchange)


def test_a_stranger_gets_only_its_allowance_of_bytes(
    on_both_loops: Callable[..., None],
) -> None:
    async def exchange(site: OneSite, _listener: Listener, call: Any) -> None:
        conversation = await call()
        await conversation.send(b"x" * 100)
        await until(lambda: len(site.server.messages) == 1)
        await conversation.send(b"x" * 5000)
        with pytest.raises(ConnectionEnded):
            await conversation.receive()
        assert len(site.server.messages) == 1

    on_both_loops(exchange, first_bytes=1000)


def test_one_who_is_known_may_send_more_than_the_allowance(
    on_both_loops: Callable[..., None],
) -> None:
    async def exchange(site: OneSite, _listener: Listener, call: Any) -> None:
        conversation = await call()
        site.server.peer.lift_allowance()
        await conversation.send(b"x" * 5000)
        await until(lambda: len(site.server.messages) == 1)

    on_both_loops(exchange, first_bytes=1000)


def test_the_subprotocol_is_agreed_on(on_both_loops: Callable[..., None]) -> None:
    async def exchange(site: OneSite, _listener: Listener, call: Any) -> None:
        await call(subprotocol="bridgehead.v1")
        assert site.requests[0].headers["sec-websocket-protocol"] == "bridgehead.v1"

    on_both_loops(exchange, subprotocol="bridgehead.v1")


def test_a_refused_upgrade_carries_its_status(
    on_both_loops: Callable[..., None],
) -> None:
    async def exchange(site: OneSite, _listener: Listener, call: Any) -> None:
        with pytest.raises(DialRefused) as refused:
            await call("/closed?token=secret")
        assert refused.value.status == 403
        assert "secret" not in refused.value.message
        assert not site.server.is_open

    on_both_loops(exchange)


# -- frames a library would never send --------------------------------------------------------------------------

HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def masked(first: int, payload: bytes) -> bytes:
    assert len(payload) < 126
    return bytes([first, 0x80 | len(payload)]) + b"\x00\x00\x00\x00" + payload


def talk_raw(sent: bytes, site: OneSite, *, handshake: bool = True) -> bytes:
    """Send bytes to a listener over a plain socket; everything that came back until it closed."""

    async def main() -> bytes:
        listener = await listen(site, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write((HANDSHAKE if handshake else b"") + sent)
        async with asyncio.timeout(20):  # for a listener that waits for ever
            answered = await reader.read()
        writer.close()
        await listener.close()
        return answered

    return run(main())


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (bytes([0x81, 0x02]) + b"hi", 1002),  # not masked
        (masked(0xC1, b"hi"), 1002),  # a reserved bit
        (masked(0x83, b"hi"), 1002),  # an opcode that does not exist
        (masked(0x80, b"hi"), 1002),  # a continuation of nothing
        (masked(0x01, b"a") + masked(0x81, b"b"), 1002),  # a message inside a message
        (masked(0x09, b"p"), 1002),  # a fragmented ping
    ],
    ids=["unmasked", "reserved", "opcode", "orphan", "interleaved", "split-ping"],
)
def test_frames_that_break_the_protocol_end_the_connection(
    sent: bytes, code: int
) -> None:
    site = OneSite()
    answered = talk_raw(sent, site)
    assert answered.startswith(b"HTTP/1.1 101 ")
    assert b"\x88" in answered and code.to_bytes(2, "big") in answered
    assert site.server.messages == []


def test_fragments_and_binary_messages_are_put_together() -> None:
    site = OneSite()
    talk_raw(
        masked(0x01, b"he")
        + masked(0x89, b"")
        + masked(0x80, b"llo")
        + masked(0x82, b"bin")
        + masked(0x88, b"\x03\xe8"),
        site,
    )
    assert site.server.messages == [(b"hello", True), (b"bin", False)]


def test_who_floods_with_pings_and_reads_no_pong_is_not_read_until_it_reads() -> None:
    site, pings = OneSite(), masked(0x89, b"x" * 125) * 1000

    async def main() -> None:
        listener = await listen(site, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", listener.port, limit=1024
        )
        writer.transport.set_write_buffer_limits(high=UNREAD_PONGS)  # type: ignore[attr-defined]
        writer.write(HANDSHAKE)
        sent = 0
        while writer.transport.get_write_buffer_size() <= UNREAD_PONGS:  # type: ignore[attr-defined]
            writer.write(pings)
            sent += 1000
            await asyncio.sleep(0)
            assert not site.server.is_open or site.server.peer.unsent < 3 * UNREAD_PONGS
        writer.write(masked(0x81, b"done") + masked(0x88, b"\x03\xe8"))
        answered = await reader.read()
        assert answered.count(b"\x8a\x7d" + b"x" * 125) == sent, (
            "every ping was answered in the end"
        )
        assert site.server.messages == [(b"done", True)]
        writer.close()
        await listener.close()

    run(main())


# -- the door ---------------------------------------------------------------------------------------------------


def test_ordinary_requests_are_answered_on_the_same_listener() -> None:
    site = OneSite()
    answered = talk_raw(
        b"POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nX-Twice: 1\r\nX-Twice: 2\r\n\r\nhello",
        site,
        handshake=False,
    )
    head, _, body = answered.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK") and b"nosniff" in head
    assert body == b"hello"
    request = site.requests[0]
    assert (request.method, request.path, dict(request.query)) == (
        "POST",
        "/a",
        {"b": "c"},
    )
    assert request.headers["x-twice"] == "1, 2"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", b"400"),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n", b"431"),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"400",
        ),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 999999\r\n\r\n"
            + b"x" * 400_000,
            b"413",
        ),
    ],
    ids=["nonsense", "no-host", "two-hosts", "long-head", "two-lengths", "long-body"],
)
def test_requests_that_cannot_be_are_refused(sent: bytes, status: bytes) -> None:
    site = OneSite()
    assert talk_raw(sent, site, handshake=False).split(b" ")[1] == status
    assert site.requests == []


def test_a_request_that_does_not_arrive_in_time_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listen_module, "ARRIVAL_S", 0.05)
    site = OneSite()
    assert talk_raw(b"GET / HTTP/1.1\r\nHo", site, handshake=False) == b""


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: 5\r\n\r\nhel",
        b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
    ],
)
def test_a_body_that_does_not_arrive_in_time_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setattr(listen_module, "ARRIVAL_S", 0.05)
    site = OneSite()
    assert (
        talk_raw(b"POST / HTTP/1.1\r\nHost: x\r\n" + body, site, handshake=False) == b""
    )
    assert site.requests == []


def test_those_who_say_nothing_push_each_other_out_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listen_module, "ARRIVAL_S", 3600.0)

    async def main() -> None:
        listener = await listen(OneSite(), "127.0.0.1", 0, max_pending=3)
        silent = [
            await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(20)
        ]
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        for earlier, _ in silent[:17]:
            with pytest.raises(ConnectionError):
                assert await asyncio.wait_for(earlier.read(), 20) == b""
                raise ConnectionResetError  # closed without a reset counts too
        for _reader, other in [*silent, (reader, writer)]:
            other.close()
        await listener.close()

    run(main())


def test_the_most_crowded_address_gives_way() -> None:
    waiting: WaitingConnections[str] = WaitingConnections(3)
    assert [waiting.add("a", "a1"), waiting.add("b", "b1"), waiting.add("b", "b2")] == [
        None,
        None,
        None,
    ]
    assert waiting.add("c", "c1") == "b1"
    waiting.discard("a", "a1")
    waiting.discard("a", "a1")
    assert len(waiting) == 2
    assert [waiting.add("c", "c2"), waiting.add("b", "b3")] == [None, "c1"]


def test_an_address_in_use_says_how_to_reach_the_bus_behind_it() -> None:
    async def main() -> None:
        with (
            socket.create_server(("127.0.0.1", 0)) as taken,
            pytest.raises(AddressInUse) as refused,
        ):
            await listen(OneSite(), "127.0.0.1", taken.getsockname()[1])
        assert "--hub" in (refused.value.hint or "")
        assert refused.value.exit_code == 2

    run(main())


def test_a_unix_socket_is_served_and_only_its_owner_can_reach_it(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        site = OneSite()
        path = tmp_path / "hub.sock"
        listener = await listen_unix(site, path)
        assert path.stat().st_mode & 0o777 == 0o600
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(HANDSHAKE + masked(0x81, b"hi"))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        await until(lambda: site.server.messages == [(b"hi", True)])
        long = b"x" * 1_000_000  # more than the system takes at once
        site.server.peer.send(long)
        assert await reader.readexactly(len(text_frame(long))) == text_frame(long)
        writer.write(masked(0x88, b"\x03\xe8"))
        await reader.read()
        writer.close()
        await listener.close()

    run(main(), uvloop=True)
    run(main(), uvloop=False)


def test_an_address_where_nobody_listens_is_an_error_with_the_address() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with pytest.raises(Unreachable) as unreachable:
            await dial(Target(f"ws://127.0.0.1:{port}/core"), ClientConversation())
        assert str(port) in unreachable.value.message

    run(main())


def test_the_password_in_an_address_stands_in_no_message() -> None:
    url = "ws://me:hunter2@127.0.0.1:1/bridge/v1?t=hunter2"
    assert (
        str(Unreachable(url, "no answer"))
        == "ws://127.0.0.1:1/bridge/v1 cannot be reached: no answer"
    )
    assert "hunter2" not in str(DialRefused(url, 401))
