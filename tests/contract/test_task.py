"""A bridge input: what follows from the kind of task, and what is refused."""

from __future__ import annotations

import pytest

from bridgehead.contract.task import (
    BridgeInput,
    normalise_domain,
    usual_context_policy,
    usual_mode,
)
from bridgehead.contract.words import (
    CapabilityProfile,
    ContextPolicy,
    Intensity,
    Mode,
    TaskType,
)
from bridgehead.errors import UserError


def task(
    scope: str | tuple[str, ...] = "src/", task_type: TaskType = TaskType.REVIEW
) -> BridgeInput:
    return BridgeInput(
        session_id="r1",
        scope=scope,
        task_description="x",
        domains=("security",),
        task_type=task_type,
    )


def test_defaults_fill_what_is_missing() -> None:
    usual = task()

    assert usual.task_type is TaskType.REVIEW
    assert usual.mode is Mode.REVIEW
    assert usual.intensity is Intensity.STANDARD
    assert usual.context_policy is ContextPolicy.FULL_CONTEXT
    assert (
        usual.files,
        usual.loc,
        usual.requirements,
        usual.local_council_required,
    ) == (None, None, (), False)


@pytest.mark.parametrize(
    ("task_type", "mode"),
    [
        (TaskType.REVIEW, Mode.REVIEW),
        (TaskType.AUDIT, Mode.AUDIT),
        (TaskType.RESEARCH, Mode.RESEARCH),
        (TaskType.ANALYSIS, Mode.SYNTHESIS),
        (TaskType.PLANNING, None),
        (TaskType.IMPLEMENTATION, None),
    ],
)
def test_the_mode_follows_from_the_task_type(
    task_type: TaskType, mode: Mode | None
) -> None:
    assert usual_mode(task_type) is mode


@pytest.mark.parametrize("mode", [Mode.RESEARCH, Mode.BRAINSTORM, Mode.DESIGN])
def test_open_ended_modes_do_not_lead_by_default(mode: Mode) -> None:
    assert usual_context_policy(mode) is ContextPolicy.MINIMAL_NON_LEADING


@pytest.mark.parametrize("name", ["API_Design", " api design ", "api-design"])
def test_the_name_of_a_domain_has_one_spelling(name: str) -> None:
    assert normalise_domain(name) == "api-design"


def test_only_an_implementation_may_modify() -> None:
    assert (
        task(task_type=TaskType.IMPLEMENTATION).capability_profile
        is CapabilityProfile.MODIFY
    )
    assert task().capability_profile is CapabilityProfile.INSPECT


def test_a_list_of_scopes_is_joined_in_prompts() -> None:
    assert task(scope=("a.py", "b.py")).scope_text == "a.py, b.py"


@pytest.mark.parametrize("scope", ["", " ", (), ("a.py", " ")])
def test_an_empty_scope_is_refused(scope: str | tuple[str, ...]) -> None:
    with pytest.raises(UserError, match="scope must be a non-empty string"):
        task(scope=scope)
