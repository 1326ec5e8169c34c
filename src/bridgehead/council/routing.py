"""Where a free request goes, and how thoroughly (council §16). Decides only where no route was named."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bridgehead.contract.words import Intensity

DEEP_COUNCIL: Final = "deep-council"
DEBATE_PROTOCOL: Final = "debate-protocol"
PARALLEL_WORKFLOW: Final = "parallel-workflow"

DEBATE_AT_DOMAINS: Final = 3
_COUNCIL_WORDS: Final = ("multi-model", "multiple models", "council", "cross-model")
_HIGH_STAKES: Final = (
    "production",
    "incident",
    "breach",
    "compliance",
    "audit",
    "lawsuit",
    "financial risk",
)
_CARE_WORDS: Final = ("thorough", "critical", "high-stakes", "careful", "deep")
_THOROUGH_WORDS: Final = ("thorough", "critical")
_QUICK_WORDS: Final = ("quick", "fast")


@dataclass(frozen=True, slots=True)
class Routed:
    """`row` says which row of the table decided."""

    row: str
    route: str
    intensity: Intensity


def route_request(
    request: str, *, domains: int, explicit_route: str | None, explicit_intensity: Intensity | None
) -> Routed:
    """Choose route and intensity for a request."""
    intensity = explicit_intensity or infer_intensity(request)
    if explicit_route is not None:
        return Routed("explicit", explicit_route, intensity)
    # Only the option asks for a council; the word alone would leave row 3 unreachable.
    if says_any(request, _COUNCIL_WORDS) or explicit_intensity is Intensity.THOROUGH:
        return Routed("council", DEEP_COUNCIL, intensity)
    if domains >= DEBATE_AT_DOMAINS or says_any(request, (*_HIGH_STAKES, *_CARE_WORDS)):
        return Routed("debate", DEBATE_PROTOCOL, intensity)
    return Routed("default", PARALLEL_WORKFLOW, intensity)


def infer_intensity(request: str) -> Intensity:
    """What the words of a request say about how thoroughly to look."""
    if says_any(request, _THOROUGH_WORDS):
        return Intensity.THOROUGH
    if says_any(request, _QUICK_WORDS):
        return Intensity.QUICK
    return Intensity.STANDARD


def says_any(text: str, phrases: Iterable[str]) -> bool:
    """Whether one of the phrases stands in `text` as whole words, any case."""
    words = (r"\s+".join(map(re.escape, phrase.split())) for phrase in phrases)
    return any(re.search(rf"(?<!\w){phrase}(?!\w)", text, re.IGNORECASE) for phrase in words)
