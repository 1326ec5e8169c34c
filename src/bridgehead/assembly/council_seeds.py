"""Findings the caller brings along: a list, a bridge report or a council report, read as foreign text (§14.7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from bridgehead.contract.ids import numbered_id
from bridgehead.contract.report import Output
from bridgehead.contract.task import BridgeInput
from bridgehead.council.domains import CROSS_DOMAIN
from bridgehead.council.items import Intake, parse_severity
from bridgehead.council.joint import CALLER
from bridgehead.errors import UserError

PREFIX: Final = "U"
_LISTS: Final = (
    "outputs",
    "findings",
    "multi_source_confirmed",
    "single_source_findings",
    "disputed_findings",
    "integration_findings",
)
_ANY_TASK: Final = BridgeInput(session_id="seed", scope=".", task_description="seed", domains=(CROSS_DOMAIN,))


class NoFindings(UserError):
    """A file of findings that holds something else."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(
            f"{name} is no list of findings: {problem}",
            hint='a JSON list of objects with "title", and where known "severity description evidence action domain"; '
            "a report of ours will do",
        )


def read_seed_findings(text: str, name: str) -> tuple[Output, ...]:
    """The findings in `text`, in our words and with ids of their own."""
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NoFindings(name, str(error)) from error
    return tuple(
        _output(entry, number, name) for number, entry in enumerate(_entries(document, name), start=1)
    )


def _entries(document: Any, name: str) -> Iterator[Any]:
    if isinstance(document, list):
        yield from document
        return
    lists = [document[key] for key in _LISTS if key in document] if isinstance(document, dict) else []
    if not lists or not all(isinstance(one, list) for one in lists):
        raise NoFindings(name, "neither a list nor a report")
    for one in lists:
        yield from one


def _output(entry: Any, number: int, name: str) -> Output:
    if not isinstance(entry, dict) or not isinstance(entry.get("title"), str) or not entry["title"].strip():
        raise NoFindings(name, f"entry {number} has no title")
    severity = entry.get("severity")
    if severity is not None and parse_severity(severity) is None:
        raise NoFindings(name, f"entry {number} has the severity {severity!r}")
    draft = Intake(_ANY_TASK).draft(entry)
    return Output(
        id=numbered_id(PREFIX, number),
        type=draft.type,
        severity=draft.severity,
        status=None,
        title=draft.title,
        description=draft.description,
        evidence=draft.evidence,
        action=draft.action,
        domain=_domain(entry),
        agent=CALLER,
    )


def _domain(entry: Mapping[str, Any]) -> str:
    listed = entry.get("domains")
    first = listed[0] if isinstance(listed, list) and listed else entry.get("domain")
    return first if isinstance(first, str) and first.strip() else CROSS_DOMAIN
