"""Read the YAML that either tool writes, line by line: fields on one line, two-space lists, literal blocks (rigs §16).

Many times faster than a YAML library, and free of what PyYAML misreads. Anything else is left to it: this reader gives
up rather than guess.
"""

from __future__ import annotations

import re

from bridgehead.rigs.ecmascript import without_lone_surrogates
from bridgehead.rigs.yaml_core import Value, resolve_plain


class NotPlain(Exception):
    """This text needs the full loader."""


_FIELD = re.compile("(?!(?:null|true|false):)([a-z][a-z_]*):(?: (.+))?")
_NEVER_FIRST = frozenset(" \t,[]{}#&*!|>'\"%@`")
_FIRST_IF_FOLLOWED = frozenset("-?:")
_BLOCK_HEADERS = frozenset({"|", "|-", "|+", "|2", "|2-", "|2+"})


def read_lines(text: str) -> dict[str, Value]:
    """Return the mapping, or raise NotPlain."""
    lines = text.split("\n")
    fields: dict[str, Value] = {}
    at = 0
    while at < len(lines):
        field = _FIELD.fullmatch(lines[at])
        if not field or field[1] in fields:
            raise NotPlain
        key, written = field.groups()
        start = at = at + 1
        if written is None:
            while at < len(lines) and lines[at].startswith("  - "):
                at += 1
            fields[key] = _read_list(lines[start:at])
        elif written[0] == "|":
            while at < len(lines) and lines[at][:1] in ("", " "):
                at += 1
            fields[key] = _read_block(written, lines[start:at])
        else:
            fields[key] = _read_scalar(written)
    return fields


def _read_list(lines: list[str]) -> list[Value]:
    if not lines:
        raise NotPlain  # a key without a value
    return [_read_scalar(line[4:]) for line in lines]


def _read_block(header: str, lines: list[str]) -> str:
    """Read a literal block indented by two spaces."""
    if header not in _BLOCK_HEADERS or any(line.strip(" ") and not line.startswith("  ") for line in lines):
        raise NotPlain
    content = [line[2:] for line in lines]
    filled = [number for number, line in enumerate(content) if line.strip(" ")]
    if not filled or any(content[: filled[0]]) or ("2" not in header and content[filled[0]].startswith(" ")):
        raise NotPlain  # where the content begins is not certain
    if header.endswith("+"):
        return "\n".join(content) + "\n"
    end = filled[-1] + 1
    if any(content[end:]):
        raise NotPlain  # blanks after the last line: content to some, nothing to others
    return "\n".join(content[:end]) + ("" if header.endswith("-") else "\n")


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
        raise NotPlain
    return resolve_plain(written)


def _read_single_quoted(written: str) -> str:
    inner = written[1:-1]
    if len(written) < 2 or written[-1] != "'" or "'" in inner.replace("''", ""):
        raise NotPlain
    return inner.replace("''", "'")


def _read_double_quoted(written: str) -> str:
    inner = written[1:-1]
    if len(written) > 1 and written[-1] == '"' and '"' not in inner and "\\" not in inner:
        return inner
    if not re.fullmatch(_DOUBLE_QUOTED, written):
        raise NotPlain
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
            raise NotPlain
        return chr(code)
    if short not in _SHORT_ESCAPES:
        raise NotPlain
    return _SHORT_ESCAPES[short]
