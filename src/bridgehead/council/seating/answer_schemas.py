"""JSON Schemas of what calls ask for, for runtimes that can be held to one (council §4.2).

Reading never relies on them: a reply goes through reply.py all the same.
"""

from __future__ import annotations

from typing import Any, Final

from bridgehead.contract.words import OutputType, Severity
from bridgehead.council.calls import Answer
from bridgehead.council.debate.challenges import MECHANISMS
from bridgehead.council.debate.ledger import Ruling
from bridgehead.council.synthesis.cross_challenge_notes import NoteOutcome

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_OPTIONAL_TEXT: Final[Schema] = {"type": ["string", "null"]}
_SEVERITY: Final[Schema] = {"enum": [*map(str, Severity), None]}


def _object(
    required: dict[str, Schema], optional: dict[str, Schema] | None = None
) -> Schema:
    # Strict modes want every property listed as required; optional ones may be null.
    properties = {**required, **(optional or {})}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(entry: Schema) -> Schema:
    return {"type": "array", "items": entry}


def _words(values: Any) -> Schema:
    return {"enum": sorted(map(str, values))}


_ITEM: Final = _object(
    {
        "id": _TEXT,
        "type": _words(OutputType),
        "severity": _SEVERITY,
        "title": _TEXT,
        "description": _TEXT,
    },
    {
        "evidence": _OPTIONAL_TEXT,
        "action": _OPTIONAL_TEXT,
        "requirement_id": _OPTIONAL_TEXT,
        "met": {"type": ["boolean", "null"]},
    },
)
_SIGNAL: Final = _object(
    {"domain": _TEXT, "reason": _TEXT}, {"finding_index": {"type": ["integer", "null"]}}
)
_RULING: Final = _object(
    {"challenge_id": _TEXT, "ruling": _words(Ruling), "reason": _TEXT}
)
_CHALLENGE: Final = _object(
    {
        "target_finding_id": _TEXT,
        "challenge_text": _TEXT,
        "mechanism": _words(MECHANISMS),
    },
    {"proposed_severity": _SEVERITY},
)
_RESPONSE: Final = _object(
    {"finding_id": _TEXT, "status": _words(("confirmed", "revised", "withdrawn"))},
    {
        "defense": _OPTIONAL_TEXT,
        "severity": _SEVERITY,
        "title": _OPTIONAL_TEXT,
        "description": _OPTIONAL_TEXT,
        "evidence": _OPTIONAL_TEXT,
    },
)
_DEFENCE: Final = _object(
    {
        "finding_id": _TEXT,
        "status": _words(("confirmed", "revised", "withdrawn")),
        "defense": _TEXT,
    },
    {"severity": _SEVERITY},
)
_NOTE: Final = _object(
    {
        "finding_id": _TEXT,
        "challenge": _TEXT,
        "mechanism": _words(MECHANISMS),
        "response": _TEXT,
        "outcome": _words(NoteOutcome),
    },
    {"new_severity": _SEVERITY},
)
_POSITION: Final = _object(
    {"finding_id": _TEXT, "position": _words(("support", "oppose", "abstain"))}
)

_SECTION: Final = _object(
    {
        "domain": _TEXT,
        "outputs": _list(_ITEM),
        "cross_domain_signals": _list(_SIGNAL),
        "summary": _TEXT,
    }
)

_SCHEMAS: Final[dict[Answer, Schema]] = {
    Answer.ITEMS: _object(
        {
            "agent": _TEXT,
            "domain": _TEXT,
            "outputs": _list(_ITEM),
            "cross_domain_signals": _list(_SIGNAL),
            "summary": _TEXT,
            "confidence": _words(("high", "medium", "low")),
        }
    ),
    Answer.SECTIONS: _object({"sections": _list(_SECTION)}),
    Answer.CHALLENGES: _object(
        {
            "rulings": _list(_RULING),
            "challenges": _list(_CHALLENGE),
            "outputs": _list(_ITEM),
            "cross_domain_signals": _list(_SIGNAL),
        }
    ),
    Answer.RESPONSES: _object(
        {
            "responses": _list(_RESPONSE),
            "outputs": _list(_ITEM),
            "cross_domain_signals": _list(_SIGNAL),
        }
    ),
    Answer.RULINGS: _object({"rulings": _list(_RULING)}),
    Answer.NOTES: _object({"challenge_notes": _list(_NOTE)}),
    Answer.EXAMINATION: _object(
        {"challenge_notes": _list(_NOTE), "outputs": _list(_ITEM)}
    ),
    Answer.DEFENCES: _object(
        {
            "responses": _list(_DEFENCE),
            "challenge_notes": _list(_NOTE),
            "sections": _list(_SECTION),
        }
    ),
    Answer.POSITIONS: _object({"positions": _list(_POSITION)}),
}


def schema_of(answer: Answer) -> Schema:
    """The JSON Schema of an answer, in the subset strict structured output accepts."""
    return _SCHEMAS[answer]
