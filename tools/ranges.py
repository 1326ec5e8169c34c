"""What `pyproject.toml` says of the packages we need: their ranges, and the lowest versions of each."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY: Final = Path(__file__).resolve().parent.parent
OURS: Final = "bridgehead"
TEST_TOOLS: Final = "dev"
"""The extra for those who work on bridgehead: nobody else installs it."""


def declared(extras: Iterable[str] | None = None) -> list[Requirement]:
    """Return what an installation with these extras needs; with None, all but the test tools."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    project = project["project"]
    optional = project["optional-dependencies"]
    if extras is None:
        extras = [name for name in optional if name != TEST_TOOLS]
    lines = list(project["dependencies"])
    for extra in _with_those_they_name(extras, optional):
        lines += optional[extra]
    requirements = {line: Requirement(line) for line in lines}
    return [one for one in requirements.values() if one.name != OURS]


def _with_those_they_name(
    extras: Iterable[str], optional: dict[str, list[str]]
) -> list[str]:
    """Return the extras, and those that they bring: `all` names every other."""
    found: list[str] = []
    waiting = list(extras)
    while waiting:
        extra = waiting.pop(0)
        if extra in found:
            continue
        found.append(extra)
        for line in optional[extra]:
            requirement = Requirement(line)
            if requirement.name == OURS:
                waiting += sorted(requirement.extras)
    return found


def lowest(requirement: Requirement) -> str | None:
    """Return the lowest version that a requirement allows, or None if it has no lower bound."""
    for part in requirement.specifier:
        if part.operator in (">=", "==", "~="):
            return part.version
    return None


def highest_excluded(requirement: Requirement) -> str | None:
    """Return the version that a requirement stops before, or None if it has no upper bound."""
    for part in requirement.specifier:
        if part.operator == "<":
            return part.version
    return None


def lowest_constraints(requirements: Iterable[Requirement]) -> Iterator[str]:
    """Return a line for a file of constraints for each requirement, in order of name."""
    lines = set()
    for requirement in requirements:
        line = f"{canonicalize_name(requirement.name)}=={lowest(requirement)}"
        if requirement.marker is not None:
            line = f"{line}; {requirement.marker}"
        lines.add(line)
    yield from sorted(lines)
