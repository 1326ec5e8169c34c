"""What a review is worth: counts against the known defects, rates with their Wilson intervals (council §21). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import reduce
from math import sqrt
from operator import add
from typing import Final, Self

from bench.council_corpus import Project
from bench.council_simulation import Finding, Review
from bench.simulated import Site
from bridgehead.contract.verdict import Counted, decide_verdict
from bridgehead.contract.words import Severity, Status, TaskType, Verdict, severity_rank

Z_95: Final = 1.959964


@dataclass(frozen=True, slots=True)
class Rate:
    """A share of `trials`, with the interval that Wilson's score gives it (95 %)."""

    hits: float
    trials: float

    @property
    def value(self) -> float:
        return self.hits / self.trials if self.trials else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        if not self.trials:
            return 0.0, 1.0
        square = Z_95**2
        middle = (self.hits + square / 2) / (self.trials + square)
        spread = sqrt(self.value * (1 - self.value) * self.trials + square / 4)
        half = Z_95 * spread / (self.trials + square)
        return max(0.0, middle - half), min(1.0, middle + half)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.value:.3f} {low:.3f}–{high:.3f}"


@dataclass(frozen=True, slots=True)
class Score:
    """Counts over any number of projects; scores add up."""

    projects: int = 0
    defects: int = 0
    found: int = 0
    """Defects that are in the report."""
    invented: int = 0
    """Look-alikes that are in the report."""
    entries: int = 0
    repeated: int = 0
    """Entries about a place that has one already."""
    mixed: int = 0
    """Entries in which findings about different places were joined."""
    misrated: int = 0
    """Found defects whose severity is not theirs."""
    judged: int = 0
    judged_right: int = 0
    lost: int = 0
    """Defects that were reported at first and withdrawn for good."""
    calls: int = 0
    characters: int = 0

    def __add__(self, other: Self) -> Self:
        return type(self)(
            *(
                getattr(self, one.name) + getattr(other, one.name)
                for one in fields(self)
            )
        )

    @property
    def recall(self) -> Rate:
        return Rate(self.found, self.defects)

    @property
    def precision(self) -> Rate:
        return Rate(self.found, self.found + self.invented)

    @property
    def f1(self) -> Rate:
        """As a share: a found defect is a hit, a missed or invented one half a miss."""
        missed = self.defects - self.found
        return Rate(self.found, self.found + (missed + self.invented) / 2)

    @property
    def severity_error(self) -> Rate:
        return Rate(self.misrated, self.found)

    @property
    def duplicates_left(self) -> Rate:
        return Rate(self.repeated, self.entries)

    @property
    def false_merges(self) -> Rate:
        return Rate(self.mixed, self.entries)

    @property
    def verdict_accuracy(self) -> Rate:
        return Rate(self.judged_right, self.judged)

    @property
    def lost_by_withdrawal(self) -> Rate:
        return Rate(self.lost, self.found + self.lost)


def total(scores: Iterable[Score]) -> Score:
    return reduce(add, scores, Score())


def score(project: Project, review: Review) -> Score:
    """Compare a review with what is known about its project."""
    by_title = {
        telling.title: site for site in project.sites for telling in site.tellings
    }
    seen = [(finding, by_title[finding.title]) for finding in review.findings]
    places = {site for _, site in seen}
    defects = {site for site in places if site.is_defect}
    gone = {
        by_title[title] for title in review.withdrawn if by_title[title].is_defect
    } - defects
    rated = _first_rating(seen)
    return Score(
        projects=1,
        defects=len(project.defects),
        found=len(defects),
        invented=len(places - defects),
        entries=len(seen),
        repeated=len(seen) - len(places),
        mixed=sum(
            len({by_title[title] for title in finding.titles}) > 1
            for finding, _ in seen
        ),
        misrated=sum(rated[site] is not site.severity for site in defects),
        judged=1,
        judged_right=_verdict(review) is deserved_verdict(project),
        lost=len(gone),
        calls=review.calls,
        characters=review.characters,
    )


def verdict_only(project: Project, review: Review) -> Score:
    """For a clean twin: whether it was judged rightly; it has no defects to find."""
    return Score(judged=1, judged_right=_verdict(review) is deserved_verdict(project))


def deserved_verdict(project: Project) -> Verdict | None:
    """The verdict of somebody who knows every defect (council §11.1)."""
    return _judge(site.severity for site in project.defects)


def _verdict(review: Review) -> Verdict | None:
    return review.verdict or _judge(finding.severity for finding in review.findings)


def _judge(severities: Iterable[Severity | None]) -> Verdict | None:
    problems = [
        Counted((f"C{n:03d}",), one, gap=False)
        for n, one in enumerate(severities, 1)
        if one
    ]
    return decide_verdict(TaskType.REVIEW, Status.COMPLETED, problems)


def _first_rating(
    seen: Iterable[tuple[Finding, Site]],
) -> Mapping[Site, Severity | None]:
    """The severity a reader meets first: that of the place's gravest entry."""
    rated: dict[Site, Severity | None] = {}
    for finding, site in sorted(seen, key=lambda one: -severity_rank(one[0].severity)):
        rated.setdefault(site, finding.severity)
    return rated
