"""Which outputs describe the same problem, and who survives (council §8). Deterministic, no model takes part."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from bridgehead.contract.ids import id_sort_key
from bridgehead.contract.report import Output
from bridgehead.contract.words import OutputType, Severity, severity_rank
from bridgehead.council.file_references import NEARBY_LINES, FileReference, Relation, find_references, relate
from bridgehead.council.similarity import Wording, scores_above

ALIKE: Final = Fraction(7, 10)
ALIKE_AT_SAME_LINES: Final = Fraction(35, 100)

Prefixes = list[tuple[str, list[str]]]

_ANYWHERE: Final = "*"
_LINES_PER_SLOT: Final = 16
_WIDE_RANGE: Final = 2_000
_GAP_FAMILY: Final = frozenset({OutputType.FINDING, OutputType.COMPLIANCE_GAP})


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

    @classmethod
    def of(cls, output: Output) -> Candidate:
        requirement_id = output.requirement_id
        return cls(
            id=output.id,
            type=output.type,
            severity=output.severity,
            domain=output.domain,
            wording=Wording.of(output.title, output.description),
            references=find_references(output.evidence or ""),
            requirement_id=requirement_id if isinstance(requirement_id, str) else None,
        )

    @property
    def kind(self) -> OutputType:
        """Types that may match each other share a kind."""
        return OutputType.FINDING if self.type in _GAP_FAMILY else self.type


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
        return OutputType.COMPLIANCE_GAP if OutputType.COMPLIANCE_GAP in types else self.survivor.type


def matches(one: Candidate, other: Candidate, *, same_domain: bool) -> bool:
    """Whether two outputs describe the same problem. `same_domain`: inside a bridge domains must be equal."""
    if one.kind is not other.kind or (same_domain and one.domain != other.domain):
        return False
    if one.requirement_id and other.requirement_id and one.requirement_id != other.requirement_id:
        return False
    relation = relate(one.references, other.references)
    if relation is Relation.DIFFERENT:
        return False
    threshold = ALIKE_AT_SAME_LINES if relation is Relation.SAME_LINES else ALIKE
    return scores_above(one.wording, other.wording, threshold)


def by_severity_then_id(candidate: Candidate) -> tuple[object, ...]:
    """The clustering order inside a bridge: severity descending, then id."""
    return -severity_rank(candidate.severity), id_sort_key(candidate.id)


def cluster(
    candidates: Iterable[Candidate],
    *,
    same_domain: bool,
    order: Callable[[Candidate], tuple[object, ...]] = by_severity_then_id,
) -> list[Cluster]:
    """Join each candidate to the first cluster whose first member it matches, else open a new one (no chaining)."""
    ordered = sorted(candidates, key=order)
    leaders = _Leaders(ordered)
    groups: list[list[Candidate]] = []
    for candidate in ordered:
        prefixes = leaders.prefixes(candidate)
        near = leaders.near(candidate, prefixes)
        home = next((i for i in near if matches(groups[i][0], candidate, same_domain=same_domain)), None)
        if home is None:
            leaders.add(candidate, prefixes, len(groups))
            groups.append([candidate])
        else:
            groups[home].append(candidate)
    return [Cluster(tuple(group)) for group in groups]


@dataclass(slots=True)
class _Leaders:
    """Finds the few first members that could match, so that thousands of outputs need not be compared pairwise.

    Two outputs that both name files match only if they share one; then they are at nearby lines, or their titles or
    descriptions overlap by more than 0.70. Two sets whose Dice overlap is above t share two elements among the first
    |A| - o + 2 of each in any common order, o = floor(t|A| / (2 - t)) + 1 (a set of one: its only element); with rare
    tokens first these prefixes are short lists to look up.
    """

    ordered: Sequence[Candidate]
    _rank: dict[str, int] = field(default_factory=dict)
    """Of every token, rare ones first."""
    _index: defaultdict[tuple[object, ...], list[int]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        counts: Counter[str] = Counter()
        for candidate in self.ordered:
            counts.update(candidate.wording.title | candidate.wording.description)
        rare_first = sorted(counts, key=lambda token: (counts[token], token))
        self._rank = {token: rank for rank, token in enumerate(rare_first)}

    def near(self, candidate: Candidate, prefixes: Prefixes) -> list[int]:
        """Numbers of the clusters worth comparing with, ascending."""
        names = _file_names(candidate)
        # Without a place anybody may match; with one, those in the same file or without a place.
        homes: list[str | None] = [*names, None] if names else [_ANYWHERE]
        found: set[int] = set()
        for part, prefix in prefixes:
            hits: Counter[int] = Counter()
            for token in prefix:
                for home in homes:
                    if held := self._index.get((part, home, token)):
                        hits.update(held)
            enough = min(len(prefix), 2)
            found.update(number for number, count in hits.items() if count >= enough)
        for key in _places_wanted(candidate):
            found.update(self._index.get(key, ()))
        return sorted(found)

    def add(self, candidate: Candidate, prefixes: Prefixes, number: int) -> None:
        names: list[str | None] = [*_file_names(candidate)] or [None]
        for part, prefix in prefixes:
            for token in prefix:
                for home in (_ANYWHERE, *names):
                    self._index[part, home, token].append(number)
        for key in _places_held(candidate):
            self._index[key].append(number)

    def prefixes(self, candidate: Candidate) -> Prefixes:
        """The rare words of title and description of which a match must share two."""
        return list(self._prefixes(candidate))

    def _prefixes(self, candidate: Candidate) -> Iterator[tuple[str, list[str]]]:
        for part, words in (("title", candidate.wording.title), ("text", candidate.wording.description)):
            # A set of one matches only its equal, so it is kept apart from the others.
            name = part if len(words) > 1 else f"{part} of one"
            needed = ALIKE.numerator * len(words) // (2 * ALIKE.denominator - ALIKE.numerator) + 1
            yield name, sorted(words, key=self._rank.__getitem__)[: len(words) - needed + 2]


def _file_names(candidate: Candidate) -> list[str]:
    return list(dict.fromkeys(reference.name for reference in candidate.references))


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
    return [reference for reference in candidate.references if reference.first_line is not None]


def _is_wide(reference: FileReference) -> bool:
    return (reference.last_line or 0) - (reference.first_line or 0) > _WIDE_RANGE


def _slots(reference: FileReference, *, margin: int) -> Iterator[tuple[object, ...]]:
    first, last = (reference.first_line or 0) - margin, (reference.last_line or 0) + margin
    for slot in range(first // _LINES_PER_SLOT, last // _LINES_PER_SLOT + 1):
        yield "slot", reference.name, slot
