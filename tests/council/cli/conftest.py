"""A machine of its own with the example project in it, and no agent on its PATH."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council.councils import Councils
from bridgehead.assembly.council.request import CouncilRequest
from bridgehead.assembly.council.run import Audience, Finished
from bridgehead.assembly.pending import pending_list
from bridgehead.contract.doors import Door
from bridgehead.contract.pending import Answer, PendingItem
from bridgehead.contract.words import Intensity
from bridgehead.control_plane.records import EventFilter
from bridgehead.council.request.plan import CouncilOptions
from bridgehead.council.runtimes.cli import CliConnection
from bridgehead.council.scope.scope import ScopeRequest
from support.installed import Machine

BARE = "/usr/local/bin:/usr/bin:/bin"
EXAMPLE = Path(__file__).resolve().parents[3] / "src" / "bridgehead" / "demo" / "orders"


@pytest.fixture
def orders(tmp_path: Path) -> Machine:
    """The example as a committed project, seen with the system's own programs only."""
    return committed_orders(tmp_path)


def committed_orders(folder: Path) -> Machine:
    project = folder / "orders"
    shutil.copytree(EXAMPLE, project)
    (folder / "home").mkdir()
    machine = Machine(folder / "home", project)
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "start")):
        subprocess.run(
            ["git", *identity, *words], cwd=project, env=machine.environ(), check=True
        )
    return machine


CODEX = """#!{python}
import json, os, sys
here = os.path.dirname(os.path.realpath(__file__))
words = sys.argv[1:]
known = {{
    "login status": lambda: sys.exit(0 if os.path.exists(here + "/logged-in") else 1),
    "--version": lambda: print("codex-cli 0.166.0"),
    "features list": lambda: print("multi_agent  stable  false"),
    "debug models": lambda: print(json.dumps({{"models": []}})),
}}
if " ".join(words) in known or "--help" in words:
    options = "--json --sandbox --output-schema --config --skip-git-repo-check --ephemeral --model"
    known.get(" ".join(words), lambda: print(options))()
    sys.exit(0)
prompt = sys.stdin.read()
if "change files inside" in prompt:
    with open("greeting.txt", "w") as made:
        made.write("hello\\n")
with open(here + "/prompts", "a") as kept:
    kept.write(json.dumps(prompt) + "\\n")
answer = json.load(open(here + "/answer.json"))
if "fail" in answer:
    print(json.dumps({{"type": "error", "message": answer["fail"]}}))
    print(json.dumps({{"type": "turn.failed", "error": {{"message": answer["fail"]}}}}))
    sys.exit(1)
message = {{"id": "i", "type": "agent_message", "text": json.dumps(answer)}}
for event in (
    {{"type": "thread.started", "thread_id": "t"}},
    {{"type": "item.completed", "item": message}},
    {{"type": "turn.completed", "usage": {{"input_tokens": 1200, "output_tokens": 80}}}},
):
    print(json.dumps(event))
"""


@dataclass(frozen=True)
class StandIn:
    """A program called codex that answers every prompt with the same items, once somebody has logged in."""

    folder: Path

    def log_in(self) -> None:
        (self.folder / "logged-in").touch()

    def log_out(self) -> None:
        (self.folder / "logged-in").unlink(missing_ok=True)

    def answers(self, document: dict[str, Any]) -> None:
        (self.folder / "answer.json").write_text(json.dumps(document))

    @property
    def prompts(self) -> list[str]:
        kept = self.folder / "prompts"
        return (
            [json.loads(line) for line in kept.read_text().splitlines()]
            if kept.exists()
            else []
        )

    @property
    def path(self) -> str:
        return f"{self.folder}:{BARE}"


@pytest.fixture
def codex(tmp_path: Path) -> StandIn:
    """Logged out at first, and with nothing to say."""
    program = tmp_path / "programs" / "codex"
    program.parent.mkdir()
    program.write_text(CODEX.format(python=sys.executable))
    # With a bubblewrap it would be confined, and could not keep what it was asked.
    (program.parent / "bwrap").write_text("#!/bin/sh\nexit 1\n")
    for script in program.parent.iterdir():
        script.chmod(0o755)
    standin = StandIn(program.parent)
    standin.answers({"outputs": []})
    return standin


@dataclass(frozen=True)
class Hall:
    """Councils of the example project in this process; much cheaper than a command for each step."""

    assembly: Assembly
    everything = ScopeRequest()

    def call(self, **asked: Any) -> Finished:
        named = {
            name: asked.pop(name)
            for name in CouncilOptions.__struct_fields__
            if name in asked
        }
        usual = {
            "scope": ScopeRequest(paths=("orders/store.py",)),
            "domains": ("security",),
        }
        options = CouncilOptions(**{"intensity": Intensity.QUICK, **named})
        request = CouncilRequest(**{**usual, **asked}, options=options)
        return Councils(self.assembly).call(request, Audience())

    def resume(self, reference: str | None, **asked: Any) -> Finished:
        return Councils(self.assembly).resume(reference, Audience(), **asked)

    def waiting(self) -> list[PendingItem]:
        with self.assembly.store() as store:
            return store.pending()

    def answer(self, item: PendingItem, text: str) -> None:
        with self.assembly.store() as store:
            pending = pending_list(self.assembly, store, print)
            pending.answer(item.id, Answer(text=text), Door.PAGE)

    def notices(self) -> list[str]:
        with self.assembly.store() as store:
            told = store.events(EventFilter(kinds=("notice",)))
        return [recorded.event.data["status"] for recorded in told]


@pytest.fixture
def hall(orders: Machine, codex: StandIn, monkeypatch: pytest.MonkeyPatch) -> Hall:
    """Its stand-in is a script of ours that keeps what it was asked; it is not confined."""
    monkeypatch.setattr(CliConnection, "hold", lambda self, machine: None)
    return Hall(Assembly(orders.project, orders.environ(PATH=codex.path)))
