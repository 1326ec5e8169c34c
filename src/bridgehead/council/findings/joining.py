"""Which comments speak of one problem (council §8). Deterministic, no model takes part.

Two comments are compared by the words they share. A word counts the more, the rarer it is in texts about programs and
in the report at hand; what any two comments of the report share anyway is taken off. Places and kinds of weakness raise
or lower the result. Groups grow while the mean over all their pairs stays high enough, so nothing is chained.

The numbers were chosen on the comments of real reviewers that `python -m bench real` reads.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

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
from bridgehead.council.findings.wording import (
    WordWeights,
    background,
    stems,
    surface,
)

ENOUGH: Final = 0.11
"""The mean likeness above which two groups are one."""
TAKEN_OFF: Final = 0.3
"""How much of each comment's usual likeness is taken off."""
USUAL: Final = 0.1
USUAL_COUNTS_AS: Final = 10
"""In a small report the usual likeness is mostly this guess: it counts as so many comments."""
LEAST_USUAL: Final = 0.05
SAME_LINES: Final = 0.08
OTHER_LINES: Final = -0.4
SAME_WEAKNESS: Final = 0.05
OTHER_WEAKNESS: Final = -0.4
UNRELATED: Final = -0.05
"""The likeness of comments that share neither a telling word nor a place."""
FEWEST_SHARED: Final = 2
"""One word in common is no agreement; a name from code is several: the whole and its parts."""
TELLING_WORDS: Final = 18
MOST_HOLDERS: Final = 60
"""A word that more comments of a report hold says nothing about any two of them."""

# `ruff (B006, CWE-78): ` before what an analyser says: its name is in all its messages and tells nothing.
_ANALYSER: Final = re.compile(r"^[\w-]+ \([\w-]+(?:, CWE-\d+)*\): ", re.MULTILINE)
_REPORT_TEXTS: Final = 20
_REPORT_HOLDERS: Final = 2
"""What is added to the counts of a report, so that two comments do not make a statistic."""
_LINES_PER_SLOT: Final = 16
_WIDE_RANGE: Final = 2_000
_DIGITS: Final = 6
"""Likeness is rounded, so that no machine's last digit decides."""
_MOST_WORDS_SHOWN: Final = 5
_GAP_FAMILY: Final = frozenset({OutputType.FINDING, OutputType.COMPLIANCE_GAP})


@dataclass(frozen=True, slots=True)
class Comment:
    """What joining looks at in one output."""

    id: str
    type: OutputType
    severity: Severity | None
    domain: str
    text: str
    references: tuple[FileReference, ...] = ()
    requirement_id: str | None = None
    words: frozenset[str] = field(default=frozenset(), compare=False)

    @classmethod
    def of(cls, output: Output) -> Comment:
        requirement_id = output.requirement_id
        text = f"{output.title}\n{output.description}"
        return cls(
            id=output.id,
            type=output.type,
            severity=output.severity,
            domain=output.domain,
            text=text,
            references=find_references(output.evidence or ""),
            requirement_id=requirement_id if isinstance(requirement_id, str) else None,
            words=stems(_ANALYSER.sub("", text)),
        )

    @classmethod
    def of_text(cls, id: str, type: OutputType, text: str) -> Comment:
        """Return a comment of which nothing is known but its words."""
        return cls(
            id=id, type=type, severity=None, domain="", text=text, words=stems(text)
        )

    def part(self, same_domain: bool) -> tuple[str, str]:
        """Return its part of a report; comments of different parts are never joined."""
        kind = OutputType.FINDING if self.type in _GAP_FAMILY else self.type
        return kind.value, self.domain if same_domain else ""


@dataclass(frozen=True, slots=True)
class Problem:
    """Comments that describe one problem; the first one survives."""

    members: tuple[Comment, ...]

    @property
    def survivor(self) -> Comment:
        return self.members[0]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(member.id for member in self.members)

    @property
    def type(self) -> OutputType:
        """A finding joined with a compliance gap is a compliance gap."""
        types = {member.type for member in self.members}
        if OutputType.COMPLIANCE_GAP in types:
            return OutputType.COMPLIANCE_GAP
        return self.survivor.type


@dataclass(frozen=True, slots=True)
class Likeness:
    """How alike two comments are, and what makes them so."""

    value: float
    words: tuple[str, ...]
    relation: Relation
    weaknesses: frozenset[str]


