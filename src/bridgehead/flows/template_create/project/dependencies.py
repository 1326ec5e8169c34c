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
from bridgehead.flows.template_create.project.languages import is_test

# What a file raises that is not what its name says, or is nested beyond reason.
UNREADABLE: Final = (ValueError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True)
class Dependency:
    name: str
    version: str = ""


# By purpose: the name of a package in lower case, and what people call it.
_FRAMEWORKS: Final[Mapping[str, Mapping[str, str]]] = {
    "ui": {
        "next": "Next.js",
        "react": "React",
        "react-native": "React Native",
        "vue": "Vue",
        "svelte": "Svelte",
        "@angular/core": "Angular",
        "microsoft.maui.controls": "MAUI",
    },
    "core": {
        "click": "click",
        "typer": "typer",
        "celery": "celery",
        "pydantic": "pydantic",
        "msgspec": "msgspec",
        "httpx": "httpx",
        "aiohttp": "aiohttp",
        "fastapi": "FastAPI",
        "flask": "Flask",
        "django": "Django",
        "starlette": "Starlette",
        "websockets": "websockets",
        "express": "Express",
        "@nestjs/core": "NestJS",
        "microsoft.aspnetcore": "ASP.NET Core",
        "fastendpoints": "FastEndpoints",
        "mediatr": "MediatR",
        "spring-boot-starter": "Spring Boot",
        "spring-boot-starter-web": "Spring Boot",
        "github.com/gin-gonic/gin": "Gin",
        "github.com/labstack/echo/v4": "Echo",
        "axum": "Axum",
        "actix-web": "Actix Web",
        "tokio": "Tokio",
        "rails": "Rails",
        "sinatra": "Sinatra",
        "laravel/framework": "Laravel",
        "symfony/framework-bundle": "Symfony",
    },
    "data": {
        "sqlalchemy": "SQLAlchemy",
        "psycopg": "psycopg",
        "asyncpg": "asyncpg",
        "prisma": "Prisma",
        "typeorm": "TypeORM",
        "microsoft.entityframeworkcore": "Entity Framework Core",
        "gorm.io/gorm": "GORM",
        "github.com/jinzhu/gorm": "GORM",
        "sqlx": "SQLx",
    },
    "testing": {
        "pytest": "pytest",
        "hypothesis": "hypothesis",
        "jest": "jest",
        "vitest": "vitest",
        "mocha": "mocha",
        "rspec": "rspec",
        "@playwright/test": "Playwright",
        "cypress": "Cypress",
        "xunit": "xUnit",
        "nunit": "NUnit",
        "junit": "JUnit",
        "junit-jupiter": "JUnit",
        "github.com/stretchr/testify": "testify",
        "phpunit/phpunit": "PHPUnit",
    },
}
BUILD_TOOLS: Final[Mapping[str, str]] = {
    "Makefile": "make",
    "Dockerfile": "Docker",
    "CMakeLists.txt": "CMake",
    "pom.xml": "Maven",
    "build.gradle": "Gradle",
    "build.gradle.kts": "Gradle",
    "Cargo.toml": "Cargo",
    "go.mod": "go",
    "vite.config.ts": "Vite",
    "webpack.config.js": "webpack",
    "tox.ini": "tox",
    "noxfile.py": "nox",
    "Directory.Build.props": ".NET",
    "Directory.Packages.props": ".NET",
    "global.json": ".NET",
    ".flaskenv": "flask",
}
PACKAGE_MANAGERS: Final[Mapping[str, str]] = {
    "poetry.lock": "poetry",
    "uv.lock": "uv",
    "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "yarn",
    "package-lock.json": "npm",
    "package.json": "npm",
    "pyproject.toml": "pip",
    "requirements.txt": "pip",
    "Cargo.toml": "cargo",
    "go.mod": "go modules",
    "Gemfile": "bundler",
    "composer.json": "composer",
    "pom.xml": "Maven",
    "build.gradle": "Gradle",
}
_TOML_PACKAGE: Final = r'^name = "([^"]+)"\nversion = "([^"]+)"'
# What a project asks for is a range; what it is built with is in its lock file.
LOCK_FILES: Final = {
    "poetry.lock": _TOML_PACKAGE,
    "uv.lock": _TOML_PACKAGE,
    "Cargo.lock": _TOML_PACKAGE,
    "pdm.lock": _TOML_PACKAGE,
    "Pipfile.lock": r'^ +"([^"]+)": \{[^{}]*?"version": "==([^"]+)"',
    "Gemfile.lock": r"^    ([\w.-]+) \(([0-9][^)]*)\)",
    "composer.lock": r'"name": "([^"]+)",\s*"version": "v?([^"]+)"',
    "Directory.Packages.props": r'<PackageVersion Include="([^"]+)" Version="([^"]+)"',
    "packages.lock.json": r'"([^"]+)": \{\s*"type": "Direct",[^{}]*?"resolved": "([^"]+)"',
    "package-lock.json": r'"node_modules/([^"\s]+)": \{\s*"version": "([^"]+)"',
    "yarn.lock": r'^"?(@?[^@\s"]+)@[^:]+:\n  version:? "?([^"\s]+)',
    "pnpm-lock.yaml": r"^  '?/?(@?[^@\s']+)@([0-9][^:('\s]*)",
}
MOST_COMMANDS: Final = 12
_COMMANDS: Final = {
    "Cargo.toml": ("cargo build", "cargo test"),
    "go.mod": ("go build ./...", "go test ./..."),
    "pom.xml": ("mvn package", "mvn test"),
    "build.gradle": ("gradle build", "gradle test"),
    "tox.ini": ("tox",),
    "noxfile.py": ("nox",),
    "requirements.txt": ("pip install -r requirements.txt",),
    ".flaskenv": ("flask run",),
    "manage.py": ("python manage.py runserver", "python manage.py test"),
}
_NAMED_IN: Final = {
    "go.mod": r"^module (\S+)",
    "pom.xml": r"\A(?:.*</parent>)?.*?<artifactId>([^<]+)</artifactId>",
    "settings.gradle": r"^rootProject\.name *= *[\"']([^\"']+)",
}
VERSION_IN: Final = {
    "pyproject.toml": r'^requires-python *= *"([^"]+)"',
    "go.mod": r"^go ([0-9.]+)$",
    "Directory.Build.props": r"<TargetFramework>([^<]+)<",
    "Cargo.toml": r'^rust-version = "([^"]+)"',
    "package.json": r'"node": "([^"]+)"',
    ".python-version": r"^([0-9.]+)$",
    "Dockerfile": r"^FROM \w+:([0-9][0-9.]*)",
}
_SOLUTIONS: Final = (".sln", ".slnx", ".csproj")
_DOCUMENTS: Final = ("pyproject.toml", "package.json", "composer.json", "Cargo.toml")
_GRADLE: Final = r"""["'][\w.-]+:([\w.-]+)(?::([\w.-]+))?["']"""
_REQUIREMENT: Final = (
    r"^[ \t]*([A-Za-z0-9][\w.-]*)[ \t]*(?:\[[^\]\n]*\])?[ \t]*([^;#\n]*)"
)
# What names a dependency and its version in files that are neither JSON nor TOML.
_LINES: Final = {
    r"requirements[\w.-]*\.txt": _REQUIREMENT,
    r"go\.mod": r"^\s*(?:require )?([\w.-]+\.[\w.-]+/\S+) v(\S+)",
    r"Gemfile": r"""^\s*gem\s+["']([^"']+)["'](?:\s*,\s*["']([^"']+)["'])?""",
    r"pom\.xml": r"<artifactId>([^<]+)</artifactId>(?:\s*<version>([^<$]+)</version>)?",
    r"build\.gradle(?:\.kts)?": _GRADLE,
    r".*\.[cf]sproj": r'<PackageReference\s+Include="([^"]+)"(?:\s+Version="([^"]+)")?',
}


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
        or path in VERSION_IN
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
    for file, pattern in VERSION_IN.items():
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
