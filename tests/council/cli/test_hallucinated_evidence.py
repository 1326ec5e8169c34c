"""What a model cites is looked up by code; what is not there confirms nobody (hazard 14)."""

from __future__ import annotations

import json

import pytest

from bridgehead.contract.words import Intensity
from bridgehead.council.calls import Call
from bridgehead.council.reporting.report import CouncilReport
from council.cli.conftest import Hall, StandIn
from council.test_council import HERE, TWO, Council, finds

MISSING = {
    "file_missing": "orders/checkout.py:10 `connection.execute(query)`",
    "line_out_of_range": "orders/store.py:4000",
    "quote_not_found": "orders/store.py:10 `eval(order_id)`",
}
THERE = "orders/store.py:15 `return pickle.loads(blob)`"


def found(title: str, evidence: str) -> dict[str, str]:
    return {
        "type": "finding",
        "severity": "CRITICAL",
        "title": title,
        "description": f"{title}, described.",
        "evidence": evidence,
    }


@pytest.mark.parametrize("intensity", [Intensity.QUICK, Intensity.STANDARD])
def test_a_missing_file_line_or_quote_is_disputed_and_the_real_finding_is_not(
    hall: Hall, codex: StandIn, intensity: Intensity
) -> None:
    codex.log_in()
    invented = [
        found(f"{kind} was invented", evidence) for kind, evidence in MISSING.items()
    ]
    codex.answers(
        {"outputs": [*invented, found("Untrusted bytes are unpickled", THERE)]}
    )

    finished = hall.call(
        runtimes=("codex",), intensity=intensity, scope=hall.everything
    )

    assert isinstance(finished.report, CouncilReport) and finished.written is not None
    on_disk = json.loads(
        (hall.assembly.places.project / finished.written.json).read_text()
    )
    disputed = {entry["title"]: entry for entry in on_disk["disputed_findings"]}
    assert set(disputed) == {f"{kind} was invented" for kind in MISSING}
    for kind in MISSING:
        entry = disputed[f"{kind} was invented"]
        assert (
            entry["evidence_check"]["outcome"],
            entry["evidence_check"]["reason"],
        ) == ("failed", kind)
        assert entry["positions"][-1]["position"] == f"evidence_not_found: {kind}"
        assert (entry["disputed_in"], entry["confidence"]) == (["codex"], "low")
    assert [entry["title"] for entry in on_disk["single_source_findings"]] == [
        "Untrusted bytes are unpickled"
    ]


def test_two_seats_that_invent_the_same_confirm_nothing() -> None:
    invented = (
        Council(
            TWO, finds("SQL injection", severity="CRITICAL", evidence="src/gone.py:4")
        )
        .drive()
        .report
    )
    real = Council(TWO, finds("SQL injection", severity="CRITICAL")).drive().report

    assert (invented.multi_source_confirmed, invented.verdict) == ((), None)
    assert invented.incomplete
    (entry,) = invented.disputed_findings
    assert [one.position for one in entry.positions][
        -1
    ] == "evidence_not_found: file_missing"
    assert (len(real.multi_source_confirmed), real.verdict) == (1, "FAIL")


def test_one_seat_whose_evidence_is_there_is_enough() -> None:
    def says(call: Call) -> object:
        evidence = "src/orders.py:4 `eval(oid)`" if call.key.seat == "codex" else HERE
        return finds("SQL injection", severity="CRITICAL", evidence=evidence)(call)

    report = Council(TWO, says).drive().report

    assert [entry.confirmed_by for entry in report.multi_source_confirmed] == [
        ("claude", "codex")
    ]
