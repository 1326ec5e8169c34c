"""Reading a bridge input: wrapper, defaults, deprecated names, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.contract.task import InvalidBridgeInput, parse_bridge_input
from bridgehead.contract.words import CapabilityProfile, ContextPolicy, Intensity, Mode, TaskType

MINIMAL: dict[str, Any] = {"session_id": "r1", "scope": "src/", "task_description": "x", "domains": ["security"]}


def test_the_worked_example_of_the_contract() -> None:
    parsed = parse_bridge_input(
        {"review_id": "r1", "scope": "src/", "review_scope": "lib/", "domains": ["security"], "task_description": "x"}
    )

    assert (parsed.task.session_id, parsed.task.scope) == ("r1", "src/")
    assert parsed.warnings == ("deprecated_alias:review_id", "alias_conflict:review_scope")


def test_the_wrapper_and_the_bare_object_are_the_same_input() -> None:
    assert parse_bridge_input({"bridge_input": MINIMAL}) == parse_bridge_input(MINIMAL)


def test_defaults_fill_what_is_missing() -> None:
    task = parse_bridge_input(MINIMAL).task

    assert task.task_type is TaskType.REVIEW
    assert task.mode is Mode.REVIEW
    assert task.intensity is Intensity.STANDARD
    assert task.context_policy is ContextPolicy.FULL_CONTEXT
    assert (task.files, task.loc, task.requirements, task.local_council_required) == (None, None, (), False)


@pytest.mark.parametrize(
    ("task_type", "mode"),
    [
        ("review", Mode.REVIEW),
        ("audit", Mode.AUDIT),
        ("research", Mode.RESEARCH),
        ("analysis", Mode.SYNTHESIS),
        ("planning", None),
        ("implementation", None),
    ],
)
def test_the_mode_follows_from_the_task_type(task_type: str, mode: Mode | None) -> None:
    assert parse_bridge_input({**MINIMAL, "task_type": task_type}).task.mode is mode


@pytest.mark.parametrize("mode", ["research", "brainstorm", "design"])
def test_open_ended_modes_do_not_lead_by_default(mode: str) -> None:
    task = parse_bridge_input({**MINIMAL, "mode": mode}).task

    assert task.context_policy is ContextPolicy.MINIMAL_NON_LEADING


def test_an_alias_that_agrees_gives_no_warning() -> None:
    assert parse_bridge_input({**MINIMAL, "review_id": "r1"}).warnings == ()


def test_a_missing_task_description_is_taken_from_the_context_summary() -> None:
    fields = {**MINIMAL, "context_summary": "checkout service"}
    del fields["task_description"]

    assert parse_bridge_input(fields).task.task_description == "checkout service"


def test_domains_keep_their_order_and_lose_duplicates_after_normalising() -> None:
    task = parse_bridge_input({**MINIMAL, "domains": ["API_Design", "security", " api design ", "Security"]}).task

    assert task.domains == ("api-design", "security")


def test_only_an_implementation_may_modify() -> None:
    modify = parse_bridge_input({**MINIMAL, "task_type": "implementation"}).task

    assert modify.capability_profile is CapabilityProfile.MODIFY
    assert parse_bridge_input(MINIMAL).task.capability_profile is CapabilityProfile.INSPECT


def test_a_list_of_scopes_is_joined_in_prompts() -> None:
    assert parse_bridge_input({**MINIMAL, "scope": ["a.py", "b.py"]}).task.scope_text == "a.py, b.py"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"session_id": None}, "session_id"),
        ({"session_id": "a/b"}, "session_id"),
        ({"session_id": "x" * 129}, "session_id"),
        ({"session_id": "r1\n"}, "session_id"),
        ({"scope": ""}, "scope"),
        ({"scope": []}, "scope"),
        ({"scope": [1]}, "scope"),
        ({"domains": []}, "domains"),
        ({"domains": "security"}, "domains"),
        ({"domains": [" "]}, "domains"),
        ({"task_type": "guess"}, "task_type"),
        ({"intensity": "extreme"}, "intensity"),
        ({"mode": 3}, "mode"),
        ({"context_policy": "none"}, "context_policy"),
        ({"task_description": None}, "task_description"),
        ({"task_description": 5}, "task_description"),
        ({"local_council_required": "yes"}, "local_council_required"),
        ({"files": -1}, "files"),
        ({"loc": True}, "loc"),
        ({"loc": 1.5}, "loc"),
        ({"requirements": [{"id": "R1"}]}, "requirements"),
        ({"requirements": [{"id": "R1", "text": "t", "level": "WILL"}]}, "requirements"),
    ],
)
def test_an_unusable_field_is_named(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidBridgeInput) as raised:
        parse_bridge_input({**MINIMAL, **change})

    assert raised.value.field == field
    assert raised.value.skip_reason == f"invalid_input: {field}"


@pytest.mark.parametrize("document", [None, [], "x", {"bridge_input": []}])
def test_what_is_not_an_object_is_refused(document: object) -> None:
    with pytest.raises(InvalidBridgeInput):
        parse_bridge_input(document)
