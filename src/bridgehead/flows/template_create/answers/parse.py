"""Read agents' answers in phases 1, 5 and 7 (flows §12), in our shape or in upstream's.

The schema of the phase has been checked: what is required is there. Any other member that
does not fit keeps its default, and an item of a list that cannot be used is dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from bridgehead.flows.template_create.agents import (
    AGENT_NAME,
    EnhancedAgent,
    Enhancement,
    ExistingAgent,
    NewAgent,
    Recommendation,
)
from bridgehead.flows.template_create.project.analysis import (
    UNKNOWN,
    CodebaseAnalysis,
    ExampleFile,
    Framework,
    Layer,
    Naming,
    Pattern,
    Testing,
)
from bridgehead.flows.template_create.project.dependencies import purpose_of
from bridgehead.flows.values.codec import Unfit, from_plain

# A bare list says nothing about how sure it is; this is what it counts as (flows §12).
CONFIDENCE_OF_A_LIST = 0.85
_ABSENT = object()


class LenientReader:
    """Makes dataclasses of JSON objects, and notes in `warnings` what it had to forgive."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def record(self, kind: Any, value: Any, where: str = "") -> Any:
        """Return a `kind` made of the members that fit; Unfit if one without a default is missing.

        A plain string stands for an object with only that name or path.
        """
        if isinstance(value, str):
            value = {"name": value, "path": value}
        if not isinstance(value, dict):
            raise Unfit(f"{where} is not an object")
        members = {}
        for name, hint in get_type_hints(kind).items():
            member = self._member(hint, value.get(name, _ABSENT), f"{where}{name}")
            if member is not _ABSENT:
                members[name] = member
        try:
            return kind(**members)
        except TypeError as error:
            raise Unfit(str(error)) from None

    def items(self, kind: Any, values: Sequence[Any], where: str) -> tuple[Any, ...]:
        """Return the usable items of a list."""
        kept = []
        for position, value in enumerate(values):
            item = self._member(kind, value, f"{where}[{position}]")
            if item is not _ABSENT:
                kept.append(item)
        return tuple(kept)

    def _member(self, hint: Any, value: Any, where: str) -> Any:
        if value is _ABSENT or value == "":
            return _ABSENT
        try:
            if get_origin(hint) is tuple and isinstance(value, list):
                return self.items(get_args(hint)[0], value, where)
            if is_dataclass(hint):
                return self.record(hint, value, f"{where}.")
            return from_plain(value, hint)
        except Unfit:
            self.warnings.append(f"{where} is not usable and was dropped")
            return _ABSENT


@dataclass(frozen=True)
class _Stack:
    primary_language: str
    secondary_languages: tuple[str, ...] = ()
    frameworks: tuple[Framework, ...] = ()
    build_tools: tuple[str, ...] = ()
    package_manager: str = UNKNOWN
    testing_frameworks: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Architecture:
    pattern: str = UNKNOWN
    layers: tuple[Layer, ...] = ()
    key_abstractions: tuple[str, ...] = ()


@dataclass(frozen=True)
class _UpstreamArchitecture:
    architectural_style: str = UNKNOWN
    patterns: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = ()
    key_abstractions: tuple[str, ...] = ()


@dataclass(frozen=True)
class _FoundPattern:
    name: str
    confidence: float
    usage_frequency: Literal["rare", "occasional", "common", "pervasive"] = "common"
    description: str = ""
    example_files: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Quality:
    naming_conventions: Naming = field(default_factory=Naming)


@dataclass(frozen=True)
class _Analysis:
    technology_stack: _Stack
    overall_confidence: float
    architecture: _Architecture = _Architecture()
    patterns: tuple[_FoundPattern, ...] = ()
    testing: Testing = field(default_factory=Testing)
    quality_indicators: _Quality = _Quality()
    example_files: tuple[ExampleFile, ...] = ()


@dataclass(frozen=True)
class _UpstreamAnalysis:
    technology: _Stack
    architecture: _UpstreamArchitecture
    example_files: tuple[ExampleFile, ...] = ()


@dataclass(frozen=True)
class _Outline:
    purpose: str = ""
    when_to_use: tuple[str, ...] = ()
    key_responsibilities: tuple[str, ...] = ()


@dataclass(frozen=True)
class _ProposedAgent:
    priority: int
    rationale: str
    key_patterns: tuple[str, ...]
    capabilities: tuple[str, ...]
    content_outline: _Outline
    name: str = ""
    example_files: tuple[str, ...] = ()


@dataclass(frozen=True)
class _ListedAgent:
    """An agent in the bare list that upstream's code asks for."""

    name: str
    description: str
    reason: str
    technologies: tuple[str, ...]
    priority: int


@dataclass(frozen=True)
class _UsedAgent:
    name: str
    source: str
    reason: str = ""


@dataclass(frozen=True)
class _OfferedText:
    name: str
    enhanced_content: str


