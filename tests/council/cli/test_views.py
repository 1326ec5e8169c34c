"""What dashboards and MCP are shown of a council: its line, the debate as it goes, the report with its history."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import msgspec
import pytest

from bridgehead.assembly.council.reports import DismissRequest
from bridgehead.assembly.council.views import (
    CouncilStatus,
    council_calls,
    council_now,
    council_report,
    dismiss_finding,
    list_councils,
)
from bridgehead.contract.words import Intensity
from bridgehead.council.calls import Reply
from bridgehead.errors import BridgeheadError, UserError
from council.cli.conftest import Hall, StandIn

EVERYTHING = {
    "outputs": [
        {
            "type": "finding",
            "severity": "CRITICAL",
            "title": "Order id reaches the SQL text",
            "description": "It is joined into the statement.",
            "evidence": "orders/store.py:10 `WHERE id = '\" + order_id`",
        }
    ],
    "challenges": [
        {
            "target_finding_id": "X001",
            "challenge_text": "Callers may check it.",
            "mechanism": "missing-assumption",
        }
    ],
    "responses": [
        {
            "finding_id": "X001",
            "status": "confirmed",
            "defense": "No caller does, orders/store.py:10",
        }
    ],
    "rulings": [{"challenge_id": "CH001", "ruling": "withdraw"}],
    "challenge_notes": [
        {
            "finding_id": "SS001",
            "challenge": "Is it reachable?",
            "mechanism": "non-applicability",
            "response": "Yes.",
            "outcome": "confirmed",
        }
    ],
}


def test_a_council_can_be_watched_read_and_dismissed_from(
    hall: Hall, codex: StandIn
) -> None:
    codex.log_in()
    codex.answers(EVERYTHING)
    review_id = hall.call(
        runtimes=("codex", "gemini"), intensity=Intensity.STANDARD
    ).council.review_id

    (line,) = list_councils(hall.assembly).councils
    now = council_now(hall.assembly, review_id[:4])
    told = council_report(hall.assembly, review_id)

    assert (line.id, line.status, line.verdict) == (
        review_id,
        CouncilStatus.DONE,
        "FAIL",
    )
    assert line.counts == {"CRITICAL": 1}
    seat, absent = now.live.seats
    assert (seat.state, absent.state, absent.reason) == (
        "done",
        "skipped",
        "cli_not_found",
    )
    steps = [
        (step.number, step.step, step.heard == len(step.agents)) for step in seat.rounds
    ]
    assert steps[0] == (1, "analysis", True) and (2, "response", True) in steps
    challenge = seat.challenges[0]
    assert (challenge.by, challenge.to, challenge.outcome) == (
        "challenger",
        "security",
        "withdraw",
    )
    assert now.live.second_look is not None
    assert [note.outcome for note in now.live.notes] == ["confirmed"]
    assert (now.calls * 1280, now.has_report) == (now.tokens, True)
    finding = told.findings[0]
    steps = [step.step for step in finding.finding.record]
    assert steps[0] == "claim" and "challenge" in steps and steps[-1] == "ruling"
    assert msgspec.json.encode([line, now, told])
    calls = council_calls(hall.assembly, review_id)
    assert len(calls) == now.calls and calls[0].name.startswith("codex/1/analysis/")
    assert all(
        isinstance(one.result, Reply) and one.result.usage.tokens_in for one in calls
    )
    assert calls[0].prompt.startswith("You are a Security Auditor")
    assert EVERYTHING["outputs"][0]["title"] in calls[0].result.text

    with pytest.raises(UserError, match="is CRITICAL"):
        dismiss_finding(hall.assembly, review_id, DismissRequest("SS001", "x"))
    with pytest.raises(UserError, match="2020-01-01 is in the past"):
        dismiss_finding(
            hall.assembly, review_id, DismissRequest("SS001", "x", dt.date(2020, 1, 1))
        )
    with pytest.raises(UserError, match="--paths is empty"):
        dismiss_finding(
            hall.assembly, review_id, DismissRequest("SS001", "x", paths=("a.py", " "))
        )
    dismiss_finding(
        hall.assembly, review_id, DismissRequest("SS001", "known", accept_critical=True)
    )
    again = hall.call(runtimes=("codex",)).council.review_id
    dismissed, *_ = council_report(hall.assembly, again).findings
    assert dismissed.dismissed is not None and dismissed.dismissed.reason == "known"
    assert [one.id for one in list_councils(hall.assembly, limit=1).councils] == [again]


def test_a_report_is_not_read_through_a_linked_directory(
    hall: Hall, tmp_path: Path
) -> None:
    review_id = hall.call(runtimes=("static",)).council.review_id
    assert council_report(hall.assembly, review_id) is not None
    outputs = hall.assembly.places.project / ".outputs"
    outputs.rename(tmp_path / "elsewhere")
    outputs.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BridgeheadError):
        council_report(hall.assembly, review_id)
