"""A file as analysers are shown it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Copy:
    """The text of a file, or the part of it that is in one language, on the same lines."""

    of: str
    """The file in the tree."""
    name: str
    """The file in the folder of copies; analysers tell its language by it."""
    text: str


def copies_of(path: str, text: str) -> list[Copy]:
    """Return what analysers are shown of a file."""
    return [Copy(path, path, text)]
