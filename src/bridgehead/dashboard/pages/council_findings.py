"""Findings of a report as the council page shows them: ordered, filtered by what the address asks, with their story."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from bridgehead.assembly.council.views import FindingText
from bridgehead.contract.words import Severity
from bridgehead.council.reporting.render.sentences import challenged
from bridgehead.dashboard.excerpts import Excerpt, Excerpts

PAGE_LENGTH: Final = 50
_RANK: Final = {severity.value: severity.rank for severity in Severity}

FindingStory = tuple[str, str]
"""Who, and what was said."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What the address limits the findings to; an empty text admits all."""

    severity: str = ""
    seat: str = ""
    domain: str = ""
    state: str = ""
    start: int = 0

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Filter:
        start = query.get("start", "")
        return cls(
            severity=query.get("severity", "").strip(),
            seat=query.get("seat", "").strip(),
            domain=query.get("domain", "").strip(),
            state=query.get("state", "").strip(),
            start=int(start) if start.isascii() and start.isdecimal() and len(start) < 7 else 0,
        )

    @property
    def is_set(self) -> bool:
        return bool(self.severity or self.seat or self.domain or self.state)

    def admits(self, text: FindingText) -> bool:
        finding = text.finding
        return (
            (not self.severity or severity_of(finding) == self.severity)
            and (not self.seat or self.seat in seats_of(finding))
            and (not self.domain or self.domain in finding["domains"])
            and (not self.state or self.state in states_of(text))
        )

    def query(self, start: int) -> str:
        given = {
            "severity": self.severity,
            "seat": self.seat,
            "domain": self.domain,
            "state": self.state,
            "start": start,
        }
        return urlencode({name: value for name, value in given.items() if value})


@dataclass(frozen=True, slots=True)
class Choices:
    """What can be chosen in the filter: only what occurs."""

    severities: tuple[str, ...]
    seats: tuple[str, ...]
    domains: tuple[str, ...]
    states: tuple[str, ...]

    @classmethod
    def among(cls, findings: Sequence[FindingText]) -> Choices:
        severities = {severity_of(text.finding) for text in findings}
        return cls(
            tuple(sorted(severities, key=lambda name: -_RANK.get(name, 0))),
            _sorted(seat for text in findings for seat in seats_of(text.finding)),
            _sorted(domain for text in findings for domain in text.finding["domains"]),
            _sorted(state for text in findings for state in states_of(text)),
        )


@dataclass(frozen=True, slots=True)
class ShownFinding:
    """One finding of the page."""

    text: FindingText
    severity: str
    place: str
    seats: tuple[str, ...]
    states: tuple[str, ...]
    standing: str
    excerpt: Excerpt | None
    story: tuple[FindingStory, ...]
    earlier_id: str | None
    """Its name in the run before, where it was found already."""

    @property
    def finding(self) -> dict[str, Any]:
        return self.text.finding


def shown(
    text: FindingText, excerpts: Excerpts, earlier: Mapping[str, str], dismissed_now: frozenset[str]
) -> ShownFinding:
    """`earlier` names the findings of the run before by fingerprint, `dismissed_now` those dismissed since."""
    finding = text.finding
    known = [earlier[print_] for print_ in finding["fingerprints"] if print_ in earlier]
    since = ("dismissed",) if finding["fingerprint"] in dismissed_now and not text.dismissed else ()
    return ShownFinding(
        text,
        severity_of(finding),
        place_of(finding),
        seats_of(finding),
        (*states_of(text), *since),
        standing_of(finding),
        excerpts.of(finding),
        tuple(story_of(finding)),
        known[0] if known else None,
    )


def uncompared(text: FindingText) -> FindingText:
    """A finding of a run that was compared with none: that it is new says nothing."""
    return msgspec.structs.replace(text, finding={**text.finding, "state": None})


def ordered(findings: Iterable[FindingText]) -> list[FindingText]:
    """What stands before what was dismissed, the gravest first, then what most seats say."""
    return sorted(
        findings,
        key=lambda text: (
            text.dismissed is not None,
            text.untouched,
            -_RANK.get(severity_of(text.finding), 0),
            -len(text.finding["confirmed_by"]),
        ),
    )


def severity_of(finding: Mapping[str, Any]) -> str:
    return str(finding["severity"] or "unrated")


def seats_of(finding: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(source["bridge"]) for source in finding["source_findings"]))


def states_of(text: FindingText) -> tuple[str, ...]:
    """Words a person filters by: against the run before, disputed, dismissed."""
    finding = text.finding
    said = {
        "disputed": finding["class"] == "disputed",
        "unanswered": finding.get("unanswered"),
        "untouched lines": text.untouched,
        "dismissed": text.dismissed,
    }
    return tuple(filter(None, [finding.get("state"), *(word for word, holds in said.items() if holds)]))


def place_of(finding: Mapping[str, Any]) -> str:
    anchor = finding.get("anchor")
    if anchor:
        first, last = anchor["lines"]
        return f"{anchor['path']}:{first}" + ("" if first == last else f"-{last}")
    references = (finding.get("evidence_check") or {}).get("references") or ()
    return str(references[0]["path"]) if references else ""


def standing_of(finding: Mapping[str, Any]) -> str:
    """Who confirmed it, in which of the three ways (council Q4), and what it went through."""
    confirmation = finding["confirmation"]
    facts = [
        "confirmed by another model" if confirmation["model"] else None,
        "confirmed by another runtime" if confirmation["runtime"] else None,
        "quoted text found in the file" if confirmation["evidence"] else None,
        f"evidence not found ({finding['evidence_check'].get('reason')})"
        if (finding.get("evidence_check") or {}).get("outcome") == "failed"
        else None,
        challenged(
            finding["challenges"],
            finding.get("unanswered", 0),
            disputed=bool(finding["positions"] or finding["disputed_in"] or finding["class"] == "disputed"),
            evidence=(finding.get("evidence_check") or {}).get("outcome"),
        ),
        "reported by one seat only" if len(seats_of(finding)) == 1 else None,
    ]
    return " · ".join(fact for fact in facts if fact)


def story_of(finding: Mapping[str, Any]) -> Iterable[FindingStory]:
    """The argument about a finding: who, and what."""
    for step in finding.get("record") or ():
        when = f", round {step['round']}" if step.get("round") else ""
        yield f"{step['step']} by {step['by']}{when}", step["text"]


def _sorted(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(words)))
