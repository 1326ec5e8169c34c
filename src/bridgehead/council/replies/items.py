"""From an entry of a model's reply to an output draft: types, severities, aliases, audit calibration (council §7)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridgehead.contract.report import Output
from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import OutputType, RequirementLevel, Severity
from bridgehead.council.prompts.packet_limit import compact
from bridgehead.council.request.plan import NEVER_RATED, item_types

SPELLINGS: Final[dict[str, Severity]] = {
    **dict.fromkeys(("critical", "blocker", "severe"), Severity.CRITICAL),
    **dict.fromkeys(("high", "major"), Severity.HIGH),
    **dict.fromkeys(("medium", "moderate", "med"), Severity.MEDIUM),
    **dict.fromkeys(("low", "minor"), Severity.LOW),
    **dict.fromkeys(("info", "informational", "note"), Severity.INFO),
}
RATED: Final = frozenset(
    {
        OutputType.FINDING,
        OutputType.RECOMMENDATION,
        OutputType.COMPLIANCE_GAP,
        OutputType.RISK,
    }
)

PROPOSAL_TEXTS: Final = ("summary", "rationale", "recommended_when")
PROPOSAL_LISTS: Final = (
    "tradeoffs",
    "failure_modes",
    "dependencies",
    "open_questions",
    "risks",
)
PROPOSAL_WORDS: Final = {
    "proposal_type": ("schema", "protocol", "lifecycle", "policy", "implementation"),
    "maturity": ("seed", "sketched", "refined", "candidate"),
}

_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Draft:
    """An output without an id: what one entry of a reply says, in our words."""

    type: OutputType
    severity: Severity | None
    title: str
    description: str
    evidence: str | None
    action: str | None
    severity_inferred: bool = False
    severity_original: str | None = None
    requirement_id: str | None = None
    met: bool | None = None
    proposal: dict[str, Any] | None = None
    """What a proposal says about itself (council §15)."""

    def output(self, output_id: str, *, domain: str, agent: str, **more: Any) -> Output:
        """The draft under an id, of somebody; `more` are further fields of the output."""
        return Output(
            **{
                "id": output_id,
                "status": None,
                "domain": domain,
                "agent": agent,
                **told(self),
                **more,
            }
        )


def told(item: object) -> dict[str, Any]:
    """What drafts, outputs and findings of the council all say, under the names all of them have for it."""
    return {
        name: getattr(item, name)
        for name in ("type", "severity", "title", "description", "evidence", "action")
    }


class Intake:
    """Reads entries for one task."""

    def __init__(self, task: BridgeInput) -> None:
        self._default_type = item_types(task.task_type, task.mode)[0]
        self._levels = {
            requirement.id: requirement.level for requirement in task.requirements
        }

    def draft(self, entry: Mapping[str, Any]) -> Draft:
        """The draft of an entry that has a title."""
        kind = parse_type(entry.get("type")) or self._default_type
        given = parse_severity(entry.get("severity"))
        rated, inferred = settle_severity(kind, given)
        requirement_id = as_text(entry.get("requirement_id"))
        met = entry.get("met") if isinstance(entry.get("met"), bool) else None
        level = self._levels.get(requirement_id) if requirement_id else None
        calibrated = (
            calibrate(rated, level, met=met is True)
            if kind not in NEVER_RATED
            else rated
        )
        changed = calibrated is not rated and given is not None
        return Draft(
            type=kind,
            severity=calibrated,
            title=as_line(entry["title"]),
            description=as_text(entry.get("description")) or "",
            evidence=_evidence(entry),
            action=_action(entry),
            severity_inferred=inferred and calibrated is rated,
            severity_original=given.value if changed and given is not None else None,
            requirement_id=requirement_id,
            met=met,
            proposal=read_proposal(entry) if kind is OutputType.PROPOSAL else None,
        )

    def changes(self, output: Output, fields: Mapping[str, Any]) -> dict[str, Any]:
        """What a revision really changes of an output; severities follow the same rules as at first."""
        given: dict[str, Any] = {
            "title": as_line(fields.get("title")),
            "description": as_text(fields.get("description")),
            "evidence": _evidence(fields),
            "action": _action(fields),
        }
        severity = parse_severity(fields.get("severity"))
        if severity is not None and output.type not in NEVER_RATED:
            level = self._levels.get(str(output.requirement_id))
            given["severity"] = calibrate(severity, level, met=output.met is True)
        return {
            name: value
            for name, value in given.items()
            if value and value != getattr(output, name)
        }


def read_proposal(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a proposal, every one present: texts, lists of texts, and two closed words."""
    given = entry.get("proposal")
    fields = {**entry, **given} if isinstance(given, dict) else entry
    return {
        **{name: as_text(fields.get(name)) for name in PROPOSAL_TEXTS},
        **{name: _texts(fields.get(name)) for name in PROPOSAL_LISTS},
        **{
            name: _word(fields.get(name), words)
            for name, words in PROPOSAL_WORDS.items()
        },
    }


