"""What a request is about and what it leaves open; at most three questions before a council begins (council §16)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bridgehead.contract.task import normalise_domain
from bridgehead.contract.words import Confidence, TaskType
from bridgehead.council.findings.references import find_references
from bridgehead.council.request.domains import (
    CODE_SUFFIXES,
    Code,
    Detected,
    Registry,
    says,
)

EXTENSION_SCORE: Final = 2
WORD_SCORE: Final = 1
MIXED_AT: Final = 2
CODE: Final = "code"

_PROSE: Final = (".md", ".rst", ".adoc", ".txt")
_EXTENSIONS: Final[dict[str, Collection[str]]] = {
    CODE: CODE_SUFFIXES | {"yaml"},
    "financial": ("xlsx",),
    "creative": ("fig", "sketch", "psd", "ai", "xd"),
}
_WORDS: Final[dict[str, list[str]]] = {
    CODE: [
        "function",
        "class",
        "module",
        "API",
        "endpoint",
        "service",
        "handler",
        "git diff",
    ],
    "financial": [
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
    ],
    "marketing": [
        "campaign",
        "audience",
        "conversion",
        "CTR",
        "CPC",
        "funnel",
        "brand",
        "messaging",
        "copywriting",
    ],
    "research": [
        "literature",
        "sources",
        "evidence",
        "citations",
        "study",
        "paper",
        "methodology",
    ],
    "creative": [
        "design",
        "visual",
        "layout",
        "color",
        "typography",
        "UX",
        "wireframe",
        "mockup",
        "copy",
    ],
}
_INTENTS: Final[dict[str, tuple[str, ...]]] = {
    "review": (
        "review",
        "critique",
        "find bugs",
        "look for problems",
        "problem",
        "improve",
    ),
    "audit": ("audit", "compliance check", "requirement"),
    "verify": ("verify", "validate", "check that", "confirm that"),
    "research": ("research", "find out", "compare options", "what is known"),
    "explore": (
        "explore",
        "analyse",
        "analyze",
        "explain",
        "understand",
        "summarise",
        "summarize",
    ),
}
INTENT_TASK: Final[dict[str, TaskType]] = {
    "review": TaskType.REVIEW,
    "audit": TaskType.AUDIT,
    "verify": TaskType.AUDIT,
    "research": TaskType.RESEARCH,
    "explore": TaskType.ANALYSIS,
}
MOST_QUESTIONS: Final = 3
ARTIFACT: Final = "artifact"
INTENT: Final = "intent"
DOMAINS: Final = "domains"


@dataclass(frozen=True, slots=True)
class Request:
    """What is known before anybody is asked."""

    text: str
    """The request text; with a command, its `--task`."""
    paths: tuple[str, ...] = ()
    """Files in scope."""
    has_diff: bool = False
    code: Code = field(default_factory=Code)
    """What of these files is code; their names say nothing about domains."""
    is_judged: bool = True
    explicit_domains: tuple[str, ...] = ()
    added_domains: tuple[str, ...] = ()
    never_domains: tuple[str, ...] = ()
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


def read_context(request: Request, registry: Registry) -> Context:
    """Work out the four signals of a request."""
    named = tuple(reference.path for reference in find_references(request.text))
    paths = (*request.paths, *named)
    scores = artifact_scores(request.text, paths, has_diff=request.has_diff)
    artifact, types = classify_artifact(scores)
    if paths and all(path.lower().endswith(_PROSE) for path in paths):
        artifact = "research"
        types = ("research",)
    # Without one given, the first whose words the request uses.
    said = (
        one
        for one, words in _INTENTS.items()
        if any(says(request.text, word) for word in words)
    )
    intent = request.explicit_intent or next(said, None)
    detected = registry.detect(
        request.text,
        exactly=request.explicit_domains,
        added=request.added_domains,
        never=request.never_domains,
        code=request.code,
        judged=request.is_judged,
        artifact_types=types,
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


def artifact_scores(
    text: str, paths: Sequence[str], *, has_diff: bool
) -> dict[str, int]:
    """Per kind of artifact: 2 for each extension seen, 1 for each word."""
    extensions = {path.rpartition(".")[2].lower() for path in paths}
    scores = {
        kind: EXTENSION_SCORE * len(extensions & set(_EXTENSIONS.get(kind, ())))
        + WORD_SCORE * sum(says(text, word) for word in words)
        for kind, words in _WORDS.items()
    }
    scores[CODE] += EXTENSION_SCORE * has_diff
    return scores


def classify_artifact(scores: Mapping[str, int]) -> tuple[str, tuple[str, ...]]:
    """The kind of artifact, and the kinds that had signals; single words never make it mixed (K31)."""
    strong = [kind for kind, score in scores.items() if score >= MIXED_AT]
    if len(strong) >= 2:
        return "mixed", tuple(strong)
    best = max(scores, key=lambda kind: scores[kind])
    kind = best if scores[best] else CODE
    return kind, (kind,)


@dataclass(frozen=True, slots=True)
class ClarifyingQuestion:
    """One question; `choices` are preferred, other text is accepted where it makes sense."""

    slot: str
    text: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScopeClarification:
    """What is settled before the first call."""

    artifact: str | None
    """What to look at, when the user said; None keeps the given scope."""
    intent: str
    task_type: TaskType
    domains: tuple[str, ...]
    domain_reasons: Mapping[str, str]
    deferred: tuple[str, ...]
    """Domains that the cap left out."""
    spoken: int
    """How many of them the user named."""
    constraints: tuple[str, ...]
    confidence: Confidence
    questions_asked: int
    assumptions: tuple[str, ...]


@dataclass(slots=True)
class Clarifier:
    """Asks about the open signals of a context: `question`, then `answered`, until there is no question left."""

    context: Context
    registry: Registry
    has_changes: bool = False
    """Whether the working tree has changed files, for the assumption about the scope."""
    _open: list[str] = field(init=False)
    _asked: int = field(default=0, init=False)
    _said: dict[str, str] = field(default_factory=dict, init=False)
    _unanswered: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._open = list(self.context.missing)

    def question(self) -> ClarifyingQuestion | None:
        """The next question, or None when nothing is open or three were asked."""
        slot = self._next_slot()
        if slot is None or self._asked >= MOST_QUESTIONS:
            return None
        if slot == ARTIFACT:
            # A missing scope shares the slot: once the artifact is known, "which part" is the question (K33).
            known = ARTIFACT not in self._open
            text = (
                "Which part of it should be looked at?"
                if known
                else "What should be looked at?"
            )
            return ClarifyingQuestion(slot, text)
        if slot == INTENT:
            return ClarifyingQuestion(
                slot, "What do you want to know?", tuple(INTENT_TASK)
            )
        return ClarifyingQuestion(
            slot,
            "From which points of view? (several, separated by commas)",
            self._suggestions(),
        )

    def answered(self, text: str | None) -> None:
        """The answer to the present question; None or blank leaves it open, and it is not asked again."""
        slot = self._next_slot()
        if slot is None:
            return
        self._asked += 1
        said = (text or "").strip()
        if not said or (slot == INTENT and said.casefold() not in INTENT_TASK):
            self._unanswered.add(slot)
            return
        self._said[slot] = said
        closed = {ARTIFACT: (ARTIFACT, "scope")}.get(slot, (slot,))
        self._open = [name for name in self._open if name not in closed]

    def result(self) -> ScopeClarification:
        """What is settled, with an assumption for everything that is still open."""
        intent = (
            self._said.get(INTENT, "").casefold() or self.context.intent or "review"
        )
        assumptions = self._assumptions()
        named = [
            normalise_domain(name) for name in self._said.get(DOMAINS, "").split(",")
        ]
        # Domains of the context are authoritative; those named now are added.
        detected = (
            ()
            if self.context.detected.by_default and any(named)
            else self.context.detected.domains
        )
        domains = tuple(dict.fromkeys([*detected, *filter(None, named)]))
        why = self.context.detected.reasons
        otherwise = (
            "named in answer to a question"
            if any(named)
            else f"usual for {self.context.artifact}"
        )
        return ScopeClarification(
            artifact=self._said.get(ARTIFACT),
            intent=intent,
            task_type=INTENT_TASK.get(intent, TaskType.REVIEW),
            domains=domains,
            domain_reasons={name: why.get(name, otherwise) for name in domains},
            deferred=tuple(
                f"{name} ({why[name]})"
                for name in self.context.detected.deferred
                if name not in domains
            ),
            spoken=max(self.context.detected.spoken, len(list(filter(None, named)))),
            constraints=(),
            confidence=Confidence.MEDIUM if assumptions else Confidence.HIGH,
            questions_asked=self._asked,
            assumptions=assumptions,
        )

    def _next_slot(self) -> str | None:
        slots = [ARTIFACT if name == "scope" else name for name in self._open]
        ordered = [slot for slot in (ARTIFACT, INTENT, DOMAINS) if slot in slots]
        return next((slot for slot in ordered if slot not in self._unanswered), None)

    def _suggestions(self) -> tuple[str, ...]:
        return self.registry.default_domains(self.context.artifact_types)

    def _assumptions(self) -> tuple[str, ...]:
        scope = (
            "the changed files of the working tree"
            if self.has_changes
            else "the current working directory"
        )
        told = {
            ARTIFACT: "artifact: the current working directory",
            INTENT: "intent: review",
            DOMAINS: (
                f"domains: {', '.join(self._suggestions())} (defaults for "
                f"{self.context.artifact})"
            ),
            "scope": f"scope: {scope}",
        }
        return tuple(told[name] for name in self._open)
