"""Read the frontmatter of an envelope: YAML 1.2 core, one mapping (rigs §3.1, §16).

Most files look as frontmatter_usual.py expects, nearly all hold only what frontmatter_lines.py can read. Whatever else
YAML allows goes to yaml_loader.py, which gives the same answers and is imported only when needed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from bridgehead.rigs.frontmatter_lines import NotPlain, read_lines
from bridgehead.rigs.frontmatter_usual import read_usual
from bridgehead.rigs.yaml_core import Value


class ParseFailure(NamedTuple):
    """Why a file is not an envelope; a value, because one bad file must not stop the reading of the others."""

    message: str


def read_mapping(text: str) -> dict[str, Value] | ParseFailure:
    """Return the mapping that `text` (LF line ends, no fences) holds."""
    try:
        return read_usual(text) or read_lines(text)
    except NotPlain:
        return _load(text)


def _load(text: str) -> dict[str, Value] | ParseFailure:
    from bridgehead.rigs.yaml_document import YamlRefused
    from bridgehead.rigs.yaml_loader import load

    try:
        value = load(text)
    except YamlRefused as error:
        return ParseFailure(f"frontmatter YAML parse failed: {error}{_conflict_note(text)}")
    if value is None:
        return ParseFailure("frontmatter is empty")
    if not isinstance(value, dict):
        return ParseFailure("frontmatter must be a YAML mapping")
    return value


def _conflict_note(text: str) -> str:
    marked = re.search("^(?:<{7}|={7}|>{7})(?: |$)", text, re.MULTILINE)
    return " (it holds git conflict markers)" if marked else ""
