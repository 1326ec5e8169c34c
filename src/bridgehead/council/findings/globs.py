"""Path globs of the dismissals file: `*` and `?` stay inside a component, `**` crosses `/`."""

from __future__ import annotations

import re
from functools import lru_cache


def matches_glob(path: str, glob: str) -> bool:
    """Whether the whole path fits the glob."""
    return _pattern(glob).fullmatch(path) is not None


def is_plain(glob: str) -> bool:
    """Whether the glob names exactly one path."""
    return not any(character in glob for character in "*?[")


@lru_cache(maxsize=512)
def _pattern(glob: str) -> re.Pattern[str]:
    pieces = re.split(r"(\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\])", glob)
    try:
        return re.compile("".join(map(_translated, pieces)), re.DOTALL)
    except re.error:  # a range like [z-a] stands for itself
        return re.compile(re.escape(glob))


def _translated(piece: str) -> str:
    match piece:
        case "**/":
            return "(?:.*/)?"
        case "**":
            return ".*"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
    if len(piece) > 2 and piece.startswith("[") and piece.endswith("]"):
        inside = piece[1:-1]
        negated = inside.startswith("!")
        characters = re.escape(inside[negated:]).replace(r"\-", "-")
        return f"(?!/)[{'^' if negated else ''}{characters}]"
    return re.escape(piece)
