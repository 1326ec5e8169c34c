"""The real agent CLIs after `bridgehead setup`: they see the server, and an agent in one of them uses it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bridgehead import __version__
from bridgehead.mcp_server.tools.catalogue import TOOLS
from bridgehead.testing.exchange import CallTool, ModelRequest, Say, ToolKind
from bridgehead.testing.model_server import ModelServer
from bridgehead.testing.scripts import Scripted
from support.installed import Machine
from support.mcp_hosts import orders_project
from support.peer_clis import furnish, link_programs

pytestmark = [pytest.mark.peer, pytest.mark.slow]

REPOSITORY = Path(__file__).resolve().parents[2]
PLUGIN = REPOSITORY / "plugins" / "claude"
NOWHERE = "http://127.0.0.1:9"
ASKED = "what is waiting for an answer?"


@pytest.fixture
def user(tmp_path: Path) -> Machine:
    return orders_project(tmp_path)


def run_host(user: Machine, environment: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        words,
        cwd=user.project,
        env={**user.environ(), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("host", ["codex", "opencode"])
def test_the_host_lists_the_server_it_was_told_of(
    user: Machine, tmp_path: Path, host: str
) -> None:
    link_programs(tmp_path / "bin", (host,))
    peer = furnish(tmp_path, lambda _cli: NOWHERE, (host,), programs=tmp_path / "bin")

    assert user.run("setup", host, "--yes").code == 0
    listed = run_host(user, peer.environment, host, "mcp", "list")

    assert "bridgehead" in listed


CALLS = {
    "codex": (
        "codex",
        "exec",
        "-c",
        'mcp_servers.bridgehead.default_tools_approval_mode="approve"',
        ASKED,
    ),
    "gemini": (
        "gemini",
        "--model",
        "gemini-2.5-flash",
        "--approval-mode",
        "yolo",
        "--skip-trust",
        "-p",
        ASKED,
    ),
    "opencode": ("opencode", "run", ASKED),
}


@pytest.mark.parametrize("host", CALLS)
def test_an_agent_in_every_host_reads_the_inbox_with_the_tools_it_was_given(
    user: Machine, tmp_path: Path, host: str
) -> None:
    offered: set[str] = set()

    def script(request: ModelRequest) -> Scripted | None:
        if not request.tools:
            return None
        offered.update(request.tools)
        if request.answers_tool:
            return Scripted(Say("seen"))
        return Scripted(
            CallTool(
                ToolKind.NAMED,
                name="mcp__bridgehead__pending" if host == "codex" else "pending",
            )
        )

    assert (
        user.run(
            "flow", "run", "ask", "--agent", "manager", "--prompt", "Ship it on Friday?"
        ).code
        == 42
    )
    link_programs(tmp_path / "bin", (host,))
    with ModelServer(script=script) as server:
        peer = furnish(
            tmp_path, lambda _cli: server.base_url(), (host,), programs=tmp_path / "bin"
        )
        assert user.run("setup", host, "--yes").code == 0
        said = run_host(user, peer.environment, *CALLS[host])
        asked = [json.dumps(entry.body) for entry in server.log.questions()]

    assert host == "codex" or any(name.endswith("pending") for name in offered), (
        said
    )  # it offers them by server
    assert any("Ship it on Friday?" in one for one in asked), said
    assert "seen" in said


def test_an_agent_in_claude_code_is_offered_the_tools_and_asked_for_its_seat(
    user: Machine, tmp_path: Path
) -> None:
    wanted = {
        "paths": ["orders/store.py"],
        "runtimes": ["claude", "static"],
        "domains": ["security"],
        "intensity": "quick",
    }
    offered: set[str] = set()

    def script(request: ModelRequest) -> Scripted | None:
        if not request.tools:
            return None
        offered.update(request.tools)
        if request.answers_tool:
            return Scripted(Say("seen"))
        return Scripted(CallTool(ToolKind.NAMED, name="council", arguments=wanted))

    link_programs(tmp_path / "bin", ("claude",))
    with ModelServer(script=script) as server:
        peer = furnish(
            tmp_path,
            lambda _cli: server.base_url(),
            ("claude",),
            programs=tmp_path / "bin",
        )
        assert user.run("setup", "claude", "--yes").code == 0
        words = (
            "claude",
            "-p",
            "review my change",
            "--allowedTools",
            "mcp__bridgehead__council",
        )
        # Otherwise it may ask the model before a server that starts on a busy machine has listed its tools.
        waiting = {**peer.environment, "MCP_CONNECTION_NONBLOCKING": "false"}
        said = run_host(user, waiting, *words)
        results = [_tool_result(entry.body) for entry in server.log.questions()]

    assert "seen" in said
    assert {"mcp__bridgehead__council", "mcp__bridgehead__pending"} <= offered
    told: dict[str, Any] = json.loads(next(result for result in results if result))
    assert (told["status"], told["exit_code"]) == ("input_required", 42)
    assert told["requests"][0]["prompt"].startswith("<<< begin foreign text")
    # Claude Code writes its settings anew whenever it runs; the way back still finds our entry in them.
    assert user.run("setup", "claude", "--undo", "--yes").code == 0
    settings = json.loads((user.home / ".claude.json").read_text())
    assert settings.keys() - {"mcpServers"}, "what Claude Code wrote is kept"
    assert "bridgehead" not in settings.get("mcpServers", {})
    pending = user.run("pending", "--json").json["items"]
    assert {item["id"] for item in pending} == {one["id"] for one in told["requests"]}


def test_claude_code_finds_nothing_wrong_with_the_plugin_and_it_tells_the_truth(
    user: Machine, tmp_path: Path
) -> None:
    link_programs(tmp_path / "bin", ("claude",))
    peer = furnish(
        tmp_path, lambda _cli: NOWHERE, ("claude",), programs=tmp_path / "bin"
    )

    for folder in (REPOSITORY, PLUGIN):
        said = run_host(
            user,
            peer.environment,
            "claude",
            "plugin",
            "validate",
            "--strict",
            str(folder),
        )
        assert "Validation passed" in said, said

    assert (
        json.loads((PLUGIN / ".claude-plugin" / "plugin.json").read_text())["version"]
        == __version__
    )
    named = {
        word
        for path in PLUGIN.rglob("*.md")
        for word in re.findall(r"tool `(\w+)`", path.read_text())
    }
    assert named
    assert named <= {tool.name for tool in TOOLS}


def _tool_result(body: dict[str, Any]) -> str:
    """The text of the tool result a question ends with."""
    content = body["messages"][-1]["content"]
    blocks = content if isinstance(content, list) else []
    for block in blocks:
        if isinstance(block, dict) and block.get("type") == "tool_result":
            said = block["content"]
            return (
                said
                if isinstance(said, str)
                else "".join(one.get("text", "") for one in said)
            )
    return ""