Order = Callable[[Comment], tuple[object, ...]]
Pair = frozenset[str]
"""The ids of two comments."""


def by_severity_then_id(comment: Comment) -> tuple[object, ...]:
    """Return the order inside a seat: severity descending, then id."""
    return -severity_rank(comment.severity), id_sort_key(comment.id)


def join(
    comments: Iterable[Comment],
    weights: WordWeights | None = None,
    *,
    same_domain: bool,
    order: Order = by_severity_then_id,
    said_same: Iterable[Pair] = (),
    kept_apart: Iterable[Pair] = (),
) -> list[Problem]:
    """Return the problems that the comments describe, each with its comments in `order`.

    `said_same` are pairs that somebody called the same problem; `kept_apart` are pairs that a person split.
    """
    ordered = sorted(comments, key=order)
    report = _Report(ordered, weights or background())
    groups = _Groups(
        report,
        same_domain=same_domain,
        said_same=frozenset(said_same),
        kept_apart=frozenset(kept_apart),
    )
    return [
        Problem(tuple(ordered[place] for place in group)) for group in groups.joined()
    ]


def is_same_problem(one: Comment, other: Comment, *, same_domain: bool) -> bool:
    """Return whether two comments describe one problem when there is nothing else to compare them with."""
    return len(join([one, other], same_domain=same_domain)) == 1


def likeness(one: Comment, other: Comment) -> Likeness:
    """Return how alike two comments are, with the words they share, the most telling first."""
    report = _Report([one, other], background())
    weights = report.vectors[0]
    shared = sorted(one.words & other.words, key=lambda word: (-weights[word], word))
    written = surface(one.text, shared)
    names = dict.fromkeys(written[word] for word in shared if word in written)
    return Likeness(
        value=report.cosine(0, 1),
        words=tuple(names)[:_MOST_WORDS_SHOWN],
        relation=relate(one.references, other.references),
        weaknesses=weaknesses(one.text) & weaknesses(other.text),
    )


class Texts:
    """Bare texts and how alike they are, for those who know the places already."""

    def __init__(self) -> None:
        self._known: dict[str, Comment] = {}

    def likeness(self, one: str, other: str) -> float:
        """Return how alike the words of two texts are, 0 to 1."""
        return self._report(one, other).cosine(0, 1)

    def are_one(self, one: str, other: str, lines_between: float) -> bool:
        """Return whether two texts about one file describe one problem; `lines_between` is infinite if unknown."""
        by_place = 0.0
        if lines_between <= NEARBY_LINES:
            by_place = SAME_LINES
        elif math.isfinite(lines_between):
            by_place = OTHER_LINES
        return self._report(one, other).score(0, 1) + by_place > ENOUGH

    def _report(self, *texts: str) -> _Report:
        for text in texts:
            if text not in self._known:
                self._known[text] = Comment.of_text(text, OutputType.FINDING, text)
        return _Report([self._known[text] for text in texts], background())


