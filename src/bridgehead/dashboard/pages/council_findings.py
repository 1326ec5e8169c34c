"""Prepare the findings of a report for the council page: order, filter, excerpts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.assembly.council.views import FindingText
from bridgehead.council.reporting.render.sentences import argument, place_of, standing
from bridgehead.council.reporting.report import FindingClass, FindingEntry
from bridgehead.council.scope.resolve import read_working
from bridgehead.dashboard.page import Query
from bridgehead.dashboard.pages.council_lanes import RANKS

PAGE_LENGTH: Final = 50
AROUND: Final = 3
MOST_LINES: Final = 40
MOST_WIDTH: Final = 400


@dataclass(frozen=True)
class Filter(Query):
    """The filter in the address; an empty text admits all findings."""

    severity: str = ""
    seat: str = ""
    domain: str = ""
    state: str = ""
    start: int | None = None

    def admits(self, text: FindingText) -> bool:
        finding = text.finding
        return (
            (not self.severity or severity_of(finding) == self.severity)
            and (not self.seat or self.seat in seats_of(finding))
            and (not self.domain or self.domain in finding.domains)
            and (not self.state or self.state in states_of(text))
        )


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of the filter: only values that occur."""

    severities: tuple[str, ...]
    seats: tuple[str, ...]
    domains: tuple[str, ...]
    states: tuple[str, ...]

    @classmethod
    def among(cls, findings: Sequence[FindingText]) -> Choices:
        severities = {severity_of(text.finding) for text in findings}
        return cls(
            tuple(sorted(severities, key=lambda name: -RANKS.get(name, 0))),
            _sorted(chain.from_iterable(seats_of(text.finding) for text in findings)),
            _sorted(chain.from_iterable(text.finding.domains for text in findings)),
            _sorted(chain.from_iterable(states_of(text) for text in findings)),
        )


@dataclass(frozen=True, slots=True)
class ShownFinding:
    """A finding as the page shows it."""

    text: FindingText
    severity: str
    place: str
    states: tuple[str, ...]
    standing: str
    excerpt: Excerpt | None
    story: tuple[tuple[str, str], ...]
    """Who did what, and the words."""
    earlier_id: str | None
    """Its name in the run before, where it was found already."""

    @property
    def finding(self) -> FindingEntry:
        return self.text.finding


def shown(
    text: FindingText,
    excerpts: Excerpts,
    earlier: Mapping[str, str],
    dismissed_now: frozenset[str],
) -> ShownFinding:
    """Return a finding as the page shows it.

    `earlier` has the ids of the previous run's findings by fingerprint, and
    `dismissed_now` the fingerprints of findings dismissed since this run.
    """
    finding = text.finding
    earlier_ids = [
        earlier[fingerprint]
        for fingerprint in finding.fingerprints
        if fingerprint in earlier
    ]
    states = states_of(text)
    if finding.fingerprint in dismissed_now and not text.dismissed:
        states = (*states, "dismissed")
    return ShownFinding(
        text,
        severity_of(finding),
        place_of(finding),
        states,
        standing(finding, compared=False),
        excerpts.of(finding),
        tuple(argument(finding)),
        earlier_ids[0] if earlier_ids else None,
    )


def uncompared(text: FindingText) -> FindingText:
    """Return the finding without its state, for a run that was not compared."""
    return msgspec.structs.replace(
        text, finding=msgspec.structs.replace(text.finding, state=None)
    )


def ordered(findings: Iterable[FindingText]) -> list[FindingText]:
    """Return the findings in order: dismissed ones last, then by severity and seats."""
    return sorted(
        findings,
        key=lambda text: (
            text.dismissed is not None,
            text.untouched,
            -RANKS.get(severity_of(text.finding), 0),
            -len(text.finding.confirmed_by),
        ),
    )


def severity_of(finding: FindingEntry) -> str:
    return str(finding.severity or "unrated")


def seats_of(finding: FindingEntry) -> tuple[str, ...]:
    return tuple(dict.fromkeys(source.bridge for source in finding.source_findings))


def states_of(text: FindingText) -> tuple[str, ...]:
    """Return the states of a finding, by which the page can be filtered."""
    states = {
        "disputed": text.finding.cls is FindingClass.DISPUTED,
        "unanswered": text.finding.unanswered,
        "untouched lines": text.untouched,
        "dismissed": text.dismissed,
    }
    words = [word for word, holds in states.items() if holds]
    if text.finding.state:
        words.insert(0, text.finding.state)
    return tuple(words)


def _sorted(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(words)))


# The code a finding speaks of, as it stands in the tree now


@dataclass(frozen=True, slots=True)
class CodeLine:
    number: int
    text: str
    is_marked: bool


@dataclass(frozen=True, slots=True)
class Excerpt:
    path: str
    lines: tuple[CodeLine, ...]


class Excerpts:
    """Reads each file of one project once."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._files: dict[str, list[str] | None] = {}

    def of(self, finding: FindingEntry) -> Excerpt | None:
        """Return the lines around a finding; None if they are gone."""
        place = _place(finding)
        if place is None:
            return None
        path, first, last = place
        if path not in self._files:
            content = read_working(self._project, path)
            self._files[path] = None
            if content is not None:
                self._files[path] = content.decode("utf-8", "replace").split("\n")
        text = self._files[path]
        if text is None or not 1 <= first <= len(text):
            return None
        begin = max(1, first - AROUND)
        end = min(len(text), last + AROUND, first + MOST_LINES)
        lines = tuple(
            CodeLine(number, text[number - 1][:MOST_WIDTH], first <= number <= last)
            for number in range(begin, end + 1)
        )
        return Excerpt(path, lines)


def _place(finding: FindingEntry) -> tuple[str, int, int] | None:
    """Path and lines: the anchor, or the first line that is cited."""
    anchor = finding.anchor
    if anchor:
        first, last = anchor["lines"]
        return str(anchor["path"]), int(first), int(last)
    for reference in finding.evidence_check.get("references") or ():
        lines = reference.get("lines") or reference.get("cited")
        if lines:
            return str(reference["path"]), int(lines[0]), int(lines[1])
    return None
