"""Find the agents that exist before any are recommended (flows §11, phase 5). Reads small Markdown files only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bridgehead.flows.template_create.agents import AGENT_NAME, ExistingAgent, Inventory
from bridgehead.flows.template_create.front_matter import front_matter_of
from bridgehead.host.file_errors import Refusal
from bridgehead.host.files import read_bounded

MOST_AGENTS: Final = 200
LARGEST_BYTES: Final = 256 * 1024
AGENTS_DIRECTORY: Final = ".claude/agents"


def take_inventory(root: str, base_template: str | None = None) -> Inventory:
    """The user's own agents, those of the base template, and those of this account."""
    return Inventory(
        user_custom=tuple(_agents(Path(root) / AGENTS_DIRECTORY, "custom")),
        template=tuple(_agents(Path(base_template) / "agents", "template")) if base_template else (),
        global_agents=tuple(_agents(Path.home() / AGENTS_DIRECTORY, "global")),
    )


def _agents(directory: Path, source: str) -> Iterator[ExistingAgent]:
    try:
        names = sorted(path.name for path in directory.iterdir() if path.suffix == ".md")
    except OSError:
        return
    for name in names[:MOST_AGENTS]:
        agent = None if name.endswith("-ext.md") else _agent(directory / name, source)
        if agent is not None:
            yield agent


def _agent(path: Path, source: str) -> ExistingAgent | None:
    try:
        text = read_bounded(path, LARGEST_BYTES).decode()
    except (Refusal, UnicodeDecodeError):
        return None
    head = front_matter_of(text) or {}
    name = head.get("name") or path.stem
    if not isinstance(name, str) or not AGENT_NAME.fullmatch(name):
        return None
    description = head.get("description", "")
    return ExistingAgent(
        name,
        source,
        description if isinstance(description, str) else " ".join(description),
        _listed(head.get("tools", [])),
        _listed(head.get("tags", [])),
    )


def _listed(value: str | list[str]) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, list) else tuple(filter(None, map(str.strip, value.split(","))))
