"""A council report as SARIF 2.1.0, as code hosts read it (council §25.5). Nothing in it names the machine."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote

import msgspec

from bridgehead import __version__
from bridgehead.contract.ids import id_sort_key
from bridgehead.contract.words import OutputType, Severity, severity_rank
from bridgehead.council.findings.evidence import Anchor
from bridgehead.council.reporting.not_looked_at import lines_of
from bridgehead.council.reporting.report import (
    STATIC,
    CouncilReport,
    DismissedFinding,
    FindingClass,
    FindingEntry,
    anchor_of,
)
from bridgehead.council.request.domains import load_registry
from bridgehead.errors import plural

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
VERSION: Final = "2.1.0"
SOURCE_ROOT: Final = "%SRCROOT%"
MOST_RESULTS: Final = 5_000
MOST_MESSAGE: Final = 4_000
MOST_RELATED: Final = 99
MOST_TAGS: Final = 10
SECURITY_DOMAINS: Final = frozenset({"security", "cryptographic"})

_LEVEL: Final = {
    Severity.CRITICAL: "error",
    Severity.HIGH: "error",
    Severity.MEDIUM: "warning",
    Severity.LOW: "note",
    Severity.INFO: "note",
}
_SECURITY_SEVERITY: Final = {
    Severity.CRITICAL: "9.5",
    Severity.HIGH: "8.0",
    Severity.MEDIUM: "5.5",
    Severity.LOW: "2.0",
}
# How the static seat begins its descriptions, of analysers whose rules say the same each time.
_ANALYSER: Final = re.compile(
    r"(ast-grep|zizmor|secrets) \(([\w.-]+)(?:, CWE-(\d+))?\): (.+)"
)
_WHAT_TO_DO: Final = (
    "Each result says where it is and what to do. `bridgehead council show REVIEW_ID "
    "FINDING` shows the argument about "
    "it, `bridgehead council challenge FINDING` asks once more, `bridgehead council "
    "dismiss FINDING` accepts it."
)
_KINDS: Final = {
    OutputType.FINDING: "problem",
    OutputType.COMPLIANCE_GAP: "requirement that is not met",
    OutputType.RECOMMENDATION: "recommended change",
}
_UNTOUCHED: Final = (
    "on lines that the reviewed change did not touch; no verdict counts it"
)


@dataclass(frozen=True, slots=True)
class AnalyserRule:
    """The rule of an analyser behind a finding, in its own words."""

    id: str
    title: str
    help: str
    cwe: int | None


@dataclass(frozen=True, slots=True)
class Suppression:
    """Why a finding is dismissed."""

    reason: str
    author: str = ""
    date: str = ""
    expires: str | None = None


@dataclass(frozen=True, slots=True)
class SarifFinding:
    """A finding of the report; `location` is its anchor, or line 1 of an existing file it names."""

    entry: FindingEntry
    location: Anchor | None
    related: tuple[Anchor, ...] = ()
    suppression: Suppression | None = None
    rule: AnalyserRule | None = None

    @property
    def domain(self) -> str:
        """The first of its domains in registry order, unknown ones after them by name."""
        registry = load_registry()
        known = sorted(
            self.entry.domains, key=lambda name: (registry.position(name), name)
        )
        return known[0] if known else "cross-domain"

    @property
    def rule_id(self) -> str:
        return self.rule.id if self.rule else f"{self.domain}/{self.entry.type}"

    @property
    def rank(self) -> int:
        return severity_rank(self.entry.severity)


@dataclass(frozen=True, slots=True)
class SarifLog:
    """The log, the ids that could not be placed, and how many results did not fit."""

    log: dict[str, Any]
    without_location: tuple[str, ...]
    truncated: int

    @property
    def warnings(self) -> tuple[str, ...]:
        return (f"sarif_truncated:{self.truncated}",) if self.truncated else ()


def to_sarif(
    findings: Sequence[SarifFinding], run_id: str, unlooked: Sequence[str] = ()
) -> SarifLog:
    """One log with one run; results in the order not dismissed first, severity, id.

    `unlooked` are lines about what nobody has looked at.
    """
    rated = [
        one
        for one in findings
        if one.entry.severity and one.entry.cls is not FindingClass.WITHDRAWN
    ]
    placed = sorted(rated, key=_order)
    homeless = tuple(one.entry.id for one in rated if one.location is None)
    written = placed[:MOST_RESULTS]
    truncated = max(len(placed) - MOST_RESULTS, 0)
    rules = sorted({one.rule_id for one in written})
    log = {
        "$schema": SCHEMA,
        "version": VERSION,
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "bridgehead",
                        "semanticVersion": __version__,
                        "rules": [_rule(rule, written) for rule in rules],
                    }
                },
                "automationDetails": {"id": f"bridgehead-council/{run_id}"},
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {SOURCE_ROOT: {}},
                "invocations": [_invocation(homeless, truncated, unlooked)],
                "results": _results(written, rules),
            }
        ],
    }
    return SarifLog(log, homeless, truncated)


def escaped_message(text: str) -> str:
    """Foreign text makes no links, and the standard demands doubled braces."""
    unlinked = text[:MOST_MESSAGE].replace("](", "\\](")
    return re.sub(r"([{}])", r"\1\1", unlinked)


def _order(finding: SarifFinding) -> tuple[object, ...]:
    return (
        finding.location is None,
        finding.suppression is not None,
        -finding.rank,
        id_sort_key(finding.entry.id),
    )


def _rule(rule_id: str, written: Sequence[SarifFinding]) -> dict[str, Any]:
    of_rule = [one for one in written if one.rule_id == rule_id]
    domain = of_rule[0].domain
    kind = of_rule[0].entry.type
    named = of_rule[0].rule
    security = domain in SECURITY_DOMAINS
    weakness = [f"external/cwe/cwe-{named.cwe:03}"] if named and named.cwe else []
    tags = list(
        dict.fromkeys(
            [domain, str(kind), *(["security"] if security else []), *weakness]
        )
    )[:MOST_TAGS]
    properties: dict[str, Any] = {"tags": tags}
    # Consumers read it from the rule, so it is that of the worst result nobody dismissed.
    judged = [one for one in of_rule if one.suppression is None] or of_rule
    worst = max(judged, key=lambda one: one.rank).entry.severity
    if security and worst in _SECURITY_SEVERITY:
        properties["security-severity"] = _SECURITY_SEVERITY[worst]
    title, told = (named.title, named.help) if named else _in_words(domain, kind)
    told = f"{told or title}\n\n{_WHAT_TO_DO}"
    return {
        "id": rule_id,
        "name": re.sub(r"\W+", " ", f"{domain} {kind}").title().replace(" ", ""),
        "shortDescription": {"text": escaped_message(title)},
        "fullDescription": {"text": escaped_message(told)},
        "help": {"text": escaped_message(told)},
        "properties": properties,
    }


def _in_words(domain: str, kind: OutputType) -> tuple[str, str]:
    """What a point of view is about, for a person who has never heard of it."""
    title = f"{domain.replace('-', ' ').capitalize()}: {_KINDS.get(kind, str(kind))}"
    known = load_registry().find(domain)
    if known is None:
        return title, f"Reported from the point of view {domain}."
    return (
        title,
        (
            f"Reported by the {known.role} of a council. {known.lens} Looked at: "
            f"{', '.join(known.focus)}."
        ),
    )


def _results(
    written: Sequence[SarifFinding], rules: Sequence[str]
) -> list[dict[str, Any]]:
    seen: Counter[tuple[str, str]] = Counter()
    results: list[dict[str, Any]] = []
    for finding in written:
        same = finding.rule_id, finding.entry.fingerprint
        seen[same] += 1
        results.append(_result(finding, rules.index(finding.rule_id), seen[same]))
    return results


def _result(finding: SarifFinding, rule_index: int, count: int) -> dict[str, Any]:
    entry = finding.entry
    if entry.severity is None:
        raise AssertionError("only rated findings become results")
    result: dict[str, Any] = {
        "ruleId": finding.rule_id,
        "ruleIndex": rule_index,
        "level": _LEVEL[entry.severity],
        "message": {"text": escaped_message(f"{entry.title}\n\n{entry.description}")},
        "locations": [_location(finding.location)],
        "partialFingerprints": {
            "bridgeheadFinding/v1": entry.fingerprint,
            "primaryLocationLineHash": f"{entry.fingerprint.partition(':')[2]}:{count}",
        },
        "suppressions": []
        if finding.suppression is None
        else [_suppressed(finding.suppression)],
        "properties": _properties(entry),
    }
    if finding.related:
        result["relatedLocations"] = [
            _location(place) for place in finding.related[:MOST_RELATED]
        ]
    return result


def _location(anchor: Anchor | None) -> dict[str, Any]:
    """Where it is; without a usable place the project itself, and no region."""
    if anchor is None:
        return {
            "physicalLocation": {
                "artifactLocation": {"uri": ".", "uriBaseId": SOURCE_ROOT}
            }
        }
    first, last = anchor.lines
    return {
        "physicalLocation": {
            "artifactLocation": {
                "uri": quote(anchor.path, safe="/", errors="surrogateescape"),
                "uriBaseId": SOURCE_ROOT,
            },
            "region": {"startLine": first, "endLine": last},
        }
    }


def _suppressed(suppression: Suppression) -> dict[str, Any]:
    known = {
        "author": suppression.author,
        "date": suppression.date,
        "expires": suppression.expires,
    }
    return {
        "kind": "external",
        "status": "accepted",
        "justification": suppression.reason,
        "properties": {name: value for name, value in known.items() if value},
    }


def _properties(entry: FindingEntry) -> dict[str, Any]:
    known: dict[str, Any] = {
        "id": entry.id,
        "severity": entry.severity,
        "class": entry.cls.value,
        "fingerprints": list(entry.fingerprints or (entry.fingerprint,)),
        "confirmation": msgspec.structs.asdict(entry.confirmation),
        "evidence": entry.evidence_check.get("outcome"),
    }
    # Not `baselineState`: the standard wants it on every result of both runs and has no word for `unknown`.
    if entry.state is not None:
        known["state"] = entry.state
    return known


def _invocation(
    homeless: Sequence[str], truncated: int, unlooked: Sequence[str]
) -> dict[str, Any]:
    notifications: list[dict[str, Any]] = [
        {"level": "error", "message": {"text": escaped_message(line)}}
        for line in unlooked
    ]
    if homeless:
        named = ", ".join(homeless[:20])
        text = f"{plural(len(homeless), 'finding')} without a file in the tree: {named}"
        notifications.append({"level": "note", "message": {"text": text}})
    if truncated:
        text = (
            f"{plural(truncated, 'further finding')} left out: at most {MOST_RESULTS} "
            "results are written"
        )
        notifications.append({"level": "warning", "message": {"text": text}})
    return {
        "executionSuccessful": not unlooked,
        "toolExecutionNotifications": notifications,
    }


def sarif_of(report: CouncilReport) -> SarifLog:
    """Standing and dismissed findings of a report, those on untouched lines as suppressed; withdrawn ones are none."""
    standing = [_finding(entry) for entry in report.findings()]
    dismissed = [_finding(one.finding, one) for one in report.dismissed_findings]
    apart = [
        replace(_finding(one), suppression=Suppression(_UNTOUCHED))
        for one in report.untouched_findings
    ]
    return to_sarif(
        [*standing, *apart, *dismissed],
        f"{report.task_type}/{report.review_id}",
        lines_of(report),
    )


def _finding(
    entry: FindingEntry, dismissed: DismissedFinding | None = None
) -> SarifFinding:
    location = anchor_of(entry) or next(_existing_files(entry), None)
    suppression = None
    if dismissed is not None:
        suppression = Suppression(
            dismissed.reason, dismissed.author, dismissed.date, dismissed.expires
        )
    return SarifFinding(
        entry,
        location,
        related=tuple(place for place in _passed_places(entry) if place != location),
        suppression=suppression,
        rule=_analyser_rule(entry),
    )


def _analyser_rule(entry: FindingEntry) -> AnalyserRule | None:
    """Of a finding that the static seat alone reports."""
    said = _ANALYSER.match(entry.description) if entry.source_bridge == STATIC else None
    if said is None:
        return None
    tool, rule, cwe, title = said.groups()
    return AnalyserRule(
        f"{tool}/{rule}", title, entry.remediation or "", int(cwe) if cwe else None
    )


def _passed_places(entry: FindingEntry) -> Iterator[Anchor]:
    for reference in entry.evidence_check.get("references", ()):
        if reference["outcome"] == "passed" and reference["lines"]:
            yield Anchor(
                reference["path"], (reference["lines"][0], reference["lines"][1])
            )


def _existing_files(entry: FindingEntry) -> Iterator[Anchor]:
    """Files the finding names that are there, at line 1: the place is uncertain, the file is not."""
    missing = ("file_missing", "file_ambiguous")
    for reference in entry.evidence_check.get("references", ()):
        if reference["reason"] not in missing:
            yield Anchor(reference["path"], (1, 1))
