"""The JSON Schemas published under contract/schemas/, generated from the types.

`make generate` writes them; a test compares the committed files with what this module generates.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from bridgehead.contract.events import Event
from bridgehead.contract.pending import PendingItem
from bridgehead.contract.report import PRESENCE, BridgeReport, Output, Presence, presence
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


def schemas() -> dict[str, dict[str, Any]]:
    """Every published schema by file name."""
    documents: dict[str, dict[str, Any]] = {}
    for name, type_ in PUBLISHED.items():
        head = {"$schema": DIALECT, "$id": f"urn:bridgehead:{name}:{VERSION}", "title": name}
        documents[f"{name}.json"] = {**head, **msgspec.json.schema(type_)}
    documents["bridge-report.json"]["allOf"] = [_status_rule(status) for status in Status]
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
    constrained = {field: _CONSTRAINT[rule] for field, rule in fields.items() if rule in _CONSTRAINT}
    return {"if": {"properties": {"status": {"const": status.value}}}, "then": {"properties": constrained}}
