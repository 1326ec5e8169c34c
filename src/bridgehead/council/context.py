"""What a request is about (artifact, intent, domains, scope), and which of these it leaves open (council §16)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bridgehead.contract.words import Confidence, TaskType
from bridgehead.council.domains import Detected, Registry, says
from bridgehead.council.file_references import find_references

EXTENSION_SCORE: Final = 2
WORD_SCORE: Final = 1
MIXED_AT: Final = 2
MIXED: Final = "mixed"
CODE: Final = "code"

_EXTENSIONS: Final[dict[str, tuple[str, ...]]] = {
    CODE: tuple("go py ts js rs java rb kt swift c cpp tsx jsx sql sh yaml".split()),
    "financial": ("xlsx",),
    "marketing": (),
    "research": (),
    "creative": tuple("fig sketch psd ai xd".split()),
}
_WORDS: Final[dict[str, tuple[str, ...]]] = {
    CODE: ("function", "class", "module", "API", "endpoint", "service", "handler", "git diff"),
    "financial": (
        "P&L",
        "revenue",
        "profit",
        "loss",
        "budget",
        "forecast",
        "balance sheet",
        "ROI",
        "EBITDA",
        "GAAP",
        "IFRS",
    ),
    "marketing": (
        "campaign",
        "audience",
        "conversion",
        "CTR",
        "CPC",
        "funnel",
        "brand",
        "messaging",
        "copywriting",
    ),
    "research": ("literature", "sources", "evidence", "citations", "study", "paper", "methodology"),
    "creative": (
        "design",
        "visual",
        "layout",
        "color",
        "typography",
        "UX",
        "wireframe",
        "mockup",
        "copy",
    ),
}
_INTENTS: Final[dict[str, tuple[str, ...]]] = {
    "review": ("review", "critique", "find bugs", "look for problems", "problem", "improve"),
    "audit": ("audit", "compliance check", "requirement"),
    "verify": ("verify", "validate", "check that", "confirm that"),
    "research": ("research", "find out", "compare options", "what is known"),
    "explore": ("explore", "analyse", "analyze", "explain", "understand", "summarise", "summarize"),
}
INTENT_TASK: Final[dict[str, TaskType]] = {
    "review": TaskType.REVIEW,
    "audit": TaskType.AUDIT,
    "verify": TaskType.AUDIT,
    "research": TaskType.RESEARCH,
    "explore": TaskType.ANALYSIS,
}


@dataclass(frozen=True, slots=True)
class Request:
    """What is known before anybody is asked."""

    text: str
    """The request text; with a command, its `--task`."""
    paths: tuple[str, ...] = ()
    """Files in scope."""
    has_diff: bool = False
    explicit_domains: tuple[str, ...] = ()
    explicit_intent: str | None = None
    """Given by the command: `review`, `audit`, …"""
    scope_given: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """Signals of a request. `missing` names what is open, of `artifact intent domains scope`, in that order."""

    artifact: str
    artifact_types: tuple[str, ...]
    intent: str | None
    detected: Detected
    missing: tuple[str, ...]

    @property
    def confidence(self) -> Confidence:
        return (Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW)[min(len(self.missing), 2)]


def read_context(request: Request, registry: Registry) -> Context:
    """Work out the four signals of a request."""
    named = tuple(reference.path for reference in find_references(request.text))
    paths = (*request.paths, *named)
    scores = artifact_scores(request.text, paths, has_diff=request.has_diff)
    artifact, types = classify_artifact(scores)
    intent = request.explicit_intent or find_intent(request.text)
    detected = registry.detect(
        f"{request.text} {' '.join(paths)}", explicit=request.explicit_domains, artifact_types=types
    )
    bounded = bool(paths) or request.has_diff or request.scope_given
    open_signals = {
        "artifact": not any(scores.values()) and not bounded,
        "intent": intent is None,
        "domains": detected.by_default,
        "scope": not bounded,
    }
    missing = tuple(name for name, is_open in open_signals.items() if is_open)
    return Context(artifact, types, intent, detected, missing)


def artifact_scores(text: str, paths: Sequence[str], *, has_diff: bool) -> dict[str, int]:
    """Per kind of artifact: 2 for each extension seen, 1 for each word."""
    extensions = {path.rpartition(".")[2].lower() for path in paths}
    scores = {
        kind: EXTENSION_SCORE * len(extensions & set(_EXTENSIONS[kind]))
        + WORD_SCORE * sum(says(text, word) for word in words)
        for kind, words in _WORDS.items()
    }
    scores[CODE] += EXTENSION_SCORE * has_diff
    return scores


def classify_artifact(scores: Mapping[str, int]) -> tuple[str, tuple[str, ...]]:
    """The kind of artifact, and the kinds that had signals; single words never make it mixed (K31)."""
    strong = [kind for kind, score in scores.items() if score >= MIXED_AT]
    if len(strong) >= 2:
        return MIXED, tuple(strong)
    best = max(scores, key=lambda kind: scores[kind])
    kind = best if scores[best] else CODE
    return kind, (kind,)


def find_intent(text: str) -> str | None:
    """The first intent whose words the request uses."""
    return next(
        (intent for intent, words in _INTENTS.items() if any(says(text, word) for word in words)), None
    )