def parse_severity(value: object) -> Severity | None:
    """A severity in any accepted spelling; None for a missing or unknown one."""
    return SPELLINGS.get(value.strip().casefold()) if isinstance(value, str) else None


def parse_type(value: object) -> OutputType | None:
    """A type in any case, with spaces or underscores for hyphens; None when unknown."""
    if not isinstance(value, str):
        return None
    spelled = re.sub(r"[\s_]+", "-", value.strip().casefold())
    return next((kind for kind in OutputType if kind.value == spelled), None)


def settle_severity(
    kind: OutputType, given: Severity | None
) -> tuple[Severity | None, bool]:
    """The severity an output of that type has, and whether we had to infer it."""
    if kind in NEVER_RATED:
        return None, False
    if given is None and kind in RATED:
        return Severity.MEDIUM, True
    return given, False


def calibrate(
    rated: Severity | None, level: RequirementLevel | None, *, met: bool
) -> Severity | None:
    """An audit's severity follows from the requirement, where its level is known."""
    if level is None:
        return rated
    if met:
        return Severity.INFO
    match level:
        case RequirementLevel.MUST:
            return Severity.CRITICAL if rated is Severity.CRITICAL else Severity.HIGH
        case RequirementLevel.SHOULD:
            return Severity.MEDIUM
        case RequirementLevel.MAY:
            return Severity.LOW


def as_text(value: object) -> str | None:
    """Any JSON value as text; None for nothing. Half characters cannot be written anywhere, so they are replaced."""
    if value is None or value == "":
        return None
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        value = "\n".join(value)
    if isinstance(value, dict | list):
        value = compact(value)
    return _SURROGATE.sub("\ufffd", str(value)).strip() or None


def writable(value: Any) -> Any:
    """A JSON value that is kept as it came, but for half characters in its names and texts."""
    match value:
        case str():
            return _SURROGATE.sub("\ufffd", value)
        case dict():
            return {writable(name): writable(entry) for name, entry in value.items()}
        case list():
            return [writable(entry) for entry in value]
        case _:
            return value


def as_line(value: object) -> str:
    """The same on one line."""
    return " ".join((as_text(value) or "").split())


def _texts(value: object) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    return [text for text in map(as_text, listed) if text is not None]


def _word(value: object, words: Sequence[str]) -> str | None:
    spelled = as_line(value).casefold()
    return spelled if spelled in words else None


def _evidence(entry: Mapping[str, Any]) -> str | None:
    parts = [_location(entry.get("location")), as_text(entry.get("evidence"))]
    return "\n".join(part for part in parts if part) or None


def _location(value: object) -> str | None:
    if not isinstance(value, dict):
        return as_text(value)
    path = as_text(value.get("file") or value.get("path"))
    line = value.get("line") or value.get("start_line")
    return f"{path}:{line}" if path and isinstance(line, int) else path


def _action(entry: Mapping[str, Any]) -> str | None:
    for name in ("action", "remediation", "recommendation"):
        text = as_text(entry.get(name))
        if text:
            return text
    return None
