"""Phase 5: which agents exist, and which the template should bring, by the reviewer or from the basic set (flows
§11).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from bridgehead.contract.words import Trust
from bridgehead.flows.calls import Failed
from bridgehead.flows.engine.context import PhasedContext
from bridgehead.flows.errors import log_warning
from bridgehead.flows.template_create.agents import (
    AGENT_NAME,
    ExistingAgent,
    Inventory,
    NewAgent,
    Recommendation,
    UsedAgent,
    front_matter_of,
)
from bridgehead.flows.template_create.answers.judge import ANSWER_SCHEMAS, judge_of
from bridgehead.flows.template_create.choices import Choices
from bridgehead.flows.template_create.project.analysis import UNKNOWN, CodebaseAnalysis
from bridgehead.flows.template_create.project.languages import is_test, language_of, slug
from bridgehead.flows.template_create.prompts import SCALE, Prompt
from bridgehead.flows.values.codec import to_plain
from bridgehead.flows.words import ANSWER_SCHEMA, AgentName
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


TIMEOUT_SECONDS: Final = 180
BASIC_CONFIDENCE: Final = 0.5
HEURISTIC_CONFIDENCE: Final = 0.65

TASK: Final = """\
Decide which specialised agents a template for projects like the one analysed below should bring. Use agents that exist
before making new ones: the user's own (custom) come before those of the template, those before the global ones, and an
agent that exists under a name is never made again. Aim at 7 to 9 agents in total, each with a clear field of its own
that follows from the technologies and patterns of the analysis."""

SCHEMA: Final = """\
## Your answer

Answer with one JSON object and nothing else. Members marked * are required.

