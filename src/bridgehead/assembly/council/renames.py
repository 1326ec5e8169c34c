"""What became of files that dismissals speak of: git knows under which name they went on
(council §25.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from bridgehead.assembly.application import Assembly
from bridgehead.council.findings.dismissals import is_plain
from bridgehead.council.scope.git import Git, GitFailed, repository_at
from bridgehead.council.scope.scope import Scope

MOST_ASKED: Final = 50
MOST_STEPS: Final = 10


def with_renames(
    assembly: Assembly, scope: Scope, tables: Iterable[Mapping[str, Any]]
) -> Scope:
    """Return the scope with the renames of files that dismissals name and that are gone."""
    project = assembly.places.project
    named = dict.fromkeys(path for table in tables for path in _plain_paths(table))
    gone = [path for path in named if not (project / path).exists()]
    unknown = [path for path in gone if path not in scope.renames]
    git = repository_at(project, assembly.environ) if unknown else None
    if git is None:
        return scope
    found: dict[str, str] = {}
    for path in unknown[:MOST_ASKED]:
        found |= _followed(git, path, assembly)
    return replace(scope, renames={**found, **scope.renames})


def _plain_paths(table: Mapping[str, Any]) -> list[str]:
    paths = table.get("paths")
    if not isinstance(paths, list):
        return []
    return [path for path in paths if isinstance(path, str) and is_plain(path)]


def _followed(git: Git, path: str, assembly: Assembly) -> dict[str, str]:
    """Return the renames that lead from a path to a file that is there; none, if none do."""
    steps: dict[str, str] = {}
    name = path
    for _ in range(MOST_STEPS):
        try:
            later = git.renamed_to(name)
        except GitFailed:
            return {}
        if later is None or later in steps:
            return {}
        steps[name] = later
        name = later
        if (assembly.places.project / name).exists():
            return steps
    return {}
