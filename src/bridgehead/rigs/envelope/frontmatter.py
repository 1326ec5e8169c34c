"""Read and write the frontmatter of an envelope (rigs §3.1, §3.4, §16).

It is one YAML 1.2 mapping. The cheapest of three readers that can reads it; it is
written as the reference does.
"""

import re
from collections.abc import Callable, Mapping
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

# The usual form. Which markers there are and which words are no text is looked up
# afterwards: otherwise the pattern would take twice as long to compile.
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
_ENDS_PLAIN = (": ", " #", ":\t", "\t#")
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
# rigs §3.4 rule 3, less what _CONTROL has caught before: an indicator first, or
# something that would end the scalar.
_NEEDS_QUOTES = r"""[ ,\[\]{}#&*!|>'"%@`]|[?-](?: |\Z)|.*(?:: | #|[ :]\Z)"""
_KEPT_BY_LITERAL_BLOCK = r"(?s)[^ \n](?:.*[^ \n])?\n?"
_ESCAPED = '[\x00-\x1f"\\\\\x85\u2028\u2029\ud800-\udfff]'
_WRITTEN_ESCAPES = {
    meant: f"\\{short}"
    for short, meant in _SHORT_ESCAPES.items()
    if short not in "\t /_"
}


class ParseFailure(NamedTuple):
    """Why a file is not an envelope.

    It is a value, because one bad file must not stop the reading of others.
    """

    message: str


def read_mapping(text: str) -> dict[str, Value] | ParseFailure:
    """Return the mapping that `text` (LF line ends, no fences) holds.

    There are three readers, of which each accepts less than the next and is faster:
    one pattern for what our own commands write, a look at every line for flat YAML,
    and PyYAML for the rest (5, 20 and 220 µs an envelope).
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
        to_list,
        date,
        status,
        message_type,
        thread,
        display_name,
        tldr,
        references,
        body_hash,
    ) = found.groups()
    recipients = to_list.split("\n  - ")[1:] if to_list else []
    words = (sender, to, *recipients, message_type, thread, display_name, tldr)
    if status[0] not in MARKERS or not _NO_TEXT.isdisjoint(words):
        return None
    fields: dict[str, Value] = {
        "from": sender,
        "to": to or [*recipients],
        "date": date,
        "status": status,
        "type": message_type,
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
    # Compiled when needed: many commands read no file at all.
    return re.compile(_USUAL, re.MULTILINE)


# Second reader: fields, lists and literal blocks, one line at a time.


def read_lines(text: str) -> dict[str, Value]:
    """Return the mapping, or raise NotPlain."""
    lines = text.split("\n")
    fields: dict[str, Value] = {}
    number = 0
    while number < len(lines):
        field = _FIELD.fullmatch(lines[number])
        if not field or field[1] in fields:
            raise NotPlain
        key, written = field.groups()
        number += 1
        if written is None:
            items = _following(lines, number, _is_list_item)
            if not items:
                raise NotPlain  # a key without a value
            fields[key] = [_read_scalar(line[4:]) for line in items]
            number += len(items)
        elif written[0] == "|":
            block = _following(lines, number, _is_in_block)
            fields[key] = _read_block(written, block)
            number += len(block)
        else:
            fields[key] = _read_scalar(written)
    return fields


def _following(
    lines: list[str], start: int, belongs: Callable[[str], bool]
) -> list[str]:
    """Return the lines from `start` on, up to the first that does not belong."""
    end = start
    while end < len(lines) and belongs(lines[end]):
        end += 1
    return lines[start:end]


def _is_list_item(line: str) -> bool:
    return line.startswith("  - ")


def _is_in_block(line: str) -> bool:
    return line[:1] in ("", " ")


class NotPlain(Exception):
    """This text needs the full loader."""


def _read_block(header: str, lines: list[str]) -> str:
    """Return the text of a literal block that is indented by two spaces."""
    if header not in _BLOCK_HEADERS:
        raise NotPlain
    if any(line.strip(" ") and not line.startswith("  ") for line in lines):
        raise NotPlain
    content = [line[2:] for line in lines]
    filled = [number for number, line in enumerate(content) if line.strip(" ")]
    if not filled:
        raise NotPlain
    first = filled[0]
    end = filled[-1] + 1
    is_indent_guessed = "2" not in header
    if any(content[:first]) or (is_indent_guessed and content[first].startswith(" ")):
        raise NotPlain  # where the content begins is not certain
    if header.endswith("+"):
        return "\n".join(content) + "\n"
    if any(content[end:]):
        raise NotPlain  # blanks after the last line: content to some, nothing to others
    text = "\n".join(content[:end])
    return text if header.endswith("-") else f"{text}\n"


def _read_scalar(written: str) -> Value:
    if written.startswith('"'):
        return _read_double_quoted(written)
    if written.startswith("'"):
        return _read_single_quoted(written)
    if written == "[]":
        return []
    if not _is_plain(written):
        raise NotPlain
    return resolve_plain(written)


def _is_plain(written: str) -> bool:
    """Return whether a scalar without quotes surely ends where its line ends."""
    first = written[:1]
    if not first or first in _NEVER_FIRST or written[-1] in " \t:":
        return False
    if first in _FIRST_IF_FOLLOWED and written[1:2] in ("", " ", "\t"):
        return False
    return not any(ending in written for ending in _ENDS_PLAIN)


def _read_single_quoted(written: str) -> str:
    inner = written[1:-1]
    if len(written) < 2 or written[-1] != "'" or "'" in inner.replace("''", ""):
        raise NotPlain
    return inner.replace("''", "'")


def _read_double_quoted(written: str) -> str:
    inner = written[1:-1]
    is_closed = len(written) > 1 and written[-1] == '"'
    if is_closed and '"' not in inner and "\\" not in inner:
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
    """Return one line per field, and lists as block lists."""
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
        if re.fullmatch(_KEPT_BY_LITERAL_BLOCK, text):
            return _literal_block(text, indent)
        return _double_quoted(text)
    needs_quotes = re.match(_NEEDS_QUOTES, text) or not is_text_when_plain(text)
    if not needs_quotes:
        return text
    if '"' in text and "'" not in text:
        return f"'{text}'"
    return _double_quoted(text)


def _literal_block(text: str, indent: str) -> str:
    header = "|" if text.endswith("\n") else "|-"
    lines = text.removesuffix("\n").split("\n")
    indented = [indent + line if line else "" for line in lines]
    return "\n".join([header, *indented])


def _double_quoted(text: str) -> str:
    return f'"{re.sub(_ESCAPED, _escape, text)}"'


def _escape(character: re.Match[str]) -> str:
    short = _WRITTEN_ESCAPES.get(character[0])
    if short:
        return short
    code = ord(character[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
