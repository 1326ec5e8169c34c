"""Every field of a bridge report is present, and what it may hold follows from the status."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema
import msgspec
import pytest

from bridgehead.contract.report import Artifacts, BridgeReport, Output, Usage
from bridgehead.contract.words import (
    CapabilityProfile,
    Confidence,
    LocalCouncilType,
    OutputType,
    Severity,
    Status,
    TaskType,
    Verdict,
)
from tools.schema_files import PRESENCE, Presence, presence, schemas, violations

FINDING = Output(
    id="C001",
    type=OutputType.FINDING,
    severity=Severity.HIGH,
    status=None,
    title="Order id reaches the SQL text",
    description="",
    evidence="src/orders.py:42",
    action=None,
    domain="security",
    agent="security-expert",
)


def report(status: Status, **changes: Any) -> BridgeReport:
    """A report whose fields fit the status, with `changes` on top."""
    completed = status is Status.COMPLETED
    fields: dict[str, Any] = {
        "bridge": "claude",
        "model_family": "anthropic/claude",
        "session_id": "r1",
        "task_type": TaskType.REVIEW,
        "capability_profile": CapabilityProfile.INSPECT,
        "connection_used": "cli" if completed else None,
        "status": status,
        "skip_reason": "cli_not_found" if status is Status.SKIPPED else None,
        "halt_reason": "not_authenticated" if status is Status.HALTED else None,
        "halt_message": "log in first" if status is Status.HALTED else None,
        "domains_covered": ("security",) if completed else (),
        "debate_rounds": 1 if completed else None,
        "outputs": (FINDING,) if completed else (),
        "withdrawn_outputs": (),
        "disputed_outputs": (),
        "verdict": Verdict.CONCERNS if completed else None,
        "confidence": Confidence.HIGH if completed else None,
        **{f"prompt_size_chars_r{n}": None for n in (1, 2, 3, 4)},
        "model_validation_warnings": (),
        "timeout_s": 180,
        "started_at": "2026-11-15T10:00:00.000Z",
        "finished_at": "2026-11-15T10:01:00.000Z",
        "usage": Usage(calls=4),
        "local_council_type": LocalCouncilType.AGENT_COUNCIL if completed else None,
        "local_council_degraded": False if completed else None,
        "degradation_reason": None,
        "diversity_sources": (),
        "runtime": None,
        "toolchain": None,
        "exchange_mode": None,
        "termination_reason": None,
        "unexplored_domains": (),
        "context_overflow": (),
        "warnings": (),
        "artifacts": Artifacts(),
    }
    return BridgeReport(**{**fields, **changes})


@cache
def published_schema() -> jsonschema.Draft202012Validator:
    schema = schemas()["bridge-report.json"]
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("status", Status)
def test_a_fitting_report_has_no_violations_and_satisfies_the_published_schema(
    status: Status,
) -> None:
    good = report(status)

    assert violations(good) == []
    published_schema().validate(json.loads(msgspec.json.encode(good)))


WRONG_VALUE = {
    Presence.SET: None,
    Presence.NULL: "something",
    Presence.EMPTY: ("something",),
}
CONSTRAINED = [
    (status, field)
    for status in Status
    for field in PRESENCE
    if presence(field, status) is not Presence.EITHER
]


@pytest.mark.parametrize(("status", "field"), CONSTRAINED, ids=lambda value: str(value))
def test_a_field_that_does_not_fit_the_status_is_found_by_code_and_schema(
    status: Status, field: str
) -> None:
    broken = msgspec.structs.replace(
        report(status), **{field: WRONG_VALUE[presence(field, status)]}
    )

    assert [problem.split()[0] for problem in violations(broken)] == [field]
    with pytest.raises(jsonschema.ValidationError):
        published_schema().validate(json.loads(msgspec.json.encode(broken)))


@pytest.mark.parametrize("status", Status)
def test_every_field_of_the_contract_is_on_the_wire_even_when_null(
    status: Status,
) -> None:
    wire = json.loads(msgspec.json.encode(report(status)))
    per_bridge = {name for name, default in zip_defaults() if default is msgspec.UNSET}

    assert set(wire) == set(BridgeReport.__struct_fields__) - per_bridge


def zip_defaults() -> list[tuple[str, object]]:
    fields = msgspec.structs.fields(BridgeReport)
    return [(field.name, field.default) for field in fields]


def test_a_report_survives_the_wire() -> None:
    sent = report(Status.COMPLETED, models_used=("a/b", "c/d"))

    assert msgspec.json.decode(msgspec.json.encode(sent), type=BridgeReport) == sent


def test_fields_and_values_of_newer_versions_are_tolerated() -> None:
    wire = json.loads(msgspec.json.encode(report(Status.COMPLETED)))
    wire |= {"bridge": "acme", "connection_used": "telepathy", "a_new_field": 1}

    assert msgspec.convert(wire, BridgeReport).connection_used == "telepathy"
