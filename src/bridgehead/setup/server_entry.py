"""Write down an MCP server the way each host does.

Hosts differ in the file's format, JSON or TOML, in the place and in the entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AbstractTable

from bridgehead.errors import UserError
from bridgehead.setup.json_edit import value_at, with_value, without_value

NAME: Final = "bridgehead"
ARGUMENTS: Final = ("mcp",)
PATIENCE_SECONDS: Final = 3600  # a council takes minutes; some hosts give a tool one
_USERS_OWN: Final = ("timeout", "tool_timeout_sec", "enabled")


def table_at(text: str, path: Sequence[str]) -> dict[str, Any] | None:
    """Return the table at `path`; None if there is none."""
    found: Any = _parsed(text).unwrap()
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def with_table(text: str, path: Sequence[str], value: Mapping[str, Any]) -> str:
    """Return `text` with the keys of `value` in the table at `path`.

    Its other keys stay.
    """
    document = _parsed(text)
    table: Any = document
    for key in path:
        if key not in table:
            table[key] = tomlkit.table(is_super_table=key != path[-1] or None)
        table = table[key]
        if not isinstance(table, AbstractTable | dict):
            raise UserError(f"{key!r} is not a table")
    table.update(value)
    return tomlkit.dumps(document)


def without_table(text: str, path: Sequence[str]) -> str:
    """Return `text` without the table at `path`."""
    if table_at(text, path) is None:
        return text
    document = _parsed(text)
    parent: Any = document
    for key in path[:-1]:
        parent = parent[key]
    del parent[path[-1]]
    return tomlkit.dumps(document)


def _parsed(text: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise UserError(str(error)) from error


class Launch(NamedTuple):
    """How the server is started."""

    command: str
    environment: Mapping[str, str] = {}


class Registration(NamedTuple):
    """One host's way of writing it."""

    add: Callable[[str, Launch], str]
    remove: Callable[[str], str]


Entry = Callable[[Launch], dict[str, Any]]


def _in_json(path: tuple[str, ...], entry: Entry, *, comments: bool) -> Registration:
    def add(text: str, launch: Launch) -> str:
        known = value_at(text, path, comments=comments) if text.strip() else None
        wanted = _completed(known if isinstance(known, dict) else {}, entry(launch))
        if wanted == known:
            return text
        return with_value(text, path, wanted, comments=comments)

    def remove(text: str) -> str:
        return without_value(text, path, comments=comments) if text.strip() else text

    return Registration(add, remove)


def _in_toml(path: tuple[str, ...], entry: Entry) -> Registration:
    def add(text: str, launch: Launch) -> str:
        known = table_at(text, path)
        wanted = _completed(known or {}, entry(launch))
        return text if wanted == known else with_table(text, path, wanted)

    return Registration(add, lambda text: without_table(text, path))


def _completed(known: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry with everything the user added to it.

    What the user decided about it stays decided.
    """
    decided = {key: known[key] for key in _USERS_OWN if key in known}
    return {**known, **entry, **decided}


def _claude(launch: Launch) -> dict[str, Any]:
    return {"type": "stdio", **_plain(launch)}


def _plain(launch: Launch) -> dict[str, Any]:
    return {"command": launch.command, "args": list(ARGUMENTS), **_with("env", launch)}


def _opencode(launch: Launch) -> dict[str, Any]:
    command = [launch.command, *ARGUMENTS]
    return {
        "type": "local",
        "command": command,
        "enabled": True,
        **_with("environment", launch),
    }


def _with(key: str, launch: Launch) -> dict[str, Any]:
    return {key: dict(launch.environment)} if launch.environment else {}


REGISTRATIONS: Final[Mapping[str, Registration]] = {
    "claude": _in_json(("mcpServers", NAME), _claude, comments=False),
    "codex": _in_toml(
        ("mcp_servers", NAME),
        lambda launch: {**_plain(launch), "tool_timeout_sec": PATIENCE_SECONDS},
    ),
    "gemini": _in_json(
        ("mcpServers", NAME),
        lambda launch: {**_plain(launch), "timeout": PATIENCE_SECONDS * 1000},
        comments=True,
    ),
    "opencode": _in_json(("mcp", NAME), _opencode, comments=True),
    "cursor": _in_json(("mcpServers", NAME), _plain, comments=True),
    "vscode": _in_json(("servers", NAME), _claude, comments=True),
    "zed": _in_json(("context_servers", NAME), _plain, comments=True),
    "copilot": _in_json(
        ("mcpServers", NAME),
        lambda launch: {**_claude(launch), "tools": ["*"]},
        comments=False,
    ),
}