{
  "use_existing": [{"name": "...", "source": "custom | template | global", "reason": "..."}],      * (name, source)
  "create_new": [{                                                                                 *
    "name": "lower-case-with-hyphens", "priority": 1-10, "rationale": "...",                       *
    "key_patterns": ["..."], "capabilities": ["..."],                                              *
    "content_outline": {"purpose": "...", "when_to_use": ["..."], "key_responsibilities": ["..."], *
                        "related_patterns": ["..."], "tools_needed": ["..."]},
    "example_files": ["path"]
  }],
  "agent_count": {"existing_used": 0, "newly_created": 0, "total": 0},
  "coverage_analysis": {"patterns_covered": ["..."], "patterns_uncovered": ["..."], "coverage_percentage": 0-100},
  "confidence": 0.0-1.0,                                                                           *
  "notes": "..."
}"""

# Name -> what it is for, and when to ask it. All are known everywhere under these names (flows §11).
BASIC_SET: Final = {
    "architectural-reviewer": (
        "Reviews changes against the architecture: layers, dependencies, boundaries.",
        "when a change adds a module, moves one, or lets one layer import another",
    ),
    "code-reviewer": (
        "Reviews changes for correctness, readability and the conventions of the project.",
        "before a change is committed, with the diff and what it is meant to do",
    ),
    "test-verifier": (
        "Runs the tests and judges whether they would notice the change being wrong.",
        "after a change and its tests are written, before they are trusted",
    ),
    "testing-specialist": (
        "Writes tests in the manner of the project.",
        "when behaviour is added or a fault is mended that no test had noticed",
    ),
}


def run_phase(ctx: PhasedContext, choices: Choices, analysis: CodebaseAnalysis) -> Recommendation:
    """What the agent recommends, else the basic set."""
    inventory = ctx.step("inventory", take_inventory, choices.project_path, choices.base_template)
    ctx.remember("existing_agents", in_state(inventory))
    recommended: Recommendation = ctx.ask(
        "agent_creation",
        agent=AgentName.ARCHITECTURAL_REVIEWER.value,
        prompt=recommendation_prompt(analysis, inventory, ctx.uuid()),
        timeout=TIMEOUT_SECONDS,
        result=Recommendation,
        context={ANSWER_SCHEMA: ANSWER_SCHEMAS[5]},
        judge=judge_of(5, inventory.names()),
        fallback=lambda failure: fall_back(analysis, inventory, failure, heuristic=choices.heuristic_agents),
    )
    return with_known_agents(recommended, inventory)


def in_state(inventory: Inventory) -> dict[str, object]:
    """The inventory under the keys of the state file."""
    lists = (inventory.user_custom, inventory.template, inventory.global_agents)
    return dict(zip(("user_custom", "template", "global"), map(to_plain, lists), strict=True))


def recommendation_prompt(analysis: CodebaseAnalysis, inventory: Inventory, seed: str) -> str:
    prompt = Prompt(TASK, seed)
    if analysis.has_tests:
        prompt.say("The project has tests: include an agent for testing.")
    prompt.say(SCALE)
    shown = to_plain(replace(analysis, example_files=(), style=type(analysis.style)()))
    prompt.foreign("The analysis", json.dumps(shown, indent=1), origin="phase 1, analysis", trust=Trust.UNVERIFIED)
    prompt.foreign("Agents that exist", json.dumps(in_state(inventory), indent=1), origin="agent files of this machine")
    return prompt.text(SCHEMA)


def fall_back(analysis: CodebaseAnalysis, inventory: Inventory, failure: Failed, *, heuristic: bool) -> Recommendation:
    """The basic set: used where it exists, made where it does not, so that no document names an agent nobody has."""
    known = {agent.name: agent for agent in inventory.all()}
    used = [UsedAgent(name, known[name].source, purpose) for name, (purpose, _) in BASIC_SET.items() if name in known]
    made = [
        _basic(name, purpose, analysis, when_to_use=(when,))
        for name, (purpose, when) in BASIC_SET.items()
        if name not in known
    ]
    if heuristic:
        made += [agent for agent in specialists(analysis) if agent.name not in known]
    confidence = HEURISTIC_CONFIDENCE if heuristic else BASIC_CONFIDENCE
    return Recommendation(tuple(used), tuple(made), confidence, fallback_reason=str(failure))


def specialists(analysis: CodebaseAnalysis) -> list[NewAgent]:
    """One specialist each for the language, the architecture and up to two frameworks (`--heuristic-agents`)."""
    frameworks = [f.name for f in analysis.frameworks if f.purpose != "testing"][:2]
    fields = [analysis.primary_language, analysis.architecture, *frameworks]
    agents = []
    for field in (field for field in fields if field != UNKNOWN):
        name = f"{slug(field)}-specialist"
        if AGENT_NAME.fullmatch(name):
            purpose = f"Writes and changes code where {field} matters, in the manner of the project."
            agents.append(_basic(name, purpose, analysis, technologies=(field,)))
    return agents


def with_known_agents(recommended: Recommendation, inventory: Inventory) -> Recommendation:
    """Only agents that exist can be used; one the agent dreamt of is left out."""
    names = inventory.names()
    used = tuple(agent for agent in recommended.use_existing if agent.name in names)
    for agent in recommended.use_existing:
        if agent.name not in names:
            log_warning(f"agent {agent.name!r} was left out: there is none of that name to use")
    return replace(recommended, use_existing=used)


def _basic(
    name: str,
    purpose: str,
    analysis: CodebaseAnalysis,
    *,
    technologies: tuple[str, ...] = (),
    when_to_use: tuple[str, ...] = (),
) -> NewAgent:
    built_on = (analysis.primary_language, *(f.name for f in analysis.frameworks))
    return NewAgent(
        name=name,
        description=purpose,
        rationale=_rationale(analysis),
        when_to_use=when_to_use,
        technologies=technologies or tuple(tech for tech in built_on if tech != UNKNOWN)[:5],
        capabilities=tuple(
            f"knows “{pattern.name}”: {pattern.description}" if pattern.description else f"knows “{pattern.name}”"
            for pattern in analysis.pattern_details[:6]
        ),
        example_files=_telling_files(name, analysis),
    )


def _rationale(analysis: CodebaseAnalysis) -> str:
    shape = "" if analysis.architecture == UNKNOWN else f"{analysis.architecture.lower()} "
    return (
        f"The original is a {shape}{analysis.primary_language} project with "
        f"{len(analysis.layers)} layers and {len(analysis.patterns)} recurring patterns; a project made from this "
        "template keeps that shape only if somebody watches over it."
    )


def _telling_files(name: str, analysis: CodebaseAnalysis, most: int = 3) -> tuple[str, ...]:
    """The source files an agent should know first; one for testing starts with tests."""
    sources = [example.path for example in analysis.example_files if language_of(example.path)]
    about_tests = "test" in name
    return tuple(sorted(sources, key=lambda path: is_test(path) != about_tests)[:most])
