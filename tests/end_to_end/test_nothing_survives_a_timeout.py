"""An agent whose family ignores every polite signal, behind each door that starts one: nobody is left (hazard 7)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from bridgehead.contract.words import ErrorClass
from bridgehead.council.runtimes.base import SeatSetup
from bridgehead.council.runtimes.claude import ClaudeCli
from bridgehead.council.runtimes.cli import CliConnection
from bridgehead.council.runtimes.codex import CodexCli
from bridgehead.council.runtimes.exchange import RuntimeRefusal, RuntimeRequest
from bridgehead.council.runtimes.gemini import GeminiCli
from bridgehead.council.runtimes.machine import Probe
from bridgehead.council.runtimes.opencode import OpencodeCli
from bridgehead.flows.files.agent_files import AgentRequest
from bridgehead.flows.files.checkpoint_files import CheckpointFiles
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.handlers import CommandHandler
from bridgehead.flows.words import RequestStatus
from council.running.test_call_runner import carried

# A child in the group, one in a session of its own, an orphan in a session of its own, and the agent itself.
FAMILY = 4
AGENT = """#!/bin/sh
cat > /dev/null
member='trap "" TERM HUP INT; echo $$ >> {pids}; while :; do sleep 600; done'
sh -c "$member" &
setsid sh -c "$member" &
(setsid sh -c "$member" < /dev/null > /dev/null 2>&1 &)
trap "" TERM HUP INT
echo $$ >> {pids}
while :; do sleep 600; done
"""
Door = Callable[[Path, int], bool]
"""Asks the agent at a path with that many seconds; whether it was told that the time is over."""


def through(kind: type[CliConnection]) -> Door:
    def ask(program: Path, seconds: int) -> bool:
        setup = SeatSetup(
            "x", environment={"PATH": os.environ["PATH"], "HOME": str(program.parent)}
        )
        outcome = carried(
            kind(setup, str(program), Probe("9.9.9")),
            RuntimeRequest("hello", program.parent, seconds),
        )
        return (
            isinstance(outcome, RuntimeRefusal)
            and outcome.error_class is ErrorClass.TIMEOUT
        )

    return ask


def through_a_flow(program: Path, seconds: int) -> bool:
    root = FlowRoot.open(program.parent)
    root.prepare()
    asked = AgentRequest(1, "ask", "agent", "hello", timeout_seconds=seconds)
    return (
        CommandHandler([str(program)]).answer(asked, CheckpointFiles(root)).status
        is RequestStatus.TIMEOUT
    )


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "door",
    [
        pytest.param(through(ClaudeCli), id="claude"),
        pytest.param(through(CodexCli), id="codex"),
        pytest.param(through(GeminiCli), id="gemini"),
        pytest.param(through(OpencodeCli), id="opencode"),
        pytest.param(through_a_flow, id="flow"),
    ],
)
def test_no_member_of_the_family_lives_on(door: Door, tmp_path: Path) -> None:
    program, pids = tmp_path / "agent", tmp_path / "pids"
    program.write_text(AGENT.format(pids=pids))
    program.chmod(0o700)
    seen: list[int] = []

    for seconds in (
        1,
        2,
        4,
        8,
        16,
        32,
        64,
    ):  # until the machine was quick enough for all of them to begin
        pids.write_text("")
        assert door(program, seconds), "the time was over and that was said"
        seen = [int(line) for line in pids.read_text().split()]
        assert [pid for pid in seen if lives(pid)] == []
        if len(seen) == FAMILY:
            break

    assert len(seen) == FAMILY
