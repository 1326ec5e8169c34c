"""A confined seat reaches its own endpoints and not our hub; SIGTERM ends a council with an ACP seat (issue 34, 11)."""

from __future__ import annotations

import json
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from bridgehead.council.request.settings import RuntimeSettings
from bridgehead.council.runtimes.acp import AcpAgent
from bridgehead.council.runtimes.base import SeatSetup
from bridgehead.council.runtimes.exchange import RuntimeRequest, ToolServer
from bridgehead.council.runtimes.machine import Machine as SeatMachine
from bridgehead.doctor.checkup import judge_ports
from bridgehead.doctor.diagnosis import State
from bridgehead.host import confinement
from bridgehead.host.command import isolated_python
from bridgehead.host.confinement import port_filter
from bridgehead.host.ports import (
    PortRules,
    parse_span,
    port_of,
    ports_in_urls,
    ports_in_value,
    reachable_ports,
)
from security.support.planted import run_in, serving
from support.installed import Machine
from support.mcp_hosts import orders_project

needs_ports = pytest.mark.skipif(
    not confinement.holds_ports(),
    reason="this kernel cannot hold programs to ports (Landlock before version 4)",
)
NO_PORTS = PortRules()
# An agent that tries every way to a server, says what came of each, and answers nothing.
KNOCKING = """
import json, socket, sys
FAST_OPEN, MULTIPATH = 0x20000000, 262
def plain(at):
    socket.create_connection(at, 5)
def multipath(at):
    socket.socket(socket.AF_INET, socket.SOCK_STREAM, MULTIPATH).connect(at)
def fast_open(at):
    socket.socket().sendto(b"GET / HTTP/1.1", FAST_OPEN, at)
def mapped(at):
    socket.socket(socket.AF_INET6).connect(("::ffff:" + at[0], at[1]))
said = []
for port in json.loads(sys.argv[1]):
    for way in (plain, multipath, fast_open, mapped):
        try:
            way(("127.0.0.1", port))
            said.append(f"{way.__name__}-{port}=reached")
        except OSError:
            said.append(f"{way.__name__}-{port}=refused")
sys.stderr.write(" ".join(said))
"""
SILENT = """
import asyncio
import acp

class Silent(acp.Agent):
    def on_connect(self, conn): pass
    async def initialize(self, protocol_version, **_):
        return acp.InitializeResponse(protocol_version=protocol_version)
    async def new_session(self, cwd, mcp_servers=(), **_):
        return acp.NewSessionResponse(session_id="s1")
    async def prompt(self, session_id, prompt, **_):
        await asyncio.Event().wait()

asyncio.run(acp.run_agent(Silent()))
"""


def seat_an_agent(machine: Machine, code: str, *words: str) -> Path:
    """Let `code` take the seat `acp:guest` of the machine's councils."""
    script = machine.home.parent / "guest.py"
    script.write_text(code)
    command = shlex.join([*isolated_python(str(script)), *words])
    settings = machine.project / ".bridge-settings.json"
    settings.write_text(json.dumps({"bridges": {"acp:guest": {"acp": command}}}))
    config = machine.home / "bridgehead" / "config" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    readable = json.dumps([str(script), sys.prefix, sys.base_prefix])
    config.write_text(f"[council]\nreadable = {readable}\n")
    assert run_in(machine, "config", "trust", settings.name).returncode == 0
    return script


REVIEW = ("council", "review", "--json", "--non-interactive", "--runtime=acp:guest")


def knocked(machine: Machine) -> dict[str, str]:
    """What the agent says of each way, from the log of its seat."""
    run_in(machine, *REVIEW, "orders/store.py")
    logs = (machine.project / ".outputs" / "bridges").glob("acp-guest-*.jsonl")
    text = " ".join(path.read_text() for path in logs)
    words = (word.strip('",\\') for word in text.split())
    return dict(
        word.split("=") for word in words if word.count("=") == 1 and "-" in word
    )


