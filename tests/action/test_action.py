"""The GitHub Action: its shell steps, run here on a small repository as a runner would run them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.installed import SCRIPTS, Machine
from support.mcp_hosts import orders_project
from tools.action_requirements import FILE as REQUIREMENTS
from tools.action_requirements import needed_versions

ACTION = Path(__file__).resolve().parents[2] / "action.yml"
GO_DEFECT = """package tool

import "os/exec"

func Ping(host string) ([]byte, error) {
	return exec.Command("sh", "-c", "ping -c1 "+host).Output()
}
"""
HOSTILE = "$(touch pwned); `touch pwned`; \"; touch pwned; '\n--gate=concerns"


def action() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    return loaded


class Runner:
    """Runs the steps of the action that are shell, with the values GitHub would put into their environment."""

    def __init__(self, machine: Machine, **inputs: str) -> None:
        self.machine = machine
        self.programs = str(SCRIPTS)
        self.seconds = 120
        self.more: dict[str, str] = {}
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
            PATH=f"{self.programs}:/usr/bin:/bin",
            RUNNER_TEMP=str(self.temp),
            GITHUB_PATH=str(self.temp / "path"),
            GITHUB_OUTPUT=str(self.temp / "output"),
            GITHUB_STEP_SUMMARY=str(self.temp / "summary"),
            **given,
            **self.more,
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
            timeout=self.seconds,
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


def test_every_action_it_uses_is_pinned_to_a_commit_and_says_its_version() -> None:
    guide = (ACTION.parent / "docs" / "guides" / "ci.md").read_text(encoding="utf-8")
    uses = re.findall(
        r"uses: (.*)", ACTION.read_text(encoding="utf-8") + guide, flags=re.MULTILINE
    )

    assert len(uses) == 4
    for use in uses:
        ours = use.startswith("OWNER/bridgehead@COMMIT ")
        assert ours or re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", use), use


def test_what_it_installs_is_pinned_by_hash_at_the_versions_we_test() -> None:
    text = REQUIREMENTS.read_text(encoding="utf-8")
    entries = [entry for entry in text.split("\n") if re.match(r"\w", entry)]
    versions = dict(entry.removesuffix(" \\").split("==") for entry in entries)

    assert versions == needed_versions(), "run: python -m tools.action_requirements"
    first_hashes = re.findall(r"==\S+ \\\n    --hash=sha256:[0-9a-f]{64}\b", text)
    assert len(first_hashes) == len(versions)


@pytest.mark.slow
@pytest.mark.peer
def test_it_installs_itself_from_a_clean_tree_and_reviews(
    changed: Machine, tmp_path: Path
) -> None:
    if not index_answers(tmp_path):
        pytest.skip("no package index answers")
    clean = tmp_path / "action"
    clean.mkdir()
    tree = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ACTION.parent,
        capture_output=True,
        check=True,
    ).stdout
    for name in filter(None, tree.decode().split("\0")):
        if (ACTION.parent / name).is_file():
            (clean / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ACTION.parent / name, clean / name)
    (changed.project / "tool.go").write_text(GO_DEFECT)
    commit_all(changed)
    runner = Runner(changed, base="HEAD~1", runtimes="static\n", intensity="quick")
    runner.values["github.action_path"] = str(clean)
    runner.seconds = 280
    runner.more = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("PIP_") or name.lower().endswith("_proxy")
    }

    installed = runner.run("Install bridgehead")
    assert installed.returncode == 0, installed.stderr
    runner.programs = (runner.temp / "path").read_text().strip()
    reviewed = runner.run("Review")
    gated = runner.run("Gate")

    assert runner.programs.startswith(str(runner.temp))
    assert reviewed.returncode == 0, reviewed.stderr
    log = json.loads((changed.project / runner.outputs["sarif"]).read_text())
    assert [one["ruleId"] for one in log["runs"][0]["results"]]
    assert runner.outputs["verdict"] in ("CONCERNS", "FAIL")
    assert gated.returncode in (0, 3), gated.stderr


def index_answers(folder: Path) -> bool:
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    done = subprocess.run(
        [*words, "--dest", str(folder / "probe"), "h11"],
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.returncode == 0


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
