"""JSON Schemas of the answers, by phase: what an answer needs to be used at all (flows §12). Data only.

They go with the request, for handlers and pages that check before they send. They refuse nothing the phase would take:
the other shapes a phase understands are among them, and members that merely fall back to a default are not checked.
"""

from __future__ import annotations

from typing import Any, Final

_TEXT: Final = {"type": "string"}
_SURE: Final = {"type": "number", "minimum": 0, "maximum": 1}
_PERCENT: Final = {
    "type": "object",
    "required": ["confidence"],
    "properties": {
        "confidence": {
            "type": "object",
            "required": ["percentage"],
            "properties": {"percentage": {"type": "number", "minimum": 0, "maximum": 100}},
        }
    },
}

_ANALYSIS: Final = {
    "type": "object",
    "required": ["technology_stack", "overall_confidence"],
    "properties": {
        "technology_stack": {
            "type": "object",
            "required": ["primary_language"],
            "properties": {"primary_language": _TEXT},
        },
        "overall_confidence": _SURE,
    },
}
_UPSTREAM_ANALYSIS: Final = {
    "type": "object",
    "required": ["technology", "architecture", "quality"],
    "not": {"required": ["technology_stack"]},
    "properties": {
        "technology": {
            "allOf": [_PERCENT, {"required": ["primary_language"], "properties": {"primary_language": _TEXT}}]
        },
        "architecture": _PERCENT,
        "quality": _PERCENT,
    },
}
_RECOMMENDATION: Final = {
    "type": "object",
    "required": ["use_existing", "create_new", "confidence"],
    "properties": {
        "use_existing": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "source"],
                "properties": {"name": _TEXT, "source": {"enum": ["custom", "template", "global"]}},
            },
        },
        "create_new": {
            "type": "array",
            "items": {
                "type": "object",
                "required": [
                    *("name", "priority", "rationale", "key_patterns", "capabilities"),
                    "content_outline",
                ],
                "properties": {
                    "name": _TEXT,
                    "priority": {"type": "number", "minimum": 1, "maximum": 10},
                    "rationale": _TEXT,
                    "key_patterns": {"type": "array"},
                    "capabilities": {"type": "array"},
                    "content_outline": {"type": "object"},
                },
            },
        },
        "confidence": _SURE,
    },
}
_ENHANCEMENT: Final = {
    "type": "object",
    "required": ["enhanced_agents", "confidence"],
    "properties": {"enhanced_agents": {"type": "array"}, "confidence": _SURE},
}

ANSWER_SCHEMAS: Final[dict[int, dict[str, Any]]] = {
    1: {"anyOf": [_ANALYSIS, _UPSTREAM_ANALYSIS]},
    5: {"anyOf": [_RECOMMENDATION, {"type": "array", "minItems": 1}]},
    7: _ENHANCEMENT,
}
