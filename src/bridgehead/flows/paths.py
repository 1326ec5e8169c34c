"""Paths of calls: `agents#0/enhance#3` is the fourth `enhance` inside the first `agents` (flows §14)."""

from __future__ import annotations


def parents_of(path: str) -> list[str]:
    """The paths of everything a call stands in, the outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]
