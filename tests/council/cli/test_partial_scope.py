"""What is known of findings when a part of the tree is looked at: nothing elsewhere is fixed, stale or forgotten."""

from __future__ import annotations

from typing import Any

from bridgehead.assembly.council.reports import DismissRequest
from bridgehead.assembly.council.views import council_report, dismiss_finding
from bridgehead.council.reporting.report import CouncilReport
from bridgehead.council.scope.scope import ScopeRequest
from council.cli.conftest import Hall, StandIn


def finding(title: str, evidence: str) -> dict[str, Any]:
    return {
        "type": "finding",
        "severity": "HIGH",
        "title": title,
        "description": title,
        "evidence": evidence,
    }


STORE = finding(
    "Ids are joined into SQL", "orders/store.py:10 `cursor = connection.execute(`"
)
SHIPPING = finding("A shell reads the id", "orders/shipping.py:7 `subprocess.run(`")


def looked_at(
    hall: Hall, codex: StandIn, findings: list[dict[str, Any]], *paths: str
) -> CouncilReport:
    codex.answers({"outputs": findings})
    report = hall.call(runtimes=("codex",), scope=ScopeRequest(paths=paths)).report
    assert isinstance(report, CouncilReport)
    return report


def test_findings_and_dismissals_of_other_files_survive_a_narrow_look(
    hall: Hall, codex: StandIn
) -> None:
    codex.log_in()
    whole = looked_at(hall, codex, [STORE, SHIPPING], "orders")
    shell = next(one for one in whole.findings() if one.title == SHIPPING["title"])
    dismiss_finding(
        hall.assembly, whole.review_id, DismissRequest(shell.id, "the id is ours")
    )

    narrow = looked_at(hall, codex, [STORE], "orders/store.py")
    again = looked_at(hall, codex, [STORE, SHIPPING], "orders")

    assert [one.title for one in narrow.comparison.persistent] == [STORE["title"]]
    assert narrow.comparison.fixed == narrow.comparison.new == ()
    assert narrow.dismissed_findings == ()
    assert not [
        warning for warning in narrow.warnings if warning.startswith("dismissal")
    ]
    assert [one.reason for one in again.dismissed_findings] == ["the id is ours"]
    assert again.comparison.new == again.comparison.regressed == ()
    shown = council_report(hall.assembly, again.review_id).findings
    assert {one.finding.title: one.dismissed is not None for one in shown} == {
        STORE["title"]: False,
        SHIPPING["title"]: True,
    }
