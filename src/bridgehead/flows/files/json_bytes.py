"""Turn the bytes of a flow file into a JSON object, and back (flows §1).

Parsing is stricter than `json.loads` where two readers could otherwise disagree: no
NaN, no numbers beyond a double, no duplicate keys in the top-level object, no nesting
beyond a limit. documents.py validates the result.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import Any, Final, NoReturn

MAX_DEPTH: Final = 100

_BRACKET_OR_STRING: Final = r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]'


class Unreadable(ValueError):
    """The bytes hold no JSON object that every reader would understand the same way."""


def read_object(data: bytes) -> dict[str, Any]:
    """Return the JSON object in `data`.

    Raise Unreadable if there is none.
    """
    try:
        text = data.removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8: {error.reason} at byte {error.start}") from None
    pairs = _Pairs()
    document = parse_json(text, object_pairs_hook=pairs)
    if not isinstance(document, dict):
        raise Unreadable("not a JSON object")
    if pairs.repeated is not None:
        raise Unreadable(f"the key {pairs.repeated!r} appears twice")
    if _depth(text) > MAX_DEPTH:
        raise Unreadable(f"nested deeper than {MAX_DEPTH} levels")
    return document


def parse_json(text: str, **hooks: Any) -> Any:
    """Parse like `json.loads`, but refuse NaN, Infinity and too large numbers."""
    try:
        return json.loads(text, **strict_hooks(), **hooks)
    except Unreadable:
        raise
    except RecursionError:
        raise Unreadable(f"nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise Unreadable(f"not JSON: {error}") from None


def strict_hooks() -> dict[str, Any]:
    """Return decoder hooks that refuse numbers other readers may not support."""
    return {"parse_constant": _refuse, "parse_float": _finite, "parse_int": _integer}


def file_bytes(document: Mapping[str, Any]) -> bytes:
    """Return a document as it is written: ASCII, two-space indent, no final newline."""
    return json.dumps(document, indent=2).encode("ascii")


class _Pairs:
    """A decoder hook that builds objects and notices a repeated key.

    The outermost object comes last, so `repeated` then says whether it repeats a key.
    """

    repeated: str | None = None

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        document = dict(pairs)
        has_repeated = len(document) != len(pairs)
        self.repeated = _first_repeated(pairs) if has_repeated else None
        return document


def _first_repeated(pairs: list[tuple[str, Any]]) -> str | None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return key
        seen.add(key)
    return None


def _refuse(token: str) -> NoReturn:
    raise Unreadable(f"{token} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise Unreadable(f"the number {digits[:20]} is too large")
    return number


def _integer(digits: str) -> int:
    if len(digits) > 308:
        _finite(digits)
    return int(digits)


def _depth(text: str) -> int:
    """Return how deeply brackets nest in `text`, which must be valid JSON.

    Return 0 if there are too few to reach the limit.
    """
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return 0
    deepest = depth = 0
    for match in re.finditer(_BRACKET_OR_STRING, text, re.DOTALL):
        token = match[0]
        if token in ("{", "["):
            depth += 1
            deepest = max(deepest, depth)
        elif token in ("}", "]"):
            depth -= 1
    return deepest
