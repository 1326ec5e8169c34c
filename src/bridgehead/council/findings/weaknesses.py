"""Which kind of weakness a text is about: by the CWE it names, or by the words people use for it.

Kinds are coarse on purpose: what one reviewer calls CWE-77 another calls CWE-78, and a third "shell injection".
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Final

import yaml

_NUMBER: Final = re.compile(r"\bCWE[- ]?(\d{1,5})\b", re.IGNORECASE)


@cache
def _kinds() -> dict[str, dict[str, Any]]:
    table = resources.files(__package__).joinpath("weaknesses.yaml").read_bytes()
    return dict(yaml.load(table, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


@cache
def _by_number() -> dict[int, str]:
    return {number: kind for kind, entry in _kinds().items() for number in entry["cwe"]}


@cache
def _words() -> dict[str, re.Pattern[str]]:
    return {kind: re.compile(entry["words"]) for kind, entry in _kinds().items()}


@lru_cache(maxsize=10_000)
def weaknesses(text: str) -> frozenset[str]:
    """The kinds of weakness a text names; numbers count before words."""
    numbers = map(int, _NUMBER.findall(text))
    numbered = frozenset(
        _by_number().get(number, f"CWE-{number}") for number in numbers
    )
    # Once for all kinds, which are in small letters: twice as fast as ignoring case.
    small = text.lower()
    return numbered or frozenset(
        kind for kind, words in _words().items() if words.search(small)
    )
