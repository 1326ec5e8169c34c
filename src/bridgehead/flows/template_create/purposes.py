"""What a file says it is for, in its own first words: a docstring, or the comment it opens with. Pure."""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 120
_DOCSTRING: Final = re.compile(r"""\s*(?:#[^\n]*\n\s*)*[rR]?("{3}|'{3})\s*(?P<said>[^\n]+)""")
_BLOCK: Final = re.compile(r"\s*/\*+!?\s*\n?\s*\*?\s*(?P<said>[^\n]+)")
_LINES: Final = re.compile(r"\s*(?:#!\S[^\n]*\n)?\s*(?://+!?|#)\s*(?P<said>[^\n]+)")
# What stands at the head of a file for lawyers and tools says nothing about it.
_FORMAL: Final = re.compile(
    r"copyright|licen[cs]e|spdx|coding[:=]|eslint|noqa|mypy:|pylint|@ts-|generated", re.IGNORECASE
)


def stated_purpose(text: str) -> str:
    """One line in the file's own words; empty when it does not say, or says something else there."""
    for pattern in (_DOCSTRING, _BLOCK, _LINES):
        found = pattern.match(text)
        if found is not None:
            said = _first_sentence(re.split(r'"""|\'\'\'|\*/', found["said"])[0])
            return "" if _FORMAL.search(said) or len(said.split()) < 2 else said
    return ""


def _first_sentence(line: str) -> str:
    sentence = re.match(r".*?[.!?](?=\s|$)", line)
    said = " ".join((sentence[0] if sentence else line).split()).rstrip(".")
    return said if len(said) <= LONGEST else f"{said[: LONGEST - 1].rsplit(' ', 1)[0]}…"
