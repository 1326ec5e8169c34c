"""What an agent's answer has to be, by phase: the JSON Schema that goes with the request, and the judge of what came
back: usable, usable with care, too unsure, or unusable (flows §12).

The schemas refuse nothing the phase would take: the other shapes a phase understands are among them, and members that
merely fall back to a default are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final

from bridgehead.flows.calls import Accepted, Failed, Verdict
from bridgehead.flows.engine.answers import judge_json
from bridgehead.flows.engine.settlement import Judge
from bridgehead.flows.errors import log_warning
from bridgehead.flows.template_create.answers.parse import (
    read_analysis,
    read_enhancement,
    read_recommendation,
)
from bridgehead.flows.words import LOW_CONFIDENCE

Reader = Callable[[Any, list[str]], tuple[Any, float]]
"""(JSON value, warnings) -> what it means and how sure the agent is; Unfit when it means nothing."""

# Phase -> how sure an agent must be for its answer to be used without a warning, and to be used at all.
THRESHOLDS: Final = {1: (0.85, 0.70), 5: (0.85, 0.70), 7: (0.80, 0.60)}
_READERS: Final[dict[int, Reader]] = {
    1: read_analysis,
    5: read_recommendation,
    7: read_enhancement,
}


def judge_of(phase: int, taken: Collection[str] = ()) -> Judge:
    """The judge of a phase; in phase 5 the names in `taken` belong to agents that exist."""
    reader = (
        partial(read_recommendation, taken=taken) if phase == 5 else _READERS[phase]
    )
    return partial(_judge, reader, *THRESHOLDS[phase])


# An escaped backslash, a character that takes two escapes, or one half of such a character alone.
_HALVES: Final = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2}|[\ud800-\udfff])"
)


def _writable(text: str) -> str:
    """The answer without halves of characters: JSON can spell them, a file cannot hold them."""
    return _HALVES.sub(lambda found: r"\ufffd" if found["half"] else found[0], text)


def _judge(reader: Reader, proceed: float, warn: float, text: str) -> Verdict:
    confidence = 0.0
    warnings: list[str] = []

    def fit(candidate: Any) -> Accepted:
        nonlocal confidence
        warnings.clear()
        value, confidence = reader(candidate, warnings)
        return Accepted(value)

    verdict = judge_json(fit)(_writable(text))
    if isinstance(verdict, Failed):
        return verdict
    if confidence < warn:
        return Failed(
            LOW_CONFIDENCE,
            f"the agent's confidence is {confidence:g}; {warn:g} is needed",
        )
    for warning in warnings:
        log_warning(f"the agent's answer: {warning}")
    if confidence < proceed:
        return verdict._replace(
            warning=f"the agent's confidence is only {confidence:g}"
        )
    return verdict


_TEXT: Final = {"type": "string"}
_SURE: Final = {"type": "number", "minimum": 0, "maximum": 1}
_PERCENT: Final = {
    "type": "object",
    "required": ["confidence"],
    "properties": {
        "confidence": {
            "type": "object",
            "required": ["percentage"],
            "properties": {
                "percentage": {"type": "number", "minimum": 0, "maximum": 100}
            },
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
            "allOf": [
                _PERCENT,
                {
                    "required": ["primary_language"],
                    "properties": {"primary_language": _TEXT},
                },
            ]
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
                "properties": {
                    "name": _TEXT,
                    "source": {"enum": ["custom", "template", "global"]},
                },
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
