"""Python that is started inside a foreign tree imports nothing from it (issue 34, number 1).

Each test carries the attack out: thirty modules in the tree would leave a mark, and the real command runs there.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from action.test_action import Runner, action
from bridgehead.host.command import (
    isolated_python,
    our_command,
    our_environment,
    our_python,
)
from bridgehead.testing.model_server import ModelServer
from council.runtimes.test_acp import AGENT
from dashboard.support.served import open_dashboard
from flows.template_create.conftest import ORDERS, lay_out
from security.support.planted import Marks, python_path, run_in, serving
from support.installed import Machine
from support.mcp_hosts import orders_project
from support.mcp_hosts import serving as serving_mcp

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "bridgehead"
STARTS_PYTHON = SOURCES / "host" / "command.py"
STARTERS = {"our_python", "our_command", "our_command_by_stdin"}
CLEAN_ENVIRONMENTS = {"our_environment", "child_environment"}
BACKEND = """
import zipfile

METADATA = ["Metadata-Version: 2.1", "Name: stand-in", "Version: 1", "Provides-Extra: static", ""]
WHEEL = ["Wheel-Version: 1.0", "Generator: t", "Root-Is-Purelib: true", "Tag: py3-none-any", ""]

def build_wheel(directory, settings=None, metadata=None):
    name = "stand_in-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{directory}/{name}", "w") as wheel:
        wheel.writestr("stand_in-1.dist-info/METADATA", chr(10).join(METADATA))
        wheel.writestr("stand_in-1.dist-info/WHEEL", chr(10).join(WHEEL))
        wheel.writestr("stand_in-1.dist-info/RECORD", "")
    return name
