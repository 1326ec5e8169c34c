"""The frontmatter of an envelope, one YAML 1.2 mapping: read by the cheapest of three readers that can, written as the
reference writes it (rigs §3.1, §3.4, §16).
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from bridgehead.rigs.envelope.body_hash import normalise_body
from bridgehead.rigs.envelope.fields import MARKERS
from bridgehead.rigs.envelope.text import without_lone_surrogates
from bridgehead.rigs.envelope.yaml_core import (
    NAMED_VALUES,
    Value,
    is_text_when_plain,
    resolve_plain,
)

# The usual form. Which markers there are and which words are no text is looked up afterwards: the pattern would take
# twice as long to compile, and short commands compile it too.
_MARKER = r"[^\x00-\x7f]"
_WORD = "[a-z][a-z0-9-]*"
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9:.]+Z)?"
_REST_OF_LINE = (
    r"(?:[^\n\t:#]*[^\n\t:# ])?"  # no comment, no nested key, no blank at the end
)
_TEXT = f"[A-Za-z]{_REST_OF_LINE}"
_HEX = "(?=[0-9e]*[a-df])[0-9a-f]+"  # what cannot be taken for a number
_USUAL = (
    f"from: ({_WORD})\n"
    f"to:(?: ({_WORD})|((?:\n  - {_WORD}$)+))\n"
    f"date: ({_DATE})\n"
    f"status: ({_MARKER}{_REST_OF_LINE})\n"
    f"type: ({_TEXT})\n"
    f"thread: ({_WORD})\n"
    f"(?:display_name: ({_TEXT})\n)?"
    f"(?:tldr: ({_TEXT})\n)?"
    f"(?:references:((?:\n  - {_HEX}$)+)\n)?"
    f"body_hash: ({_HEX})"
)
_NO_TEXT = frozenset(NAMED_VALUES)

# Line by line.
_FIELD = re.compile("(?!(?:null|true|false):)([a-z][a-z_]*):(?: (.+))?")
_NEVER_FIRST = frozenset(" \t,[]{}#&*!|>'\"%@`")
_FIRST_IF_FOLLOWED = frozenset("-?:")
_BLOCK_HEADERS = frozenset({"|", "|-", "|+", "|2", "|2-", "|2+"})
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

# Writing. Compiled when met: listings write nothing.
_CONTROL = "[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
# rigs §3.4 rule 3, less what _CONTROL has caught before: an indicator first, or something that would end the scalar.
_NEEDS_QUOTES = r"""[ ,\[\]{}#&*!|>'"%@`]|[?-](?: |\Z)|.*(?:: | #|[ :]\Z)"""
_KEPT_BY_LITERAL_BLOCK = r"(?s)[^ \n](?:.*[^ \n])?\n?"
_ESCAPED = '[\x00-\x1f"\\\\\x85\u2028\u2029\ud800-\udfff]'
_WRITTEN_ESCAPES = {
    meant: f"\\{short}"
    for short, meant in _SHORT_ESCAPES.items()
    if short not in "\t /_"
}


class ParseFailure(NamedTuple):
    """Why a file is not an envelope; a value, because one bad file must not stop the reading of the others."""

    message: str


def read_mapping(text: str) -> dict[str, Value] | ParseFailure:
    """Return the mapping that `text` (LF line ends, no fences) holds.

    Three readers, of which each takes less than the next and takes it faster: one pattern for what our own commands
    write, one look at every line for flat YAML, and PyYAML for the rest (5, 20 and 220 µs an envelope).
    """
    try:
        return read_usual(text) or read_lines(text)
    except NotPlain:
        return _load(text)


# First reader: the form in which nearly all envelopes come.


def read_usual(text: str) -> dict[str, Value] | None:
    """Return the mapping, or None if this is not the usual form."""
    found = _usual().fullmatch(text) if text.startswith("from: ") else None
    if found is None:
        return None
    (
        sender,
        to,
        many,
        date,
        status,
        kind,
        thread,
        display_name,
        tldr,
        references,
        body_hash,
    ) = found.groups()
    recipients = many.split("\n  - ")[1:] if many else ()
    words = (sender, to, *recipients, kind, thread, display_name, tldr)
    if status[0] not in MARKERS or not _NO_TEXT.isdisjoint(words):
        return None
    fields: dict[str, Value] = {
        "from": sender,
        "to": to or [*recipients],
        "date": date,
        "status": status,
        "type": kind,
        "thread": thread,
    }
    if display_name:
        fields["display_name"] = display_name
    if tldr:
        fields["tldr"] = tldr
    if references:
        fields["references"] = [*references.split("\n  - ")[1:]]
    fields["body_hash"] = body_hash
    return fields


@cache
def _usual() -> re.Pattern[str]:
    # When met: many commands read no file at all.
    return re.compile(_USUAL, re.MULTILINE)


# Second reader: fields, lists and literal blocks, one line at a time.


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
            if at == start:
                raise NotPlain  # a key without a value
            fields[key] = [_read_scalar(line[4:]) for line in lines[start:at]]
        elif written[0] == "|":
            while at < len(lines) and lines[at][:1] in ("", " "):
                at += 1
            fields[key] = _read_block(written, lines[start:at])
        else:
            fields[key] = _read_scalar(written)
    return fields


class NotPlain(Exception):
    """This text needs the full loader."""


def _read_block(header: str, lines: list[str]) -> str:
    """Read a literal block indented by two spaces."""
    if header not in _BLOCK_HEADERS or any(
        line.strip(" ") and not line.startswith("  ") for line in lines
    ):
        raise NotPlain
    content = [line[2:] for line in lines]
    filled = [number for number, line in enumerate(content) if line.strip(" ")]
    if (
        not filled
        or any(content[: filled[0]])
        or ("2" not in header and content[filled[0]].startswith(" "))
    ):
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
    if (
        len(written) > 1
        and written[-1] == '"'
        and '"' not in inner
        and "\\" not in inner
    ):
        return inner
    if not re.fullmatch(_DOUBLE_QUOTED, written):
        raise NotPlain
    return without_lone_surrogates(re.sub(_ESCAPE, _unescape, inner))


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


# Third reader: all of YAML.


def _load(text: str) -> dict[str, Value] | ParseFailure:
    from bridgehead.rigs.envelope.yaml_loader import YamlRefused, load

    try:
        value = load(text)
    except YamlRefused as error:
        return ParseFailure(
            f"frontmatter YAML parse failed: {error}{_conflict_note(text)}"
        )
    if value is None:
        return ParseFailure("frontmatter is empty")
    if not isinstance(value, dict):
        return ParseFailure("frontmatter must be a YAML mapping")
    return value


def _conflict_note(text: str) -> str:
    marked = re.search("^(?:<{7}|={7}|>{7})(?: |$)", text, re.MULTILINE)
    return " (it contains git conflict markers)" if marked else ""


# Writing.


def write_envelope(frontmatter: Mapping[str, Value], body: str) -> str:
    """Return the text of an envelope file; keys are written in the order given."""
    return f"---\n{write_mapping(frontmatter)}---\n{normalise_body(body)}"


def write_mapping(fields: Mapping[str, Value]) -> str:
    """Return one line per field, lists as block lists; keys are field names and need no quotes."""
    return "".join(f"{key}:{_write_value(value)}\n" for key, value in fields.items())


def _write_value(value: Value) -> str:
    if isinstance(value, list):
        if not value:
            return " []"
        return "".join(f"\n  - {_write_scalar(item, indent='    ')}" for item in value)
    return f" {_write_scalar(value, indent='  ')}"


def _write_scalar(value: Value, *, indent: str) -> str:
    if isinstance(value, str):
        return _write_text(value, indent=indent)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        raise TypeError("frontmatter holds scalars and flat lists of them")
    return str(value)


def _write_text(text: str, *, indent: str) -> str:
    if re.search(_CONTROL, text):
        return _double_quoted(text)
    if "\n" in text:
        return (
            _literal_block(text, indent)
            if re.fullmatch(_KEPT_BY_LITERAL_BLOCK, text)
            else _double_quoted(text)
        )
    if re.match(_NEEDS_QUOTES, text) or not is_text_when_plain(text):
        return f"'{text}'" if '"' in text and "'" not in text else _double_quoted(text)
    return text


def _literal_block(text: str, indent: str) -> str:
    header = "|" if text.endswith("\n") else "|-"
    lines = text.removesuffix("\n").split("\n")
    return "\n".join([header, *(indent + line if line else "" for line in lines)])


def _double_quoted(text: str) -> str:
    return f'"{re.sub(_ESCAPED, _escape, text)}"'


def _escape(character: re.Match[str]) -> str:
    code = ord(character[0])
    return _WRITTEN_ESCAPES.get(character[0]) or (
        f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    )
