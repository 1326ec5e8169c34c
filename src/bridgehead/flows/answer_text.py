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

# Each try in prose may run to the recursion limit, so a text made of brackets must not get one try per bracket.
MAX_PROSE_TRIES: Final = 10_000

_FENCE_OPEN: Final = re.compile(r"[ \t]*(`{3,})[ \t]*[^\s`]*[ \t]*")
_FENCE_CLOSE: Final = re.compile(r"[ \t]*(`{3,})[ \t]*")
_START: Final = re.compile(r"[{\[]")


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
    for line in text.splitlines():
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
    position = 0
    for _ in range(MAX_PROSE_TRIES):
        start = _START.search(text, position)
        if start is None:
            return
        try:
            value, position = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            position = start.start() + 1
        else:
            yield value
