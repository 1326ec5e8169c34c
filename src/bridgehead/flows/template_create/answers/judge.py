"""The JSON Schema of an agent's answer in each phase, and the judge of what came back (flows §12)."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import partial
from typing import Any, Final

from bridgehead.flows.calls import Failed, Verdict
from bridgehead.flows.engine.answers import judge_for
from bridgehead.flows.engine.settlement import Judge
from bridgehead.flows.errors import log_warning
from bridgehead.flows.template_create.answers.parse import (
    LenientReader,
    read_analysis,
    read_enhancement,
    read_recommendation,
)
from bridgehead.flows.words import LOW_CONFIDENCE

# How sure an agent must be for its answer to be used without a warning, and to be used at all.
THRESHOLDS: Final = {1: (0.85, 0.70), 5: (0.85, 0.70), 7: (0.80, 0.60)}


def judge_of(phase: int, taken: Collection[str] = ()) -> Judge:
    """Return the judge of a phase; in phase 5 the names in `taken` belong to agents that exist."""
    return partial(_judge, phase, taken)


def _judge(phase: int, taken: Collection[str], text: str) -> Verdict:
    verdict = judge_for(None, ANSWER_SCHEMAS[phase])(_writable(text))
    if isinstance(verdict, Failed):
        return verdict
    reader = LenientReader()
    value, confidence = _read(phase, verdict.value, reader, taken)
    proceed, warn = THRESHOLDS[phase]
    if confidence < warn:
        return Failed(
            LOW_CONFIDENCE,
            f"the agent's confidence is {confidence:g}; {warn:g} is needed",
        )
    for warning in reader.warnings:
        log_warning(f"the agent's answer: {warning}")
    verdict = verdict._replace(value=value)
    if confidence < proceed:
        return verdict._replace(
            warning=f"the agent's confidence is only {confidence:g}"
        )
    return verdict


def _read(
    phase: int, answer: Any, reader: LenientReader, taken: Collection[str]
) -> tuple[Any, float]:
    if phase == 1:
        return read_analysis(answer, reader)
    if phase == 5:
        return read_recommendation(answer, reader, taken)
    return read_enhancement(answer, reader)


# An escaped backslash, a character that takes two escapes, or one half of such a character alone.
_HALVES: Final = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2}|[\ud800-\udfff])"
)


def _writable(text: str) -> str:
    """Return the answer without halves of characters: JSON can spell them, a file cannot hold them."""
    return _HALVES.sub(lambda found: r"\ufffd" if found["half"] else found[0], text)


_STRING: Final = {"type": "string"}
_TEXT: Final = {"type": "string", "pattern": r"\S"}
_SURE: Final = {"type": "number", "minimum": 0, "maximum": 1}
_PERCENT: Final = {"type": "number", "minimum": 0, "maximum": 100}
_PRIORITY: Final = {"type": "integer", "minimum": 1, "maximum": 10}
_ARRAY: Final = {"type": "array"}


def _object(**members: Any) -> dict[str, Any]:
    """Return the schema of an object in which all of these members are required."""
    return {"type": "object", "required": list(members), "properties": members}


_ANALYSIS: Final = _object(
    technology_stack=_object(primary_language=_TEXT), overall_confidence=_SURE
)
_SHARE: Final = _object(percentage=_PERCENT)
_UPSTREAM_ANALYSIS: Final = _object(
    technology=_object(primary_language=_TEXT, confidence=_SHARE),
    architecture=_object(confidence=_SHARE),
    quality=_object(confidence=_SHARE),
)
_IS_UPSTREAM: Final = {
    "required": ["technology"],
    "not": {"required": ["technology_stack"]},
}
_USED_AGENT: Final = _object(
    name=_TEXT, source={"enum": ["custom", "template", "global"]}
)
_NEW_AGENT: Final = _object(
    name=_STRING,
    priority=_PRIORITY,
    rationale=_TEXT,
    key_patterns=_ARRAY,
    capabilities=_ARRAY,
    content_outline={"type": "object"},
)
_RECOMMENDATION: Final = _object(
    use_existing={"type": "array", "items": _USED_AGENT},
    create_new={"type": "array", "items": _NEW_AGENT},
    confidence=_SURE,
)
_LISTED_AGENT: Final = _object(
    name=_TEXT, description=_TEXT, reason=_TEXT, technologies=_ARRAY, priority=_PRIORITY
)
_ENHANCED_AGENT: Final = _object(name=_STRING, enhanced_content=_STRING)

ANSWER_SCHEMAS: Final[dict[int, dict[str, Any]]] = {
    1: {"if": _IS_UPSTREAM, "then": _UPSTREAM_ANALYSIS, "else": _ANALYSIS},
    5: {"if": _ARRAY, "then": {"contains": _LISTED_AGENT}, "else": _RECOMMENDATION},
    7: _object(
        enhanced_agents={
            "type": "array",
            "anyOf": [{"maxItems": 0}, {"contains": _ENHANCED_AGENT}],
        },
        confidence=_SURE,
    ),
}
