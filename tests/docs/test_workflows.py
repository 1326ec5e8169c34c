"""The workflows: every step is pinned, nothing may do more than it needs, releases are tested first."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

GITHUB = Path(__file__).resolve().parents[2] / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))


def jobs_of(path: Path) -> dict[str, Any]:
    jobs: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return jobs


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_pinned_steps_with_few_rights(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert re.search(r"^permissions: {}$", text, re.MULTILINE)
    for use in re.findall(r"uses: (\S+)", text):
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", use), use
    for job in jobs_of(path).values():
        assert "id-token" not in job["permissions"] or job.get("needs")


def test_what_is_published_was_tested_on_every_version_of_python_first() -> None:
    jobs = jobs_of(GITHUB / "workflows" / "release.yml")

    assert jobs["publish"]["needs"] == "build" and jobs["build"]["needs"] == "test"
    supported = re.findall(
        r"Python :: (3\.1\d)",
        (GITHUB.parent / "pyproject.toml").read_text(encoding="utf-8"),
    )
    assert set(supported) <= set(jobs["test"]["strategy"]["matrix"]["python"])


def test_zizmor_finds_nothing() -> None:
    program = Path(sys.executable).parent / "zizmor"
    if not program.exists():
        pytest.skip("zizmor is not installed")
    done = subprocess.run(
        [str(program), "--offline", "--quiet", *map(str, WORKFLOWS)],
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "path",
    sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")),
    ids=lambda path: path.name,
)
def test_a_form_for_issues_has_what_github_asks_for(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))

    assert "blank_issues_enabled" in form or {"name", "description", "body"} <= set(
        form
    )
    for field in form.get("body", ()):
        assert field["type"] in (
            "markdown",
            "textarea",
            "input",
            "dropdown",
            "checkboxes",
        )
        assert "label" in field["attributes"] or field["type"] == "markdown"
