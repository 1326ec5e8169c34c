"""Build and test a project made from a package.

Its code is foreign, so it runs confined in a scratch folder.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bridgehead.flows.template_create.package import TemplatePackage, make
from bridgehead.flows.template_create.phases.p4_templates import TRIALS
from bridgehead.host.command import (
    Command,
    child_environment,
    isolated_python,
    our_python,
    python_folders,
)
from bridgehead.host.confinement import (
    NOT_CONFINED,
    Confinement,
    installation,
    mechanism_here,
)
from bridgehead.host.directories import make_private_dir
from bridgehead.host.process import run

BUILD_SECONDS: Final = 600.0
_MOST_OUTPUT_LINES: Final = 12
_NOWHERE_TO_RUN: Final = (
    "its code cannot be confined on this machine, so it was not started"
)
# Packages that are already there, for tools that run without a network. Nothing here holds a login.
_PACKAGE_FOLDERS: Final = [
    ".cargo/bin",
    ".cargo/git",
    ".cargo/registry",
    ".rustup",
    "go/pkg/mod",
    ".m2/repository",
    ".nuget/packages",
    ".dotnet",
]
# Where the user keeps a toolchain.
_FOLDER_VARIABLES: Final = ["DOTNET_ROOT", "GOROOT", "JAVA_HOME", "RUSTUP_HOME"]
_VARIABLES: Final = ["GOFLAGS", "RUSTUP_TOOLCHAIN"]


@dataclass(frozen=True)
class BuildResult:
    """A command of the project and how it went; `problem` is empty on success."""

    command: str
    problem: str = ""
    skipped: str = ""


@dataclass(frozen=True)
class _BuildCommand:
    """One command, and what a person would type for it."""

    words: tuple[str, ...]
    shown: str


def build(package: TemplatePackage) -> list[BuildResult]:
    """Run the project's own build and tests on a scratch project under other names.

    This runs the package's code, confined: it writes to the scratch folder, and reads that, the system's folders and
    the packages of its tool; it sees neither the user's home nor the user's environment.
    """
    name, entity = TRIALS[0]
    with tempfile.TemporaryDirectory(prefix="bridgehead-template-") as scratch:
        target = Path(scratch).resolve() / "project"
        make(package, target, name=name, entity=entity if package.origin.entity else "")
        return [_run(step, target) for step in _steps(target)]


def _steps(project: Path) -> Iterator[_BuildCommand]:
    """Return the commands that build and test the project."""
    has = {path.name for path in project.iterdir()}
    if "Cargo.toml" in has:
        yield _program("cargo", "check", "--offline", "--quiet")
    if "go.mod" in has:
        yield _program("go", "build", "./...")
    if "pom.xml" in has:
        yield _program("mvn", "--offline", "--quiet", "compile")
    if any(name.endswith((".sln", ".csproj")) for name in has):
        yield _program("dotnet", "build", "--no-restore")
    if "package.json" in has:
        scripts = json.loads((project / "package.json").read_text()).get("scripts", {})
        for script in ("build", "test"):
            if script in scripts:
                yield _program("npm", "run", "--silent", script)
    if any(name in has for name in ("pyproject.toml", "setup.py", "requirements.txt")):
        compiling = isolated_python("-m", "compileall", "-q", ".")
        yield _BuildCommand(compiling, "python -m compileall -q .")
        if list(project.rglob("test_*.py")):
            testing = our_python("-m", "pytest", "-q", "-x")
            yield _BuildCommand(testing, "python -m pytest -q -x")


def _program(*words: str) -> _BuildCommand:
    return _BuildCommand(words, " ".join(words))


def _run(step: _BuildCommand, project: Path) -> BuildResult:
    program = shutil.which(step.words[0])
    if program is None:
        return BuildResult(step.shown, skipped=f"{step.words[0]} is not installed")
    confined = _confinement(program, project)
    if confined is None:
        return BuildResult(step.shown, skipped=_NOWHERE_TO_RUN)
    # The tests import the project; that is what they are for.
    sources = os.pathsep.join(str(project / part) for part in ("src", "."))
    python = {"PYTHONPATH": sources, "PYTHONDONTWRITEBYTECODE": "1"}
    command = Command(
        (program, *step.words[1:]),
        cwd=project,
        env=child_environment(python, keep=[*_VARIABLES, *_FOLDER_VARIABLES]),
    )
    done = run(
        replace(command, confined=confined),
        timeout_seconds=BUILD_SECONDS,
        idle_seconds=None,
    )
    if done.exit_code == 0:
        return BuildResult(step.shown)
    lines = (done.text() + done.error_text()).strip().splitlines()
    output = "\n".join(lines[-_MOST_OUTPUT_LINES:])
    if done.exit_code == NOT_CONFINED and not done.text():
        return BuildResult(step.shown, skipped=output or _NOWHERE_TO_RUN)
    return BuildResult(step.shown, output or f"it ended with {done.exit_code}")


def _confinement(program: str, project: Path) -> Confinement | None:
    """Return what the package's code may access; None if it cannot be confined."""
    available = mechanism_here(shutil.which("bwrap"))
    if available is None:
        return None
    mechanism, helper = available
    home = Path.home()
    scratch_home = project.parent / "home"
    temporary = project.parent / "tmp"
    for folder in (scratch_home, temporary):
        make_private_dir(folder)
    package_folders = [name for name in _PACKAGE_FOLDERS if (home / name).is_dir()]
    for name in package_folders:
        link = scratch_home / name
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(home / name)
    read = [*python_folders(), *installation(program, os.environ.get("PATH", ""))]
    read += [str(home / name) for name in package_folders]
    read += [os.environ[name] for name in _FOLDER_VARIABLES if name in os.environ]
    return Confinement(
        mechanism,
        read=tuple(read),
        write=(str(project),),
        hidden=(str(home),),
        home=str(scratch_home),
        temporary=str(temporary),
        helper=helper,
    )
