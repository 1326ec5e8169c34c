"""The JSON Schemas published under src/bridgehead/contract/schemas/, generated from the types.

`make generate` writes them; a test compares the committed files with what this module generates. Which fields of a
bridge report may be null under which status is one table here, used by `violations` and by the schema alike.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any, Final

import msgspec

from bridgehead.contract.events import Event
from bridgehead.contract.pending import PendingItem
from bridgehead.contract.report import BridgeReport, Output
from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import Status

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
VERSION: Final = "1.0"

PUBLISHED: Final[dict[str, type]] = {
    "bridge-input": BridgeInput,
    "bridge-report": BridgeReport,
    "event": Event,
    "output": Output,
    "pending-item": PendingItem,
}


class Presence(Enum):
    """What one field holds under one status."""

    SET = "set"
    NULL = "null"
    EMPTY = "empty"
    EITHER = "either"


_WORDING: Final = {
    Presence.SET: "set",
    Presence.NULL: "null",
    Presence.EMPTY: "an empty list",
}
_S, _N, _E, _X = Presence.SET, Presence.NULL, Presence.EMPTY, Presence.EITHER

# council §12, one row per field whose value depends on the status: COMPLETED, SKIPPED, HALTED, ABORTED.
PRESENCE: Final[dict[str, tuple[Presence, Presence, Presence, Presence]]] = {
    "connection_used": (_S, _X, _X, _X),
    "skip_reason": (_N, _S, _N, _N),
    "halt_reason": (_N, _N, _S, _N),
    "halt_message": (_N, _N, _S, _N),
    "domains_covered": (_X, _E, _E, _E),
    "debate_rounds": (_S, _N, _N, _N),
    "outputs": (_X, _E, _E, _E),
    "withdrawn_outputs": (_X, _E, _E, _E),
    "disputed_outputs": (_X, _E, _E, _E),
    "verdict": (_X, _N, _N, _N),
    "confidence": (_S, _N, _N, _N),
    "prompt_size_chars_r1": (_X, _X, _N, _X),
    "prompt_size_chars_r2": (_X, _X, _N, _X),
    "prompt_size_chars_r3": (_X, _X, _N, _X),
    "prompt_size_chars_r4": (_X, _X, _N, _X),
    "local_council_type": (_S, _N, _N, _N),
    "local_council_degraded": (_S, _N, _N, _N),
    "degradation_reason": (_X, _N, _N, _N),
    "diversity_sources": (_X, _E, _E, _E),
    "runtime": (_X, _N, _N, _N),
    "toolchain": (_X, _N, _N, _N),
    "exchange_mode": (_X, _N, _N, _N),
}
STATUS_COLUMN: Final = {status: column for column, status in enumerate(Status)}


def presence(field: str, status: Status) -> Presence:
    """What `field` holds in a report of that status."""
    row = PRESENCE.get(field)
    return Presence.EITHER if row is None else row[STATUS_COLUMN[status]]


def violations(report: BridgeReport) -> list[str]:
    """Every way in which a report's fields do not fit its status; empty for a good report."""
    broken: list[str] = []
    for field in PRESENCE:
        wanted, value = presence(field, report.status), getattr(report, field)
        if not _fits(wanted, value):
            broken.append(f"{field} must be {_WORDING[wanted]} when {report.status}")
    return broken


def _fits(wanted: Presence, value: object) -> bool:
    match wanted:
        case Presence.SET:
            return value is not None
        case Presence.NULL:
            return value is None
        case Presence.EMPTY:
            return value == ()
        case Presence.EITHER:
            return True


def _with_plain_descriptions(schema: Any) -> Any:
    """Return a schema whose descriptions are one line each.

    They come from docstrings, whose indentation Python 3.13 takes away and earlier versions keep.
    """
    if isinstance(schema, list):
        return [_with_plain_descriptions(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: _with_plain_descriptions(part) for name, part in schema.items()}
    description = plain.get("description")
    if isinstance(description, str):
        plain["description"] = " ".join(description.split())
    return plain


def schemas() -> dict[str, dict[str, Any]]:
    """Every published schema by file name."""
    documents: dict[str, dict[str, Any]] = {}
    for name, type_ in PUBLISHED.items():
        head = {
            "$schema": DIALECT,
            "$id": f"urn:bridgehead:{name}:{VERSION}",
            "title": name,
        }
        body = _with_plain_descriptions(msgspec.json.schema(type_))
        documents[f"{name}.json"] = {**head, **body}
    documents["bridge-report.json"]["allOf"] = [
        _status_rule(status) for status in Status
    ]
    return documents


def as_text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


_CONSTRAINT: Final[dict[Presence, dict[str, Any]]] = {
    Presence.SET: {"not": {"type": "null"}},
    Presence.NULL: {"type": "null"},
    Presence.EMPTY: {"type": "array", "maxItems": 0},
}


def _status_rule(status: Status) -> dict[str, Any]:
    fields = {field: presence(field, status) for field in PRESENCE}
    constrained = {
        field: _CONSTRAINT[rule]
        for field, rule in fields.items()
        if rule in _CONSTRAINT
    }
    return {
        "if": {"properties": {"status": {"const": status.value}}},
        "then": {"properties": constrained},
    }
