"""The arguments of rig commands, parsed by the rules of rigs §7 rather than by a
library: scripts match the wording.
"""

import sys
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import NamedTuple

from bridgehead.errors import UserError

MAX_BODY_BYTES = 50 * 1024 * 1024
SHARED_FLAGS = frozenset({"--json", "--no-color", "--debug", "--help"})


class Flags(NamedTuple):
    """The flags one command knows, besides the shared ones."""

    booleans: Set[str] = frozenset()
    values: Set[str] = frozenset()
    repeatable: Set[str] = frozenset()
    positionals: int = 0


class Arguments(NamedTuple):
    """What was typed after the command's name."""

    positionals: tuple[str, ...]
    booleans: frozenset[str]
    values: Mapping[str, str]
    lists: Mapping[str, tuple[str, ...]]

    def has(self, flag: str) -> bool:
        return flag in self.booleans

    def value(self, flag: str) -> str | None:
        return self.values.get(flag)

    def list(self, flag: str) -> tuple[str, ...]:
        return self.lists.get(flag, ())

    def positional(self, number: int) -> str | None:
        return self.positionals[number] if number < len(self.positionals) else None


class ArgumentRefused(UserError):
    """The command line cannot be understood; nothing was done."""


def parse_arguments(tokens: Sequence[str], known: Flags) -> Arguments:
    """Sort tokens into flags and positionals; the last of a repeated value wins."""
    positionals: list[str] = []
    booleans: set[str] = set()
    values: dict[str, str] = {}
    lists: dict[str, list[str]] = {}
    rest = list(tokens)
    while rest:
        token = rest.pop(0)
        if token == "-h":
            booleans.add("--help")
            continue
        if not token.startswith("--"):
            positionals.append(token)
            continue
        flag, has_value, value = token.partition("=")
        if flag in known.booleans or flag in SHARED_FLAGS:
            if has_value:
                raise ArgumentRefused(f"flag {flag} takes no value")
            booleans.add(flag)
            continue
        if flag not in known.repeatable and flag not in known.values:
            raise ArgumentRefused(f"unknown flag {flag}", hint=_nearest(flag, known))
        if not has_value:
            value = _next_value(flag, rest)
        if flag in known.repeatable:
            lists.setdefault(flag, []).append(value)
        else:
            values[flag] = value
    if len(positionals) > known.positionals and "--help" not in booleans:
        raise ArgumentRefused(f'unexpected argument "{positionals[known.positionals]}"')
    joined = {flag: tuple(found) for flag, found in lists.items()}
    return Arguments(tuple(positionals), frozenset(booleans), values, joined)


def _nearest(flag: str, known: Flags) -> str | None:
    from difflib import get_close_matches

    flags = sorted({*known.booleans, *known.values, *known.repeatable, *SHARED_FLAGS})
    near = [name for name in flags if name.startswith(flag)]
    if not near:
        near = get_close_matches(flag, flags, 1, 0.8)
    return f"did you mean {near[0]}?" if near else None


def _next_value(flag: str, rest: list[str]) -> str:
    if not rest or rest[0].startswith("--"):
        raise ArgumentRefused(f"flag {flag} requires a value")
    return rest.pop(0)


def body_reader(typed: str | None) -> Callable[[], str] | None:
    """Return what reads the body when its turn in the checks has come; `-` is standard input."""
    if typed is None:
        return None
    return lambda: _read_body(typed)


def _read_body(typed: str) -> str:
    raw = (
        sys.stdin.buffer.read(MAX_BODY_BYTES + 1) if typed == "-" else _read_file(typed)
    )
    if len(raw) > MAX_BODY_BYTES:
        raise UserError(
            f"--body-file {typed} is larger than 50 MiB, the limit for an envelope"
        )
    return raw.decode("utf-8", "replace")


def _read_file(typed: str) -> bytes:
    """Read a file, or a pipe with a name, as `<(command)` is."""
    from bridgehead.host.file_errors import translated

    with translated(typed, "read"):
        if not typed or not Path(typed).exists():
            raise UserError(f"--body-file not found: {typed}")
        with Path(typed).open("rb") as file:
            return file.read(MAX_BODY_BYTES + 1)
