"""The settings that a change is reviewed with: those before it (council §13).

A change must not choose who looks at it. What the user has trusted is the user's choice,
and counts as it stands in the working tree.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from bridgehead.assembly.application import Assembly
from bridgehead.config.files import MAX_SETTINGS_BYTES, parse_toml, settings_with
from bridgehead.config.places import PROJECT_FILE
from bridgehead.config.resolve import Settings, SettingsFile
from bridgehead.council.scope.git import GitFailed, repository_at
from bridgehead.errors import ConfigError
from bridgehead.host.files import read_bounded

SEATS_FILE: Final = ".bridge-settings.json"
NOT_OF_THE_CHANGE: Final = "settings_of_change_ignored"


class ProjectFile(NamedTuple):
    """A settings file of the project, as a review reads it."""

    content: bytes | None
    trusted: bool
    name: str
    """What it is called in a warning: with the commit, where it is read from one."""
    is_of_base: bool = False
    """Whether the change has another one."""


def read_project_file(assembly: Assembly, name: str, base: str | None) -> ProjectFile:
    """Return a file as it is in the working tree; as it was in `base` where the change
    has touched it and the user has not trusted the result.
    """
    path = assembly.places.project / name
    trust = assembly.trusted_files
    here = _on_disk(path, assembly.places.project)
    if here is not None and trust.holds(path, here):
        return ProjectFile(here, True, str(path))
    before = here if base is None else _in_commit(assembly, base, name)
    if base is None or before == here:
        return ProjectFile(here, False, str(path))
    trusted = before is not None and trust.holds(path, before)
    return ProjectFile(before, trusted, f"{name} of {base[:12]}", is_of_base=True)


def before_change(assembly: Assembly, base: str | None) -> Assembly:
    """Return the assembly of a review of what changed since `base`."""
    if base is None:
        return assembly
    file = read_project_file(assembly, PROJECT_FILE, base)
    if not file.is_of_base:
        return assembly
    project = None
    if file.content is not None:
        document = parse_toml(file.content, file.name)
        project = SettingsFile(file.name, document, file.trusted)
    before = Assembly(assembly.cwd, assembly.environ, assembly.flags)
    before.settings = settings_with(
        project, assembly.places, environ=assembly.environ, flags=assembly.flags
    )
    return before


def changed_settings(assembly: Assembly, base: str | None) -> tuple[str, ...]:
    """Return a warning for each settings file that is read as it was before the change."""
    if base is None:
        return ()
    return tuple(
        f"{NOT_OF_THE_CHANGE}:{name}"
        for name in (PROJECT_FILE, SEATS_FILE)
        if read_project_file(assembly, name, base).is_of_base
    )


def required(settings: Settings, named: tuple[str, ...]) -> tuple[str, ...]:
    """Return the seats and analysers without which nothing passes."""
    return tuple(dict.fromkeys([*settings.texts("council.require"), *named]))


def unread_passes(settings: Settings) -> bool:
    """Return whether a gate only says what was not looked at."""
    return settings.text("council.unread") == "say"


def _on_disk(path: Path, project: Path) -> bytes | None:
    if not path.exists():
        return None
    return read_bounded(path, MAX_SETTINGS_BYTES, root=project)


def _in_commit(assembly: Assembly, commit: str, name: str) -> bytes | None:
    git = repository_at(assembly.places.project, assembly.environ)
    if git is None:
        return None
    try:
        content = git.run("cat-file", "blob", f"{commit}:./{name}")
    except GitFailed:
        return None
    if len(content) > MAX_SETTINGS_BYTES:
        raise ConfigError(f"{name} of {commit[:12]} is larger than settings may be")
    return content