class _Report:
    """The comments of one report as weighted words."""

    def __init__(self, comments: Sequence[Comment], weights: WordWeights) -> None:
        self.comments = comments
        self.holders = Counter(word for one in comments for word in one.words)
        self._weight = {
            word: self._weight_here(weights.weight(word), count)
            for word, count in self.holders.items()
        }
        self.vectors = [self._vector(one.words) for one in comments]
        self.files = [
            tuple(dict.fromkeys(reference.name for reference in one.references))
            for one in comments
        ]
        self._usual = self._usual_likeness()

    def _weight_here(self, weight: float, holders: int) -> float:
        """Return a word's weight: its rarity in general, times its rarity here."""
        texts = len(self.comments) + _REPORT_TEXTS
        return math.sqrt(weight * math.log(1 + texts / (holders + _REPORT_HOLDERS)))

    def _vector(self, words: frozenset[str]) -> dict[str, float]:
        """Return the words with their weights, scaled to the length of one."""
        weights = {word: self._weight[word] for word in words}
        length = math.hypot(*weights.values())
        return {word: weight / length for word, weight in weights.items()}

    def _usual_likeness(self) -> list[float]:
        """Return for each comment its mean likeness to the others, at least a little."""
        total: defaultdict[str, float] = defaultdict(float)
        for vector in self.vectors:
            for word, weight in vector.items():
                total[word] += weight
        others = len(self.comments) - 1
        usual: list[float] = []
        for vector in self.vectors:
            itself = 1.0 if vector else 0.0
            with_all = sum([weight * total[word] for word, weight in vector.items()])
            with_others = with_all - itself
            mean = (with_others + USUAL * USUAL_COUNTS_AS) / (others + USUAL_COUNTS_AS)
            usual.append(max(LEAST_USUAL, mean))
        return usual

    def cosine(self, one: int, other: int) -> float:
        """Return the share of weighted words that two comments have in common, 0 to 1."""
        shared = self.comments[one].words & self.comments[other].words
        return self._weight_of(shared, one, other)

    def _weight_of(self, shared: frozenset[str], one: int, other: int) -> float:
        first = self.vectors[one]
        second = self.vectors[other]
        return round(sum([first[word] * second[word] for word in shared]), _DIGITS)

    def score(self, one: int, other: int) -> float:
        """Return how much more alike two comments are than is usual here; places and weaknesses included."""
        first = self.comments[one]
        second = self.comments[other]
        shared = first.words & second.words
        score = UNRELATED
        if len(shared) >= FEWEST_SHARED or first.words == second.words:
            usual = self._usual[one] + self._usual[other]
            score = self._weight_of(shared, one, other) - TAKEN_OFF * usual
        by_place = _by_place(first, second)
        score += by_place
        # The kind of weakness is asked only where it can decide; it is the slowest of all.
        is_in_doubt = ENOUGH - SAME_WEAKNESS < score <= ENOUGH - OTHER_WEAKNESS
        if is_in_doubt and by_place >= 0:
            score += _by_weakness(first, second)
        if by_place > 0 >= score - ENOUGH and _name_one_weakness_at_one_place(
            first, second
        ):
            score = 1.0
        return round(score, _DIGITS)

    def telling_words(self, place: int) -> list[str]:
        """Return the words that a comment is found by."""
        vector = self.vectors[place]
        ranked = sorted([(-weight, word) for word, weight in vector.items()])
        words = [word for _, word in ranked[:TELLING_WORDS]]
        return [word for word in words if 1 < self.holders[word] <= MOST_HOLDERS]


def _by_place(one: Comment, other: Comment) -> float:
    relation = relate(one.references, other.references)
    if relation is Relation.SAME_LINES:
        return SAME_LINES
    if relation is Relation.SAME_FILE and _all_have_lines(one, other):
        return OTHER_LINES
    return 0.0


def _by_weakness(one: Comment, other: Comment) -> float:
    mine = weaknesses(one.text)
    theirs = weaknesses(other.text)
    if not mine or not theirs:
        return 0.0
    return OTHER_WEAKNESS if mine.isdisjoint(theirs) else SAME_WEAKNESS


def _all_have_lines(one: Comment, other: Comment) -> bool:
    references = (*one.references, *other.references)
    return all(reference.first_line is not None for reference in references)


def _cannot_be_one(one: Comment, other: Comment) -> bool:
    """Return whether two comments are about different requirements or different files."""
    if (
        one.requirement_id
        and other.requirement_id
        and one.requirement_id != other.requirement_id
    ):
        return True
    return relate(one.references, other.references) is Relation.DIFFERENT


def _name_one_weakness_at_one_place(one: Comment, other: Comment) -> bool:
    """Return whether both cite lines that overlap and name the same kind of weakness; no other words are needed."""
    overlaps = any(
        is_same_file(mine.path, theirs.path)
        and lines_apart(mine.lines, theirs.lines) == 0
        for mine in one.references
        for theirs in other.references
    )
    return overlaps and not weaknesses(one.text).isdisjoint(weaknesses(other.text))


@dataclass(slots=True)
class _Link:
    """The sum of likeness over the pairs between two groups that were compared."""

    total: float = 0.0
    pairs: int = 0

    def add(self, other: _Link) -> None:
        self.total += other.total
        self.pairs += other.pairs

    def mean(self, pairs: int) -> float:
        """Return the mean over all pairs between the groups."""
        unrelated = (pairs - self.pairs) * UNRELATED
        return (self.total + unrelated) / pairs