"""


@pytest.fixture
def hostile(tmp_path: Path) -> tuple[Machine, Marks]:
    """A committed project in which a change adds the modules."""
    machine = orders_project(tmp_path)
    marks = Marks(tmp_path / "marks")
    marks.plant(machine.project)
    store = machine.project / "orders" / "store.py"
    store.write_text(store.read_text() + "\n\ndef run(text):\n    return eval(text)\n")
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    for words in (("add", "-A"), ("commit", "-q", "-m", "change")):
        subprocess.run(
            ["git", *identity, *words],
            cwd=machine.project,
            env=machine.environ(),
            check=True,
        )
    return machine, marks


def test_a_planted_module_leaves_its_mark_when_python_is_started_carelessly(
    hostile: tuple[Machine, Marks],
) -> None:
    machine, marks = hostile

    subprocess.run(
        [sys.executable, "-c", "import json, bridgehead"],
        cwd=machine.project,
        env=machine.environ(),
        check=False,
        timeout=60,
    )

    assert {"json", "bridgehead"} <= set(marks.left)


class PullRequestRunner(Runner):
    """A runner whose job set PYTHONPATH for its own tests."""

    def __init__(self, machine: Machine, action_folder: Path, **inputs: str) -> None:
        super().__init__(machine, **inputs)
        self.values["github.action_path"] = str(action_folder)

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        step = next(one for one in action()["runs"]["steps"] if one["name"] == name)
        given = {key: self._value(value) for key, value in step["env"].items()}
        environment = self.machine.environ(
            PATH=python_path(),
            PYTHONPATH=".",
            PYTHONSTARTUP="json.py",
            RUNNER_TEMP=str(self.temp),
            GITHUB_PATH=str(self.temp / "path"),
            GITHUB_OUTPUT=str(self.temp / "output"),
            GITHUB_STEP_SUMMARY=str(self.temp / "summary"),
            PIP_NO_INDEX="1",
            PIP_DISABLE_PIP_VERSION_CHECK="1",
            **given,
        )
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.machine.project,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """What the Action installs, small enough to be built without a network."""
    folder = tmp_path / "action"
    folder.mkdir()
    (folder / "action-requirements.txt").write_text("# nothing\n")
    (folder / "backend.py").write_text(BACKEND)
    (folder / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
        "[project]\nname = 'stand-in'\nversion = '1'\n"
    )
    return folder


def test_the_steps_of_the_action_import_nothing_of_the_pull_request(
    hostile: tuple[Machine, Marks], stand_in: Path
) -> None:
    machine, marks = hostile
    runner = PullRequestRunner(
        machine, stand_in, base="HEAD~1", runtimes="static", intensity="quick"
    )

    installed = runner.run("Install bridgehead")
    reviewed = runner.run("Review")
    gated = runner.run("Gate")

    assert marks.left == []
    assert installed.returncode == 0, installed.stderr
    assert reviewed.returncode == 0, reviewed.stderr
    assert runner.outputs["verdict"] in ("CONCERNS", "FAIL")
    assert gated.returncode in (0, 3), gated.stderr


def with_seats(machine: Machine, seats: dict[str, object]) -> None:
    settings = machine.project / ".bridge-settings.json"
    settings.write_text(json.dumps({"bridges": seats}))
    assert run_in(machine, "config", "trust", settings.name).returncode == 0


def test_an_acp_seat_of_a_council_imports_nothing_of_the_reviewed_tree(
    hostile: tuple[Machine, Marks], tmp_path: Path
) -> None:
    machine, marks = hostile
    agent = tmp_path / "agent" / "agent.py"
    agent.parent.mkdir()
    agent.write_text(AGENT)
    words = shlex.join([*isolated_python(), str(agent)])
    with_seats(machine, {"acp:told": {"acp": words}})
    settings = machine.home / "bridgehead" / "config" / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    readable = json.dumps([str(agent), sys.prefix, sys.base_prefix])
    settings.write_text(f"[council]\nreadable = {readable}\n")

    done = run_in(
        machine,
        *("council", "review", "--json", "--non-interactive", "--intensity=quick"),
        *("--runtime=acp:told", "--diff=HEAD~1"),
        PYTHONSTARTUP="json.py",
    )

    assert marks.left == []
    report = json.loads(done.stdout)
    # The agent was asked, and what it said is no review.
    assert report["skip_reasons"] == {"acp:told": "parse_failure"}, done.stderr


def test_static_analysers_import_nothing_of_the_reviewed_tree(
    hostile: tuple[Machine, Marks],
) -> None:
    machine, marks = hostile

    done = run_in(
        machine, "council", "review", "--json", "--runtime=static", "--diff=HEAD~1"
    )

    assert json.loads(done.stdout)["verdict"] in ("CONCERNS", "FAIL"), done.stderr
    assert marks.left == []


def test_a_council_that_answers_on_the_bus_imports_nothing_of_the_folder(
    hostile: tuple[Machine, Marks],
) -> None:
    machine, marks = hostile
    words = ("bus", "serve", "--json", "--assistant", "council")
    anywhere = ("--listen", "127.0.0.1:0", "--hub-listen", "127.0.0.1:0")
    with ModelServer() as model:
        with_seats(machine, {"openai": {"base_url": f"{model.base_url()}/v1"}})
        with serving(machine, *words, *anywhere, PATH="/usr/bin:/bin") as bus:
            assert bus.stdout is not None
            hub = json.loads(bus.stdout.readline())["hub"]
            said = run_in(
                machine,
                *("bus", "send", "--say", "hello", "--json", "--hub", hub),
            )
        assert model.log.questions(), said.stderr

    assert marks.left == []


def test_actions_of_the_dashboard_import_nothing_of_the_place_they_run_in(
    tmp_path: Path,
) -> None:
    marks = Marks(tmp_path / "marks")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": "."}
    with open_dashboard(tmp_path / "web", **environ) as web:
        marks.plant(web.project)
        (web.project / "store.py").write_text(
            "def load(blob):\n    return eval(blob)\n"
        )
        web.post(
            "/do/council-review", seats="static", intensity="quick", scope="store.py"
        )
        for thread in list(web.dashboard.context.commands._running):
            thread.join()
        command = web.dashboard.context.commands.run(
            ("council", "review", "--runtime=static", "--", "store.py"),
            web.project,
            wait_seconds=240,
        )

    assert command.exit_code == 0, command.error
    assert marks.left == []


def test_template_create_imports_nothing_of_the_project_and_builds_it_confined(
    hostile: tuple[Machine, Marks], tmp_path: Path
) -> None:
    machine, marks = hostile
    stolen = machine.home / "id_rsa"
    stolen.write_text("the key")
    proof = tmp_path / "proof"
    lay_out(machine.project, ORDERS)
    attack = (
        "import pathlib\n"
        f"pathlib.Path({str(proof)!r}).write_text(pathlib.Path({str(stolen)!r}).read_text())\n"
    )
    tests = machine.project / "tests" / "services" / "test_orders.py"
    tests.write_text(attack + tests.read_text())
    package = tmp_path / "package"

    made = run_in(
        machine,
        *("flow", "run", "template-create", "--heuristics-only", "--no-agents"),
        *("--output", str(package)),
    )
    checked = run_in(machine, "template", "check", str(package), "--build", "--json")

    assert made.returncode == 0, made.stderr
    built = {one["command"]: one for one in json.loads(checked.stdout)["build"]}
    assert "python -m pytest -q -x" in built, checked.stdout
    assert not proof.exists()
    assert marks.left == []


def test_a_flow_is_paused_answered_and_resumed_without_importing_from_the_folder(
    hostile: tuple[Machine, Marks],
) -> None:
    machine, marks = hostile

    asked = run_in(machine, "flow", "run", "ask", "--agent", "a", "--prompt", "Well?")
    answered = run_in(machine, "answer", "q-1", "yes")
    resumed = run_in(machine, "flow", "resume")

    codes = [done.returncode for done in (asked, answered, resumed)]
    assert codes == [42, 0, 0], resumed.stderr
    assert marks.left == []


def test_commands_of_the_mcp_server_import_nothing_of_the_folder(
    hostile: tuple[Machine, Marks],
) -> None:
    machine, marks = hostile
    with serving_mcp(machine) as agent:
        agent.introduce()
        agent.ask(1, "tools/call", name="command", arguments={"action": "domains"})
        reply = agent.answer_to(1)

    assert not reply["result"]["isError"], reply
    assert marks.left == []


@pytest.mark.parametrize(
    "words",
    [
        ("--version",),
        ("doctor",),
        ("runtimes",),
        ("pending",),
        ("events",),
        ("config", "show"),
        ("setup", "git-hook"),
        ("council", "review", "--dry-run"),
        ("council", "gate"),
        ("rig", "status"),
        ("flow", "list"),
        ("template", "list", "."),
        ("bus", "check", "--seconds", "0.1"),
    ],
    ids=" ".join,
)
def test_a_command_typed_in_the_tree_imports_nothing_of_it(
    hostile: tuple[Machine, Marks], words: tuple[str, ...]
) -> None:
    machine, marks = hostile

    run_in(machine, *words)

    assert marks.left == []


@pytest.mark.parametrize(
    "argv",
    [
        isolated_python("-c", "import json, asyncio, venv"),
        our_python("-c", "import json, bridgehead.cli, click, msgspec"),
        our_command("--version"),
    ],
    ids=["isolated_python", "our_python", "our_command"],
)
def test_each_way_to_start_our_python_ignores_its_folder_and_its_variables(
    hostile: tuple[Machine, Marks], argv: tuple[str, ...]
) -> None:
    machine, marks = hostile
    variables = {"PYTHONPATH": ".:", "PYTHONSTARTUP": "json.py", "PYTHONINSPECT": ""}
    environment = our_environment(machine.environ(**variables))

    done = subprocess.run(
        argv, cwd=machine.project, env=environment, check=False, timeout=60
    )

    assert done.returncode == 0
    assert marks.left == []


def test_of_the_search_path_only_absolute_folders_are_kept_and_only_for_flows() -> None:
    environ = {"PYTHONPATH": ".:/lib/mine::src", "PYTHONHOME": "/x", "HOME": "/h"}

    assert our_environment(environ) == {"HOME": "/h"}
    assert our_environment(environ, search_path=True) == {
        "HOME": "/h",
        "PYTHONPATH": "/lib/mine",
    }


def calls_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    called = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {name.id for name in called if isinstance(name, ast.Name)}


def test_no_other_file_starts_a_python_by_itself() -> None:
    bare = re.compile(r"sys\.executable|['\"](?:/\S*/)?python[\d.]*['\"]")
    found = {
        str(path.relative_to(ROOT))
        for folder in (SOURCES, ROOT / "examples", ROOT / "plugins")
        for path in folder.rglob("*.py")
        if path != STARTS_PYTHON and bare.search(path.read_text(encoding="utf-8"))
    }

    # It names the language of a notebook.
    assert found == {"src/bridgehead/council/runtimes/static/copies.py"}


def test_whoever_starts_our_python_cleans_the_environment_it_gets() -> None:
    careless = [
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        if path != STARTS_PYTHON
        and STARTERS & calls_of(path)
        and not CLEAN_ENVIRONMENTS & calls_of(path)
    ]

    # A Command without an environment gets the allow-list of host/command.py.
    assert careless == ["bus/gateway/doors/speech.py"]


def test_no_python_of_the_action_is_started_without_isolation() -> None:
    for step in action()["runs"]["steps"]:
        lines = step.get("run", "").splitlines()
        starts = [line for line in lines if re.search(r"\bpython3?\"? ", line)]
        assert all(re.search(r"\bpython3?\"? -I ", line) for line in starts), starts
        if "bridgehead " in step.get("run", "") or starts:
            assert any('unset "${!PYTHON@}"' in line for line in lines), step["name"]
