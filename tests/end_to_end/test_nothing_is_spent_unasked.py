"""Programs of the agents that notice every prompt they are given: only a council or a flow gives one (hazard 18)."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from council.cli.conftest import BARE, committed_orders
from support.installed import SCRIPTS, Machine

AGENTS = ("claude", "codex", "gemini", "opencode", "agy")
PROGRAM = """#!{python}
import json, os, sys
said = sys.stdin.read()
with open({log!r}, "a") as kept:
    kept.write(json.dumps({{"program": os.path.basename(sys.argv[0]), "prompt": said}}) + "\\n")
print("9.9.9 --json --sandbox --output-schema --config --skip-git-repo-check --ephemeral --model --output-format")
"""
IMPORT_EVERYTHING = """
import importlib, pkgutil, threading, bridgehead
for found in pkgutil.walk_packages(bridgehead.__path__, "bridgehead."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
assert threading.active_count() == 1, threading.enumerate()
"""


@dataclass(frozen=True)
class Watched:
    """A machine whose agents write down what they are asked."""

    machine: Machine
    log: Path

    @property
    def path(self) -> str:
        return f"{self.log.parent}:{SCRIPTS}:{BARE}"

    def calls(self) -> list[dict[str, str]]:
        return (
            [json.loads(line) for line in self.log.read_text().splitlines()]
            if self.log.exists()
            else []
        )

    def prompts(self) -> list[dict[str, str]]:
        """The calls that carried a prompt; prompts go through standard input, whatever the program."""
        return [call for call in self.calls() if call["prompt"].strip()]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    folder = tmp_path / "agents"
    folder.mkdir()
    for name in AGENTS:
        program = folder / name
        program.write_text(
            PROGRAM.format(python=sys.executable, log=str(folder / "calls"))
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return Watched(committed_orders(tmp_path), folder / "calls")


def test_importing_everything_starts_nothing(watched: Watched) -> None:
    environment = watched.machine.environ(PATH=watched.path, ANTHROPIC_API_KEY="dummy")

    subprocess.run(
        [sys.executable, "-c", IMPORT_EVERYTHING],
        env=environment,
        check=True,
        timeout=120,
    )

    assert watched.calls() == []


@pytest.mark.parametrize(
    "command",
    [
        ("doctor",),
        ("runtimes",),
        ("council", "review", "--dry-run"),
        ("council", "debate", "--dry-run", "--preset", "security-elevated"),
        ("council", "list"),
        ("council", "gate"),
        ("flow", "list"),
        ("pending",),
        ("events",),
        ("setup", "git-hook", "--yes"),
    ],
    ids=" ".join,
)
def test_a_command_that_is_no_council_gives_nobody_a_prompt(
    watched: Watched, command: tuple[str, ...]
) -> None:
    done = watched.machine.run(*command, PATH=watched.path)

    assert "Traceback" not in done.err
    assert watched.prompts() == []


def test_a_push_through_the_hook_gives_nobody_a_prompt(watched: Watched) -> None:
    machine = watched.machine
    machine.run("setup", "git-hook", "--yes", PATH=watched.path)
    subprocess.run(
        ["git", "init", "-q", "--bare", "../remote.git"],
        cwd=machine.project,
        check=True,
    )

    pushed = machine.shell("git push -q ../remote.git HEAD:refs/heads/main")

    assert pushed.code == 0, pushed.err
    assert watched.prompts() == []


@pytest.mark.parametrize(
    "server",
    [
        ("web", "--port", "0", "--json"),
        ("bus", "serve", "--listen", "127.0.0.1:0", "--hub-listen", "127.0.0.1:0"),
    ],
)
def test_a_server_that_waits_gives_nobody_a_prompt(
    watched: Watched, server: tuple[str, ...]
) -> None:
    running = watched.machine.start(*server, PATH=watched.path)
    try:
        said = running.stdout or running.stderr
        assert said is not None
        assert said.readline().strip(), "it serves"
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)

    assert watched.prompts() == []


def test_a_real_run_calls_whom_the_dry_run_named_and_no_more_often(
    watched: Watched,
) -> None:
    asked = (
        "council",
        "review",
        "orders/store.py",
        "--runtime",
        "codex",
        "--domain",
        "security",
        "--json",
    )
    planned = watched.machine.run(*asked, "--dry-run", PATH=watched.path)
    assert watched.prompts() == []

    watched.machine.run(*asked, "--non-interactive", PATH=watched.path)

    named = {seat["bridge"] for seat in planned.json["seats"]} | set(
        planned.json["no_calls"]
    )
    assert named == {"codex"}
    assert {call["program"] for call in watched.prompts()} == named
    assert len(watched.prompts()) <= 2 * planned.json["most_calls"], (
        "each call may be repaired once"
    )
