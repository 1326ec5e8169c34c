"""Which outputs describe the same problem, and who survives (council §8). Deterministic, no model takes part."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from bridgehead.contract.ids import id_sort_key
from bridgehead.contract.report import Output
from bridgehead.contract.words import OutputType, Severity, severity_rank
from bridgehead.council.file_references import FileReference, Relation, find_references, relate
from bridgehead.council.similarity import Wording, scores_above

ALIKE: Final = Fraction(7, 10)
ALIKE_AT_SAME_LINES: Final = Fraction(35, 100)

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
        home = next(
            (i for i in leaders.near(candidate) if matches(groups[i][0], candidate, same_domain=same_domain)),
            None,
        )
        if home is None:
            leaders.add(candidate, len(groups))
            groups.append([candidate])
        else:
            groups[home].append(candidate)
    return [Cluster(tuple(group)) for group in groups]


@dataclass(slots=True)
class _Leaders:
    """Finds the few first members that could match, so that thousands of outputs need not be compared pairwise.

    A match needs more than 0.70 in title or description, or nearby lines of one file. Two sets whose Dice overlap is
    above t share an element among the first |A| - o + 1 of each in any common order, o = floor(t|A| / (2 - t)) + 1;
    with rare tokens first these prefixes are short lists to look up.
    """

    ordered: Sequence[Candidate]
    _rarity: Counter[str] = field(default_factory=Counter)
    _by_token: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    _by_file: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for candidate in self.ordered:
            self._rarity.update(candidate.wording.title | candidate.wording.description)

    def near(self, candidate: Candidate) -> list[int]:
        """Numbers of the clusters worth comparing with, ascending."""
        found: set[int] = set()
        for token in self._keys(candidate):
            found.update(self._by_token.get(token, ()))
        for name in {reference.name for reference in candidate.references}:
            found.update(self._by_file.get(name, ()))
        return sorted(found)

    def add(self, candidate: Candidate, number: int) -> None:
        for token in self._keys(candidate):
            self._by_token[token].append(number)
        for name in {reference.name for reference in candidate.references}:
            self._by_file[name].append(number)

    def _keys(self, candidate: Candidate) -> set[str]:
        return self._prefix(candidate.wording.title) | self._prefix(candidate.wording.description)

    def _prefix(self, words: frozenset[str]) -> set[str]:
        needed = ALIKE.numerator * len(words) // (2 * ALIKE.denominator - ALIKE.numerator) + 1
        rare_first = sorted(words, key=lambda word: (self._rarity[word], word))
        return set(rare_first[: len(words) - needed + 1])
