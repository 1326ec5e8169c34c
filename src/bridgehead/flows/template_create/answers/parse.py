"""Read agents' answers in phases 1, 5 and 7 (flows §12): the shape our prompt asks for, or the one upstream's code
asks for. Required members fail the answer, others get their default; what is forgiven is noted in `warnings`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

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
from bridgehead.flows.template_create.project.dependencies import KNOWN
from bridgehead.flows.values.codec import Unfit

Item = TypeVar("Item")


class Fields:
    """An object of an answer. `warnings` is shared by all objects of the same answer."""

    def __init__(
        self, members: Mapping[str, Any], warnings: list[str], where: str = ""
    ) -> None:
        self.members = members
        self.warnings = warnings
        self._where = where

    @classmethod
    def of(cls, value: Any, what: str, warnings: list[str]) -> Fields:
        """The object that must be there."""
        if not isinstance(value, dict):
            raise Unfit(f"{what} is not an object")
        return cls(value, warnings, what)

    def required_text(self, name: str) -> str:
        value = self.members.get(name)
        if not isinstance(value, str) or not value.strip():
            raise Unfit(f"{self._named(name)} is not a text")
        return value

    def required_number(self, name: str, low: float, high: float) -> float:
        value = self.members.get(name)
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or not low <= value <= high
        ):
            raise Unfit(f"{self._named(name)} is not a number from {low:g} to {high:g}")
        return float(value)

    def required_list(self, name: str) -> list[Any]:
        value = self.members.get(name)
        if not isinstance(value, list):
            raise Unfit(f"{self._named(name)} is not a list")
        return value

    def required_texts(self, name: str) -> tuple[str, ...]:
        value = self.required_list(name)
        return tuple(
            self._kept(
                value,
                name,
                lambda item: item if isinstance(item, str) and item else None,
            )
        )

    def text(self, name: str, default: str = "") -> str:
        value = self.members.get(name, default)
        return str(
            value if isinstance(value, str) and value else self._default(name, default)
        )

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        value = self.members.get(name, default)
        return str(
            value
            if isinstance(value, str) and value in choices
            else self._default(name, default)
        )

    def child(self, name: str) -> Fields:
        """An object that may be missing; then everything in it has its default."""
        value = self.members.get(name, {})
        found: dict[str, Any] = (
            value if isinstance(value, dict) else self._default(name, {})
        )
        return Fields(found, self.warnings, self._named(name))

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(
            self.items(
                name, lambda item: item if isinstance(item, str) and item else None
            )
        )

    def items(self, name: str, read: Callable[[Any], Item | None]) -> list[Item]:
        """The items of a list that `read` can use; the others are dropped, the list itself never fails."""
        value = self.members.get(name, [])
        listed: list[Any] = (
            value if isinstance(value, list) else self._default(name, [])
        )
        return self._kept(listed, name, read)

    def _kept(
        self, values: Sequence[Any], name: str, read: Callable[[Any], Item | None]
    ) -> list[Item]:
        kept = []
        for position, value in enumerate(values):
            item = read(value)
            if item is None:
                self.warnings.append(
                    f"{self._named(name)}[{position}] is not usable and was dropped"
                )
            else:
                kept.append(item)
        return kept

    def _default(self, name: str, default: Any) -> Any:
        if name in self.members and self.members[name] != default:
            self.warnings.append(
                f"{self._named(name)} is not usable; {default!r} is used instead"
            )
        return default

    def _named(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name


SOURCES = ("custom", "template", "global")
# A bare list says nothing about how sure it is; this is what it counts as (flows §12).
CONFIDENCE_OF_A_LIST = 0.85


def read_recommendation(
    candidate: Any, warnings: list[str], taken: Collection[str] = ()
) -> tuple[Recommendation, float]:
    """The agents an answer recommends; names in `taken` exist already and are never made again."""
    if isinstance(candidate, list):
        listed = [
            agent
            for item in candidate
            if (agent := _listed(item, warnings)) is not None
        ]
        if not listed:
            raise Unfit("no item of the list is a usable agent")
        return Recommendation((), _legal(listed, taken, warnings)), CONFIDENCE_OF_A_LIST
    answer = Fields(Fields.of(candidate, "the answer", warnings).members, warnings)
    used = tuple(_used(item, warnings) for item in answer.required_list("use_existing"))
    new = [_new(item, warnings) for item in answer.required_list("create_new")]
    confidence = answer.required_number("confidence", 0, 1)
    return Recommendation(used, _legal(new, taken, warnings)), confidence


def read_enhancement(candidate: Any, warnings: list[str]) -> tuple[Enhancement, float]:
    """The enhanced texts in an answer; a bad one never spoils the others."""
    answer = Fields(Fields.of(candidate, "the answer", warnings).members, warnings)
    listed = answer.required_list("enhanced_agents")
    confidence = answer.required_number("confidence", 0, 1)
    agents = answer.items("enhanced_agents", _enhanced)
    if listed and not agents:
        raise Unfit("no item of enhanced_agents is usable")
    return Enhancement(tuple(agents)), confidence


def _used(value: Any, warnings: list[str]) -> ExistingAgent:
    item = Fields.of(value, "use_existing", warnings)
    source = item.required_text("source")
    if source not in SOURCES:
        raise Unfit(
            f"use_existing.source is {source!r}, not one of {', '.join(SOURCES)}"
        )
    return ExistingAgent(item.required_text("name"), source, item.text("reason"))


def _new(value: Any, warnings: list[str]) -> NewAgent:
    item = Fields.of(value, "create_new", warnings)
    outline = Fields.of(
        item.members.get("content_outline"), "content_outline", warnings
    )
    rationale, name = item.required_text("rationale"), item.members.get("name")
    return NewAgent(
        # Of whatever spelling: a name that cannot be a file's drops its agent, it does not fail the answer.
        name=name if isinstance(name, str) else item.required_text("name"),
        description=outline.text("purpose", rationale),
        rationale=rationale,
        priority=_priority(item),
        technologies=item.required_texts("key_patterns"),
        capabilities=item.required_texts("capabilities"),
        when_to_use=outline.texts("when_to_use"),
        responsibilities=outline.texts("key_responsibilities"),
        example_files=item.texts("example_files"),
    )


def _listed(value: Any, warnings: list[str]) -> NewAgent | None:
    try:
        item = Fields.of(value, "the item", warnings)
        return NewAgent(
            name=item.required_text("name"),
            description=item.required_text("description"),
            rationale=item.required_text("reason"),
            priority=_priority(item),
            technologies=item.required_texts("technologies"),
        )
    except Unfit as error:
        warnings.append(f"an agent of the list was dropped: {error}")
        return None


def _priority(item: Fields) -> int:
    priority = item.required_number("priority", 1, 10)
    if priority != int(priority):
        raise Unfit("priority is not a whole number")
    return int(priority)


def _legal(
    agents: list[NewAgent], taken: Collection[str], warnings: list[str]
) -> tuple[NewAgent, ...]:
    """Those whose name may become a file, and is still free."""
    kept: dict[str, NewAgent] = {}
    for agent in agents:
        if not AGENT_NAME.fullmatch(agent.name):
            warnings.append(
                f"agent {agent.name!r} was dropped: its name is not a valid file name"
            )
        elif agent.name in kept or agent.name in taken:
            warnings.append(
                f"agent {agent.name} was dropped: another agent has that name"
            )
        else:
            kept[agent.name] = agent
    return tuple(kept.values())


def _enhanced(value: Any) -> EnhancedAgent | None:
    members = value if isinstance(value, dict) else {}
    name, content = members.get("name"), members.get("enhanced_content")
    return (
        EnhancedAgent(name, content)
        if isinstance(name, str) and isinstance(content, str)
        else None
    )


FREQUENCIES = ("rare", "occasional", "common", "pervasive")
_PURPOSES = {name.lower(): purpose for name, purpose in KNOWN.values()}


def read_analysis(
    candidate: Any, warnings: list[str]
) -> tuple[CodebaseAnalysis, float]:
    """The analysis in an answer and its confidence; Unfit when what is required is missing or wrong."""
    answer = Fields.of(candidate, "the answer", warnings)
    answer = Fields(answer.members, warnings)
    if "technology_stack" not in answer.members and "technology" in answer.members:
        return _read_upstream(answer)
    stack = Fields.of(
        answer.members.get("technology_stack"), "technology_stack", answer.warnings
    )
    primary = stack.required_text("primary_language")
    confidence = answer.required_number("overall_confidence", 0, 1)
    architecture = answer.child("architecture")
    naming = answer.child("quality_indicators").child("naming_conventions")
    frameworks = tuple(stack.items("frameworks", _reader(answer, _framework)))
    patterns = tuple(answer.items("patterns", _reader(answer, _pattern)))
    return CodebaseAnalysis(
        primary_language=primary,
        framework=_first(frameworks),
        patterns=tuple(pattern.name for pattern in patterns),
        secondary_languages=stack.texts("secondary_languages"),
        frameworks=frameworks,
        build_tools=stack.texts("build_tools"),
        package_manager=stack.text("package_manager", UNKNOWN),
        architecture=architecture.text("pattern", UNKNOWN),
        layers=tuple(architecture.items("layers", _reader(answer, _layer))),
        key_abstractions=architecture.texts("key_abstractions"),
        pattern_details=patterns,
        testing=_testing(answer.child("testing")),
        naming=Naming(
            naming.text("classes"),
            naming.text("methods"),
            naming.text("variables"),
            naming.text("files"),
        ),
        example_files=tuple(answer.items("example_files", _reader(answer, _example))),
        overall_confidence=confidence,
        agent_used=True,
    ), confidence


def _read_upstream(answer: Fields) -> tuple[CodebaseAnalysis, float]:
    """The shape upstream's running code asks for; its three percentages are the confidence."""
    parts = [
        Fields.of(answer.members.get(name), name, answer.warnings)
        for name in ("technology", "architecture", "quality")
    ]
    technology, architecture, _ = parts
    primary = technology.required_text("primary_language")
    shares = [
        Fields.of(
            part.members.get("confidence"), "confidence", answer.warnings
        ).required_number("percentage", 0, 100)
        for part in parts
    ]
    # Rounded, because three percentages have a mean like 0.8499999999999999.
    confidence = round(sum(shares) / len(shares) / 100, 9)
    frameworks = tuple(technology.items("frameworks", _reader(answer, _framework)))
    names = architecture.texts("patterns")
    return CodebaseAnalysis(
        primary_language=primary,
        framework=_first(frameworks),
        patterns=names,
        frameworks=frameworks,
        build_tools=technology.texts("build_tools"),
        architecture=architecture.text("architectural_style", UNKNOWN),
        layers=tuple(architecture.items("layers", _reader(answer, _layer))),
        key_abstractions=architecture.texts("key_abstractions"),
        pattern_details=tuple(map(Pattern, names)),
        testing=Testing(
            framework=next(iter(technology.texts("testing_frameworks")), UNKNOWN)
        ),
        example_files=tuple(answer.items("example_files", _reader(answer, _example))),
        overall_confidence=round(confidence, 4),
        agent_used=True,
    ), confidence


