"""Every Python that we name is one that is tested, and what a coming one removes is an error today."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.pythons import VERSIONS
from tools.ranges import REPOSITORY

TESTED = {"{}.{}".format(*version) for version in VERSIONS}
PROJECT: dict[str, Any] = tomllib.loads(
    (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
)
IMPORT_EVERYTHING = """
import importlib, pkgutil
import bridgehead

for module in pkgutil.walk_packages(bridgehead.__path__, "bridgehead."):
    is_program = module.name.endswith("__main__")
    if is_program or ".demo.orders" in module.name:
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        # Not every extra can be installed on every machine.
        if error.name.startswith("bridgehead"):
            raise
"""


def test_every_version_in_the_metadata_is_tested() -> None:
    classifiers = "\n".join(PROJECT["project"]["classifiers"])
    named = set(re.findall(r"Python :: (3\.\d+)$", classifiers, re.MULTILINE))

    assert named <= TESTED
    lowest = "{}.{}".format(*VERSIONS[0])
    assert PROJECT["project"]["requires-python"] == f">={lowest}"
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py{lowest.replace('.', '')}"
    assert PROJECT["tool"]["mypy"]["python_version"] == lowest


@pytest.mark.parametrize("name", ["test.yml", "release.yml"])
def test_every_version_that_is_tested_is_tested_by_the_workflow(name: str) -> None:
    path = REPOSITORY / ".github" / "workflows" / name
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))

    assert set(workflow["jobs"]["test"]["strategy"]["matrix"]["python"]) == TESTED


@pytest.mark.parametrize(
    "path",
    [
        *(path for path in REPOSITORY.glob("*.md") if path.name != "CHANGELOG.md"),
        *(REPOSITORY / "docs").glob("*.md"),
        *(REPOSITORY / "docs" / "guides").glob("*.md"),
        REPOSITORY / "action.yml",
    ],
    ids=lambda path: path.name,
)
def test_every_version_that_a_document_names_is_tested(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = re.findall(r"[Pp]ython(?:-version:\n.*\n.*default: \"| )?(3\.\d+)", text)

    assert set(named) <= TESTED


@pytest.mark.parametrize("kind", [DeprecationWarning, PendingDeprecationWarning])
def test_a_warning_of_a_coming_removal_fails_a_test(kind: type[Warning]) -> None:
    assert PROJECT["tool"]["pytest"]["ini_options"]["filterwarnings"] == ["error"]
    with pytest.raises(kind):
        warnings.warn("this will be removed", kind, stacklevel=1)


def test_no_module_of_ours_warns_when_it_is_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", IMPORT_EVERYTHING],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if "/bridgehead/" in line]
    assert [line for line in told if "Warning: " in line] == []
