"""Questions before a council begins: at most three, only about what is open, one at a time (council §16).

Whatever is not answered becomes an assumption that the report lists; nothing here ever blocks a run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from bridgehead.contract.task import normalise_domain
from bridgehead.contract.words import Confidence, TaskType
from bridgehead.council.context import INTENT_TASK, Context
from bridgehead.council.domains import Registry

MOST_QUESTIONS: Final = 3
ARTIFACT: Final = "artifact"
INTENT: Final = "intent"
DOMAINS: Final = "domains"


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
            text = "Which part of it should be looked at?" if known else "What should be looked at?"
            return ClarifyingQuestion(slot, text)
        if slot == INTENT:
            return ClarifyingQuestion(slot, "What do you want to know?", tuple(INTENT_TASK))
        return ClarifyingQuestion(
            slot, "From which points of view? (several, separated by commas)", self._suggestions()
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
        intent = self._said.get(INTENT, "").casefold() or self.context.intent or "review"
        assumptions = self._assumptions()
        named = [normalise_domain(name) for name in self._said.get(DOMAINS, "").split(",")]
        # Domains of the context are authoritative; those named now are added.
        detected = () if self.context.detected.by_default and any(named) else self.context.detected.domains
        domains = tuple(dict.fromkeys([*detected, *filter(None, named)]))
        return ScopeClarification(
            artifact=self._said.get(ARTIFACT),
            intent=intent,
            task_type=INTENT_TASK.get(intent, TaskType.REVIEW),
            domains=domains,
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
            "the changed files of the working tree" if self.has_changes else "the current working directory"
        )
        told = {
            ARTIFACT: "artifact: the current working directory",
            INTENT: "intent: review",
            DOMAINS: f"domains: {', '.join(self._suggestions())} (defaults for {self.context.artifact})",
            "scope": f"scope: {scope}",
        }
        return tuple(told[name] for name in self._open)