class _Groups:
    """Groups of comments that grow: the two most alike are joined first, by the mean over all pairs between them."""

    def __init__(
        self,
        report: _Report,
        *,
        same_domain: bool,
        said_same: frozenset[Pair],
        kept_apart: frozenset[Pair],
    ) -> None:
        self._report = report
        self._said_same = said_same
        self._kept_apart = kept_apart
        self._members = {place: [place] for place in range(len(report.comments))}
        self._links: dict[int, dict[int, _Link]] = {
            place: {} for place in self._members
        }
        for one, other in self._pairs_to_compare(same_domain):
            link = _Link(self._score(one, other), 1)
            self._links[one][other] = link
            self._links[other][one] = link

    def joined(self) -> list[list[int]]:
        """Return the groups, ordered by their first members."""
        waiting = [
            (-link.total, one, other)
            for one, links in self._links.items()
            for other, link in links.items()
            if one < other and link.total > ENOUGH
        ]
        heapq.heapify(waiting)
        while waiting:
            negative, one, other = heapq.heappop(waiting)
            if self._mean(one, other) != -negative:
                continue  # one of them has changed since
            if self._must_stay_apart(one, other):
                del self._links[one][other]
                del self._links[other][one]
                continue
            self._join(one, other)
            for near in self._links[one]:
                mean = self._mean(one, near)
                if mean is not None and mean > ENOUGH:
                    heapq.heappush(waiting, (-mean, min(one, near), max(one, near)))
        return [sorted(members) for _, members in sorted(self._members.items())]

    def _mean(self, one: int, other: int) -> float | None:
        """Return the mean likeness between two groups, or None if there is none between them any more."""
        link = self._links.get(one, {}).get(other)
        if link is None:
            return None
        return link.mean(len(self._members[one]) * len(self._members[other]))

    def _join(self, one: int, other: int) -> None:
        """Put the members of `other` into `one`, which stands before it."""
        mine = self._links[one]
        theirs = self._links.pop(other)
        del mine[other]
        del theirs[one]
        for near, link in theirs.items():
            del self._links[near][other]
            if near in mine:
                mine[near].add(link)
            else:
                mine[near] = link
                self._links[near][one] = link
        self._members[one] += self._members.pop(other)

    def _must_stay_apart(self, one: int, other: int) -> bool:
        comments = self._report.comments
        for first in self._members[one]:
            for second in self._members[other]:
                pair = frozenset({comments[first].id, comments[second].id})
                if pair in self._kept_apart:
                    return True
                if pair not in self._said_same and _cannot_be_one(
                    comments[first], comments[second]
                ):
                    return True
        return False

    def _score(self, one: int, other: int) -> float:
        first = self._report.comments[one]
        second = self._report.comments[other]
        if self._said_same and frozenset({first.id, second.id}) in self._said_same:
            return 1.0
        return self._report.score(one, other)

    def _pairs_to_compare(self, same_domain: bool) -> list[tuple[int, int]]:
        """Return the pairs that share a telling word or lie near each other, the smaller number first."""
        by_trait: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        for place, comment in enumerate(self._report.comments):
            part = comment.part(same_domain)
            for word in self._report.telling_words(place):
                by_trait[part, word].append(place)
            for slot in set(_slots(comment)):
                by_trait[part, slot].append(place)
        pairs: set[tuple[int, int]] = set(self._places_said_same())
        for places in by_trait.values():
            if len(places) > 1:
                pairs.update(self._pairs_among(places))
        return sorted(pairs)

    def _pairs_among(self, places: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield the pairs of comments that may be about one file; `places` ascend."""
        without_file: list[int] = []
        by_file: defaultdict[str, list[int]] = defaultdict(list)
        for place in places:
            files = self._report.files[place]
            if not files:
                without_file.append(place)
            for name in files:
                by_file[name].append(place)
        for together in by_file.values():
            yield from combinations(together, 2)
        for place in without_file:
            for other in places:
                if other != place:
                    yield min(place, other), max(place, other)

    def _places_said_same(self) -> Iterator[tuple[int, int]]:
        number = {one.id: place for place, one in enumerate(self._report.comments)}
        for pair in self._said_same:
            if len(pair) == 2 and pair <= number.keys():
                first, second = sorted(number[name] for name in pair)
                yield first, second


def _slots(comment: Comment) -> Iterator[tuple[str, str, int]]:
    """Yield keys of which nearby comments share one; a range as long as a file is no place."""
    for reference in comment.references:
        if reference.first_line is None or reference.last_line is None:
            continue
        if reference.last_line - reference.first_line > _WIDE_RANGE:
            continue
        first = reference.first_line - NEARBY_LINES
        last = reference.last_line + NEARBY_LINES
        for slot in range(first // _LINES_PER_SLOT, last // _LINES_PER_SLOT + 1):
            yield "lines", reference.name, slot
