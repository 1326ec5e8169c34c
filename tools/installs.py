"""`python -m tools.installs newest|lowest`: install bridgehead without our exact versions, and see what still works.

`newest` installs the newest releases that our ranges allow, as somebody does who installs bridgehead today; then, one
after the other, releases beyond our upper bounds. It reports what breaks and fails no build: what others release is no
mistake of a change. `lowest` installs the lowest version of everything we declare, and fails when that does not work,
for then a range of ours is wrong. Both run a selection of the tests and review one file of each language
(`tools/planted.py`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name

from tools.planted import review_each
from tools.pythons import VERSIONS, find_pythons
from tools.ranges import REPOSITORY, declared, highest_excluded, lowest_constraints

INSTALL_SECONDS: Final = 900
SELECTION_SECONDS: Final = 180
TEST_TOOLS: Final = (
    "hypothesis",
    "jsonschema",
    "packaging",
    "psutil",
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
)
# What depends most on others: analysers and their rules, and every package that has a format or an interface.
SELECTION: Final = (
    "tests/council/runtimes/test_static.py",
    "tests/config",
    "tests/contract",
    "tests/cli",
    "tests/rigs/envelope",
    "tests/flows/engine/test_response_files.py",
    "tests/flows/template_create/test_detection.py",
    "tests/flows/template_create/test_package.py",
    "tests/bus/wire",
    "tests/bus/sockets",
    "tests/bus/hub/test_hub.py",
    "tests/dashboard/pages/test_thread_bodies.py",
    "tests/dashboard/test_serving.py",
)


@dataclass(frozen=True, slots=True)
class Environment:
    """A place with an installation of its own."""

    place: Path

    @property
    def python(self) -> str:
        return str(self.place / "bin" / "python")

    @property
    def bridgehead(self) -> Path:
        return self.place / "bin" / "bridgehead"

    def create(self, program: str) -> bool:
        print(f"preparing {self.place.relative_to(REPOSITORY)}", flush=True)
        return _succeeds([program, "-m", "venv", "--clear", str(self.place)], 120)

    def install(self, *words: str) -> bool:
        pip = [self.python, "-m", "pip", "--disable-pip-version-check", "install"]
        return _succeeds([*pip, "--quiet", *words], INSTALL_SECONDS)

    def outdated(self) -> dict[str, str]:
        """Return the newest release of each package that is older here."""
        pip = [self.python, "-m", "pip", "--disable-pip-version-check", "list"]
        done = subprocess.run(
            [*pip, "--outdated", "--format", "json"], capture_output=True, text=True
        )
        if done.returncode != 0:
            return {}
        return {
            canonicalize_name(row["name"]): row["latest_version"]
            for row in json.loads(done.stdout)
        }


def main() -> int:
    """Install, look what works, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("which", choices=("newest", "lowest"))
    if parser.parse_args().which == "newest":
        return newest()
    return lowest()


def newest() -> int:
    """Report what breaks with the newest releases of everything; never fail."""
    environment = Environment(REPOSITORY / ".venv" / "newest")
    if not environment.create(sys.executable):
        print("NOT TESTED: no environment could be made")
        return 0
    if not environment.install(".[all]", *TEST_TOOLS):
        print("BREAKS: bridgehead[all] cannot be installed without our constraints")
        return 0
    problems = what_breaks(environment)
    for requirement, version in held_back(environment).items():
        print(f"beyond our bounds: {requirement} {version}", flush=True)
        if not environment.install("--no-deps", f"{requirement}=={version}"):
            problems.append(f"{requirement} {version} cannot be installed")
            continue
        found = what_breaks(environment)
        problems += [f"with {requirement} {version}: {problem}" for problem in found]
    tell("the newest releases", problems)
    return 0


def held_back(environment: Environment) -> dict[str, str]:
    """Return the releases that our upper bounds keep out."""
    outdated = environment.outdated()
    found = {}
    for requirement in declared():
        version = outdated.get(canonicalize_name(requirement.name))
        if version is not None and highest_excluded(requirement) is not None:
            found[requirement.name] = version
    return found


def lowest() -> int:
    """Return 1 if something we declare to work does not."""
    oldest = find_pythons([]).get(VERSIONS[0])
    if oldest is None:
        name = "python{}.{}".format(*VERSIONS[0])
        print(f"SKIPPED: the lowest versions are installed with {name}; not found")
        return 0
    environment = Environment(REPOSITORY / ".venv" / "lowest")
    if not environment.create(oldest):
        print("the environment could not be made")
        return 1
    constraints = write_lowest(environment)
    if not environment.install("--constraint", str(constraints), ".[all]", *TEST_TOOLS):
        print("the lowest versions we declare cannot be installed")
        return 1
    problems = what_breaks(environment)
    tell("the lowest versions we declare", problems)
    return 1 if problems else 0


def write_lowest(environment: Environment) -> Path:
    """Write the lowest version of everything we declare as constraints for pip."""
    lines = [f"{line}\n" for line in lowest_constraints(declared())]
    path = environment.place / "lowest.txt"
    path.write_text("".join(lines), encoding="utf-8")
    return path


def what_breaks(environment: Environment) -> list[str]:
    """Run the tests and the reviews; return one line for everything that fails."""
    problems = []
    for reviewed in review_each(environment.bridgehead):
        line = f"{reviewed.language}: {reviewed.outcome.value} {reviewed.detail}"
        print(f"  a defect in {line}", flush=True)
        if not reviewed.is_sound:
            problems.append(f"a review of a planted defect in {line}")
    if not _selection_passes(environment):
        problems.append("the selection of the tests fails")
    return problems


def _selection_passes(environment: Environment) -> bool:
    words = ["-m", "pytest", "-q", "-n", "2", "--no-header"]
    chosen = ["-m", "not peer and not slow", *SELECTION]
    return _succeeds([environment.python, *words, *chosen], SELECTION_SECONDS)


def tell(what: str, problems: Sequence[str]) -> None:
    if not problems:
        print(f"{what}: everything works")
        return
    print(f"{what}: {len(problems)} to look at")
    for problem in problems:
        print(f"  {problem}")


def _succeeds(command: Sequence[str], seconds: float) -> bool:
    try:
        done = subprocess.run(command, cwd=REPOSITORY, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        print(f"stopped after {seconds:.0f} seconds")
        return False
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
