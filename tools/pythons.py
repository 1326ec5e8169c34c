"""`python -m tools.pythons [PYTHON…]`: run a selection of the tests on every Python found.

Looks on the path and among pyenv's versions, and takes the programs named as arguments.
Each version gets an environment of its own under `.venv`. A version that is not found is
named as skipped; a version whose selection fails makes this command fail.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
VERSIONS = ((3, 11), (3, 12), (3, 13), (3, 14))
Version = tuple[int, int]

# What depends most on the interpreter: SQLite, typing, the engine, parsing.
SELECTION = (
    "tests/config",
    "tests/contract",
    "tests/control_plane",
    "tests/flows/engine",
    "tests/flows/journals",
    "tests/flows/operations",
    "tests/rigs/envelope",
    "tests/rigs/threads",
    "tests/bus/bridge",
    "tests/bus/wire",
    "tests/packaging/test_pythons.py",
)


def main() -> int:
    """Run the selection on each version and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", metavar="PYTHON")
    programs = parser.parse_args().programs
    found = find_pythons(programs)
    failed = []
    for version in sorted({*VERSIONS, *found}):
        name = "python{}.{}".format(*version)
        if version == sys.version_info[:2]:
            print(f"{name}: the whole suite runs on it")
        elif version not in found:
            print(f"{name}: SKIPPED, not found on the path or under pyenv")
        elif not passes(name, found[version]):
            failed.append(name)
    if failed:
        print(f"failed on {', '.join(failed)}")
        return 1
    return 0


def find_pythons(named: Iterable[str]) -> dict[Version, str]:
    """Return one program for each version of Python that can be started here."""
    candidates = list(named)
    candidates += ["python{}.{}".format(*version) for version in VERSIONS]
    pyenv = Path.home() / ".pyenv" / "versions"
    candidates += [str(path) for path in sorted(pyenv.glob("3.*/bin/python"))]
    found: dict[Version, str] = {}
    for candidate in candidates:
        version = version_of(candidate)
        if version is not None and version >= VERSIONS[0]:
            found.setdefault(version, candidate)
    return found


def version_of(program: str) -> Version | None:
    """Return the version of a Python, or None if it cannot be started."""
    path = shutil.which(program)
    if path is None:
        return None
    answer = subprocess.run([path, "--version"], capture_output=True, text=True)
    number = re.fullmatch(r"Python (\d+)\.(\d+)\..*", answer.stdout.strip())
    if answer.returncode != 0 or number is None:
        return None
    return int(number[1]), int(number[2])


def passes(name: str, program: str) -> bool:
    """Tell whether the selection passes on this Python."""
    place = REPOSITORY / ".venv" / name
    python = place / "bin" / "python"
    print(f"{name}: preparing {place.relative_to(REPOSITORY)}", flush=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install"]
    steps = (
        [program, "-m", "venv", str(place)],
        [*pip, "--quiet", "--constraint", "constraints.txt", "--editable", ".[dev]"],
        [
            *(str(python), "-m", "pytest", "-q", "-n", "3"),
            *("--dist", "loadgroup", "--no-loadscope-reorder"),
            *("-m", "not peer and not slow"),
            # Python 3.13 reports connections that nobody closed when their garbage
            # is collected, which is any test's turn: shown, and no test's failure.
            *("-W", "default::pytest.PytestUnraisableExceptionWarning"),
            *SELECTION,
        ],
    )
    return all(subprocess.run(step, cwd=REPOSITORY).returncode == 0 for step in steps)


if __name__ == "__main__":
    sys.exit(main())
