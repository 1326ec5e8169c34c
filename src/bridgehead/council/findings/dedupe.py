"""Which outputs describe the same problem, and which of them stays (council §8). Deterministic, no model takes
part.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import groupby
from typing import Final, NamedTuple

from bridgehead.contract.ids import id_sort_key
from bridgehead.contract.report import Output
from bridgehead.contract.words import OutputType, Severity, severity_rank
from bridgehead.council.findings.references import (
    NEARBY_LINES,
    FileReference,
    Relation,
    find_references,
    is_same_file,
    lines_apart,
    relate,
)
from bridgehead.council.findings.weaknesses import weaknesses

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
ALIKE: Final = Fraction(7, 10)
ALIKE_AT_SAME_LINES: Final = Fraction(35, 100)
ALIKE_BY_NAME: Final = Fraction(45, 100)
"""Enough when both speak of the same thing in the code by its name."""

# A name from code, as it stands in prose: with an underscore, an inner capital, or a call's brackets.
_CODE_NAME: Final = re.compile(
    r"\b(?:[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+|[a-z][a-z0-9]*[A-Z]\w*|[A-Za-z]\w{3,}(?=\(\)))(?!\w)"
)
_ANYWHERE: Final = "*"
_SHARED_WORDS: Final = 4
_LINES_PER_SLOT: Final = 16
_WIDE_RANGE: Final = 2_000
_GAP_FAMILY: Final = frozenset({OutputType.FINDING, OutputType.COMPLIANCE_GAP})


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
    runs = (
        "".join(run)
        for is_word, run in groupby(folded, key=_is_word_character)
        if is_word
    )
    return {word for run in runs for word in _split_run(run)}


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
    return (
        titled * both_described + described * both_titled
    ) * down > up * both_titled * both_described


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


@dataclass(frozen=True, slots=True)
class Candidate:
    """What matching looks at in one output."""

    id: str
    type: OutputType
    severity: Severity | None
    domain: str
    wording: Wording
    references: tuple[FileReference, ...]
    requirement_id: str | None = None
    names: frozenset[str] = frozenset()
    """What the text calls by its name in the code."""
    told: str = ""

    @classmethod
    def of(cls, output: Output) -> Candidate:
        requirement_id = output.requirement_id
        told = f"{output.title}\n{output.description}"
        return cls(
            id=output.id,
            type=output.type,
            severity=output.severity,
            domain=output.domain,
            wording=Wording.of(output.title, output.description),
            references=find_references(output.evidence or ""),
            requirement_id=requirement_id if isinstance(requirement_id, str) else None,
            names=frozenset(_CODE_NAME.findall(told)),
            told=told,
        )

    def part(self, same_domain: bool) -> tuple[str, str]:
        """Candidates of different parts never match: their types differ, or domains where those count."""
        kind = OutputType.FINDING if self.type in _GAP_FAMILY else self.type
        return kind.value, self.domain if same_domain else ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Outputs that describe one problem; the first member survives."""

    members: tuple[Candidate, ...]

    @property
    def survivor(self) -> Candidate:
        return self.members[0]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(member.id for member in self.members)

    @property
    def type(self) -> OutputType:
        """A finding merged with a compliance gap is a compliance gap."""
        types = {member.type for member in self.members}
        return (
            OutputType.COMPLIANCE_GAP
            if OutputType.COMPLIANCE_GAP in types
            else self.survivor.type
        )


def matches(one: Candidate, other: Candidate, *, same_domain: bool) -> bool:
    """Whether two outputs describe the same problem. `same_domain`: inside a seat domains must be equal."""
    return one.part(same_domain) == other.part(same_domain) and _are_alike(one, other)


def _are_alike(one: Candidate, other: Candidate) -> bool:
    """The rest of the comparison, for candidates of one part: requirement, place, text."""
    if (
        one.requirement_id
        and other.requirement_id
        and one.requirement_id != other.requirement_id
    ):
        return False
    alike = scores_above(one.wording, other.wording, ALIKE_AT_SAME_LINES)
    if not (
        alike
        or (
            _cite_the_same_lines(one, other)
            and weaknesses(one.told) & weaknesses(other.told)
        )
    ):
        return False
    relation = relate(one.references, other.references)
    if relation in (Relation.DIFFERENT, Relation.SAME_LINES):
        return relation is Relation.SAME_LINES
    threshold = ALIKE if one.names.isdisjoint(other.names) else ALIKE_BY_NAME
    return scores_above(one.wording, other.wording, threshold)


def _cite_the_same_lines(one: Candidate, other: Candidate) -> bool:
    """Whether both cite lines that overlap."""
    return any(
        is_same_file(mine.path, theirs.path)
        and lines_apart(mine.lines, theirs.lines) == 0
        for mine in one.references
        for theirs in other.references
    )


def by_severity_then_id(candidate: Candidate) -> tuple[object, ...]:
    """The clustering order inside a seat: severity descending, then id."""
    return -severity_rank(candidate.severity), id_sort_key(candidate.id)


def cluster(
    candidates: Iterable[Candidate],
    *,
    same_domain: bool,
    order: Callable[[Candidate], tuple[object, ...]] = by_severity_then_id,
) -> list[Cluster]:
    """Join each candidate to the first cluster whose first member it matches, else open a new one (no chaining)."""
    ordered = sorted(candidates, key=order)
    words = _RareWords(ordered)
    leaders: defaultdict[tuple[str, str], _Leaders] = defaultdict(_Leaders)
    groups: list[list[Candidate]] = []
    for candidate in ordered:
        mine = leaders[candidate.part(same_domain)]
        traits = words.traits(candidate)
        home = next(
            (i for i in mine.near(traits) if _are_alike(groups[i][0], candidate)), None
        )
        if home is None:
            mine.add(traits, len(groups))
            groups.append([candidate])
        else:
            groups[home].append(candidate)
    return [Cluster(tuple(group)) for group in groups]


