"""Decide which files of a project are looked at, and which of those stand for the whole (flows §11, phase 1).

Pure and deterministic: the same paths always give the same samples, so that a replay builds the same prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Final

from bridgehead.flows.template_create.project.languages import (
    is_test,
    language_of,
    languages_by_files,
    words_of,
)

SAMPLE_COUNT: Final = 20
SAMPLE_LINES: Final = 50
SMALLEST_BYTES: Final = 200
TESTS_AMONG_SAMPLES: Final = 2

EXCLUDED_DIRECTORIES: Final = frozenset(
    (
        *(
            "obj",
            "bin",
            "packages",
            "target",
            "node_modules",
            "__pycache__",
            "venv",
            ".venv",
            "vendor",
            "build",
        ),
        *("dist", ".git", ".svn", ".vscode", ".idea", "coverage", ".pytest_cache", ".bridgehead"),
    )
)
EXCLUDED_DIRECTORY_PATTERNS: Final = ("*.egg-info", "*.staging-flow-*", "*.replaced-flow-*")
EXCLUDED_FILES: Final = (
    *("*.user", "*.suo", "*.class", "*.jar", "*.war", "*.pyc", "*.pyo", "*.log", "package-lock.json"),
    *("yarn.lock", "Cargo.lock", ".DS_Store", ".agent-*.json", ".template-create-state.json"),
)
# Files that may hold secrets are never read (flows §10).
SECRET_FILES: Final = (".env*", "*.pem", "id_*", "*.key", "credentials*")

_STRATA: Final[Mapping[str, tuple[int, frozenset[str]]]] = {
    "crud": (40, frozenset({"create", "add", "insert", "new", "post", "update", "edit", "delete", "remove"})),
    "queries": (
        20,
        frozenset({"get", "query", "list", "find", "search", "fetch", "read", "inspect", "status"}),
    ),
    "validators": (
        15,
        frozenset({"valid", "validate", "validator", "spec", "specification", "rule", "policy"}),
    ),
    "infrastructure": (
        15,
        frozenset({"infrastructure", "persistence", "repository", "repositories", "store", "stores", "db"})
        | frozenset({"client", "transport", "transports", "host", "adapter", "middleware", "files"}),
    ),
}
_OTHER: Final = "other"
_WIRING: Final = frozenset({"__init__", "__main__", "index", "mod", "conftest", "setup"})
_BESIDE: Final = frozenset({"examples", "example", "bench", "benchmarks", "docs", "tools", "scripts", "demo"})


@dataclass(frozen=True)
class Sample:
    """The first lines of one file."""

    path: str
    content: str


def is_excluded(path: str) -> bool:
    """Whether a file below the root is generated, foreign or secret by its name. Root's own name plays no part."""
    *directories, name = PurePosixPath(path).parts
    if any(_excluded_directory(directory) for directory in directories):
        return True
    return any(fnmatchcase(name, pattern) for pattern in (*EXCLUDED_FILES, *SECRET_FILES))


def choose_samples(sizes: Mapping[str, int], count: int = SAMPLE_COUNT) -> list[str]:
    """The files that stand for the project: a quota per kind of file, spread over directories."""
    usable = sorted(path for path, size in sizes.items() if language_of(path) and size >= SMALLEST_BYTES)
    main = _main_language(usable)
    tests = [path for path in usable if is_test(path) and "test" in PurePosixPath(path).stem.lower()]
    sources = [path for path in usable if not is_test(path)]
    ranked = sorted(sources, key=lambda path: (_is_marginal(path), language_of(path) != main, path))
    strata: dict[str, list[str]] = {name: [] for name in (*_STRATA, _OTHER)}
    for path in ranked:
        strata[_stratum(path)].append(path)
    shown_tests = _spread(tests)[:TESTS_AMONG_SAMPLES]
    chosen = [path for name, paths in strata.items() for path in _spread(paths)[: _quota(name, count)]]
    rest = [path for path in _spread(ranked) if path not in set(chosen)]
    filled = (chosen + rest)[: count - len(shown_tests)]
    return sorted((*filled, *shown_tests))


def first_lines(text: str, lines: int = SAMPLE_LINES) -> str:
    return "\n".join(text.splitlines()[:lines])


def directory_tree(paths: Iterable[str], *, depth: int = 3, limit: int = 150) -> str:
    """The directories down to `depth`, each with its number of files, as indented lines."""
    counts: dict[tuple[str, ...], int] = {}
    for path in paths:
        parts = PurePosixPath(path).parts[:-1][:depth]
        for length in range(len(parts) + 1):
            counts[parts[:length]] = counts.get(parts[:length], 0) + 1
    lines = [
        f"{'  ' * len(parts)}{parts[-1] if parts else '.'}/ ({n})" for parts, n in sorted(counts.items())
    ]
    shown = lines[:limit]
    return "\n".join([*shown, f"… {len(lines) - limit} more"] if len(lines) > limit else shown)


def _excluded_directory(name: str) -> bool:
    return name in EXCLUDED_DIRECTORIES or any(
        fnmatchcase(name, pattern) for pattern in EXCLUDED_DIRECTORY_PATTERNS
    )


def _is_marginal(path: str) -> bool:
    """Files that only put a package together, and those beside the product, show little of how it is written."""
    found = PurePosixPath(path)
    return found.stem in _WIRING or found.name.startswith(".") or found.parts[0].lower() in _BESIDE


def _main_language(paths: Sequence[str]) -> str | None:
    return next(iter(languages_by_files(paths)), None)


def _stratum(path: str) -> str:
    found = PurePosixPath(path)
    stem = re.sub(r"\.(test|spec)$", "", found.stem)
    words = {*words_of(stem), *(part.lower() for part in found.parts[:-1])}
    return next((name for name, (_, signs) in _STRATA.items() if words & signs), _OTHER)


def _quota(name: str, count: int) -> int:
    share = _STRATA[name][0] if name in _STRATA else 10
    return round(count * share / 100)


def _spread(paths: Sequence[str]) -> list[str]:
    """The same paths, taking turns between directories instead of finishing one before the next."""
    by_directory: dict[str, list[str]] = {}
    for path in paths:
        by_directory.setdefault(str(PurePosixPath(path).parent), []).append(path)
    groups = _evenly(list(by_directory.values()))
    turns = [(turn, path) for group in groups for turn, path in enumerate(group)]
    return [path for _, path in sorted(turns, key=lambda pair: (_is_marginal(pair[1]), pair[0]))]


def _evenly(groups: Sequence[list[str]]) -> list[list[str]]:
    """The same groups, so ordered that the first few of them lie far apart: `bus/…` must not crowd out `rigs/…`."""
    bits = max(1, (len(groups) - 1).bit_length())
    places = sorted(range(len(groups)), key=lambda place: int(f"{place:0{bits}b}"[::-1], 2))
    return [groups[place] for place in places]
