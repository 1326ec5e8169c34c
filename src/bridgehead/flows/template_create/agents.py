"""The agents of a template: those that are there, those to use, those to make; the front matter of their files."""

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
    """What one answer of phase 7 offers."""

    agents: tuple[EnhancedAgent, ...] = ()
    fallback_reason: str = ""


_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9 _./-]*")
_RESERVED: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off"})
_LINE: Final = re.compile(r"([A-Za-z_][\w-]*):[ \t]*(.*)")


def yaml_text(value: str) -> str:
    """A value on one line of YAML. JSON's double-quoted form is YAML too, and escapes everything that matters."""
    line = " ".join(value.split())
    if (
        _PLAIN.fullmatch(line)
        and line.lower() not in _RESERVED
        and not line.endswith(" ")
    ):
        return line
    # All but pairs of surrogates: YAML knows no such thing, and characters that need one no escaping.
    escaped = (char if char > "\uffff" else json.dumps(char)[1:-1] for char in line)
    return f'"{"".join(escaped)}"'


def block_list(name: str, values: Iterable[str]) -> list[str]:
    """A key with a list of dash lines under it."""
    lines = [f"  - {yaml_text(value)}" for value in values]
    return [f"{name}:", *lines] if lines else [f"{name}: []"]


def front_matter_of(text: str) -> dict[str, str | list[str]] | None:
    """The simple keys and lists at the head of a Markdown file; None when it has no front matter."""
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].strip() != "---":
        return None
    found: dict[str, str | list[str]] = {}
    key = ""
    for line in lines[1:]:
        if line.strip() == "---":
            return found
        if line.lstrip().startswith("- ") and key:
            listed = found.get(key)
            found[key] = [
                *(listed if isinstance(listed, list) else []),
                _scalar(line.lstrip()[2:]),
            ]
        elif match := _LINE.fullmatch(line.rstrip()):
            key = match[1]
            found[key] = _value(match[2])
    return None


def _value(text: str) -> str | list[str]:
    if text.startswith("[") and text.endswith("]"):
        return [_scalar(item) for item in text[1:-1].split(",") if item.strip()]
    return _scalar(text)


def _scalar(text: str) -> str:
    bare = text.strip()
    if len(bare) >= 2 and bare[0] == bare[-1] == '"':
        try:
            return str(json.loads(bare))
        except ValueError:
            return bare[1:-1]
    return bare[1:-1] if len(bare) >= 2 and bare[0] == bare[-1] == "'" else bare