@needs_ports
def test_a_seat_does_not_reach_our_hub_in_any_way(tmp_path: Path) -> None:
    machine = orders_project(tmp_path)
    anywhere = ("--listen", "127.0.0.1:0", "--hub-listen", "127.0.0.1:0")
    with (
        serving(machine, "bus", "serve", "--json", *anywhere) as bus,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        assert bus.stdout is not None
        hub = port_of(json.loads(bus.stdout.readline())["hub"])
        free = other.getsockname()[1]
        seat_an_agent(machine, KNOCKING, json.dumps([hub, free]))
        said = knocked(machine)

    ways = ("plain", "multipath", "fast_open", "mapped")
    assert {said[f"{way}-{hub}"] for way in ways} == {"refused"}
    # An agent nobody knows may start servers of its own, which listen in that range.
    assert said[f"plain-{free}"] == "reached"


@needs_ports
def test_a_port_that_the_user_opens_is_open(tmp_path: Path) -> None:
    machine = orders_project(tmp_path)
    anywhere = ("--listen", "127.0.0.1:0", "--hub-listen", "127.0.0.1:0")
    with serving(machine, "bus", "serve", "--json", *anywhere) as bus:
        assert bus.stdout is not None
        hub = port_of(json.loads(bus.stdout.readline())["hub"])
        seat_an_agent(machine, KNOCKING, json.dumps([hub]))
        config = machine.home / "bridgehead" / "config" / "config.toml"
        config.write_text(config.read_text() + f'ports = ["{hub}"]\n')
        said = knocked(machine)

    assert said[f"plain-{hub}"] == "reached"


def test_ports_come_from_the_addresses_a_program_was_told() -> None:
    text = '{"base_url": "http://localhost:11434/v1", "b": "https://u:p@[::1]:8443/", "c": "https://x.y/z:1"}'
    assert ports_in_urls(text) == {11434, 8443}
    assert ports_in_value("127.0.0.1:3128") == {3128}
    assert ports_in_value("http://proxy.example:8080/") == {8080}
    assert ports_in_value("claude:99999") == frozenset()
    assert ports_in_value("10:30:45 in the morning") == frozenset()


def test_our_own_servers_are_no_endpoint_unless_the_user_says_so() -> None:
    closed = PortRules(closed=frozenset({8181}))
    opened = PortRules((range(8181, 8182),), frozenset({8181}))

    assert spread(reachable_ports({8181, 81}, own_servers=None, rules=NO_PORTS)) == {
        53,
        80,
        81,
        443,
        8181,
    }
    assert spread(reachable_ports({8181}, own_servers=None, rules=closed)) == {
        53,
        80,
        443,
    }
    assert 8181 in spread(reachable_ports({8181}, own_servers=None, rules=opened))
    near = PortRules(closed=frozenset({40001}))
    servers = reachable_ports((), own_servers=range(40000, 40004), rules=near)
    assert servers[-2:] == (range(40000, 40001), range(40002, 40004))


def spread(spans: tuple[range, ...]) -> set[int]:
    return {port for span in spans for port in span}


def test_ports_are_written_as_numbers_ranges_or_all() -> None:
    assert parse_span("8123") == range(8123, 8124)
    assert parse_span("3000-3002") == range(3000, 3003)
    assert len(parse_span("all")) == 65535
    for wrong in ("", "x", "0", "70000", "9-8"):
        with pytest.raises(ValueError, match=r"port|invalid literal"):
            parse_span(wrong)


def test_settings_variables_and_tools_of_a_call_open_their_ports(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    (home / ".qwen").mkdir(parents=True)
    (home / ".qwen" / "settings.json").write_text('{"u": "http://localhost:1234/v1"}')
    (tmp_path / "qwen").write_text("#!/bin/sh\n")
    (tmp_path / "qwen").chmod(0o755)
    environment = {
        "HOME": str(home),
        "PATH": str(tmp_path),
        "HTTPS_PROXY": "127.0.0.1:3128",
        "OPENAI_BASE_URL": "http://127.0.0.1:8000/v1",
    }
    setup = SeatSetup("acp:qwen", RuntimeSettings(), environment)
    agent = AcpAgent.locate(setup, SeatMachine(environment, memory={}))
    assert isinstance(agent, AcpAgent), agent

    def ports(*tools: ToolServer) -> set[int] | None:
        asked = RuntimeRequest("hi", tmp_path, 60, tools=tools)
        found = agent._ports(asked, [str(home / ".qwen")])
        return None if found is None else spread(found)

    plain = ports()
    assert plain is not None and {1234, 3128, 8000, 443} <= plain
    assert 8181 not in plain
    with_url = ports(ToolServer("clock", url="http://127.0.0.1:9123/mcp"))
    assert with_url is not None and 9123 in with_url
    assert ports(ToolServer("clock", ("clock-server",))) is None


def test_the_filter_for_the_ways_around_is_there_for_the_processors_we_know() -> None:
    for processor in ("x86_64", "aarch64"):
        program = port_filter(processor)
        assert program[-1][3] == 0x7FFF0000
        for place, (_, hit, miss, _) in enumerate(program):
            assert place + 1 + max(hit, miss) < len(program) or (hit, miss) == (0, 0)
    assert port_filter("riscv64") == []


@pytest.mark.parametrize(
    ("is_held", "state", "word"),
    [(True, State.FINE, "not to our hub"), (False, State.LOOK, "hub_token")],
)
def test_doctor_says_whether_ports_are_held(
    is_held: bool, state: State, word: str
) -> None:
    said = judge_ports(is_held=is_held)

    assert said.state is state
    assert word in f"{said.message} {said.fix}"


@pytest.fixture
def reviewing(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A council whose one seat is an ACP agent that never answers."""
    machine = orders_project(tmp_path)
    script = seat_an_agent(machine, SILENT)
    process = machine.start(*REVIEW, "orders/store.py")
    try:
        wait_for(lambda: agents_of(process.pid, script))
        yield process
    finally:
        process.kill()
        process.communicate(timeout=60)


def agents_of(pid: int, script: Path) -> list[psutil.Process]:
    """The agent itself, once it is what its launchers become."""
    found = []
    for child in psutil.Process(pid).children(recursive=True):
        try:
            words = child.cmdline()
            has_begun = child.num_fds() > 3  # the event loop has its own
        except psutil.Error:
            continue
        if words[-1:] == [str(script)] and "--" not in words and has_begun:
            found.append(child)
    return found


def wait_for(holds: Callable[[], object]) -> None:
    """Look until it is so; the timeout of the test ends a wait that is in vain."""
    pause = threading.Event()
    while not holds():
        pause.wait(0.05)


@pytest.mark.parametrize("times", [1, 2])
def test_sigterm_ends_a_council_with_an_acp_seat_without_a_traceback(
    reviewing: subprocess.Popen[str], times: int
) -> None:
    children = psutil.Process(reviewing.pid).children(recursive=True)

    for _ in range(times):  # as `timeout` does
        reviewing.send_signal(signal.SIGTERM)
    out, err = reviewing.communicate(timeout=120)

    assert reviewing.returncode == 143, err
    assert "Traceback" not in out + err
    assert json.loads(out)["skip_reasons"] == {"acp:guest": "interrupted"}
    _, left = psutil.wait_procs(children, timeout=60)
    assert [child for child in left if child.status() != psutil.STATUS_ZOMBIE] == []


def test_an_agent_that_is_terminated_is_reported_in_a_sentence(
    reviewing: subprocess.Popen[str], tmp_path: Path
) -> None:
    def has_ended() -> bool:
        if reviewing.poll() is not None:
            return True
        for agent in agents_of(reviewing.pid, tmp_path / "guest.py"):
            agent.send_signal(signal.SIGTERM)
        return False

    wait_for(has_ended)  # it is asked more than once
    out, err = reviewing.communicate(timeout=120)

    assert "Traceback" not in out + err
    assert "the agent ended before its answer" in out
