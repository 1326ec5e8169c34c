"""Phase 6: the basic text of an agent file (flows §11). Pure; staging.py writes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bridgehead.flows.template_create.agents import NewAgent
from bridgehead.flows.template_create.front_matter import block_list, yaml_text
from bridgehead.flows.words import NOTHING
from bridgehead.host.terminal import escape_controls


def agent_path(name: str) -> str:
    return f"agents/{name}.md"


def render_agent(agent: NewAgent, template_of: Mapping[str, str] = NOTHING) -> str:
    """The file of an agent, complete enough to be used as it is. `template_of`: original path -> template."""
    title = " ".join(word.capitalize() for word in agent.name.split("-"))
    head = [
        "---",
        f"name: {yaml_text(agent.name)}",
        f"description: {yaml_text(agent.description)}",
        f"priority: {agent.priority}",
        *block_list("technologies", agent.technologies),
        "---",
        "",
    ]
    sections = [
        (f"# {title}", ()),
        ("## Purpose", (agent.description,)),
        ("## Why This Agent Exists", (agent.rationale,)),
        ("## Technologies", _bullets(agent.technologies) or ("Those of the project.",)),
        ("## Usage", _usage(agent)),
    ]
    if agent.responsibilities or agent.capabilities:
        sections.append(("## Capabilities", _bullets((*agent.responsibilities, *agent.capabilities))))
    shown = [f"`{template_of[path]}`" for path in agent.example_files if path in template_of]
    if shown:
        sections.append(("## Templates To Look At First", _bullets(shown)))
    body = [line for heading, lines in sections for line in (heading, "", *lines, *([""] if lines else []))]
    return escape_controls("\n".join([*head, *body]).rstrip("\n")) + "\n"


def _usage(agent: NewAgent) -> tuple[str, ...]:
    if agent.when_to_use:
        return ("Ask this agent:", "", *_bullets(agent.when_to_use))
    return (f"Name `{agent.name}` when a task lies in its field; it needs no other preparation.",)


def _bullets(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"- {' '.join(line.split())}" for line in lines)
