"""The optional parts of an installation: what each adds, and how one sees that it is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple


class Extra(NamedTuple):
    """What `pip install 'bridgehead[name]'` adds to a plain installation."""

    name: str
    adds: str
    modules: tuple[str, ...]
    """What it brings that can be imported; all of them are there or the extra is not."""


EXTRAS: Final = (
    Extra(
        "static",
        "analysers for nine more languages than Python, Dockerfiles and workflows",
        ("lizard",),
    ),
    Extra(
        "bus", "the message bus for speakers and scripts", ("picows", "cryptography")
    ),
    Extra("nats", "several bridges over NATS", ("nats",)),
    Extra("matrix", "Matrix rooms on the bus", ("nio",)),
    Extra("voice", "speech on the bus", ("wyoming", "pocketsphinx")),
    Extra("acp", "agents that speak the Agent Client Protocol", ("acp",)),
    Extra("postgres", "one record for several machines", ("psycopg",)),
    Extra("fleet", "flows on several machines", ("psycopg", "dbos")),
    Extra("templates", "grammars for templates from a code base", ("tree_sitter",)),
)


def missing_extras(is_there: Callable[[str], bool]) -> list[Extra]:
    """Return the extras of which a module is not there."""
    return [
        extra for extra in EXTRAS if not all(is_there(name) for name in extra.modules)
    ]


def extra_with(module: str) -> str:
    """Return the extra that brings a module; `all` if none is known to."""
    for extra in EXTRAS:
        if module in extra.modules:
            return extra.name
    return "all"


def can_import(module: str) -> bool:
    """Tell whether a module is installed, without importing it."""
    from importlib.util import find_spec

    return find_spec(module) is not None
