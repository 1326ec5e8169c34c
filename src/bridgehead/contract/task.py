"""What a bridge is asked to do: the bridge input of council §2.

`parse_bridge_input` is the only place that knows deprecated field names and defaults; behind it a `BridgeInput` is
complete and canonical.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeGuard, TypeVar

import msgspec

from bridgehead.contract.ids import is_session_id
from bridgehead.contract.words import CapabilityProfile, ContextPolicy, Intensity, Mode, RequirementLevel, TaskType
from bridgehead.errors import UserError

WRAPPER: Final = "bridge_input"
# Accepted until v3.0 (council §2).
ALIASES: Final = {"review_id": "session_id", "review_scope": "scope"}

WordT = TypeVar("WordT", bound=StrEnum)
DefaultT = TypeVar("DefaultT")

_MODE_OF_TASK: Final[dict[TaskType, Mode | None]] = {
    TaskType.REVIEW: Mode.REVIEW,
    TaskType.AUDIT: Mode.AUDIT,
    TaskType.RESEARCH: Mode.RESEARCH,
    TaskType.ANALYSIS: Mode.SYNTHESIS,
    TaskType.PLANNING: None,
    TaskType.IMPLEMENTATION: None,
}
_SCOPE_NEEDED: Final = "must be a non-empty string or a list of them"
_OPEN_ENDED_MODES: Final = frozenset({Mode.RESEARCH, Mode.BRAINSTORM, Mode.DESIGN})


class InvalidBridgeInput(UserError):
    """A bridge input with a missing or unusable field."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"bridge input: {field} {problem}", hint="see docs/reference/schemas.md, bridge-input")
        self.field = field

    @property
    def skip_reason(self) -> str:
        """The skip reason when the input came from a caller that must be answered with a report."""
        return f"invalid_input: {self.field}"


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
    """What the owner of the project wants reviewers to look at; taken from the base of a change, never from it."""

    def __post_init__(self) -> None:
        if not self.scope or not all(map(str.strip, self.scope_entries)):
            raise InvalidBridgeInput("scope", _SCOPE_NEEDED)

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


class ParsedInput(NamedTuple):
    task: BridgeInput
    warnings: tuple[str, ...]


def parse_bridge_input(document: object) -> ParsedInput:
    """Read a bridge input, wrapped or bare; raise InvalidBridgeInput naming the first unusable field."""
    if not isinstance(document, Mapping):
        raise InvalidBridgeInput(WRAPPER, "must be an object")
    inner = document.get(WRAPPER, document)
    if not isinstance(inner, Mapping):
        raise InvalidBridgeInput(WRAPPER, "must be an object")
    fields, warnings = _resolve_aliases(inner)
    return ParsedInput(_read_fields(fields), tuple(warnings))


def _resolve_aliases(inner: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    fields = dict(inner)
    warnings: list[str] = []
    for alias, canonical in ALIASES.items():
        if alias not in fields:
            continue
        old = fields.pop(alias)
        if canonical not in fields:
            fields[canonical] = old
            warnings.append(f"deprecated_alias:{alias}")
        elif fields[canonical] != old:
            warnings.append(f"alias_conflict:{alias}")
    return fields, warnings


def _read_fields(fields: dict[str, Any]) -> BridgeInput:
    task_type = _choice(fields, "task_type", TaskType, TaskType.REVIEW)
    mode = _choice(fields, "mode", Mode, usual_mode(task_type))
    context_summary = _text(fields, "context_summary", default="")
    return BridgeInput(
        session_id=_session_id(fields),
        scope=_scope(fields),
        task_description=_text(fields, "task_description", default=context_summary or None),
        task_type=task_type,
        domains=_domains(fields),
        context_summary=context_summary,
        intensity=_choice(fields, "intensity", Intensity, Intensity.STANDARD),
        mode=mode,
        context_policy=_choice(fields, "context_policy", ContextPolicy, usual_context_policy(mode)),
        local_council_required=_flag(fields, "local_council_required"),
        files=_count(fields, "files"),
        loc=_count(fields, "loc"),
        requirements=_requirements(fields),
        review_rules=_text(fields, "review_rules", default=""),
    )


def usual_mode(task_type: TaskType) -> Mode | None:
    """The mode of a task that names none."""
    return _MODE_OF_TASK[task_type]


def usual_context_policy(mode: Mode | None) -> ContextPolicy:
    """What seats are told in a mode when nobody chose: little where ideas are wanted, else everything."""
    return ContextPolicy.MINIMAL_NON_LEADING if mode in _OPEN_ENDED_MODES else ContextPolicy.FULL_CONTEXT


def normalise_domain(name: str) -> str:
    """Domain names compare trimmed, in lower case, with single hyphens between words."""
    return "-".join(name.replace("_", " ").replace("-", " ").casefold().split())


def _session_id(fields: Mapping[str, Any]) -> str:
    value = fields.get("session_id")
    if not isinstance(value, str) or not is_session_id(value):
        raise InvalidBridgeInput("session_id", "must be 1 to 128 characters of A-Z a-z 0-9 . _ -")
    return value


def _scope(fields: Mapping[str, Any]) -> str | tuple[str, ...]:
    value = fields.get("scope")
    if isinstance(value, str) and value.strip():
        return value
    if _is_list(value) and value and all(isinstance(entry, str) and entry.strip() for entry in value):
        return tuple(value)
    raise InvalidBridgeInput("scope", _SCOPE_NEEDED)


def _domains(fields: Mapping[str, Any]) -> tuple[str, ...]:
    value = fields.get("domains")
    if not _is_list(value) or not all(isinstance(entry, str) for entry in value):
        raise InvalidBridgeInput("domains", "must be a list of strings")
    named = dict.fromkeys(filter(None, map(normalise_domain, value)))
    if not named:
        raise InvalidBridgeInput("domains", "must name at least one domain")
    return tuple(named)


def _requirements(fields: Mapping[str, Any]) -> tuple[Requirement, ...]:
    value = fields.get("requirements")
    if value is None:
        return ()
    try:
        return msgspec.convert(value, tuple[Requirement, ...])
    except msgspec.ValidationError as error:
        raise InvalidBridgeInput("requirements", f"must be a list of id, text, level: {error}") from error


def _text(fields: Mapping[str, Any], name: str, *, default: str | None) -> str:
    value = fields.get(name, default)
    if value is None:
        value = default
    if not isinstance(value, str):
        raise InvalidBridgeInput(name, "must be a string" if name in fields else "is required")
    return value


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise InvalidBridgeInput(name, "must be true or false")
    return value


def _count(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidBridgeInput(name, "must be a whole number of at least 0, or null")
    return value


def _choice(fields: Mapping[str, Any], name: str, words: type[WordT], default: DefaultT) -> WordT | DefaultT:
    value = fields.get(name)
    if value is None:
        return default
    try:
        return words(value)
    except ValueError:
        raise InvalidBridgeInput(name, f"must be one of: {', '.join(words)}") from None


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str)
