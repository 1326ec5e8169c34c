"""Decide what scalars mean in YAML 1.2 core (rigs §3.4, §16).

That is the language of frontmatter. YAML 1.1 does not take dates, `yes`, `12:30:45` and
`1_000` for text; here they are text.
"""

from __future__ import annotations

import re
from math import inf, isfinite
from typing import TypeAlias

Scalar: TypeAlias = str | int | float | bool | None
Value: TypeAlias = "Scalar | list[Value] | dict[str, Value]"

_TAG_PREFIX = "tag:yaml.org,2002:"
_LARGEST_EXACT_INTEGER = 2**53
NAMED_VALUES: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_FIRST_OF_NUMBERS = frozenset(".+-0123456789")  # spares most values the pattern
_NUMBER = (
    "(?P<int>[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)"
    r"|(?P<float>[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)"
    r"|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)[eE][-+]?[0-9]+"
    r"|[-+]?\.(?:inf|Inf|INF)|\.nan|\.NaN|\.NAN)"
)


def resolve_plain(text: str) -> Scalar:
    """Return the value of an untagged plain scalar."""
    kind = _kind(text)
    return _construct(kind, text) if kind else text


def resolve_tagged(tag: str, text: str) -> Scalar:
    """Return the value of a scalar with an explicit tag.

    A tag that is not core, or does not fit, leaves it text.
    """
    kind = tag.removeprefix(_TAG_PREFIX)
    return _construct(kind, text) if kind == _kind(text) else text


def is_text_when_plain(text: str) -> bool:
    """Return whether `text`, written without quotes, is read back as text."""
    return _kind(text) is None


def _kind(text: str) -> str | None:
    if text in NAMED_VALUES:
        return "null" if NAMED_VALUES[text] is None else "bool"
    if text[0] not in _FIRST_OF_NUMBERS:
        return None
    number = re.fullmatch(_NUMBER, text)
    return number.lastgroup if number else None


def _construct(kind: str, text: str) -> Scalar:
    return _number(text) if kind in ("int", "float") else NAMED_VALUES[text]


def _number(text: str) -> int | float | None:
    """Return a double, as the reference does; None if JSON has no such number."""
    if text[:2] in ("0o", "0x"):
        value = _double(int(text, 0))
    else:
        value = float(text.replace(".", "")) if text[-1] in "fFnN" else float(text)
    if value.is_integer() and abs(value) <= _LARGEST_EXACT_INTEGER:
        return int(value)
    return value if isfinite(value) else None


def _double(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return inf
