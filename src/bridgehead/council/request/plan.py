"""What a council is asked to do: task, seats, limits, presets; where a free request goes, and what its mode asks
for (§6, §15, §16).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import msgspec

from bridgehead.contract.report import Output
from bridgehead.contract.task import BridgeInput
from bridgehead.contract.verdict import JUDGED_TASKS
from bridgehead.contract.words import (
    ContextPolicy,
    CouncilProtocol,
    Intensity,
    Mode,
    OutputType,
    TaskType,
)
from bridgehead.council.findings.history import FindingRecord

SECURITY_DOMAIN: Final = "security"
# In these modes a council recommends instead of judging.
PROPOSING_MODES: Final = frozenset({Mode.BRAINSTORM, Mode.DESIGN})

TASK_ITEM_TYPES: Final[dict[TaskType, tuple[OutputType, ...]]] = {
    TaskType.REVIEW: (OutputType.FINDING, OutputType.RECOMMENDATION),
    TaskType.ANALYSIS: (OutputType.FINDING, OutputType.OBSERVATION),
    TaskType.PLANNING: (OutputType.PLAN_ITEM,),
    TaskType.IMPLEMENTATION: (OutputType.IMPLEMENTATION_NOTE,),
    TaskType.RESEARCH: (OutputType.OBSERVATION, OutputType.RECOMMENDATION),
    TaskType.AUDIT: (OutputType.FINDING, OutputType.COMPLIANCE_GAP),
}
PROPOSING_ITEM_TYPES: Final = (
    OutputType.PROPOSAL,
    OutputType.QUESTION,
    OutputType.CONSTRAINT,
    OutputType.ASSUMPTION,
    OutputType.RISK,
    OutputType.EXPERIMENT,
)
NEVER_RATED: Final = frozenset({OutputType.PLAN_ITEM, OutputType.IMPLEMENTATION_NOTE})
"""Every other type may have a severity and needs none."""
DEEP_COUNCIL: Final = "deep-council"
DEBATE_PROTOCOL: Final = "debate-protocol"
PARALLEL_WORKFLOW: Final = "parallel-workflow"

DEBATE_AT_DOMAINS: Final = 3
SHARING_SEATS: Final = 2
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
class Preset:
    """Weight of the Devil's Advocate, and the share of support a finding needs."""

    name: str
    da_weight: Fraction
    consensus: Fraction
    security: Fraction

    def threshold(self, domain: str) -> Fraction:
        return self.security if domain == SECURITY_DOMAIN else self.consensus


DEFAULT: Final = Preset(
    "default", Fraction(40, 100), Fraction(50, 100), Fraction(67, 100)
)
SECURITY_ELEVATED: Final = Preset(
    "security-elevated", Fraction(50, 100), Fraction(67, 100), Fraction(75, 100)
)
PRESETS: Final = {preset.name: preset for preset in (DEFAULT, SECURITY_ELEVATED)}


def item_types(task_type: TaskType, mode: Mode | None) -> tuple[OutputType, ...]:
    """The types asked for; the first is what an item of unknown type becomes."""
    return (
        PROPOSING_ITEM_TYPES if mode in PROPOSING_MODES else TASK_ITEM_TYPES[task_type]
    )


def is_judged(task_type: TaskType, mode: Mode | None) -> bool:
    """Whether such a run ends in a verdict."""
    return task_type in JUDGED_TASKS and mode not in PROPOSING_MODES


def choose_protocol(
    wanted: CouncilProtocol | None,
    *,
    task: BridgeInput,
    is_debate: bool,
    seats: int,
) -> CouncilProtocol:
    """Return how many roles share a call, for a council of so many seats with a model.

    Only what ends in a verdict is shared. Where nobody said which, a thorough council
    and a seat that works alone are full: alone, its own roles are all it can be
    challenged by.
    """
    if is_debate or not is_judged(task.task_type, task.mode):
        return CouncilProtocol.FULL
    if wanted is not None:
        return wanted
    if task.intensity is Intensity.THOROUGH or seats < SHARING_SEATS:
        return CouncilProtocol.FULL
    return CouncilProtocol.SHARED


@dataclass(frozen=True, slots=True)
class Routed:
    """`row` says which row of the table decided."""

    row: str
    route: str
    intensity: Intensity


