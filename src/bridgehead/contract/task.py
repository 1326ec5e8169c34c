"""What a bridge is asked to do: the bridge input of council §2, complete and canonical."""

from __future__ import annotations

from typing import Final

import msgspec

from bridgehead.contract.words import (
    CapabilityProfile,
    ContextPolicy,
    Intensity,
    Mode,
    RequirementLevel,
    TaskType,
)
from bridgehead.errors import UserError

_MODE_OF_TASK: Final[dict[TaskType, Mode | None]] = {
    TaskType.REVIEW: Mode.REVIEW,
    TaskType.AUDIT: Mode.AUDIT,
    TaskType.RESEARCH: Mode.RESEARCH,
    TaskType.ANALYSIS: Mode.SYNTHESIS,
    TaskType.PLANNING: None,
    TaskType.IMPLEMENTATION: None,
}
_OPEN_ENDED_MODES: Final = frozenset({Mode.RESEARCH, Mode.BRAINSTORM, Mode.DESIGN})


class Requirement(msgspec.Struct, frozen=True):
    """One requirement of an audit."""

    id: str
    text: str
    level: RequirementLevel


class BridgeInput(msgspec.Struct, frozen=True, kw_only=True):
    """A complete, canonical request to one bridge."""

    session_id: str
    scope: str | tuple[str, ...]
    task_description: str
    domains: tuple[str, ...]
    task_type: TaskType = TaskType.REVIEW
    context_summary: str = ""
    intensity: Intensity = Intensity.STANDARD
    mode: Mode | None = Mode.REVIEW
    context_policy: ContextPolicy = ContextPolicy.FULL_CONTEXT
    local_council_required: bool = False
    files: int | None = None
    loc: int | None = None
    requirements: tuple[Requirement, ...] = ()
    review_rules: str = ""
    """What the owner of the project wants reviewers to look at; taken from the base of
    a change, never from it.
    """

    def __post_init__(self) -> None:
        if not self.scope or not all(map(str.strip, self.scope_entries)):
            raise UserError(
                "bridge input: scope must be a non-empty string or a list of them",
                hint="see docs/reference/schemas.md, bridge-input",
            )

    @property
    def scope_entries(self) -> tuple[str, ...]:
        return (self.scope,) if isinstance(self.scope, str) else self.scope

    @property
    def scope_text(self) -> str:
        """The scope as prompts name it."""
        return ", ".join(self.scope_entries)

    @property
    def capability_profile(self) -> CapabilityProfile:
        """Derived, never passed: only an implementation may change the tree."""
        modifies = self.task_type is TaskType.IMPLEMENTATION
        return CapabilityProfile.MODIFY if modifies else CapabilityProfile.INSPECT


def usual_mode(task_type: TaskType) -> Mode | None:
    """Return the mode of a task that names none."""
    return _MODE_OF_TASK[task_type]


def usual_context_policy(mode: Mode | None) -> ContextPolicy:
    """Return what seats are told in a mode when nobody chose: little where ideas are
    wanted, else everything.
    """
    return (
        ContextPolicy.MINIMAL_NON_LEADING
        if mode in _OPEN_ENDED_MODES
        else ContextPolicy.FULL_CONTEXT
    )


def normalise_domain(name: str) -> str:
    """Domain names compare trimmed, in lower case, with single hyphens between words."""
    return "-".join(name.replace("_", " ").replace("-", " ").casefold().split())
