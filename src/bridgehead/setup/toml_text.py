"""One table of a TOML settings file set or taken out; tomlkit keeps formatting and comments. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AbstractTable

from bridgehead.errors import UserError


class NotToml(UserError):
    """A settings file that cannot be read as TOML, or has something else where a table belongs."""


def table_at(text: str, path: Sequence[str]) -> dict[str, Any] | None:
    """The table at `path`, None when it is not there."""
    found: Any = _parsed(text).unwrap()
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def with_table(text: str, path: Sequence[str], value: Mapping[str, Any]) -> str:
    """`text` with the keys of `value` in the table at `path`; its other keys stay."""
    document = _parsed(text)
    parent: Any = document
    for key in path[:-1]:
        if key not in parent:
            parent[key] = tomlkit.table(is_super_table=True)
        parent = parent[key]
        _refuse_other(parent, key)
    name = path[-1]
    if name not in parent:
        parent[name] = tomlkit.table()
    table = parent[name]
    _refuse_other(table, name)
    for key, one in value.items():
        table[key] = one
    return tomlkit.dumps(document)


def without_table(text: str, path: Sequence[str]) -> str:
    """`text` without the table at `path`."""
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
        raise NotToml(str(error)) from error


def _refuse_other(found: object, key: str) -> None:
    if not isinstance(found, AbstractTable | dict):
        raise NotToml(f"{key!r} is not a table")