def route_request(
    request: str,
    *,
    domains: int,
    explicit_route: str | None,
    explicit_intensity: Intensity | None,
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
    return any(
        re.search(rf"(?<!\w){phrase}(?!\w)", text, re.IGNORECASE) for phrase in words
    )


class CouncilOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the user wants a council to be held; None is "not said". Request, stored council and plan share it."""

    intensity: Intensity | None = None
    context_policy: ContextPolicy | None = None
    runtimes: tuple[str, ...] = ()
    host_seat: str | None = None
    """The seat the calling agent sits for; empty until it is found out which agent that is."""
    fallback: bool = False
    seed_findings: tuple[Output, ...] = ()
    """What the caller found already; a pseudo seat `caller` in Stage A (council §14.7)."""
    interactive: bool = False
    reconfigure: bool = False
    write_settings: bool = False
    max_calls: int | None = None
    max_cost_usd: float | None = None
    allow_new_dismissals: bool = False
    protocol: CouncilProtocol | None = None
    whole_files: bool = False
    """Findings on lines that a reviewed change did not touch count, too."""
    require: tuple[str, ...] = ()
    """Seats and analysers without which nothing passes, besides those of the settings."""
    timeout_seconds: int | None = None
    """Seconds of silence after which a call or an analyser is given up."""
    preset: str = DEFAULT.name
    """Weights of a standalone debate, by name (council §17)."""

    @property
    def rewrites_settings(self) -> bool:
        """Whether `.bridge-settings.json` is written again, freshly dated (council §13)."""
        return self.write_settings or (self.interactive and self.reconfigure)


@dataclass(frozen=True, slots=True)
class Dismissals:
    """The dismissals file of the project, and that of the base revision when a change is reviewed."""

    tables: tuple[Mapping[str, Any], ...] = ()
    base: tuple[Mapping[str, Any], ...] | None = None

    def is_new(self, entry: int) -> bool:
        """Whether the reviewed change brought this entry along."""
        return self.base is not None and self.tables[entry] not in self.base


@dataclass(frozen=True, slots=True)
class CouncilPlan:
    """One council. The task's `session_id` is the review id; `seats` are in dispatch order."""

    task: BridgeInput
    seats: tuple[str, ...]
    today: dt.date
    route: str = DEEP_COUNCIL
    options: CouncilOptions = field(default_factory=CouncilOptions)
    coordinator: str | None = None
    dismissals: Dismissals = field(default_factory=Dismissals)
    records: tuple[FindingRecord, ...] = ()
    splits: tuple[tuple[str, str], ...] = ()
    """Fingerprints of outputs that a person split; they are not joined again."""
    previous_review_id: str | None = None
    notes: tuple[str, ...] = ()
    """Assumptions of the pre-flight, for the reader of the report."""
    warnings: tuple[str, ...] = ()
    domain_reasons: Mapping[str, str] = field(default_factory=dict)
    """Why each domain was chosen."""
    require: tuple[str, ...] = ()
    """Seats and analysers without which nothing passes (council §14.4)."""
    unread_passes: bool = False
    """Whether files that were not looked at are only shown."""
    protocol: CouncilProtocol | None = CouncilProtocol.FULL
    """What was asked for, None: nothing. Councils of before there was a choice are full."""
    everybody: bool = False
    """A debate that the words of a question asked for: every seat takes part, as in a review."""

    @property
    def review_id(self) -> str:
        return self.task.session_id

    @property
    def preset(self) -> Preset:
        return PRESETS[self.options.preset]

    @property
    def is_parallel_workflow(self) -> bool:
        """One available seat and the static seat, Round 1 only, no Stage B (council §16)."""
        return self.route == PARALLEL_WORKFLOW

    @property
    def is_debate(self) -> bool:
        """Seats debate in five phases (council §17)."""
        return self.route == DEBATE_PROTOCOL

    def protocol_of(self, seats: int) -> CouncilProtocol:
        """Return how many roles share a call if so many seats with a model take part."""
        alone = 1 if self.takes_first_available else seats
        return choose_protocol(
            self.protocol, task=self.task, is_debate=self.is_debate, seats=alone
        )

    @property
    def waits_for_seats(self) -> bool:
        """Whether the protocol depends on how many seats there turn out to be."""
        return self.protocol_of(0) is not self.protocol_of(SHARING_SEATS)

    @property
    def takes_first_available(self) -> bool:
        """One seat is enough; not where the words of a question asked for care, that must not get it less."""
        return self.is_parallel_workflow or (self.is_debate and not self.everybody)

    @property
    def skips_stage_b(self) -> bool:
        """Exactly one `--runtime` was named, or one seat is enough (council §20)."""
        return len(self.options.runtimes) == 1 or self.takes_first_available
