"""Read the frontmatter of an envelope: YAML 1.2 core, one mapping (rigs §3.1, §16).

Nearly every file holds only `key: value` lines and two-space lists; those are read here, line by line. Whatever else
YAML allows goes to yaml_loader.py, which gives the same answer for these files and is imported only when needed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from bridgehead.rigs.ecmascript import without_lone_surrogates
from bridgehead.rigs.yaml_core import Value, resolve_plain


class ParseFailure(NamedTuple):
    """Why a file is not an envelope; a value, because one bad file must not stop the reading of the others."""

    message: str


def read_mapping(text: str) -> dict[str, Value] | ParseFailure:
    """Return the mapping that `text` (LF line ends, no fences) holds."""
    try:
        return _read_lines(text)
    except _NotPlain:
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


class _NotPlain(Exception):
    """This needs the full loader."""


_KEY = re.compile("(?!(?:null|true|false):)([a-z][a-z_]*):(?: (.+))?")
_NEVER_FIRST = frozenset(" \t,[]{}#&*!|>'\"%@`")
_FIRST_IF_FOLLOWED = frozenset("-?:")


def _read_lines(text: str) -> dict[str, Value]:
    fields: dict[str, Value] = {}
    items: list[Value] | None = None
    for line in text.split("\n"):
        if items is not None and line.startswith("  - "):
            items.append(_read_scalar(line[4:]))
            continue
        if items == [] or not (pair := _KEY.fullmatch(line)):
            raise _NotPlain
        key, written = pair.groups()
        if key in fields:
            raise _NotPlain
        items = [] if written is None else None
        fields[key] = items if written is None else _read_scalar(written)
    if items == []:
        raise _NotPlain
    return fields


def _read_scalar(written: str) -> Value:
    first = written[0] if written else " "
    if first == '"':
        return _read_double_quoted(written)
    if first == "'":
        return _read_single_quoted(written)
    if written == "[]":
        return []
    if (
        first in _NEVER_FIRST
        or (first in _FIRST_IF_FOLLOWED and written[1:2] in ("", " ", "\t"))
        or ": " in written
        or " #" in written
        or ":\t" in written
        or "\t#" in written
        or written[-1] in " \t:"
    ):
        raise _NotPlain
    return resolve_plain(written)


def _read_single_quoted(written: str) -> str:
    inner = written[1:-1]
    if len(written) < 2 or written[-1] != "'" or "'" in inner.replace("''", ""):
        raise _NotPlain
    return inner.replace("''", "'")


def _read_double_quoted(written: str) -> str:
    inner = written[1:-1]
    if len(written) > 1 and written[-1] == '"' and '"' not in inner and "\\" not in inner:
        return inner
    if not re.fullmatch(_DOUBLE_QUOTED, written):
        raise _NotPlain
    return without_lone_surrogates(re.sub(_ESCAPE, _unescape, inner))


# Compiled when met: most files hold no escapes.
_DOUBLE_QUOTED = r'"(?:[^"\\]|\\.)*"'
_ESCAPE = r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))"
_SHORT_ESCAPES = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "t": "\t",
    "\t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "r": "\r",
    "e": "\x1b",
    " ": " ",
    '"': '"',
    "/": "/",
    "\\": "\\",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}


def _unescape(escape: re.Match[str]) -> str:
    short = escape[4]
    if short is None:
        code = int(escape[1] or escape[2] or escape[3], 16)
        if code > 0x10FFFF:
            raise _NotPlain
        return chr(code)
    if short not in _SHORT_ESCAPES:
        raise _NotPlain
    return _SHORT_ESCAPES[short]
