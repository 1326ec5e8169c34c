"""A council report as SARIF: which findings become results, and where they are shown."""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead import __version__
from bridgehead.council.finding_entry import anchor_of
from bridgehead.council.findings.evidence import Anchor
from bridgehead.council.findings.sarif import SarifFinding, SarifLog, SarifRun, Suppression, to_sarif
from bridgehead.council.report import CouncilReport, DismissedFinding, FindingEntry


def sarif_of(report: CouncilReport) -> SarifLog:
    """Standing and dismissed findings of a report; withdrawn and fixed ones are none."""
    standing = [_finding(entry) for entry in report.findings()]
    dismissed = [_finding(one.finding, one) for one in report.dismissed_findings]
    run = SarifRun(task_type=report.task_type, review_id=report.review_id, version=__version__)
    return to_sarif([*standing, *dismissed], run)


def _finding(entry: FindingEntry, dismissed: DismissedFinding | None = None) -> SarifFinding:
    location = anchor_of(entry) or next(_existing_files(entry), None)
    return SarifFinding(
        id=entry.id,
        cls=entry.cls,
        type=entry.type,
        severity=entry.severity,
        title=entry.title,
        description=entry.description,
        domains=entry.domains,
        fingerprint=entry.fingerprint,
        fingerprints=entry.fingerprints,
        location=location,
        related=tuple(place for place in _passed_places(entry) if place != location),
        suppression=None if dismissed is None else _suppression(dismissed),
        confirmation={
            "model": entry.confirmation.model,
            "runtime": entry.confirmation.runtime,
            "evidence": entry.confirmation.evidence,
        },
        evidence=entry.evidence_check.get("outcome"),
        state=entry.state,
    )


def _suppression(dismissed: DismissedFinding) -> Suppression:
    return Suppression(dismissed.reason, dismissed.author, dismissed.date, dismissed.expires)


def _passed_places(entry: FindingEntry) -> Iterator[Anchor]:
    for reference in entry.evidence_check.get("references", ()):
        if reference["outcome"] == "passed" and reference["lines"]:
            yield Anchor(reference["path"], (reference["lines"][0], reference["lines"][1]))


def _existing_files(entry: FindingEntry) -> Iterator[Anchor]:
    """Files the finding names that are there, at line 1: the place is uncertain, the file is not."""
    missing = ("file_missing", "file_ambiguous")
    for reference in entry.evidence_check.get("references", ()):
        if reference["reason"] not in missing:
            yield Anchor(reference["path"], (1, 1))
