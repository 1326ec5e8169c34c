"""The GitHub Action: its shell steps, run here on a small repository as a runner would run them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.installed import SCRIPTS, Machine
from support.mcp_hosts import orders_project

ACTION = Path(__file__).resolve().parents[2] / "action.yml"
HOSTILE = "$(touch pwned); `touch pwned`; \"; touch pwned; '\n--gate=concerns"


def action() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    return loaded


class Runner:
    """Runs the steps of the action that are shell, with the values GitHub would put into their environment."""

    def __init__(self, machine: Machine, **inputs: str) -> None:
        self.machine = machine
        self.temp = machine.home / "runner"
        self.temp.mkdir(exist_ok=True)
        defaults = {name: one["default"] for name, one in action()["inputs"].items()}
        self.values = {
            f"inputs.{name}": value for name, value in {**defaults, **inputs}.items()
        }

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        step = next(one for one in action()["runs"]["steps"] if one["name"] == name)
        given = {key: self._value(value) for key, value in step["env"].items()}
        environment = self.machine.environ(
            PATH=f"{SCRIPTS}:/usr/bin:/bin",
            RUNNER_TEMP=str(self.temp),
            GITHUB_OUTPUT=str(self.temp / "output"),
            GITHUB_STEP_SUMMARY=str(self.temp / "summary"),
            **given,
        )
        return subprocess.run(
            [
                "bash",
                "--noprofile",
                "--norc",
                "-e",
                "-o",
                "pipefail",
                "-c",
                step["run"],
            ],
            cwd=self.machine.project,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    @property
    def outputs(self) -> dict[str, str]:
        lines = (self.temp / "output").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def _value(self, expression: str) -> str:
        found = re.fullmatch(r"\$\{\{ (.*) \}\}", expression)
        assert found, expression
        names = found[1].split(" || ")
        outputs = self.outputs if (self.temp / "output").exists() else {}
        known = {
            **self.values,
            **{f"steps.review.outputs.{key}": value for key, value in outputs.items()},
        }
        return next((known[name] for name in names if known.get(name)), "")


def test_no_value_is_written_into_a_script_and_every_input_is_explained_and_used() -> (
    None
):
    text = ACTION.read_text(encoding="utf-8")
    loaded = action()

    for step in loaded["runs"]["steps"]:
        assert "${{" not in step.get("run", ""), step["name"]
        assert ("uses" in step) != (step.get("shell") == "bash")
    for name, described in loaded["inputs"].items():
        assert described["description"].endswith(".")
        assert re.search(rf"inputs\.{name}\b", text), f"{name} is not used"


@pytest.fixture
def changed(tmp_path: Path) -> Machine:
    """A repository in which the last commit adds something to find."""
    machine = orders_project(tmp_path)
    (machine.project / "notes.txt").write_text("nothing to see\n")
    store = machine.project / "orders" / "store.py"
    store.write_text(store.read_text() + "\n\ndef run(text):\n    return eval(text)\n")
    commit_all(machine)
    return machine


def commit_all(machine: Machine) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    for words in (("add", "-A"), ("commit", "-q", "-m", "change")):
        subprocess.run(
            ["git", *identity, *words],
            cwd=machine.project,
            env=machine.environ(),
            check=True,
        )


def test_a_change_is_reviewed_published_and_gated(changed: Machine) -> None:
    runner = Runner(
        changed,
        base="HEAD~1",
        runtimes="static\n",
        intensity="quick",
        gate="concerns",
        task=HOSTILE,
    )

    reviewed = runner.run("Review")
    gated = runner.run("Gate")

    assert reviewed.returncode == 0, reviewed.stderr
    log = json.loads((changed.project / runner.outputs["sarif"]).read_text())
    found = log["runs"][0]["results"]
    assert {
        one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for one in found
    } == {"orders/store.py"}
    assert runner.outputs["verdict"] in ("CONCERNS", "FAIL")
    assert (changed.project / runner.outputs["report"]).exists()
    assert (
        runner.outputs["verdict"]
        in (runner.temp / "summary").read_text().splitlines()[1]
    )
    assert gated.returncode == 3, gated.stderr
    assert not list(changed.project.rglob("pwned")), "a value became a command"


def test_nothing_passes_without_the_seats_that_the_action_requires(
    changed: Machine,
) -> None:
    fine = changed.project / "fine.py"
    fine.write_text('"""Fine."""\n')
    runner = Runner(
        changed, paths="fine.py\n", runtimes="static\n", require="ruff\nclaude\n"
    )

    reviewed = runner.run("Review")
    gated = runner.run("Gate")

    assert reviewed.returncode == 0, reviewed.stderr
    assert runner.outputs["verdict"] == "INCOMPLETE"
    assert gated.returncode == 3, gated.stderr
    assert "claude did not look to the end and is required" in gated.stdout


def test_what_nobody_looked_at_is_refused_and_closes_no_alert_until_somebody_answers(
    changed: Machine,
) -> None:
    (changed.project / "main.c").write_text("int main(void) { return 0; }\n")
    commit_all(changed)
    asked = {"base": "HEAD~1", "runtimes": "static\n", "intensity": "quick"}
    runner = Runner(changed, **asked)

    assert runner.run("Review").returncode == 0
    refused = runner.run("Gate")
    runner.values["inputs.allow-incomplete"] = "read by Ada"
    allowed = runner.run("Gate")

    assert runner.outputs["verdict"] == "INCOMPLETE"
    assert runner.outputs["complete"] == "false"
    assert "not looked at" in (runner.temp / "summary").read_text()
    upload = next(
        step for step in action()["runs"]["steps"] if "upload" in step.get("if", "")
    )
    assert "steps.review.outputs.complete == 'true'" in upload["if"]
    assert (refused.returncode, allowed.returncode) == (3, 0), allowed.stdout


@pytest.mark.parametrize(
    "base", ["--upload-pack=touch pwned", "no-such-branch", "HEAD~1; touch pwned"]
)
def test_a_base_that_is_none_ends_in_an_error_and_nothing_else(
    changed: Machine, base: str
) -> None:
    done = Runner(changed, base=base, runtimes="static").run("Review")

    assert done.returncode != 0
    assert not list(changed.project.rglob("pwned"))
    assert not (changed.project / "bridgehead.sarif").exists()
