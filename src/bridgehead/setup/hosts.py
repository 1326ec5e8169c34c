"""Which files make bridgehead known to a host, for the user or for one project, and what is written into each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

from bridgehead.errors import UserError
from bridgehead.setup.marked_block import with_block, without_block
from bridgehead.setup.server_entry import REGISTRATIONS, Launch
from bridgehead.setup.texts import BLOCK, SKILL, is_ours

HOSTS: Final = tuple(REGISTRATIONS)


class Reach(StrEnum):
    """For whom bridgehead is set up."""

    USER = "user"
    PROJECT = "project"


class HandWritten(UserError):
    """A file in our place that is not ours."""

    def __init__(self) -> None:
        super().__init__(
            "it exists and was not written by bridgehead", hint="move it away, or do without ours"
        )


@dataclass(frozen=True, slots=True)
class Edit:
    """A file, and what is done to its text; below `root` no symbolic link is followed."""

    path: Path
    add: Callable[[str], str]
    remove: Callable[[str], str]
    root: Path | None = None
    recognisable: bool = False
    """Whether our part can be told from the user's own without a note of having written it."""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """The directories of one user and one project."""

    home: Path
    project: Path
    environ: Mapping[str, str]

    def variable(self, name: str, default: Path) -> Path:
        """The directory a variable names, as the hosts themselves read it."""
        return Path(self.environ[name]) if self.environ.get(name) else default


def edits_for(host: str, reach: Reach, where: Whereabouts, launch: Launch) -> list[Edit]:
    """Every file that is touched for `host`."""
    registration = REGISTRATIONS[host]
    files = _FILES[host](where, reach)
    root = where.project if reach is Reach.PROJECT else None
    settings = Edit(
        _place(files.settings, root), lambda text: registration.add(text, launch), registration.remove, root
    )
    told = Edit(
        _place(files.told, root), _add_told(files.owned), _remove_told(files.owned), root, recognisable=True
    )
    return [settings, told]


def _place(path: Path, root: Path | None) -> Path:
    """Where the file really is: users link their settings into place, a project may not lead us out of it."""
    return path.resolve() if root is None else path


@dataclass(frozen=True, slots=True)
class _Files:
    settings: Path
    told: Path
    """What the agent reads by itself: a Markdown file with a block of ours, or a file of our own."""
    owned: bool = False


def _claude(where: Whereabouts, reach: Reach) -> _Files:
    skill = Path("skills") / "bridgehead" / "SKILL.md"
    if reach is Reach.PROJECT:
        return _Files(where.project / ".mcp.json", where.project / ".claude" / skill, owned=True)
    moved = where.environ.get("CLAUDE_CONFIG_DIR")
    settings = (Path(moved) if moved else where.home) / ".claude.json"
    return _Files(settings, where.variable("CLAUDE_CONFIG_DIR", where.home / ".claude") / skill, owned=True)


def _codex(where: Whereabouts, reach: Reach) -> _Files:
    if reach is Reach.PROJECT:
        return _Files(where.project / ".codex" / "config.toml", where.project / "AGENTS.md")
    folder = where.variable("CODEX_HOME", where.home / ".codex")
    return _Files(folder / "config.toml", folder / "AGENTS.md")


def _gemini(where: Whereabouts, reach: Reach) -> _Files:
    if reach is Reach.PROJECT:
        return _Files(where.project / ".gemini" / "settings.json", where.project / "GEMINI.md")
    folder = where.home / ".gemini"
    return _Files(folder / "settings.json", folder / "GEMINI.md")


def _opencode(where: Whereabouts, reach: Reach) -> _Files:
    if reach is Reach.PROJECT:
        return _Files(_json_or_jsonc(where.project), where.project / "AGENTS.md")
    folder = where.variable("XDG_CONFIG_HOME", where.home / ".config") / "opencode"
    return _Files(_json_or_jsonc(folder), folder / "AGENTS.md")


def _json_or_jsonc(folder: Path) -> Path:
    with_comments = folder / "opencode.jsonc"
    return with_comments if with_comments.exists() else folder / "opencode.json"


_FILES: Final[Mapping[str, Callable[[Whereabouts, Reach], _Files]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "opencode": _opencode,
}


def _add_told(owned: bool) -> Callable[[str], str]:
    return _own_file if owned else partial(with_block, block=BLOCK)


def _remove_told(owned: bool) -> Callable[[str], str]:
    return (lambda text: "" if is_ours(text) else text) if owned else without_block


def _own_file(text: str) -> str:
    if text and not is_ours(text):
        raise HandWritten
    return SKILL
