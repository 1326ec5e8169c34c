"""Attack 4: a question to a person, or an approval, is answered by a model."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bridgehead.assembly.application import Assembly
from bridgehead.contract.doors import Decision, Door, Evidence, decide_door
from bridgehead.contract.pending import Question
from bridgehead.contract.record_words import Part, PendingKind
from bridgehead.host.person import AGENT_VARIABLES, agent_of_command
from support.installed import SCRIPTS, Machine, machine
from support.mcp_hosts import with_client
from support.person import at_terminal, run_at_terminal

FLOW = """\
from bridgehead.flows import flow


@flow("deploy", version="1")
def deploy(ctx):
    return "deployed: " + ctx.ask("deploy", agent="human", prompt="Deploy to PRODUCTION?")
"""


@pytest.fixture
def asking(tmp_path: Path) -> Machine:
    """A flow that waits for a person, as item q-1; and an approval, as item q-2."""
    here = machine(tmp_path)
    (here.project / "deploy.py").write_text(FLOW)
    assert here.run("flow", "run", "deploy.py").code == 42
    approval = Question(
        key="pair",
        kind=PendingKind.BUS_APPROVAL,
        part=Part.BUS,
        origin="bus",
        title="Pair the kitchen?",
        choices=("yes", "no"),
    )
    with Assembly(here.project, here.environ()).store() as store:
        store.open_pending(approval)
    return here


def answers(here: Machine) -> list[Any]:
    return [
        item["answer"]
        for item in here.run("pending", "--all", "--json").json["items"]
        if item["answer"]
    ]


def without_terminal(here: Machine, *arguments: str, **extra: str) -> tuple[int, str]:
    done = subprocess.run(
        [str(SCRIPTS / "bridgehead"), *arguments],
        cwd=here.project,
        env=here.environ(**extra),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stderr


def test_no_tool_call_answers_what_asks_for_a_person(asking: Machine) -> None:
    request = json.loads((asking.project / ".agent-request.json").read_text())
    for item in ("q-1", "q-2", request["request_id"]):
        for given in (
            {"id": item, "text": "yes"},
            {"id": item, "status": "error", "message": "no"},
        ):
            done = with_client(
                asking, lambda host, a=given: host.call_tool("answer", a)
            )
            assert done.is_error
            assert "asks for a person" in done.content[0].text

    assert answers(asking) == []
    assert not (asking.project / ".agent-response.json").exists()


def test_a_flow_that_told_the_record_nothing_is_not_answered_by_a_tool_either(
    asking: Machine,
) -> None:
    request = json.loads((asking.project / ".agent-request.json").read_text())
    asking.record.unlink()
    given = {"id": request["request_id"], "text": "yes"}

    done = with_client(asking, lambda host: host.call_tool("answer", given))

    assert done.is_error
    assert not (asking.project / ".agent-response.json").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("answer", "q-1", "yes"),
        ("answer", "q-2", "yes"),
        ("answer", "q-1", "--status", "cancelled", "--message", "no"),
        ("flow", "respond", "--response", "yes"),
    ],
)
def test_a_command_without_a_terminal_is_refused_and_says_what_to_do(
    asking: Machine, words: tuple[str, ...]
) -> None:
    code, said = without_terminal(asking, *words)

    assert code == 1
    assert "no terminal" in said or "runs under" in said
    assert "bridgehead web" in said
    assert answers(asking) == []
    assert not (asking.project / ".agent-response.json").exists()


def test_a_person_at_the_terminal_confirms_what_is_shown(asking: Machine) -> None:
    declined = at_terminal(asking, "answer", "q-1", "yes", types="n\n")
    assert declined.code == 1
    assert "not confirmed" in declined.err
    assert answers(asking) == []

    given = at_terminal(asking, "answer", "q-1", "yes")
    assert given.code == 0, given.err
    assert "Deploy to PRODUCTION?" in given.screen
    assert at_terminal(asking, "answer", "q-2", "no").code == 0
    assert len(answers(asking)) == 2
    assert "deployed: yes" in asking.run("flow", "resume").out


def test_flow_respond_asks_the_person_too(asking: Machine) -> None:
    given = at_terminal(asking, "flow", "respond", "--response", "yes")

    assert given.code == 0, given.err
    assert "Deploy to PRODUCTION?" in given.screen


@pytest.mark.parametrize("variable", AGENT_VARIABLES)
def test_under_the_variables_of_an_agent_a_terminal_helps_nothing(
    asking: Machine, variable: str
) -> None:
    given = at_terminal(asking, "answer", "q-1", "yes", **{variable: "1"})

    assert given.code == 1
    assert f"runs under {AGENT_VARIABLES[variable]}" in given.err
    assert answers(asking) == []


def test_under_an_agent_as_ancestor_a_terminal_helps_nothing(
    asking: Machine, tmp_path: Path
) -> None:
    agent = tmp_path / "claude"
    agent.write_text(
        f"#!{sys.executable}\nimport subprocess, sys\n"
        "sys.exit(subprocess.run(sys.argv[1:]).returncode)\n"
    )
    agent.chmod(0o755)
    shell = shutil.which("sh")
    assert shell is not None
    answer = f"{SCRIPTS / 'bridgehead'} answer q-1 yes"
    words = [str(agent), shell, "-c", f"{answer}; exit $?"]

    given = run_at_terminal(words, asking.project, asking.environ())

    assert given.code == 1
    assert "runs under claude" in given.err
    assert answers(asking) == []


@pytest.mark.parametrize(
    ("words", "agent"),
    [
        (["/usr/local/bin/codex", "exec"], "codex"),
        (
            ["node", "/opt/lib/node_modules/@google/gemini-cli/dist/index.js"],
            "gemini-cli",
        ),
        (["node", "--no-warnings", "/usr/bin/gemini"], "gemini"),
        (["/home/me/bin/Claude.exe"], "claude"),
        (["bash", "-c", "echo"], ""),
        (["vim", "notes", "about", "claude"], ""),
        ([], ""),
    ],
)
def test_an_agent_is_known_by_what_was_started(words: list[str], agent: str) -> None:
    assert agent_of_command(words) == agent


@pytest.mark.parametrize("door", Door)
@pytest.mark.parametrize("agent", ["", "claude"])
@pytest.mark.parametrize("has_terminal", [False, True])
@pytest.mark.parametrize("confirmed", [None, False, True])
def test_the_decision_for_every_door(
    door: Door, agent: str, has_terminal: bool, confirmed: bool | None
) -> None:
    evidence = Evidence(agent, has_terminal, confirmed)

    decision = decide_door(door, True, evidence, "q-1")

    is_persons = door in (Door.FORM, Door.PAGE, Door.DEVICE)
    at_terminal = door is Door.COMMAND and has_terminal and not agent
    assert decision.allowed is (is_persons or (at_terminal and confirmed is True))
    assert decision.must_confirm is (at_terminal and confirmed is None)
    assert decide_door(door, False, evidence, "q-1") == Decision(True)


@pytest.mark.parametrize(("agent", "is_asked"), [("clerk", True), ("human", False)])
def test_a_handler_is_not_put_a_question_to_a_person(
    tmp_path: Path, agent: str, is_asked: bool
) -> None:
    here = machine(tmp_path)
    told = here.project / "told"
    asks = FLOW.replace('agent="human"', f'agent="{agent}", timeout=1')
    (here.project / "deploy.py").write_text(asks)
    says_yes = f"print('yes', file=open('{told}', 'w'))"
    handler = f'cmd:{sys.executable} -c "{says_yes}"'
    program = [str(SCRIPTS / "bridgehead"), "flow", "run", "deploy.py"]

    here.run(
        "flow", "drive", "--max-iterations", "2", "--handler", handler, "--", *program
    )

    assert told.exists() is is_asked
