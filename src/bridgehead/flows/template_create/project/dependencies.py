"""Read what a project depends on from the files in which it says so. Pure: the texts have been read.

A file that does not parse tells nothing; it is the project's own and may be half-edited.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Final

from bridgehead.contract.fencing import read_toml
from bridgehead.flows.template_create.project.analysis import Framework
from bridgehead.flows.template_create.project.languages import is_test

_REQUIREMENT: Final = re.compile(
    r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*([^;#]*)"
)
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)*")
# What comes of a file that is not what its name says, or is nested beyond reason.
UNREADABLE: Final = (ValueError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True)
class Dependency:
    name: str
    version: str = ""


# Name of the package, in lower case -> what people call it, and what it is for.
KNOWN: Final[Mapping[str, tuple[str, str]]] = {
    **{
        name: (name, "core")
        for name in (
            "click",
            "typer",
            "celery",
            "pydantic",
            "msgspec",
            "httpx",
            "aiohttp",
        )
    },
    **{
        name: (name, "testing")
        for name in (
            "pytest",
            "hypothesis",
            "jest",
            "vitest",
            "mocha",
            "rspec",
            "phpunit",
        )
    },
    "fastapi": ("FastAPI", "core"),
    "flask": ("Flask", "core"),
    "django": ("Django", "core"),
    "starlette": ("Starlette", "core"),
    "websockets": ("websockets", "core"),
    "sqlalchemy": ("SQLAlchemy", "data"),
    "psycopg": ("psycopg", "data"),
    "asyncpg": ("asyncpg", "data"),
    "express": ("Express", "core"),
    "@nestjs/core": ("NestJS", "core"),
    "next": ("Next.js", "ui"),
    "react": ("React", "ui"),
    "react-native": ("React Native", "ui"),
    "vue": ("Vue", "ui"),
    "svelte": ("Svelte", "ui"),
    "@angular/core": ("Angular", "ui"),
    "prisma": ("Prisma", "data"),
    "typeorm": ("TypeORM", "data"),
    "@playwright/test": ("Playwright", "testing"),
    "cypress": ("Cypress", "testing"),
    "microsoft.aspnetcore.app": ("ASP.NET Core", "core"),
    "fastendpoints": ("FastEndpoints", "core"),
    "mediatr": ("MediatR", "core"),
    "microsoft.maui.controls": ("MAUI", "ui"),
    "microsoft.entityframeworkcore": ("Entity Framework Core", "data"),
    "xunit": ("xUnit", "testing"),
    "nunit": ("NUnit", "testing"),
    "spring-boot-starter": ("Spring Boot", "core"),
    "spring-boot-starter-web": ("Spring Boot", "core"),
    "junit": ("JUnit", "testing"),
    "junit-jupiter": ("JUnit", "testing"),
    "github.com/gin-gonic/gin": ("Gin", "core"),
    "github.com/labstack/echo/v4": ("Echo", "core"),
    **dict.fromkeys(("gorm.io/gorm", "github.com/jinzhu/gorm"), ("GORM", "data")),
    "github.com/stretchr/testify": ("testify", "testing"),
    "axum": ("Axum", "core"),
    "actix-web": ("Actix Web", "core"),
    "tokio": ("Tokio", "core"),
    "sqlx": ("SQLx", "data"),
    "rails": ("Rails", "core"),
    "sinatra": ("Sinatra", "core"),
    "laravel/framework": ("Laravel", "core"),
    "symfony/framework-bundle": ("Symfony", "core"),
    "phpunit/phpunit": ("PHPUnit", "testing"),
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
    "go.mod": r"^go ([0-9.]+)$",
    "Directory.Build.props": r"<TargetFramework>([^<]+)<",
    "Cargo.toml": r'^rust-version = "([^"]+)"',
    "package.json": r'"node": "([^"]+)"',
    ".python-version": r"^([0-9.]+)$",
    "Dockerfile": r"^FROM \w+:([0-9][0-9.]*)",
}


def is_dependency_file(path: str) -> bool:
    """Whether a file says what a project depends on, or how it is built."""
    named = (
        path in BUILD_TOOLS or path in VERSION_IN or path.endswith((".sln", ".slnx"))
    )
    return named or _reader_of(path) is not None


def dependencies_in(texts: Mapping[str, str]) -> list[Dependency]:
    """Everything the dependency files among `texts` name, the files nearest to the root first, each name once."""
    found: dict[str, Dependency] = {}
    for path in sorted(texts, key=lambda path: (path.count("/"), path)):
        reader = _reader_of(path)
        for dependency in _tried(reader, texts[path]) if reader else ():
            found.setdefault(dependency.name.lower(), dependency)
    # The versions that the lock files at the root settled on, by lower-case name.
    locked: dict[str, str] = {}
    for file, pattern in LOCK_FILES.items():
        for hit in re.finditer(pattern, texts.get(file, ""), flags=re.MULTILINE):
            locked.setdefault(hit[1].lower(), hit[2])
    return [
        replace(wanted, version=locked.get(name, wanted.version))
        for name, wanted in found.items()
    ]


def frameworks_in(
    dependencies: Iterable[Dependency], texts: Iterable[str] = ()
) -> list[Framework]:
    """The dependencies that say what kind of project this is: those most files of `texts` speak of, test tools last."""
    frameworks: dict[str, Framework] = {}
    spoken: Counter[str] = Counter()
    lower = [text.lower() for text in texts]
    for dependency in dependencies:
        known = KNOWN.get(dependency.name.lower())
        if known is not None:
            frameworks.setdefault(
                known[0], Framework(known[0], _number(dependency.version), known[1])
            )
            spoken[known[0]] += sum(
                dependency.name.lower().removesuffix(".app") in text for text in lower
            )
    order = ("ui", "core", "data", "testing")
    made = sorted(
        frameworks.values(), key=lambda framework: order.index(framework.purpose)
    )
    return sorted(
        made,
        key=lambda framework: (framework.purpose == "testing", -spoken[framework.name]),
    )


def project_name_in(texts: Mapping[str, str], paths: Iterable[str] = ()) -> str:
    """The name the project gives itself in or by a file at its root; empty when it gives none."""
    for path, text in sorted({**dict.fromkeys(paths, ""), **texts}.items()):
        try:
            name = _own_name(path, text)
        except UNREADABLE:
            continue
        if isinstance(name, str) and name.strip():
            return name.strip().rpartition("/")[2]
    return ""


def language_version_in(texts: Mapping[str, str]) -> str:
    try:
        wanted = read_toml(texts["pyproject.toml"])["project"]["requires-python"]
    except (KeyError, *UNREADABLE):
        said = (
            re.search(pattern, texts.get(name, ""), re.MULTILINE)
            for name, pattern in VERSION_IN.items()
        )
        return next((found[1] for found in said if found), "")
    return wanted if isinstance(wanted, str) else ""


def commands_in(texts: Mapping[str, str]) -> list[str]:
    """The commands that the files at the root offer, build before test. Of a file that was not read the name counts."""
    found = [
        f"make {name}"
        for name in re.findall(
            r"^([a-z][\w-]*):(?!=)", texts.get("Makefile", ""), flags=re.MULTILINE
        )
    ]
    try:
        scripts = json.loads(texts.get("package.json", "{}")).get("scripts", {})
        runner = next(
            (
                tool
                for tool in ("pnpm", "yarn")
                if any(name.startswith(tool) for name in texts)
            ),
            "npm",
        )
        found += [f"{runner} install"] * ("package.json" in texts) + [
            f"{runner} run {name}" for name in scripts
        ]
    except UNREADABLE:
        pass
    found += [
        line for name, lines in _COMMANDS.items() if name in texts for line in lines
    ]
    found += ["go run ."] * any(
        "/" not in path and "package main\n" in text for path, text in texts.items()
    )
    projects = [path for path in texts if path.endswith((".csproj", ".fsproj"))]
    web = [
        path.rpartition("/")[0] or "."
        for path in projects
        if "Microsoft.NET.Sdk.Web" in texts[path]
    ]
    found += ["dotnet build", "dotnet test"] * bool(projects) + [
        f"dotnet run --project {path}" for path in web
    ]
    said = "".join(
        text for path, text in texts.items() if path.endswith(".py") and is_test(path)
    )
    if (
        "pytest"
        in texts.get("pyproject.toml", "") + texts.get("requirements.txt", "") + said
    ):
        found.append("python -m pytest")
    elif "import unittest\n" in said:
        found.append("python -m unittest")
    return list(dict.fromkeys(found))[:MOST_COMMANDS]


def _own_name(path: str, text: str) -> Any:
    if path == "pyproject.toml":
        return read_toml(text).get("project", {}).get("name")
    if path == "Cargo.toml":
        return read_toml(text).get("package", {}).get("name")
    if path in ("package.json", "composer.json"):
        return json.loads(text).get("name")
    if path in _NAMED_IN:
        found = re.search(_NAMED_IN[path], text, flags=re.MULTILINE | re.DOTALL)
        return found[1] if found else None
    return (
        PurePosixPath(path).stem
        if "/" not in path and path.endswith((".sln", ".slnx", ".csproj"))
        else None
    )


def _tried(
    reader: Callable[[str], Iterator[Dependency]], text: str
) -> list[Dependency]:
    try:
        return list(reader(text))
    except UNREADABLE:
        return []


def _reader_of(path: str) -> Callable[[str], Iterator[Dependency]] | None:
    name = PurePosixPath(path).name
    if re.fullmatch(r"requirements[\w.-]*\.txt", name):
        return _requirements
    if name.endswith((".csproj", ".fsproj")):
        return _package_references
    return _READERS.get(name)


def _pyproject(text: str) -> Iterator[Dependency]:
    document = read_toml(text)
    project = document.get("project", {})
    groups = [
        *project.get("optional-dependencies", {}).values(),
        *document.get("dependency-groups", {}).values(),
    ]
    listed = [project.get("dependencies", []), *groups]
    yield from (
        _requirement(line)
        for lines in listed
        for line in lines
        if isinstance(line, str)
    )
    poetry = document.get("tool", {}).get("poetry", {}).get("dependencies", {})
    yield from (Dependency(name, str(version)) for name, version in poetry.items())


def _requirements(text: str) -> Iterator[Dependency]:
    lines = (line.strip() for line in text.splitlines())
    yield from (_requirement(line) for line in lines if line and line[0].isalnum())


def _requirement(line: str) -> Dependency:
    found = _REQUIREMENT.match(line)
    return Dependency(found[1], found[2].strip()) if found else Dependency(line.strip())


def _json_tables(*keys: str) -> Callable[[str], Iterator[Dependency]]:
    def read(text: str) -> Iterator[Dependency]:
        document = json.loads(text)
        for key in keys:
            yield from (
                Dependency(name, str(version))
                for name, version in document.get(key, {}).items()
            )

    return read


def _cargo(text: str) -> Iterator[Dependency]:
    document = read_toml(text)
    for key in ("dependencies", "dev-dependencies"):
        for name, wanted in document.get(key, {}).items():
            version = wanted.get("version", "") if isinstance(wanted, dict) else wanted
            yield Dependency(name, str(version))


def _matches(pattern: str) -> Callable[[str], Iterator[Dependency]]:
    return lambda text: (
        Dependency(name.strip(), version)
        for name, version in re.findall(pattern, text, flags=re.MULTILINE)
    )


def _package_references(text: str) -> Iterator[Dependency]:
    if 'Sdk="Microsoft.NET.Sdk.Web"' in text:
        yield Dependency("Microsoft.AspNetCore.App")
    yield from _matches(
        r'<PackageReference\s+Include="([^"]+)"(?:\s+Version="([^"]+)")?'
    )(text)


def _number(version: str) -> str:
    found = _NUMBER.search(version)
    return found[0] if found else ""


_gradle: Final = _matches(r"""["'][\w.-]+:([\w.-]+)(?::([\w.-]+))?["']""")
_READERS: Final[Mapping[str, Callable[[str], Iterator[Dependency]]]] = {
    "pyproject.toml": _pyproject,
    "package.json": _json_tables("dependencies", "devDependencies", "peerDependencies"),
    "composer.json": _json_tables("require", "require-dev"),
    "Cargo.toml": _cargo,
    "go.mod": _matches(r"^\s*(?:require )?([\w.-]+\.[\w.-]+/\S+) v(\S+)"),
    "Gemfile": _matches(r"""^\s*gem\s+["']([^"']+)["'](?:\s*,\s*["']([^"']+)["'])?"""),
    "pom.xml": _matches(
        r"<artifactId>([^<]+)</artifactId>(?:\s*<version>([^<$]+)</version>)?"
    ),
    "build.gradle": _gradle,
    "build.gradle.kts": _gradle,
}
