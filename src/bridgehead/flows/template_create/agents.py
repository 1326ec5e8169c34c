"""The agents of a template: those that are there, those to be used and those to be made."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

AGENT_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


@dataclass(frozen=True)
class ExistingAgent:
    """An agent somebody has already; found at `source`: custom, template or global."""

    name: str
    source: str
    description: str = ""
    tools: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inventory:
    """What was found before anything is recommended, under the names of the state file (flows §11)."""

    user_custom: tuple[ExistingAgent, ...] = ()
    template: tuple[ExistingAgent, ...] = ()
    # The state file calls this list `global`, which is no name in Python.
    global_agents: tuple[ExistingAgent, ...] = ()

    def all(self) -> tuple[ExistingAgent, ...]:
        """By priority: the user's own first. Of two with one name the first counts."""
        found: dict[str, ExistingAgent] = {}
        for agent in (*self.user_custom, *self.template, *self.global_agents):
            found.setdefault(agent.name, agent)
        return tuple(found.values())

    def names(self) -> frozenset[str]:
        return frozenset(agent.name for agent in self.all())


@dataclass(frozen=True)
class UsedAgent:
    name: str
    source: str
    reason: str = ""


@dataclass(frozen=True)
class NewAgent:
    """An agent to be made for the template."""

    name: str
    description: str
    rationale: str
    priority: int = 7
    technologies: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    when_to_use: tuple[str, ...] = ()
    responsibilities: tuple[str, ...] = ()
    example_files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recommendation:
    """The result of phase 5."""

    use_existing: tuple[UsedAgent, ...] = ()
    create_new: tuple[NewAgent, ...] = ()
    confidence: float = 0.0
    notes: str = ""
    agent_used: bool = False
    fallback_reason: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return (*(agent.name for agent in self.use_existing), *(agent.name for agent in self.create_new))


@dataclass(frozen=True)
class EnhancedAgent:
    name: str
    content: str


@dataclass(frozen=True)
class Enhancement:
    """What one answer of phase 7 offers."""

    agents: tuple[EnhancedAgent, ...] = ()
    confidence: float = 0.0
    fallback_reason: str = ""
