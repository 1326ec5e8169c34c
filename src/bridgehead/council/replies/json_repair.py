"""Read JSON as models write it: with comments, trailing commas, Python words, or cut off in the middle (§10 step 3).

Never raises and never invents: what cannot be read is None, and of a cut text only complete entries are kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from bridgehead.council.findings.tree import look_up

# A closing quote is optional so that an unfinished string at the end is one token too.
_STRING: Final = r'"[^"\\]*(?:\\.[^"\\]*)*"?'
_STRING_OR_COMMENT: Final = re.compile(
    rf"({_STRING})|(?://|#)[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL
)
_STRING_OR_TRAILING_COMMA: Final = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)
_STRING_OR_WORD: Final = re.compile(rf"({_STRING})|\b(True|False|None)\b", re.DOTALL)
_STRING_OR_BRACKET: Final = re.compile(rf"({_STRING})|[{{}}\[\]]", re.DOTALL)
_JSON_WORD: Final = {"True": "true", "False": "false", "None": "null"}
# Deeper than the JSON reader goes, so nothing is lost by not looking for the end.
_MOST_DEPTH: Final = 2000
TOO_DEEP: Final = 0
_CLOSER: Final = {"{": "}", "[": "]"}
STEPS_BETWEEN_LOOKS: Final = 1024


def tokens(
    pattern: re.Pattern[str], text: str, start: int = 0
) -> Iterator[re.Match[str]]:
    """`finditer` that looks up now and then."""
    for number, token in enumerate(pattern.finditer(text, start)):
        if number % STEPS_BETWEEN_LOOKS == 0:
            look_up()
        yield token


@dataclass(frozen=True, slots=True)
class Read:
    """A JSON value; `partial` when its end was missing and incomplete entries were left out."""

    value: Any
    partial: bool = False


def read_json(text: str) -> Read | None:
    """The value in `text`, repaired where that needs no guessing; None when it cannot be read."""
    trimmed = text.strip().removeprefix("\ufeff").strip()
    if not trimmed.startswith(("{", "[")):
        return None
    strict = _load(trimmed)
    if strict is not None:
        return strict
    uncommented = _keeping_strings(_STRING_OR_COMMENT, trimmed)
    repaired = _load(_tidied(uncommented))
    if repaired is not None:
        return repaired
    complete = _complete_part(uncommented)
    if complete is None:
        return None
    shortened = _load(_tidied(complete))
    return None if shortened is None else Read(shortened.value, partial=True)


def balanced_end(text: str, start: int) -> int | None:
    """Where the bracket at `start` is closed, one past the end; None when never, -1 when it is closed wrongly,
    TOO_DEEP when nothing could read what is inside.
    """
    stack: list[str] = []
    for token in tokens(_STRING_OR_BRACKET, text, start):
        bracket = token[0]
        if token[1] is not None:
            continue
        if bracket in _CLOSER:
            stack.append(bracket)
            if len(stack) > _MOST_DEPTH:
                return TOO_DEEP
        elif _CLOSER[stack.pop()] != bracket:
            return -1
        if not stack:
            return token.end()
    return None


def _load(text: str) -> Read | None:
    try:
        # strict=False lets raw control characters stand in strings.
        return Read(json.loads(text, strict=False))
    except (ValueError, RecursionError):
        return None


def _tidied(uncommented: str) -> str:
    worded = _replaced(
        _STRING_OR_WORD, uncommented, lambda match: match[1] or _JSON_WORD[match[2]]
    )
    return _keeping_strings(_STRING_OR_TRAILING_COMMA, worded)


def _keeping_strings(pattern: re.Pattern[str], text: str) -> str:
    return _replaced(pattern, text, lambda match: match[1] or "")


def _replaced(
    pattern: re.Pattern[str], text: str, new: Callable[[re.Match[str]], str]
) -> str:
    pieces = []
    position = 0
    for match in tokens(pattern, text):
        pieces += [text[position : match.start()], new(match)]
        position = match.end()
    return "".join([*pieces, text[position:]])


def _complete_part(text: str) -> str | None:
    """An unclosed text up to the last complete entry of an outermost list, closed; None if there is none.

    Lists inside an entry do not count, so a half-written entry is never kept.
    """
    stack: list[str] = []
    open_lists = 0
    end = 0
    for token in tokens(_STRING_OR_BRACKET, text):
        mark = token[0]
        if mark in _CLOSER:
            stack.append(mark)
            open_lists += mark == "["
            continue
        if token[1] is not None:
            if not _is_finished_string(mark):
                break
        elif _CLOSER[stack.pop()] != mark or not stack:
            return None  # closed wrongly, or closed after all: the trouble is elsewhere
        open_lists -= mark == "]"
        closes_outermost_list = mark == "]" and open_lists == 0
        ends_entry = open_lists == 1 and stack[-1] == "["
        if closes_outermost_list or ends_entry:
            end = token.end()
    return text[:end] + _closers(text[:end]) if end else None


def _closers(text: str) -> str:
    stack: list[str] = []
    for token in tokens(_STRING_OR_BRACKET, text):
        if token[0] in _CLOSER:
            stack.append(token[0])
        elif token[1] is None:
            stack.pop()
    return "".join(_CLOSER[opened] for opened in reversed(stack))


def _is_finished_string(token: str) -> bool:
    body = token[1:]
    if not body.endswith('"'):
        return False
    backslashes = len(body[:-1]) - len(body[:-1].rstrip("\\"))
    return backslashes % 2 == 0
