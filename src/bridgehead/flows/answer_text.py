"""Find the JSON an agent's answer contains (flows §12): the entire text, else fenced blocks, else what stands in prose.

Never regexes over braces, and never inside a value that parsed: that is how one member of an answer once passed for
the whole of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from bridgehead.flows.json_bytes import Unreadable, parse_json, strict_hooks

# A text made of brackets must not cost the square of its length. A decoder that fails counts the lines up to there for
# its message, so each vain try costs its position; one that ran into the recursion limit counts for many.
PROSE_BUDGET: Final = 1_000_000_000
RECURSION_COST: Final = 5_000_000

_FENCE_OPEN: Final = re.compile(r"[ \t]*(`{3,})[ \t]*[^\s`]*[ \t]*")
_FENCE_CLOSE: Final = re.compile(r"[ \t]*(`{3,})[ \t]*")
# Not what `splitlines` takes for one besides: a JSON string may hold U+2028 as it is.
_LINE_END: Final = re.compile(r"\r\n?|\n")
# Where an object or an array can start; most braces in prose cannot.
_START: Final = re.compile(r"""\{(?=[ \t\r\n]*["}])|\[(?=[ \t\r\n]*[\[\]{"0-9tfn-])""")


def json_candidates(text: str) -> Iterator[Any]:
    """The JSON values `text` may mean, best guess first; none when nothing in it parses."""
    whole = _parsed(text.strip())
    if whole is not _NOTHING:
        yield whole
        return
    for block in _fenced_blocks(text):
        value = _parsed(block)
        if value is not _NOTHING:
            yield value
    yield from _values_in_prose(text)


_NOTHING: Final = object()


def _parsed(text: str) -> Any:
    try:
        return parse_json(text)
    except Unreadable:
        return _NOTHING


def _fenced_blocks(text: str) -> Iterator[str]:
    """Text between a line of three or more backticks and the next line of at least as many."""
    fence = 0
    inside: list[str] = []
    for line in _LINE_END.split(text):
        if not fence:
            opening = _FENCE_OPEN.fullmatch(line)
            fence, inside = (len(opening[1]), []) if opening else (0, [])
        elif (closing := _FENCE_CLOSE.fullmatch(line)) and len(closing[1]) >= fence:
            yield "\n".join(inside)
            fence = 0
        else:
            inside.append(line)


def _values_in_prose(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder(**strict_hooks())
    position, budget = 0, PROSE_BUDGET
    while budget > 0 and (found := _START.search(text, position)):
        start = found.start()
        try:
            value, position = decoder.raw_decode(text, start)
        except RecursionError:
            position, budget = start + 1, budget - RECURSION_COST
        except ValueError as error:
            position, budget = start + 1, budget - 1 - getattr(error, "pos", start)
        else:
            yield value
