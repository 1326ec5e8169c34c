"""The words of a text, as far as they say what it is about: stems, names from code, and how telling each of them is.

`tokens` is the plain rule of the specification (council §8); fingerprints are made of it and must not change. `stems`
is what joining compares.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from importlib import resources
from itertools import groupby
from typing import Final

STOP_WORDS: Final = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "been",
        "but",
        "by",
        "can",
        "could",
        "do",
        "does",
        "for",
        "from",
        "has",
        "have",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "may",
        "might",
        "must",
        "no",
        "not",
        "of",
        "on",
        "or",
        "should",
        "so",
        "such",
        "than",
        "that",
        "the",
        "their",
        "then",
        "there",
        "these",
        "this",
        "to",
        "was",
        "were",
        "when",
        "which",
        "while",
        "will",
        "with",
        "without",
        "would",
    ]
)

# Most findings are plain English; for those this is the same and ten times faster.
_ASCII_WORD: Final = re.compile(r"[a-z0-9]{2,}")
_RUN: Final = re.compile(r"[A-Za-z0-9_]+")
# The parts of a name from code: `userIDs_v2` is made of user, IDs, v and 2.
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_CJK_RANGES: Final = (
    (0x3005, 0x3007),
    (0x3040, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
WHOLE_NAME: Final = "="
"""Begins the entry of a whole name from code; its parts are entries of their own."""
_LONGEST_NAME: Final = 80
_SHORTEST_STEM: Final = 3
# The first ending that fits is replaced; longer ones stand before their own endings.
_ENDINGS: Final = (
    ("ational", "ate"),
    ("ization", "ize"),
    ("isation", "ize"),
    ("ations", "ate"),
    ("ation", "ate"),
    ("ators", "ate"),
    ("ator", "ate"),
    ("ements", ""),
    ("ement", ""),
    ("ments", ""),
    ("ment", ""),
    ("ingly", ""),
    ("edly", ""),
    ("ities", ""),
    ("ity", ""),
    ("ables", ""),
    ("able", ""),
    ("ibles", ""),
    ("ible", ""),
    ("ances", ""),
    ("ance", ""),
    ("ences", ""),
    ("ence", ""),
    ("ings", ""),
    ("ing", ""),
    ("ions", ""),
    ("ion", ""),
    ("ies", "y"),
    ("ied", "y"),
    ("ness", ""),
    ("sses", "ss"),
    ("ers", ""),
    ("er", ""),
    ("ors", ""),
    ("or", ""),
    ("ed", ""),
    ("ly", ""),
    ("es", ""),
    ("al", ""),
    ("ive", ""),
    ("ize", ""),
    ("ise", ""),
    ("ate", ""),
    ("s", ""),
)


def tokens(text: str) -> frozenset[str]:
    """Return the words of `text` as a set: normalised, CJK as bigrams, one-letter and stop words dropped."""
    if text.isascii():
        return frozenset(_ASCII_WORD.findall(text.lower())) - STOP_WORDS
    return frozenset(token for token in _words(text) if len(token) > 1) - STOP_WORDS


def stems(text: str) -> frozenset[str]:
    """Return what `text` speaks of: stems of its words, and names from code both whole and in parts."""
    found: set[str] = set()
    for run in _RUN.findall(text):
        found.update(_stems_of_run(run))
    if not text.isascii():
        found.update(stem(word) for word in tokens(text))
    return frozenset(found)


def surface(text: str, wanted: Iterable[str]) -> dict[str, str]:
    """Return for each wanted stem the word of `text` that it came from."""
    left = set(wanted)
    found: dict[str, str] = {}
    for run in [*_RUN.findall(text), *sorted(tokens(text))]:
        for one in _stems_of_run(run) or (stem(run),):
            if one in left:
                left.discard(one)
                found[one] = run
    return found


@lru_cache(maxsize=20_000)
def _stems_of_run(run: str) -> tuple[str, ...]:
    parts = [part.lower() for part in _PART.findall(run)]
    telling = [part for part in parts if len(part) > 1 and part not in STOP_WORDS]
    found = [stem(part) for part in telling]
    is_name = len(parts) > 1 and not run.isdigit() and len(run) <= _LONGEST_NAME
    if is_name:
        found.append(WHOLE_NAME + "".join(parts))
    return tuple(found)


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Return what `validate`, `validates`, `validated` and `validation` have in common; rough, and always the same."""
    if len(word) <= _SHORTEST_STEM or not word.isascii() or not word.isalpha():
        return word
    word = _without_ending(word)
    if len(word) > _SHORTEST_STEM and word.endswith("e"):
        word = word[:-1]
    is_doubled = len(word) > 4 and word[-1] == word[-2] and word[-1] not in "sl"
    if is_doubled:
        word = word[:-1]
    if len(word) > _SHORTEST_STEM and word.endswith("y"):
        word = word[:-1] + "i"
    if len(word) > 5 and word.endswith("at"):
        word = word[:-2]
    return word


def _without_ending(word: str) -> str:
    for ending, instead in _ENDINGS:
        if not word.endswith(ending) or len(word) - len(ending) < _SHORTEST_STEM:
            continue
        is_no_plural = ending == "s" and word.endswith(("ss", "us", "is"))
        if not is_no_plural:
            return word[: -len(ending)] + instead
    return word


class WordWeights:
    """How telling words are: the rarer among many texts, the more."""

    def __init__(self, texts: int, holding: Mapping[str, int]) -> None:
        self._most = math.log(texts + 1)
        self._weights = {
            word: math.log((texts + 1) / (count + 1)) for word, count in holding.items()
        }

    def weight(self, word: str) -> float:
        """Return the weight of a stem; one that nobody else uses weighs most."""
        return self._weights.get(word, self._most)


@cache
def background() -> WordWeights:
    """Return the weights of words in texts about programs; `python -m tools.word_weights` made the table."""
    table = resources.files(__package__).joinpath("word_weights.txt")
    lines = table.read_text("utf-8").splitlines()
    counted = [line for line in lines if not line.startswith("#")]
    texts = int(counted[0])
    holding: dict[str, int] = {}
    for line in counted[1:]:
        word, count = line.split(" ")
        holding[word] = int(count)
    return WordWeights(texts, holding)


def _words(text: str) -> set[str]:
    folded = unicodedata.normalize("NFKC", text).casefold()
    runs = (
        "".join(run)
        for is_word, run in groupby(folded, key=_is_word_character)
        if is_word
    )
    return {word for run in runs for word in _split_run(run)}


def _split_run(run: str) -> list[str]:
    pieces: list[str] = []
    for is_cjk, group in groupby(run, key=_is_cjk):
        piece = "".join(group)
        if is_cjk and len(piece) > 1:
            pieces += [piece[i : i + 2] for i in range(len(piece) - 1)]
        else:
            pieces.append(piece)
    return pieces


@lru_cache(maxsize=4096)
def _is_word_character(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"


@lru_cache(maxsize=4096)
def _is_cjk(character: str) -> bool:
    point = ord(character)
    return any(first <= point <= last for first, last in _CJK_RANGES)
