"""A plain `pip install bridgehead` does what the greeting says, and every extra says what it adds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bridgehead.cli.tree import greeting
from bridgehead.doctor.checkup import check_extras
from bridgehead.doctor.diagnosis import State
from bridgehead.host.extras import EXTRAS, extra_with, missing_extras
from tools.action_requirements import requirements_of
from tools.ranges import REPOSITORY, declared

EMPTY = {"mcp", "web"}
"""Extras that add nothing to a plain installation, and stay for those who named them."""
PROBE = """
import sys
refused = set(json.loads(sys.argv.pop(1)))

class Plain:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in refused:
            return None
        return self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = map(Plain, sys.meta_path)
"""


def plain_packages() -> set[str]:
    """The packages of an installation without extras."""
    found: set[str] = set()
    waiting = list(declared(()))
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name not in found:
            found.add(name)
            waiting += requirements_of(name, requirement.extras)
    return found


def run_plainly(
    code: str, *words: str, folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run Python that can import what a plain installation has and no more."""
    allowed = plain_packages() | {"bridgehead"}
    refused = [
        module
        for module, packages in packages_distributions().items()
        if not allowed & {canonicalize_name(name) for name in packages}
    ]
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "BRIDGEHEAD_HOME": str(folder / "bridgehead"),
    }
    return subprocess.run(
        [
            *(sys.executable, "-c", f"import json\n{PROBE}\n{code}"),
            *(json.dumps(refused), *words),
        ],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


RUN = "from bridgehead.cli import main\nsys.argv[0] = 'bridgehead'\nmain()"


def test_a_review_finds_a_defect_in_python(tmp_path: Path) -> None:
    (tmp_path / "calculator.py").write_text("def run(text):\n    return eval(text)\n")

    done = run_plainly(
        RUN,
        "council",
        "review",
        "--runtime",
        "static",
        "calculator.py",
        folder=tmp_path,
    )

    assert done.returncode == 0, done.stderr
    assert "calculator.py:2" in done.stdout


def test_what_waits_is_listed(tmp_path: Path) -> None:
    done = run_plainly(RUN, "pending", folder=tmp_path)

    assert done.returncode == 0, done.stderr


def test_every_module_of_the_dashboard_can_be_imported(tmp_path: Path) -> None:
    code = (
        "import pkgutil, importlib, bridgehead.dashboard as d\n"
        "for one in pkgutil.walk_packages(d.__path__, d.__name__ + '.'):\n"
        "    importlib.import_module(one.name)\n"
    )
    done = run_plainly(code, folder=tmp_path)

    assert done.returncode == 0, done.stderr


def test_the_bus_is_not_part_of_it_and_says_which_extra_brings_it(
    tmp_path: Path,
) -> None:
    done = run_plainly(RUN, "bus", "serve", folder=tmp_path)

    assert done.returncode != 0
    assert "[bus]'" in done.stderr


def test_every_extra_says_what_it_adds_and_by_which_modules_it_is_known() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    optional = project["project"]["optional-dependencies"]
    published = {"nio": "matrix-nio", "acp": "agent-client-protocol", "nats": "nats-py"}

    assert {extra.name for extra in EXTRAS} == set(optional) - EMPTY - {"all", "dev"}
    assert all(optional[name] == [] for name in EMPTY)
    for extra in EXTRAS:
        names = {
            canonicalize_name(Requirement(line).name) for line in optional[extra.name]
        }
        needed = {published.get(one, canonicalize_name(one)) for one in extra.modules}
        assert needed <= names, extra.name


def test_the_readme_says_what_every_extra_adds() -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")

    for extra in EXTRAS:
        assert f"| `{extra.name}` | {extra.adds} |" in text


def test_what_is_missing_is_named_in_the_greeting_and_explained_by_the_doctor() -> None:
    missing = missing_extras(lambda module: module not in {"nio", "dbos"})
    diagnoses = check_extras(missing)

    assert [extra.name for extra in missing] == ["matrix", "fleet"]
    assert "Not installed: matrix, fleet\n" in greeting("none", ["matrix", "fleet"])
    assert "Not installed" not in greeting("none", [])
    assert {found.state for found in diagnoses} == {State.FINE}
    assert "Matrix rooms" in diagnoses[0].message
    assert "[matrix]'" in str(diagnoses[0].fix)


@pytest.mark.parametrize(
    ("module", "extra"), [("picows", "bus"), ("dbos", "fleet"), ("starlette", "all")]
)
def test_a_missing_module_names_the_extra_that_brings_it(
    module: str, extra: str
) -> None:
    assert extra_with(module) == extra
