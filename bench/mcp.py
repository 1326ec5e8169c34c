"""How long a host waits until it knows our tools: from the start of the process to the answer to `tools/list`."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from bench.harness import SCRIPTS, Budget, Comparison

MOST_MILLISECONDS: Final = 300.0
"""Hosts give `initialize` little time, and some start several servers at once."""

# A server with one tool, made with the official SDK as its documentation shows.
SDK_SERVER: Final = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("peer")
@server.tool()
def add(a: int, b: int) -> int:
    return a + b
server.run("stdio")
"""
HELLO: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


def comparisons() -> list[Comparison]:
    home = Path(tempfile.mkdtemp(prefix="bridgehead-bench-"))
    ours = [str(SCRIPTS / "bridgehead"), "mcp"]
    sdk = [sys.executable, "-c", SDK_SERVER]
    wall = Comparison(
        "MCP discovery",
        "ms",
        lambda: discovery(ours, home).wall,
        lambda: MOST_MILLISECONDS,
        "what a host may wait",
        Budget(at_most=1.0),
    )
    cpu = Comparison(
        "MCP discovery",
        "ms CPU",
        lambda: discovery(ours, home).cpu,
        lambda: discovery(sdk, home).cpu,
        "a server made with the SDK",
        Budget(at_most=0.35),
    )
    return [wall, cpu]


class Discovery:
    """What it took to learn the tools, in milliseconds."""

    def __init__(self, wall: float, cpu: float) -> None:
        self.wall = wall
        self.cpu = cpu


def discovery(command: Sequence[str], home: Path) -> Discovery:
    """Start a server, introduce ourselves, ask for its tools, and let it end."""
    environ = {**os.environ, "HOME": str(home), "BRIDGEHEAD_HOME": str(home)}
    used_before = _children_milliseconds()
    began = time.perf_counter()
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=home,
        env=environ,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        say = _speaker(process.stdin.write, process.stdin.flush)
        say({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO})
        process.stdout.readline()
        say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        say({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
        tools = json.loads(process.stdout.readline())["result"]["tools"]
        wall = (time.perf_counter() - began) * 1000
        process.stdin.close()
        process.wait(timeout=30)
    assert tools
    return Discovery(wall, _children_milliseconds() - used_before)


def _speaker(
    write: Callable[[bytes], int], flush: Callable[[], None]
) -> Callable[[object], None]:
    def say(message: object) -> None:
        write(json.dumps(message).encode() + b"\n")
        flush()

    return say


def _children_milliseconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000