def _reader(
    answer: Fields, read: Callable[[Fields], Item]
) -> Callable[[Any], Item | None]:
    """Items are objects; a plain string stands for one with only that name or path. Unfit ones give None."""

    def tried(value: Any) -> Item | None:
        members = {"name": value, "path": value} if isinstance(value, str) else value
        try:
            return read(Fields.of(members, "the item", answer.warnings))
        except Unfit:
            return None

    return tried


def _framework(item: Fields) -> Framework:
    name, version = item.required_text("name"), item.members.get("version")
    return Framework(
        name,
        version if isinstance(version, str) else "",
        _PURPOSES.get(name.lower(), "core"),
    )


def _layer(item: Fields) -> Layer:
    return Layer(
        item.required_text("name"), item.texts("directories"), item.text("description")
    )


def _pattern(item: Fields) -> Pattern:
    item.required_number("confidence", 0, 1)
    return Pattern(
        item.required_text("name"),
        item.choice("usage_frequency", FREQUENCIES, "common"),
        item.text("description"),
        item.texts("example_files"),
    )


def _example(item: Fields) -> ExampleFile:
    return ExampleFile(
        item.required_text("path"),
        item.text("purpose"),
        item.text("layer"),
        item.texts("patterns_used"),
    )


def _testing(testing: Fields) -> Testing:
    return Testing(
        testing.text("framework", UNKNOWN),
        testing.text("organization", UNKNOWN),
        testing.texts("patterns"),
    )


def _first(frameworks: tuple[Framework, ...]) -> str:
    return frameworks[0].name if frameworks else UNKNOWN