def read_analysis(answer: Any, reader: LenientReader) -> tuple[CodebaseAnalysis, float]:
    """Return the analysis in an answer, and its confidence."""
    if "technology_stack" not in answer:
        return _read_upstream(answer, reader)
    found: _Analysis = reader.record(_Analysis, answer)
    patterns = [
        Pattern(
            pattern.name,
            pattern.usage_frequency,
            pattern.description,
            pattern.example_files,
        )
        for pattern in found.patterns
        if 0 <= pattern.confidence <= 1
    ]
    analysis = CodebaseAnalysis(
        secondary_languages=found.technology_stack.secondary_languages,
        package_manager=found.technology_stack.package_manager,
        patterns=tuple(pattern.name for pattern in patterns),
        pattern_details=tuple(patterns),
        architecture=found.architecture.pattern,
        layers=found.architecture.layers,
        key_abstractions=found.architecture.key_abstractions,
        testing=found.testing,
        naming=found.quality_indicators.naming_conventions,
        example_files=found.example_files,
        overall_confidence=found.overall_confidence,
        agent_used=True,
    )
    return _with_stack(analysis, found.technology_stack), found.overall_confidence


def _read_upstream(
    answer: Any, reader: LenientReader
) -> tuple[CodebaseAnalysis, float]:
    """Return the analysis in the shape of upstream's code; its three percentages are the confidence."""
    parts = [answer[name] for name in ("technology", "architecture", "quality")]
    total = sum(part["confidence"]["percentage"] for part in parts)
    # Rounded, because three percentages have a mean like 0.8499999999999999.
    confidence = round(total / len(parts) / 100, 9)
    found: _UpstreamAnalysis = reader.record(_UpstreamAnalysis, answer)
    runners = found.technology.testing_frameworks
    analysis = CodebaseAnalysis(
        patterns=found.architecture.patterns,
        pattern_details=tuple(map(Pattern, found.architecture.patterns)),
        architecture=found.architecture.architectural_style,
        layers=found.architecture.layers,
        key_abstractions=found.architecture.key_abstractions,
        testing=Testing(runners[0]) if runners else Testing(),
        example_files=found.example_files,
        overall_confidence=round(confidence, 4),
        agent_used=True,
    )
    return _with_stack(analysis, found.technology), confidence


def _with_stack(analysis: CodebaseAnalysis, stack: _Stack) -> CodebaseAnalysis:
    frameworks = [
        replace(framework, purpose=purpose_of(framework.name))
        for framework in stack.frameworks
    ]
    return replace(
        analysis,
        primary_language=stack.primary_language,
        framework=frameworks[0].name if frameworks else UNKNOWN,
        frameworks=tuple(frameworks),
        build_tools=stack.build_tools,
    )


def read_recommendation(
    answer: Any, reader: LenientReader, taken: Collection[str] = ()
) -> tuple[Recommendation, float]:
    """Return the agents an answer recommends; those in `taken` exist and are never made again."""
    if isinstance(answer, list):
        listed = reader.items(_ListedAgent, answer, "the list")
        agents = [
            NewAgent(
                agent.name,
                agent.description,
                agent.reason,
                agent.priority,
                agent.technologies,
            )
            for agent in listed
        ]
        return Recommendation((), _legal(agents, taken, reader)), CONFIDENCE_OF_A_LIST
    used = reader.items(_UsedAgent, answer["use_existing"], "use_existing")
    existing = tuple(
        ExistingAgent(agent.name, agent.source, agent.reason) for agent in used
    )
    new = reader.items(_ProposedAgent, answer["create_new"], "create_new")
    agents = [_new_agent(agent) for agent in new]
    recommended = Recommendation(existing, _legal(agents, taken, reader))
    return recommended, answer["confidence"]


def _new_agent(found: _ProposedAgent) -> NewAgent:
    outline = found.content_outline
    return NewAgent(
        name=found.name,
        description=outline.purpose or found.rationale,
        rationale=found.rationale,
        priority=found.priority,
        technologies=found.key_patterns,
        capabilities=found.capabilities,
        when_to_use=outline.when_to_use,
        responsibilities=outline.key_responsibilities,
        example_files=found.example_files,
    )


def _legal(
    agents: Sequence[NewAgent], taken: Collection[str], reader: LenientReader
) -> tuple[NewAgent, ...]:
    """Return the agents whose name may become a file, and is still free."""
    kept: dict[str, NewAgent] = {}
    for agent in agents:
        if not AGENT_NAME.fullmatch(agent.name):
            problem = "its name is not a valid file name"
        elif agent.name in kept or agent.name in taken:
            problem = "another agent has that name"
        elif not 1 <= agent.priority <= 10:
            problem = "its priority is not from 1 to 10"
        else:
            kept[agent.name] = agent
            continue
        reader.warnings.append(f"agent {agent.name!r} was dropped: {problem}")
    return tuple(kept.values())


def read_enhancement(answer: Any, reader: LenientReader) -> tuple[Enhancement, float]:
    """Return the enhanced texts in an answer."""
    found = reader.items(_OfferedText, answer["enhanced_agents"], "enhanced_agents")
    agents = [EnhancedAgent(agent.name, agent.enhanced_content) for agent in found]
    return Enhancement(tuple(agents)), answer["confidence"]
