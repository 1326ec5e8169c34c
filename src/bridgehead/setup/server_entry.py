"""How each host writes down an MCP server: the file's format, where in it, and the entry itself. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from bridgehead.setup.json_text import value_at, with_value, without_value
from bridgehead.setup.toml_text import with_table, without_table

NAME: Final = "bridgehead"
ARGUMENTS: Final = ("mcp",)


class Launch(NamedTuple):
    """How the server is started."""

    command: str
    environment: Mapping[str, str] = {}


class Registration(NamedTuple):
    """One host's way of writing it."""

    add: Callable[[str, Launch], str]
    remove: Callable[[str], str]


def _json(
    path: tuple[str, ...], entry: Callable[[Launch], dict[str, Any]], *, comments: bool
) -> Registration:
    def add(text: str, launch: Launch) -> str:
        known = value_at(text, path, comments=comments) if text.strip() else None
        wanted = {**(known if isinstance(known, dict) else {}), **entry(launch)}
        return text if wanted == known else with_value(text, path, wanted, comments=comments)

    def remove(text: str) -> str:
        return without_value(text, path, comments=comments) if text.strip() else text

    return Registration(add, remove)


def _claude(launch: Launch) -> dict[str, Any]:
    return {"type": "stdio", "command": launch.command, "args": list(ARGUMENTS), **_with("env", launch)}


def _gemini(launch: Launch) -> dict[str, Any]:
    return {"command": launch.command, "args": list(ARGUMENTS), **_with("env", launch)}


def _opencode(launch: Launch) -> dict[str, Any]:
    command = [launch.command, *ARGUMENTS]
    return {"type": "local", "command": command, "enabled": True, **_with("environment", launch)}


def _codex(launch: Launch) -> dict[str, Any]:
    return {"command": launch.command, "args": list(ARGUMENTS), **_with("env", launch)}


def _with(key: str, launch: Launch) -> dict[str, Any]:
    return {key: dict(launch.environment)} if launch.environment else {}


_CODEX_TABLE: Final = ("mcp_servers", NAME)

REGISTRATIONS: Final[Mapping[str, Registration]] = {
    "claude": _json(("mcpServers", NAME), _claude, comments=False),
    "codex": Registration(
        add=lambda text, launch: with_table(text, _CODEX_TABLE, _codex(launch)),
        remove=lambda text: without_table(text, _CODEX_TABLE),
    ),
    "gemini": _json(("mcpServers", NAME), _gemini, comments=True),
    "opencode": _json(("mcp", NAME), _opencode, comments=True),
}
