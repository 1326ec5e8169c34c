"""JSON in what a program printed: blank and foreign lines are skipped, unknown shapes ignored (runtimes §2.10)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def objects_in(printed: str) -> Iterator[dict[str, Any]]:
    """Every line that is a JSON object, in order."""
    # Only a line feed ends a line: U+2028 and its like may stand inside a JSON string.
    for line in printed.split("\n"):
        if (found := object_from(line)) is not None:
            yield found


def object_from(text: str) -> dict[str, Any] | None:
    """The JSON object that `text` is, or None."""
    stripped = text.strip().removeprefix("\ufeff")
    if not stripped.startswith("{"):
        return None
    try:
        found = json.loads(stripped, strict=False)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def last_pretty_object(printed: str) -> dict[str, Any] | None:
    """The last JSON object that begins on a line of its own `{`; programs print warnings and traces before it."""
    lines = printed.split("\n")
    starts = [number for number, line in enumerate(lines) if line.rstrip("\r") == "{"]
    return object_from("\n".join(lines[starts[-1] :])) if starts else None


def mapping_at(value: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """The object at `path`, empty when there is none."""
    current: Any = value
    for name in path:
        current = current.get(name) if isinstance(current, dict) else None
    return current if isinstance(current, dict) else {}


def text_at(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    return found if isinstance(found, str) else ""


def count_at(value: Mapping[str, Any], name: str) -> int:
    """A number of tokens; anything that is none counts 0."""
    found = value.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0
