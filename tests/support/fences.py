"""What stands inside a fence, and what does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_BLOCK = re.compile(
    r"<<< begin foreign text (\w{16}) \|.*?<<< end foreign text \1 >>>", re.DOTALL
)
_LINE = re.compile(r"<<< foreign text (\w{16}): (.*?) :\1 >>>")


def unfenced(text: str) -> str:
    """`text` without what is fenced in it."""
    return _LINE.sub("", _BLOCK.sub("", text))


def bare(text: str) -> str:
    """`text` with the marks around single lines taken off, as a reader understands it."""
    return _LINE.sub(lambda found: found[2], text)


def strings_in(value: Any) -> Iterator[str]:
    """Every text in a JSON value, the names of fields included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield str(key)
            yield from strings_in(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings_in(one)