class _Prefix(NamedTuple):
    """The ranks of the rare words of a text, and how many of them a match must share."""

    text: str
    ranks: list[int]
    enough: int


class _Traits(NamedTuple):
    """What a candidate is looked up and kept under: its files, its lines, and the rare words of its texts."""

    candidate: Candidate
    names: list[str]
    prefixes: list[_Prefix]


class _RareWords:
    """Chooses the words by which candidates are found.

    Sets A and B whose Dice overlap is above t share at least o = floor(t|A| / (2 - t)) + 1 elements, and for every
    k <= o at least k of them are among the first |A| - o + k of A and likewise of B, in any common order. With rare
    tokens first these prefixes lead to few candidates.
    """

    def __init__(self, candidates: Iterable[Candidate]) -> None:
        counts: Counter[str] = Counter()
        for candidate in candidates:
            counts.update(candidate.wording.title | candidate.wording.description)
        rare_first = sorted(counts, key=lambda token: (counts[token], token))
        self._rank = {token: rank for rank, token in enumerate(rare_first)}

    def traits(self, candidate: Candidate) -> _Traits:
        wording = candidate.wording
        names = list(
            dict.fromkeys(reference.name for reference in candidate.references)
        )
        prefixes = [
            self._prefix("title", wording.title),
            self._prefix("text", wording.description),
        ]
        return _Traits(candidate, names, prefixes)

    def _prefix(self, text: str, words: frozenset[str]) -> _Prefix:
        needed = (
            ALIKE.numerator * len(words) // (2 * ALIKE.denominator - ALIKE.numerator)
            + 1
        )
        enough = min(needed, _SHARED_WORDS)
        ranks = sorted(map(self._rank.__getitem__, words))[
            : len(words) - needed + enough
        ]
        # A set of one matches only its equal, so it is kept apart from the others.
        return _Prefix(text if len(words) > 1 else f"{text} of one", ranks, enough)


class _Leaders:
    """Finds the few first members that could match, so that thousands of outputs need not be compared pairwise.

    Two outputs that both name files match only if they share one; then they are at nearby lines, or speak of one name
    from the code, or their titles or descriptions overlap by more than 0.70.
    """

    def __init__(self) -> None:
        self._by_word: defaultdict[tuple[str, str | None], defaultdict[int, list[int]]]
        self._by_word = defaultdict(lambda: defaultdict(list))
        self._by_place: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)

    def near(self, traits: _Traits) -> list[int]:
        """Numbers of the clusters worth comparing with, ascending."""
        # Without a place anybody may match; with one, those in the same file or without a place.
        homes: list[str | None] = [*traits.names, None] if traits.names else [_ANYWHERE]
        found: set[int] = set()
        for prefix in traits.prefixes:
            held = [
                words
                for home in homes
                if (words := self._by_word.get((prefix.text, home)))
            ]
            found.update(_sharing(prefix, held))
        for key in (
            *_places_wanted(traits.candidate),
            *(("name", name) for name in traits.candidate.names),
        ):
            found.update(self._by_place.get(key, ()))
        return sorted(found)

    def add(self, traits: _Traits, number: int) -> None:
        homes: list[str | None] = (
            [_ANYWHERE, *traits.names] if traits.names else [_ANYWHERE, None]
        )
        for prefix in traits.prefixes:
            for home in homes:
                words = self._by_word[prefix.text, home]
                for rank in prefix.ranks:
                    words[rank].append(number)
        for key in (
            *_places_held(traits.candidate),
            *(("name", name) for name in traits.candidate.names),
        ):
            self._by_place[key].append(number)


def _sharing(
    prefix: _Prefix, held: Sequence[Mapping[int, Sequence[int]]]
) -> Iterable[int]:
    """Who is held under enough words of the prefix."""
    numbers = [
        number
        for words in held
        for rank in prefix.ranks
        for number in words.get(rank, ())
    ]
    return [
        number for number, count in Counter(numbers).items() if count >= prefix.enough
    ]


def _places_held(candidate: Candidate) -> Iterator[tuple[object, ...]]:
    """Keys under which a candidate's lines are found; a range as long as a file is kept apart."""
    for reference in _with_lines(candidate):
        yield "lined", reference.name
        if _is_wide(reference):
            yield "wide", reference.name
        else:
            yield from _slots(reference, margin=0)


def _places_wanted(candidate: Candidate) -> Iterator[tuple[object, ...]]:
    """Keys under which candidates at nearby lines are held."""
    for reference in _with_lines(candidate):
        if _is_wide(reference):
            yield "lined", reference.name
        else:
            yield "wide", reference.name
            yield from _slots(reference, margin=NEARBY_LINES)


def _with_lines(candidate: Candidate) -> list[FileReference]:
    return [
        reference
        for reference in candidate.references
        if reference.first_line is not None
    ]


def _is_wide(reference: FileReference) -> bool:
    return (reference.last_line or 0) - (reference.first_line or 0) > _WIDE_RANGE


def _slots(reference: FileReference, *, margin: int) -> Iterator[tuple[object, ...]]:
    first, last = (
        (reference.first_line or 0) - margin,
        (reference.last_line or 0) + margin,
    )
    for slot in range(first // _LINES_PER_SLOT, last // _LINES_PER_SLOT + 1):
        yield "slot", reference.name, slot
