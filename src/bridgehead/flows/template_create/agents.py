"""Describe the agents of a template, and read the front matter of their files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
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
    """The agents found before any are recommended, by origin (flows §11)."""

    user_custom: tuple[ExistingAgent, ...] = ()
    template: tuple[ExistingAgent, ...] = ()
    # The state file calls this list `global`, which is no name in Python.
    global_agents: tuple[ExistingAgent, ...] = ()

    def all(self) -> tuple[ExistingAgent, ...]:
        """Return the agents, the user's own first; of two with one name, the first."""
        found: dict[str, ExistingAgent] = {}
        for agent in (*self.user_custom, *self.template, *self.global_agents):
            found.setdefault(agent.name, agent)
        return tuple(found.values())

    def names(self) -> frozenset[str]:
        return frozenset(agent.name for agent in self.all())


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

    use_existing: tuple[ExistingAgent, ...] = ()
    create_new: tuple[NewAgent, ...] = ()
    fallback_reason: str = ""


@dataclass(frozen=True)
class EnhancedAgent:
    name: str
    content: str


@dataclass(frozen=True)
class Enhancement:
    """What an answer of phase 7 contains."""

    agents: tuple[EnhancedAgent, ...] = ()
    fallback_reason: str = ""


_PLAIN: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9 _./-]*[A-Za-z0-9_./-])?")
_RESERVED: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off"})
_HEAD: Final = re.compile(r"\ufeff?---[ \t]*\n((?:.*\n)*?)---[ \t]*(?:\n|\Z)")
_ENTRY: Final = re.compile(
    r"^([A-Za-z_][\w-]*):[ \t]*(.*)((?:\n[ \t]*- .*)*)", re.MULTILINE
)


def yaml_text(value: str) -> str:
    """Return the value on one line of YAML, quoted as JSON where it needs quotes."""
    line = " ".join(value.split())
    if _PLAIN.fullmatch(line) and line.lower() not in _RESERVED:
        return line
    # YAML has no pairs of surrogates: characters beyond U+FFFF stay as they are.
    escaped = ""
    for char in line:
        escaped += char if char > "\uffff" else json.dumps(char)[1:-1]
    return f'"{escaped}"'


def block_list(name: str, values: Iterable[str]) -> list[str]:
    """Return the lines of a key with a dash line for each value."""
    lines = [f"  - {yaml_text(value)}" for value in values]
    if not lines:
        return [f"{name}: []"]
    return [f"{name}:", *lines]


def front_matter_of(text: str) -> dict[str, str | list[str]] | None:
    """Return the keys at the head of a Markdown file; None if it has no front matter.

    People write descriptions with colons and without quotes, which no YAML parser reads.
    """
    head = _HEAD.match(text.replace("\r\n", "\n"))
    if head is None:
        return None
    found: dict[str, str | list[str]] = {}
    for key, value, dashes in _ENTRY.findall(head[1]):
        if dashes:
            lines = dashes.splitlines()[1:]
            found[key] = [_scalar(line.strip().removeprefix("- ")) for line in lines]
        elif value.startswith("[") and value.rstrip().endswith("]"):
            items = value.strip()[1:-1].split(",")
            found[key] = [_scalar(item) for item in items if item.strip()]
        else:
            found[key] = _scalar(value)
    return found


def _scalar(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    return text
