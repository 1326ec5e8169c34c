"""Read what a project depends on, how it is built and what it is called, from the files that say so. Pure.

A file that does not parse tells nothing: it is the project's own, and may be half-edited.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from bridgehead.contract.fencing import read_toml
from bridgehead.flows.template_create.project.analysis import Framework
from bridgehead.flows.template_create.project.knowledge import KNOWLEDGE
from bridgehead.flows.template_create.project.languages import is_test

# What a file raises that is not what its name says, or is nested beyond reason.
UNREADABLE: Final = (ValueError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True)
class Dependency:
    name: str
    version: str = ""


_FRAMEWORKS: Final[Mapping[str, Mapping[str, str]]] = KNOWLEDGE["frameworks"]
BUILD_TOOLS: Final[Mapping[str, str]] = KNOWLEDGE["build_tools"]
PACKAGE_MANAGERS: Final[Mapping[str, str]] = KNOWLEDGE["package_managers"]
LOCK_FILES: Final[Mapping[str, str]] = KNOWLEDGE["lock_files"]
_COMMANDS: Final[Mapping[str, list[str]]] = KNOWLEDGE["commands"]
_NAMED_IN: Final[Mapping[str, str]] = KNOWLEDGE["project_names"]
_VERSION_IN: Final[Mapping[str, str]] = KNOWLEDGE["language_versions"]
_LINES: Final[Mapping[str, str]] = KNOWLEDGE["dependency_lines"]
_SOLUTIONS: Final = (".sln", ".slnx", ".csproj")
_DOCUMENTS: Final = ("pyproject.toml", "package.json", "composer.json", "Cargo.toml")
_REQUIREMENT: Final = _LINES[r"requirements[\w.-]*\.txt"]
MOST_COMMANDS: Final = 12


def purpose_of(framework: str) -> str:
    """Return what a framework is for, by the name people call it; core if it is not known."""
    for purpose, packages in _FRAMEWORKS.items():
        if framework.lower() in map(str.lower, packages.values()):
            return purpose
    return "core"


def is_dependency_file(path: str) -> bool:
    """Tell whether a file says what a project depends on, or how it is built."""
    name = PurePosixPath(path).name
    return (
        path in BUILD_TOOLS
        or path in _VERSION_IN
        or path.endswith(_SOLUTIONS)
        or name in _DOCUMENTS
        or _pattern_of(name) is not None
    )


def dependencies_in(texts: Mapping[str, str]) -> list[Dependency]:
    """Return everything the dependency files name, each once; files nearest to the root come first."""
    locked: dict[str, str] = {}
    for file, pattern in LOCK_FILES.items():
        for name, version in re.findall(pattern, texts.get(file, ""), re.MULTILINE):
            locked.setdefault(name.lower(), version)
    found: dict[str, Dependency] = {}
    for path in sorted(texts, key=lambda path: (path.count("/"), path)):
        for name, version in _named_by(path, texts[path]):
            settled = locked.get(name.lower(), version)
            found.setdefault(name.lower(), Dependency(name, settled))
    return list(found.values())


def frameworks_in(
    dependencies: Iterable[Dependency], texts: Iterable[str] = ()
) -> list[Framework]:
    """Return the known frameworks: those that most of the texts speak of first, test tools last."""
    lower = [text.lower() for text in texts]
    frameworks: dict[str, Framework] = {}
    mentions: Counter[str] = Counter()
    for dependency in dependencies:
        package = dependency.name.lower()
        for purpose, packages in _FRAMEWORKS.items():
            if package in packages:
                name = packages[package]
                number = re.search(r"[0-9]+(?:\.[0-9]+)*", dependency.version)
                version = number[0] if number else ""
                frameworks.setdefault(name, Framework(name, version, purpose))
                mentions[name] += sum(package in text for text in lower)
    order = list(_FRAMEWORKS)

    def rank(framework: Framework) -> tuple[bool, int, int]:
        is_for_tests = framework.purpose == "testing"
        return is_for_tests, -mentions[framework.name], order.index(framework.purpose)

    return sorted(frameworks.values(), key=rank)


def project_name_in(texts: Mapping[str, str], paths: Iterable[str] = ()) -> str:
    """Return the name the project gives itself in a file at its root; empty if it gives none."""
    for path in sorted({*paths, *texts}):
        name = _own_name(path, texts.get(path, ""))
        if isinstance(name, str) and name.strip():
            return name.strip().rpartition("/")[2]
    return ""


def language_version_in(texts: Mapping[str, str]) -> str:
    """Return the version of the language that the project asks for."""
    for file, pattern in _VERSION_IN.items():
        found = re.search(pattern, texts.get(file, ""), re.MULTILINE)
        if found:
            return found[1]
    return ""


def commands_in(texts: Mapping[str, str]) -> list[str]:
    """Return the commands that the files at the root offer; the name of a file that was not read counts."""
    targets = re.findall(
        r"^([a-z][\w-]*):(?!=)", texts.get("Makefile", ""), re.MULTILINE
    )
    found = [f"make {target}" for target in targets]
    if "package.json" in texts:
        locks = [name for name in ("pnpm-lock.yaml", "yarn.lock") if name in texts]
        runner = PACKAGE_MANAGERS[locks[0]] if locks else "npm"
        scripts = _document("package.json", texts["package.json"]).get("scripts")
        names = scripts if isinstance(scripts, dict) else {}
        found += [f"{runner} install", *(f"{runner} run {name}" for name in names)]
    for file, lines in _COMMANDS.items():
        if file in texts:
            found += lines
    if any(path.endswith((".csproj", ".fsproj")) for path in texts):
        found += ["dotnet build", "dotnet test"]
    tests = [path for path in texts if path.endswith(".py") and is_test(path)]
    words = "".join(texts[path] for path in tests)
    asked_for = texts.get("pyproject.toml", "") + texts.get("requirements.txt", "")
    if "pytest" in asked_for + words:
        found.append("python -m pytest")
    elif "import unittest\n" in words:
        found.append("python -m unittest")
    return list(dict.fromkeys(found))[:MOST_COMMANDS]


def _own_name(path: str, text: str) -> Any:
    if path in _DOCUMENTS:
        document = _document(path, text)
        about = document.get("project") or document.get("package") or document
        return about.get("name") if isinstance(about, dict) else None
    if path in _NAMED_IN:
        found = re.search(_NAMED_IN[path], text, flags=re.MULTILINE | re.DOTALL)
        return found[1] if found else None
    if "/" not in path and path.endswith(_SOLUTIONS):
        return PurePosixPath(path).stem
    return None


def _named_by(path: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the version of every dependency in a file."""
    name = PurePosixPath(path).name
    pattern = _pattern_of(name)
    if name in _DOCUMENTS:
        yield from _tables(_document(name, text))
    elif pattern is not None:
        if 'Sdk="Microsoft.NET.Sdk.Web"' in text:
            yield "Microsoft.AspNetCore", ""
        yield from re.findall(pattern, text, re.MULTILINE)


def _pattern_of(name: str) -> str | None:
    for names, pattern in _LINES.items():
        if re.fullmatch(names, name):
            return pattern
    return None


def _document(path: str, text: str) -> dict[str, Any]:
    """Return the JSON or TOML object in a text; empty if there is none."""
    try:
        found = read_toml(text) if path.endswith(".toml") else json.loads(text)
    except UNREADABLE:
        return {}
    return found if isinstance(found, dict) else {}


def _tables(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what the tables and lists called dependencies hold, wherever in the document they are."""
    for key, value in document.items():
        if re.search(r"(?i)dependenc|^require(?:-dev)?$", key):
            yield from _listed(value)
        elif isinstance(value, dict):
            yield from _tables(value)


def _listed(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        lines = "\n".join(line for line in value if isinstance(line, str))
        yield from re.findall(_REQUIREMENT, lines, re.MULTILINE)
    elif isinstance(value, dict):
        for name, wanted in value.items():
            if isinstance(wanted, list):  # a group of requirements
                yield from _listed(wanted)
            elif isinstance(wanted, dict):
                yield name, str(wanted.get("version", ""))
            else:
                yield name, str(wanted)
