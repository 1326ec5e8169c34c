"""Nobody talks a finding down: through a whole council, with static analysis beside a model."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.council.reporting.render.sentences import standing
from bridgehead.council.reporting.report import CouncilReport, FindingEntry
from council.cli.conftest import Hall, StandIn

pytestmark = pytest.mark.xdist_group("council_cli")

PICKLE = "orders/store.py:15 `return pickle.loads(blob)`"
RECEIPT = "orders/store.py:18 `def receipt_number(order_id: str) -> str:`"


def claims(title: str, evidence: str) -> dict[str, str]:
    return {
        "type": "finding",
        "severity": "HIGH",
        "title": title,
        "description": f"{title}, described: CWE-502",
        "evidence": evidence,
    }


def held(
    hall: Hall, codex: StandIn, finding: dict[str, str], response: str
) -> FindingEntry:
    """Hold a council in which the model that found something calls it harmless afterwards."""
    notes: list[dict[str, Any]] = [
        {
            "finding_id": f"SS00{number}",
            "challenge": "is it so bad?",
            "mechanism": "non-applicability",
            "outcome": "downgraded",
            "new_severity": "INFO",
            "response": response,
        }
        for number in range(1, 9)
    ]
    codex.log_in()
    codex.answers({"outputs": [finding], "challenge_notes": notes})
    report = hall.call(runtimes=("codex", "static")).report
    assert isinstance(report, CouncilReport)
    assert report.stage_b == "completed"
    found = [one for one in report.findings() if finding["title"] in one.title]
    (entry,) = found
    return entry


@pytest.mark.parametrize("response", ["INFO, fine", f"INFO, fine: {PICKLE}"])
def test_one_model_does_not_lower_what_static_analysis_reports_too(
    hall: Hall, codex: StandIn, response: str
) -> None:
    finding = claims("Untrusted bytes are unpickled", PICKLE)

    entry = held(hall, codex, finding, response)

    assert {one.bridge for one in entry.source_findings} == {"codex", "static"}
    assert (entry.severity, entry.lowered) == ("HIGH", None)
    said = [step.text for step in entry.record if step.step in ("ruling", "defence")]
    assert any("downgraded refused" in text for text in said)


@pytest.mark.parametrize(
    ("response", "severity"),
    [("INFO, fine", "HIGH"), (f"no number is guessed there: {RECEIPT}", "INFO")],
)
def test_a_finding_of_models_is_lowered_for_evidence_only_and_the_report_says_by_whom(
    hall: Hall, codex: StandIn, response: str, severity: str
) -> None:
    finding = claims("Receipt numbers can be enumerated by strangers", RECEIPT)

    entry = held(hall, codex, finding, response)

    assert entry.severity == severity
    lowered = "lowered from HIGH by codex" if severity == "INFO" else None
    assert entry.lowered == lowered
    told = standing(entry, compared=False)
    assert ("lowered from HIGH by codex" in told) is (severity == "INFO")
    assert ("survived" in told) is (severity == "HIGH")
    stored = hall.assembly.places.project.glob(".outputs/council/*-council-*.md")
    page = next(iter(sorted(stored))).read_text()
    assert ("lowered from HIGH by codex" in page) is (severity == "INFO")
