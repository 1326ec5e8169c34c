"""What this repository made of earlier findings, by seat and domain: acted on, or dismissed (council §25).

Acted on: the lines that a finding cites were changed, and it was gone. Dismissed: somebody wrote it into the dismissals
file. What was merely not reported again says nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from bridgehead.council.findings.history import FIXED, FindingRecord

PRIOR_COUNTS_AS: Final = 9
"""The rate that a seat is known for counts as so many findings here."""

_CHANGED: Final = frozenset({"code_changed", "file_deleted"})
SeatDomain = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Count:
    """Findings that were acted on, of those whose fate is known."""

    acted_on: int = 0
    known: int = 0

    def rate(self, prior: float) -> float:
        """Return the share to expect: the mean of a Beta distribution that starts from `prior`."""
        return (prior * PRIOR_COUNTS_AS + self.acted_on) / (
            PRIOR_COUNTS_AS + self.known
        )


@dataclass(frozen=True, slots=True)
class ActedOn:
    """The counts of a repository; none of them known changes nothing."""

    counts: Mapping[SeatDomain, Count] = field(default_factory=dict)

    def of(self, seat: str, domain: str) -> Count:
        return self.counts.get((seat, domain), Count())

    def sentences(self) -> Iterator[str]:
        """Yield a line for each seat and domain."""
        for (seat, domain), count in sorted(self.counts.items()):
            yield f"{seat}/{domain} here: {count.acted_on} of {count.known} acted on"


def acted_on(records: Iterable[FindingRecord], dismissed: Collection[str]) -> ActedOn:
    """Count what became of earlier findings; `dismissed` are the fingerprints in the dismissals file."""
    known: Counter[SeatDomain] = Counter()
    acted: Counter[SeatDomain] = Counter()
    for record in records:
        is_dismissed = not set(record.fingerprints).isdisjoint(dismissed)
        was_changed = record.state == FIXED and record.how in _CHANGED
        if not is_dismissed and not was_changed:
            continue
        for seat in record.seats:
            for domain in record.domains:
                known[seat, domain] += 1
                if not is_dismissed:
                    acted[seat, domain] += 1
    return ActedOn({key: Count(acted[key], known[key]) for key in known})
