"""Where a bus can be reached, seen from the kernel: loopback, or behind TLS and credentials (hazard 28)."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import signal
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.bus.assistants import agent_for
from bridgehead.assembly.bus.bus import RecordApprovals
from bridgehead.bus.gateway.chat import LINK_S
from bridgehead.errors import BridgeheadError
from bridgehead.host.clock import ManualClock, SystemClock
from bus.support.records import assembled
from bus.support.running import run
from bus.support.serving import http, served_bus
from support.installed import Machine, machine

ANY = "0.0.0.0:0"
HERE = "127.0.0.1:0"


@pytest.fixture
def home(tmp_path: Path) -> Machine:
    return machine(tmp_path)


@contextmanager
def running(
    home: Machine, *words: str
) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    process = home.start(*words, "--json")
    try:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield process, json.loads(line)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def listening(process: subprocess.Popen[str]) -> list[tuple[str, int]]:
    """Every address at which the process can be reached."""
    family = psutil.Process(process.pid)
    return [
        (found.laddr.ip, found.laddr.port)
        for member in (family, *family.children(recursive=True))
        for found in member.net_connections(kind="inet")
        if found.status == psutil.CONN_LISTEN
    ]


def beyond(addresses: list[tuple[str, int]]) -> list[int]:
    """The ports that other machines reach."""
    return [port for ip, port in addresses if not ipaddress.ip_address(ip).is_loopback]


def test_a_bus_that_was_told_nothing_listens_on_loopback_only(home: Machine) -> None:
    with running(home, "bus", "serve", "--listen", HERE, "--hub-listen", HERE) as (
        process,
        _,
    ):
        found = listening(process)

    assert len(found) >= 2 and beyond(found) == []


def test_the_hub_never_leaves_the_machine(home: Machine) -> None:
    done = home.run("bus", "serve", "--hub-listen", ANY, "--listen", HERE)

    assert done.code != 0
    assert "the hub cannot listen on 0.0.0.0:0" in done.err


def test_beyond_loopback_there_is_one_door_and_nobody_passes_it_without_a_credential(
    home: Machine,
) -> None:
    with running(home, "bus", "serve", "--listen", ANY, "--hub-listen", HERE) as (
        process,
        facts,
    ):
        (port,) = beyond(listening(process))
        assert facts["gateway"].startswith("wss://") and f":{port}/" in facts["gateway"]

        answers = asyncio.run(strangers(port))

    plain, answered = answers[0], answers[1:]
    assert b"HTTP/1.1 101" not in plain and b"bridgehead" not in plain, (
        "nothing is said without TLS"
    )
    assert answered, "it was asked"
    for path, status, ended in answered:
        # Whoever holds a key proves it inside the connection; whoever says anything else first is turned out.
        expected = (101,) if path == "/bridge/v1" else (401, 403, 404, 426)
        assert status in expected and ended, f"{path} was answered {status}"


async def strangers(port: int) -> list[Any]:
    """What somebody without a credential is told: without TLS, then at every place a bus has."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /chat HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    told: list[Any] = [await reader.read()]
    writer.close()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    upgrade = (
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: bridgehead.v1\r\n"
    )
    for path in (
        "/bridge/v1",
        "/bridge/raw",
        "/chat",
        "/pair",
        "/hook/kitchen",
        "/core",
        "/metrics",
        "/",
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{upgrade}\r\n".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        said = json.dumps(
            {"type": "recognizer_loop:utterance", "data": {}, "context": {}}
        ).encode()
        writer.write(bytes([0x81, 0x80 | len(said)]) + bytes(4) + said)
        told.append((path, int(head.split()[1]), await ends(reader)))
        writer.close()
    return told


async def ends(reader: asyncio.StreamReader) -> bool:
    """Whether the other side hangs up; the deadline of the test bounds the wait."""
    try:
        await reader.read()
    except (ssl.SSLError, ConnectionError):
        pass
    return True


def test_a_bridge_at_a_foreign_hub_dials_it_and_opens_no_hub_of_its_own(
    home: Machine,
) -> None:
    with running(home, "bus", "serve", "--listen", HERE, "--hub-listen", HERE) as (
        _,
        hub,
    ):
        state = str(home.home / "second")
        words = (
            "bus",
            "bridge",
            "--hub",
            hub["hub"],
            "--listen",
            HERE,
            "--state",
            state,
        )
        with running(home, *words) as (process, facts):
            found = listening(process)
            gateway = int(facts["gateway"].rpartition(":")[2].partition("/")[0])

    assert facts["hub"] == hub["hub"]
    assert beyond(found) == []
    assert gateway in [port for _, port in found]
    assert int(hub["hub"].rpartition(":")[2].partition("/")[0]) not in [
        port for _, port in found
    ]


def test_links_and_tokens_end_by_the_clock_of_the_bus(tmp_path: Path) -> None:
    async def main() -> list[int]:
        clock = ManualClock(SystemClock().now())
        async with served_bus(tmp_path, clock=clock) as bus:
            links = [bus.chat_url, bus.chat_url]
            paths = ["/chat" + link.partition("/chat")[2] for link in links]
            first, _, _ = await http(bus.gateway_address, "GET", paths[0])
            clock.advance(LINK_S + 1)
            late, _, _ = await http(bus.gateway_address, "GET", paths[1])
            return [first, late]

    assert run(main()) == [200, 401]


@pytest.mark.parametrize("kind", ["no text", "link"])
def test_the_assistant_reads_the_seats_file_as_a_council_does(
    home: Machine, kind: str
) -> None:
    path = home.project / ".bridge-settings.json"
    if kind == "no text":
        path.write_bytes(b"\xff\xfe{}")
    else:
        (home.home / "elsewhere.json").write_text(
            '{"bridges": {"openai": {"base_url": "http://127.0.0.1:1/v1"}}}'
        )
        path.symlink_to(home.home / "elsewhere.json")

    with pytest.raises(BridgeheadError) as refused:
        agent_for(Assembly(home.project, home.environ()), "openai")

    assert ".bridge-settings.json" in str(refused.value)


def test_webhooks_and_pairing_have_the_clock_of_the_bus(tmp_path: Path) -> None:
    clock = ManualClock(SystemClock().now())
    assembly = assembled(tmp_path)

    async def main() -> list[object]:
        lent = {"approvals": RecordApprovals(assembly), "pairing": True}
        async with served_bus(tmp_path / "bus", clock=clock, **lent) as bus:
            hook, pair = bus.gateway.endpoints["hook"], bus.gateway.endpoints["pair"]
            return [vars(vars(hook)["_calls"])["_clock"], vars(pair)["clock"]]

    assert run(main()) == [clock, clock]
