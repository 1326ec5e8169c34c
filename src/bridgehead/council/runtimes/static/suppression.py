"""Comments that tell an analyser to be silent: where they stand, and a text without them (council §23)."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

_ANYWHERE: Final = r"(?:es|ox)lint-(?:dis|en)able|ast-grep-ignore"
_AFTER_HASH: Final = (
    r"noqa|\bruff\s*:\s*[\w-]+|\bhadolint\s+(?:global\s+)?ignore\b"
    r"|\bshellcheck\s+disable\b|\bzizmor\s*:\s*ignore\b|\blizard\s+forgives?\b"
)
_DIRECTIVE: Final = re.compile(rf"{_ANYWHERE}|(?<=#)(?:.*?)(?:{_AFTER_HASH})", re.I)
_WORDS: Final = re.compile(rf"{_ANYWHERE}|{_AFTER_HASH}", re.I)
_LETTER: Final = re.compile(r"[a-z]", re.I)


def directive_lines(text: str) -> tuple[int, ...]:
    """Return the lines with a comment that an analyser obeys."""
    if not _WORDS.search(text):
        return ()
    return tuple(
        number
        for number, line in enumerate(text.split("\n"), start=1)
        if _DIRECTIVE.search(line)
    )


def without_directives(text: str, lines: Container[int]) -> str:
    """Return the text with the comments on these lines made unreadable.

    Every character stays where it is.
    """
    shown = []
    for number, line in enumerate(text.split("\n"), start=1):
        is_silenced = number in lines and _DIRECTIVE.search(line)
        shown.append(_WORDS.sub(_unreadable, line) if is_silenced else line)
    return "\n".join(shown)


def _unreadable(words: re.Match[str]) -> str:
    return _LETTER.sub("x", words[0])
