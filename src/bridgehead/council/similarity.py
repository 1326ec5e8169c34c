"""How alike two worded findings are: tokens, Dice overlap, exact comparison (council §8). No model takes part."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import groupby
from typing import Final

STOP_WORDS: Final = frozenset(
    "a an and are as at be been but by can could do does for from has have if in into is it its may might must no not "
    "of on or should so such than that the their then there these this to was were when which while will with without "
    "would".split()
)

# Most findings are plain English; for those this is the same and ten times faster.
_ASCII_WORD: Final = re.compile(r"[a-z0-9]{2,}")
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


@dataclass(frozen=True, slots=True)
class Wording:
    """The token sets that similarity is measured on."""

    title: frozenset[str]
    description: frozenset[str]

    @classmethod
    def of(cls, title: str, description: str) -> Wording:
        return cls(tokens(title), tokens(description))


def tokens(text: str) -> frozenset[str]:
    """The words of `text` as a set: normalised, CJK as bigrams, one-letter and stop words dropped."""
    if text.isascii():
        return frozenset(_ASCII_WORD.findall(text.lower())) - STOP_WORDS
    return frozenset(token for token in _words(text) if len(token) > 1) - STOP_WORDS


def _words(text: str) -> set[str]:
    folded = unicodedata.normalize("NFKC", text).casefold()
    found: set[str] = set()
    for is_word, run in groupby(folded, key=_is_word_character):
        if is_word:
            found.update(_split_run("".join(run)))
    return found


def text_score(one: Wording, other: Wording) -> Fraction:
    """The larger of description overlap and the mean of title and description overlap, exact."""
    description = dice(one.description, other.description)
    return max(description, (dice(one.title, other.title) + description) / 2)


def scores_above(one: Wording, other: Wording, threshold: Fraction) -> bool:
    """Whether `text_score` is strictly above `threshold`; whole-number arithmetic, because this is the hot path."""
    up, down = threshold.numerator, threshold.denominator
    described, both_described = _overlap(one.description, other.description)
    if 2 * described * down > up * both_described:
        return True
    titled, both_titled = _overlap(one.title, other.title)
    # The mean of both overlaps is t/T + d/D; an empty side shares nothing, so its total may be read as one.
    both_titled, both_described = both_titled or 1, both_described or 1
    return (titled * both_described + described * both_titled) * down > up * both_titled * both_described


def dice(one: frozenset[str], other: frozenset[str]) -> Fraction:
    """Overlap of two token sets, 0 to 1; 0 if either is empty."""
    if not one or not other:
        return Fraction(0)
    return Fraction(2 * len(one & other), len(one) + len(other))


def _overlap(one: frozenset[str], other: frozenset[str]) -> tuple[int, int]:
    return len(one & other), len(one) + len(other)


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
