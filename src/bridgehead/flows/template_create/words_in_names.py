"""Take identifiers apart into words and put them together in a case style. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

CASE_STYLES: Final = {
    "SCREAMING_SNAKE_CASE": re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+"),
    "snake_case": re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*"),
    "kebab-case": re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+"),
    "PascalCase": re.compile(r"([A-Z][a-z0-9]+)+[A-Z]?|[A-Z]+[a-z0-9]+[A-Za-z0-9]*"),
    "camelCase": re.compile(r"[a-z][a-z0-9]*([A-Z][A-Za-z0-9]*)+"),
}
# One plain word fits several styles, so it speaks for none of them.
_UNDECIDED: Final = re.compile(r"[a-z][a-z0-9]*")


def words_of(name: str) -> list[str]:
    """`OrderLineItem`, `order_line_item` and `order-line-item` are all order, line, item."""
    return [word.lower() for word in _WORD.findall(name)]


def pascal(name: str) -> str:
    return "".join(word.capitalize() for word in words_of(name))


def camel(name: str) -> str:
    joined = pascal(name)
    return joined[:1].lower() + joined[1:]


def snake(name: str) -> str:
    return "_".join(words_of(name))


def kebab(name: str) -> str:
    return "-".join(words_of(name))


def case_style(name: str) -> str | None:
    """The style a name is written in; None when it could be several or is none."""
    bare = name.strip("_")
    if _UNDECIDED.fullmatch(bare):
        return None
    return next((style for style, pattern in CASE_STYLES.items() if pattern.fullmatch(bare)), None)


def common_style(names: Iterable[str], default: str = "") -> str:
    """The style most of the names are written in."""
    count = Counter(style for name in names if (style := case_style(name)))
    if not count:
        return default
    return min(count, key=lambda style: (-count[style], style))
