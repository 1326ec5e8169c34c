"""Items as models write them, in our words: types, severities, aliases, audits, proposals (council §7)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.contract.words import OutputType, Severity
from bridgehead.council.replies.items import Draft, Intake, as_line, as_text
from council.support.driving import item, task

AUDIT = {
    "task_type": "audit",
    "requirements": [
        {"id": "M", "text": "must", "level": "MUST"},
        {"id": "S", "text": "should", "level": "SHOULD"},
        {"id": "Y", "text": "may", "level": "MAY"},
    ],
}


def draft(entry: dict[str, Any], **fields: Any) -> Draft:
    return Intake(task(**fields)).draft(entry)


@pytest.mark.parametrize(
    ("spelled", "severity"),
    [
        ("Blocker", "CRITICAL"),
        ("severe", "CRITICAL"),
        (" MAJOR ", "HIGH"),
        ("med", "MEDIUM"),
        ("minor", "LOW"),
        ("Note", "INFO"),
    ],
)
def test_severities_are_read_in_any_accepted_spelling(
    spelled: str, severity: str
) -> None:
    assert draft(item(severity=spelled)).severity == severity


@pytest.mark.parametrize(
    ("kind", "severity", "inferred"),
    [
        ("finding", Severity.MEDIUM, True),
        ("recommendation", Severity.MEDIUM, True),
        ("risk", Severity.MEDIUM, True),
        ("observation", None, False),
        ("question", None, False),
    ],
)
def test_a_missing_severity_is_inferred_only_where_one_is_required(
    kind: str, severity: Severity | None, inferred: bool
) -> None:
    made = draft(item(type=kind, severity="huge"))
    assert (made.severity, made.severity_inferred) == (severity, inferred)


@pytest.mark.parametrize("kind", ["plan-item", "Plan Item", "implementation_note"])
def test_steps_and_notes_never_have_a_severity(kind: str) -> None:
    assert draft(item(type=kind, severity="HIGH")).severity is None


def test_an_unknown_type_becomes_the_first_of_the_task() -> None:
    assert draft(item(type="thought")).type is OutputType.FINDING
    assert (
        draft(item(type="thought"), task_type="planning").type is OutputType.PLAN_ITEM
    )
    assert (
        draft(item(type=None), task_type="planning", mode="design").type
        is OutputType.PROPOSAL
    )


@pytest.mark.parametrize(
    ("requirement", "met", "given_severity", "severity", "original"),
    [
        ("S", None, "CRITICAL", "MEDIUM", "CRITICAL"),
        ("M", None, "LOW", "HIGH", "LOW"),
        ("M", None, "CRITICAL", "CRITICAL", None),
        ("Y", False, "HIGH", "LOW", "HIGH"),
        ("M", True, "HIGH", "INFO", "HIGH"),
        ("unknown", False, "LOW", "LOW", None),
    ],
)
def test_an_audit_rates_by_the_requirement_where_its_level_is_known(
    requirement: str,
    met: bool | None,
    given_severity: str,
    severity: str,
    original: str | None,
) -> None:
    entry = item(
        type="compliance-gap",
        severity=given_severity,
        requirement_id=requirement,
        met=met,
    )
    made = draft(entry, **AUDIT)
    assert (made.severity, made.severity_original) == (severity, original)


def test_other_names_for_fields_are_understood() -> None:
    made = draft(
        {
            "title": "T",
            "description": ["one", "two"],
            "location": {"file": "a.py", "line": 4},
            "evidence": "`x = 1`",
            "remediation": "fix it",
        }
    )
    assert made.description == "one\ntwo"
    assert made.evidence == "a.py:4\n`x = 1`"
    assert made.action == "fix it"


def test_a_proposal_has_every_field_of_its_kind() -> None:
    entry = item(
        type="proposal",
        proposal={
            "tradeoffs": ["slow", 7],
            "maturity": "Seed",
            "proposal_type": "magic",
        },
    )
    proposal = draft(entry, task_type="planning", mode="design").proposal
    assert proposal is not None
    assert (proposal["tradeoffs"], proposal["maturity"], proposal["proposal_type"]) == (
        ["slow", "7"],
        "seed",
        None,
    )
    assert proposal["open_questions"] == []


def test_half_characters_are_replaced_so_that_everything_can_be_written() -> None:
    assert as_text("a\ud800b") == "a\ufffdb"
    as_line("\udfff").encode()


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
names = st.sampled_from(
    [
        "type",
        "severity",
        "description",
        "evidence",
        "action",
        "location",
        "requirement_id",
        "met",
        "proposal",
    ]
)


@given(
    st.text(min_size=1, max_size=20), st.dictionaries(names, json_values, max_size=6)
)
def test_property_no_entry_makes_the_intake_fail(
    title: str, fields: dict[str, Any]
) -> None:
    made = draft({**fields, "title": title}, **AUDIT)
    (
        made.title + made.description + (made.evidence or "") + (made.action or "")
    ).encode()
