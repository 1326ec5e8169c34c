"""Write frontmatter exactly as the reference does, so that either tool's files look alike (rigs §3.4).

Deliberate differences, read the same by both: TAB, U+0085, U+2028 and U+2029 are escaped, because YAML 1.1 loaders
misread them raw; line breaks that a literal block would not keep are escaped too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from bridgehead.rigs.body_hash import normalise_body
from bridgehead.rigs.yaml_core import Value, is_text_when_plain

_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# rigs §3.4 rule 3, less what _CONTROL has caught before: an indicator first, or something that would end the scalar.
_NEEDS_QUOTES = re.compile(r"""[ ,\[\]{}#&*!|>'"%@`]|[?-](?: |\Z)|.*(?:: | #|[ :]\Z)""")
_KEPT_BY_LITERAL_BLOCK = re.compile(r"[^ \n](?:.*[^ \n])?\n?", re.DOTALL)
_ESCAPED = re.compile('[\x00-\x1f"\\\\\x85\u2028\u2029\ud800-\udfff]')
_SHORT_ESCAPES = {
    "\0": r"\0",
    "\a": r"\a",
    "\b": r"\b",
    "\t": r"\t",
    "\n": r"\n",
    "\v": r"\v",
    "\f": r"\f",
    "\r": r"\r",
    "\x1b": r"\e",
    '"': r"\"",
    "\\": r"\\",
    "\x85": r"\N",
    "\u2028": r"\L",
    "\u2029": r"\P",
}


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
    if _CONTROL.search(text):
        return _double_quoted(text)
    if "\n" in text:
        return (
            _literal_block(text, indent) if _KEPT_BY_LITERAL_BLOCK.fullmatch(text) else _double_quoted(text)
        )
    if _NEEDS_QUOTES.match(text) or not is_text_when_plain(text):
        return f"'{text}'" if '"' in text and "'" not in text else _double_quoted(text)
    return text


def _literal_block(text: str, indent: str) -> str:
    header = "|" if text.endswith("\n") else "|-"
    lines = text.removesuffix("\n").split("\n")
    return "\n".join([header, *(indent + line if line else "" for line in lines)])


def _double_quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(character: re.Match[str]) -> str:
    code = ord(character[0])
    return _SHORT_ESCAPES.get(character[0]) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
