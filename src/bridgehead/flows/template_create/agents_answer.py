"""Read agents' answers in phases 5 and 7 (flows §12)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from bridgehead.flows.codec import Unfit
from bridgehead.flows.template_create.agents import (
    AGENT_NAME,
    EnhancedAgent,
    Enhancement,
    NewAgent,
    Recommendation,
    UsedAgent,
)
from bridgehead.flows.template_create.answer_fields import Fields

SOURCES = ("custom", "template", "global")
# A bare list says nothing about how sure it is; this is what it counts as (flows §12).
CONFIDENCE_OF_A_LIST = 0.85
_LIST_MEMBERS = ("name", "description", "reason", "technologies", "priority")


def read_recommendation(
    candidate: Any, warnings: list[str], taken: Collection[str] = ()
) -> tuple[Recommendation, float]:
    """The agents an answer recommends; names in `taken` exist already and are never made again."""
    if isinstance(candidate, list):
        listed = [agent for item in candidate if (agent := _listed(item, warnings)) is not None]
        if not listed:
            raise Unfit("no item of the list is a usable agent")
        made = _legal(listed, taken, warnings)
        return Recommendation((), made, CONFIDENCE_OF_A_LIST, agent_used=True), CONFIDENCE_OF_A_LIST
    answer = Fields(Fields.of(candidate, "the answer", warnings).members, warnings)
    used = tuple(_used(item, warnings) for item in answer.required_list("use_existing"))
    new = [_new(item, warnings) for item in answer.required_list("create_new")]
    confidence = answer.required_number("confidence", 0, 1)
    made = _legal(new, taken, warnings)
    return Recommendation(used, made, confidence, answer.text("notes"), agent_used=True), confidence


def read_enhancement(candidate: Any, warnings: list[str]) -> tuple[Enhancement, float]:
    """The enhanced texts in an answer; a bad one never spoils the others."""
    answer = Fields(Fields.of(candidate, "the answer", warnings).members, warnings)
    listed = answer.required_list("enhanced_agents")
    confidence = answer.required_number("confidence", 0, 1)
    agents = answer.items("enhanced_agents", _enhanced)
    if listed and not agents:
        raise Unfit("no item of enhanced_agents is usable")
    return Enhancement(tuple(agents), confidence), confidence


def _used(value: Any, warnings: list[str]) -> UsedAgent:
    item = Fields.of(value, "use_existing", warnings)
    source = item.required_text("source")
    if source not in SOURCES:
        raise Unfit(f"use_existing.source is {source!r}, not one of {', '.join(SOURCES)}")
    return UsedAgent(item.required_text("name"), source, item.text("reason"))


def _new(value: Any, warnings: list[str]) -> NewAgent:
    item = Fields.of(value, "create_new", warnings)
    outline = Fields.of(item.members.get("content_outline"), "content_outline", warnings)
    rationale = item.required_text("rationale")
    return NewAgent(
        name=_any_name(item),
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
        if any(member not in item.members for member in _LIST_MEMBERS):
            raise Unfit("a member is missing")
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


def _any_name(item: Fields) -> str:
    """A name of whatever spelling: one that cannot be a file's drops its agent, it does not fail the answer."""
    name = item.members.get("name")
    return name if isinstance(name, str) else item.required_text("name")


def _priority(item: Fields) -> int:
    priority = item.required_number("priority", 1, 10)
    if priority != int(priority):
        raise Unfit("priority is not a whole number")
    return int(priority)


def _legal(agents: list[NewAgent], taken: Collection[str], warnings: list[str]) -> tuple[NewAgent, ...]:
    """Those whose name may become a file, and is still free."""
    kept: dict[str, NewAgent] = {}
    for agent in agents:
        if not AGENT_NAME.fullmatch(agent.name):
            warnings.append(f"agent {agent.name!r} was dropped: its name cannot be a file's")
        elif agent.name in kept or agent.name in taken:
            warnings.append(f"agent {agent.name} was dropped: there is one of that name already")
        else:
            kept[agent.name] = agent
    return tuple(kept.values())


def _enhanced(value: Any) -> EnhancedAgent | None:
    members = value if isinstance(value, dict) else {}
    name, content = members.get("name"), members.get("enhanced_content")
    if not isinstance(name, str) or not isinstance(content, str):
        return None
    return EnhancedAgent(name, content)
