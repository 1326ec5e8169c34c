"""The seat on another machine: the request it gets, and how far its report is believed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from bridgehead.contract.report import BridgeReport
from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import Confidence, OutputState, Severity, Status
from bridgehead.council.reporting.seat_report import SeatFacts
from bridgehead.council.runtimes.rig import (
    RigAnswer,
    RigRejected,
    read_answer,
    request_body,
)
from tools.schema_files import violations

TASK = BridgeInput(
    session_id="k3v9qa", scope="src/", task_description="look", domains=("security",)
)
COMMIT = "0123456789abcdef0123456789abcdef01234567"
FACTS = SeatFacts(
    name="rig:win-5080", timeout_seconds=180, started_at="a", finished_at="b"
)
REPORT: dict[str, Any] = {
    "bridge": "codex",
    "model_family": "openai/codex",
    "connection_used": "cli",
    "session_id": "k3v9qa",
    "commit": COMMIT,
    "status": "COMPLETED",
    "verdict": "PASS",
    "confidence": "high",
    "debate_rounds": 1,
    "domains_covered": ["security"],
    "outputs": [
        {
            "id": "X009",
            "type": "Finding",
            "severity": "blocker",
            "title": "One",
            "status": "confirmed",
            "domain": "security",
        },
        {
            "id": "X010",
            "type": "finding",
            "severity": "low",
            "title": "Two",
            "status": "disputed",
        },
        {"id": "X011", "title": "   "},
        "nonsense",
    ],
    "withdrawn_outputs": [{"type": "finding", "severity": "HIGH", "title": "Three"}],
}


def answer(
    changes: dict[str, Any] | None = None, *, verified: bool = True
) -> RigAnswer:
    document = json.dumps(REPORT | (changes or {}))
    return RigAnswer(
        f"Here is our report.\n\n```json\n{document}\n```\nGreetings.\n", verified
    )


def read(given: RigAnswer, commit: str | None = COMMIT) -> BridgeReport:
    found = read_answer(given, TASK, commit, FACTS)
    assert isinstance(found, BridgeReport), found
    return found


def test_the_request_holds_a_bridge_input_that_can_be_parsed_again_and_the_commit() -> (
    None
):
    body = request_body(TASK, COMMIT)
    document = json.loads(body.partition("```json\n")[2].partition("\n```")[0])

    assert msgspec.convert(document["bridge_input"], BridgeInput) == TASK
    assert document["commit"] == COMMIT


def test_a_remote_report_is_put_into_our_words() -> None:
    report = read(answer())

    assert [(o.id, o.severity, o.status) for o in report.outputs] == [
        ("R001", Severity.CRITICAL, OutputState.CONFIRMED),
        ("R002", Severity.LOW, OutputState.DISPUTED),
    ]
    assert [(o.id, o.status) for o in report.withdrawn_outputs] == [
        ("R003", OutputState.WITHDRAWN)
    ]
    assert [entry.output.id for entry in report.disputed_outputs] == ["R002"]
    assert (report.bridge, report.connection_used, report.model_family) == (
        "rig:win-5080",
        "rig",
        "openai/codex",
    )
    assert violations(report) == []


def test_its_verdict_and_confidence_are_ours() -> None:
    report = read(answer())

    assert (report.verdict, report.confidence) == ("FAIL", Confidence.MEDIUM)


def test_what_is_not_verified_is_marked_and_its_claims_are_not_believed() -> None:
    found = read(answer(verified=False))

    assert [output.unverified for output in found.outputs] == [True, True]
    assert (found.model_family, found.confidence) == ("unknown", Confidence.LOW)
    assert found.remote["model_family"] == "openai/codex"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"session_id": "other"}, "other_session"),
        ({"commit": "f" * 40}, "other_commit"),
        ({"commit": None}, "other_commit"),
        ({"outputs": "none"}, "unreadable_report"),
    ],
)
def test_an_answer_to_something_else_is_rejected(
    changes: dict[str, Any], reason: str
) -> None:
    assert read_answer(answer(changes), TASK, COMMIT, FACTS) == RigRejected(reason)


@pytest.mark.parametrize(
    "body", ["", "no report here", "```json\n{\n```", "[]", '{"outputs": []}']
)
def test_an_answer_without_a_report_is_rejected(body: str) -> None:
    assert read_answer(RigAnswer(body, True), TASK, COMMIT, FACTS) == RigRejected(
        "unreadable_report"
    )


def test_outside_a_repository_the_commit_does_not_matter() -> None:
    assert read(answer({"commit": None}), commit=None).status is Status.COMPLETED


def test_a_remote_that_did_not_complete_is_skipped_with_its_reason() -> None:
    report = read(answer({"status": "HALTED", "halt_reason": "not_authenticated"}))

    assert (report.status, report.skip_reason) == (
        Status.SKIPPED,
        "remote: not_authenticated",
    )


@pytest.mark.parametrize("rounds", [-1, True, "two", None, 10**30])
def test_numbers_a_remote_makes_up_do_no_harm(rounds: Any) -> None:
    report = read(answer({"debate_rounds": rounds}))

    assert report.debate_rounds is not None
    assert msgspec.json.encode(report)


def test_words_a_remote_makes_up_are_normalised_cut_and_writable() -> None:
    entry = {
        "title": "One",
        "domain": " Data_Integrity\n",
        "agent": "a\ud800" + "x" * 500,
    }
    covered = ["Security", "security", 7, "\ud800"]
    report = read(
        answer(
            {
                "outputs": [entry],
                "domains_covered": covered,
                "model_family": "\udfff",
                "runtime": "r\n\ud800",
            }
        )
    )

    assert report.outputs[0].domain == "data-integrity"
    assert len(report.outputs[0].agent) == 200
    assert report.domains_covered[0] == "security" and len(report.domains_covered) == 2
    assert msgspec.json.encode(report)
    skipped = read(
        answer({"status": "SKIPPED", "skip_reason": "\ud800 no\n" + "x" * 900})
    )
    assert len(skipped.skip_reason or "") < 600 and msgspec.json.encode(skipped)
