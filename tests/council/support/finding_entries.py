"""Findings of a report with everything filled in that a test does not care about."""

from __future__ import annotations

from typing import Any

from bridgehead.contract.words import Confidence
from bridgehead.council.reporting.report import Confirmation, FindingEntry


def finding_entry(**fields: Any) -> FindingEntry:
    usual: dict[str, Any] = {
        "evidence": None,
        "remediation": None,
        "confirmed_by": (),
        "source_bridge": None,
        "source_findings": (),
        "severity_votes": {},
        "confirmation": Confirmation(model=False, runtime=False, evidence=False),
        "confidence": Confidence.MEDIUM,
        "shared_cli_path": False,
        "da_challenged": False,
        "challenges": 0,
        "fingerprints": (),
        "evidence_check": {},
        "anchor": None,
    }
    return FindingEntry(**{**usual, **fields})
