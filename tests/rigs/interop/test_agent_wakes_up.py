"""A real agent CLI that wakes up when an envelope arrives, on the model server (rigs §8 wait, watch --exec)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.testing.model_server import ModelServer
from support import peer_clis
from support.rig_bridges import OURS, Bridge, Clone

pytestmark = [pytest.mark.peer, pytest.mark.slow, pytest.mark.timeout(900)]
SEND = ("--thread", "demo-01", "--to")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture
def agent(server: ModelServer, tmp_path: Path) -> dict[str, str]:
    """The environment of Claude Code in a home of its own, which knows nothing but the model server."""
    home = peer_clis.furnish(
        tmp_path / "agent", lambda _: server.base_url(), ("claude",)
    )
    return home.environment


@pytest.fixture
def mac(bridge: Bridge) -> Clone:
    made = bridge.clone("a", "mac-m5max")
    made.rig("new", "demo-01").ok()
    return made


def asking(mac: Clone) -> None:
    mac.rig(
        "send",
        "REQUEST",
        *SEND,
        "windows-5080",
        "--body-file",
        "-",
        stdin="Which toolkit?\n",
    ).ok()


def answering(tmp_path: Path, agent: dict[str, str], *, reads: str) -> Path:
    """A script that puts what it reads before the agent and sends what that says as the answer."""
    script = tmp_path / "answer"
    environment = " ".join(f"{name}='{value}'" for name, value in agent.items())
    model = peer_clis.MODEL["claude"]
    script.write_text(
        f"#!/bin/sh\n{reads} | env -i {environment} claude -p --model {model} > {tmp_path}/said || exit 4\n"
        f"{OURS} send RESPONSE --thread demo-01 --to mac-m5max --body-file {tmp_path}/said\n"
    )
    script.chmod(0o755)
    return script


def test_watch_exec_wakes_an_agent_that_answers(
    bridge: Bridge,
    mac: Clone,
    agent: dict[str, str],
    server: ModelServer,
    tmp_path: Path,
) -> None:
    windows = bridge.clone("b", "windows-5080")
    script = answering(tmp_path, agent, reads="cat")
    with windows.start(
        "watch", "--exec", str(script), "--timeout", "10m", "--interval", "5"
    ) as watching:
        try:
            assert watching.stdout is not None
            json.loads(watching.stdout.readline())
            asking(mac)
            event = {"event": ""}
            while event["event"] != "ran":
                event = json.loads(watching.stdout.readline())
        finally:
            watching.terminate()
    assert (event["filename"], event["exit_code"]) == ("REQUEST.md", 0)

    assert (
        "type=RESPONSE from=windows-5080"
        in mac.rig("wait", "--for", "RESPONSE", "--timeout", "10m").ok().out
    )
    said = (tmp_path / "said").read_text().strip()
    assert said and said in mac.rig("thread", "demo-01").ok().out
    prompts = json.dumps([request.body for request in server.log.questions()])
    assert "begin foreign text" in prompts and "Which toolkit?" in prompts


def test_wait_wakes_an_agent_that_answers(
    bridge: Bridge, mac: Clone, agent: dict[str, str], tmp_path: Path
) -> None:
    windows = bridge.clone("b", "windows-5080")
    script = answering(
        tmp_path,
        agent,
        reads=f"{OURS} wait --for REQUEST --timeout 10m >&2 && {OURS} inbox --prompt",
    )
    asking(mac)
    windows.run(str(script), PATH=os.environ["PATH"]).ok()
    mac.rig("sync", "--auto").ok()
    assert "state=delivered" in mac.rig("inbox").ok().out
