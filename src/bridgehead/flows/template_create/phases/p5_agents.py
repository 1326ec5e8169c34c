"""Phase 5: which agents exist, and which the template should bring (flows §11)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
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
    front_matter_of,
)
from bridgehead.flows.template_create.answers.judge import ANSWER_SCHEMAS, judge_of
from bridgehead.flows.template_create.choices import Choices
from bridgehead.flows.template_create.phases.p8_documentation import Facts
from bridgehead.flows.template_create.project.analysis import UNKNOWN, CodebaseAnalysis
from bridgehead.flows.template_create.project.languages import slug
from bridgehead.flows.template_create.prompts import SCALE, Prompt
from bridgehead.flows.values.codec import to_plain
from bridgehead.flows.words import ANSWER_SCHEMA, AgentName
from bridgehead.host.file_errors import Refusal
from bridgehead.host.files import read_bounded

MOST_AGENTS: Final = 200
LARGEST_BYTES: Final = 256 * 1024
AGENTS_DIRECTORY: Final = ".claude/agents"


def take_inventory(root: str, base_template: str | None = None) -> Inventory:
    """Return the user's own agents, those of the base template, and those of this account."""
    template: list[ExistingAgent] = []
    if base_template:
        template = _agents(Path(base_template) / "agents", "template")
    return Inventory(
        user_custom=tuple(_agents(Path(root) / AGENTS_DIRECTORY, "custom")),
        template=tuple(template),
        global_agents=tuple(_agents(Path.home() / AGENTS_DIRECTORY, "global")),
    )


def _agents(directory: Path, source: str) -> list[ExistingAgent]:
    paths = [path for path in directory.glob("*.md") if not path.match("*-ext.md")]
    found = (_agent(path, source) for path in sorted(paths)[:MOST_AGENTS])
    return [agent for agent in found if agent is not None]


def _agent(path: Path, source: str) -> ExistingAgent | None:
    try:
        text = read_bounded(path, LARGEST_BYTES).decode()
    except (Refusal, UnicodeDecodeError):
        return None
    head = front_matter_of(text) or {}
    name = " ".join(_words(head.get("name", ""))) or path.stem
    if not AGENT_NAME.fullmatch(name):
        return None
    description = head.get("description", "")
    if isinstance(description, list):
        description = " ".join(description)
    tools = _words(head.get("tools", ""))
    return ExistingAgent(name, source, description, tools, _words(head.get("tags", "")))


def _words(value: str | list[str]) -> tuple[str, ...]:
    listed = value.split(",") if isinstance(value, str) else value
    return tuple(word.strip() for word in listed if word.strip())


TIMEOUT_SECONDS: Final = 180

TASK: Final = """\
Decide which specialised agents a template for projects like the one analysed below should
bring. Use agents that exist before making new ones: the user's own (custom) come before those
of the template, those before the global ones, and an agent that exists under a name is never
made again. Aim at 7 to 9 agents in total, each with a clear field of its own that follows from
the technologies and patterns of the analysis. Say nothing that would be true of any project:
name the files, commands and conventions an agent is to know."""

SCHEMA: Final = """\
## Your answer

Answer with one JSON object and nothing else. Members marked * are required.

{
  "use_existing": [{"name": "...", "source": "custom | template | global", "reason": "..."}], *
  "create_new": [{                                                                                 *
    "name": "lower-case-with-hyphens", "priority": 1-10, "rationale": "...",                       *
    "key_patterns": ["..."], "capabilities": ["..."],                                              *
    "content_outline": {"purpose": "...", "when_to_use": ["..."], "key_responsibilities": ["..."], *
                        "related_patterns": ["..."], "tools_needed": ["..."]},
    "example_files": ["path"]
  }],
  "agent_count": {"existing_used": 0, "newly_created": 0, "total": 0},
  "coverage_analysis": {"patterns_covered": ["..."], "patterns_uncovered": ["..."],
                        "coverage_percentage": 0-100},
  "confidence": 0.0-1.0,                                                                           *
  "notes": "..."
}"""

# Architectures that say no more of a project than that it has directories.
_SHAPES: Final = frozenset({UNKNOWN, "Modular", "Layered", "Flat"})


def run_phase(ctx: PhasedContext, choices: Choices, facts: Facts) -> Recommendation:
    """Return what the agent recommends, else the basic set."""
    inventory = ctx.step(
        "inventory", take_inventory, choices.project_path, choices.base_template
    )
    ctx.remember("existing_agents", in_state(inventory))
    recommended: Recommendation = ctx.ask(
        "agent_creation",
        agent=AgentName.ARCHITECTURAL_REVIEWER.value,
        prompt=recommendation_prompt(facts.analysis, inventory, ctx.uuid()),
        timeout=TIMEOUT_SECONDS,
        result=Recommendation,
        context={ANSWER_SCHEMA: ANSWER_SCHEMAS[5]},
        judge=judge_of(5, inventory.names()),
        fallback=lambda failure: fall_back(
            facts, inventory, failure, heuristic=choices.heuristic_agents
        ),
    )
    return with_known_agents(recommended, inventory)


def in_state(inventory: Inventory) -> dict[str, object]:
    """Return the inventory under the keys of the state file."""
    return {
        "user_custom": to_plain(inventory.user_custom),
        "template": to_plain(inventory.template),
        "global": to_plain(inventory.global_agents),
    }


def recommendation_prompt(
    analysis: CodebaseAnalysis, inventory: Inventory, seed: str
) -> str:
    prompt = Prompt(TASK, seed)
    if analysis.has_tests:
        prompt.say("The project has tests: include an agent for testing.")
    prompt.say(SCALE)
    shown = to_plain(replace(analysis, example_files=(), style=type(analysis.style)()))
    prompt.foreign(
        "The analysis",
        json.dumps(shown, indent=1),
        origin="phase 1, analysis",
        trust=Trust.UNVERIFIED,
    )
    prompt.foreign(
        "Agents that exist",
        json.dumps(in_state(inventory), indent=1),
        origin="agent files of this machine",
    )
    return prompt.text(SCHEMA)


def fall_back(
    facts: Facts, inventory: Inventory, failure: Failed, *, heuristic: bool
) -> Recommendation:
    """Return the basic set: used where it exists, else made, so that no document names an agent nobody has."""
    known = {agent.name: agent for agent in inventory.all()}
    basic = basic_set(facts)
    used = [
        replace(known[agent.name], description=agent.description)
        for agent in basic
        if agent.name in known
    ]
    wanted = [*basic, *specialists(facts)] if heuristic else basic
    made = [agent for agent in wanted if agent.name not in known]
    return Recommendation(tuple(used), tuple(made), fallback_reason=str(failure))


def basic_set(facts: Facts) -> list[NewAgent]:
    """Return the agents that are known everywhere under these names (flows §11), with what they meet here."""
    sources = facts.sources()
    tests = facts.sources(tests=True)
    names = [framework.name for framework in facts.analysis.frameworks]
    built_on = [facts.analysis.primary_language, *names]
    technologies = tuple(name for name in built_on if name != UNKNOWN)[:5]
    reviewers = [_architectural_reviewer(facts), _code_reviewer(facts, sources)]
    testers = [_test_verifier(facts), _testing_specialist(facts, sources, tests)]
    agents = [replace(agent, example_files=tuple(sources[:3])) for agent in reviewers]
    agents += [
        replace(agent, example_files=(*tests, *sources)[:3]) for agent in testers
    ]
    return [replace(agent, technologies=technologies) for agent in agents]


def _architectural_reviewer(facts: Facts) -> NewAgent:
    places = facts.layers if len(facts.layers) > 2 else facts.layout
    directories = [re.split(", |: ", line)[0] for line in places[:4]]
    layout = ", ".join(directories) or "one directory"
    return NewAgent(
        "architectural-reviewer",
        f"Reviews whether a change keeps to the layout: {layout}.",
        "What belongs where in this project is listed below.",
        capabilities=(*facts.layers, *facts.layout),
        when_to_use=(
            (
                "when a change adds a module, moves one, or lets one directory import "
                "another"
            ),
        ),
    )


def _code_reviewer(facts: Facts, sources: Sequence[str]) -> NewAgent:
    examples = _examples(facts, sources) or "its files"
    return NewAgent(
        "code-reviewer",
        f"Reviews changes for faults, and for the conventions that {examples} show.",
        "The conventions and patterns of this project are listed below.",
        capabilities=(facts.style, *facts.naming, *facts.patterns.values()),
        when_to_use=(
            "before a change is committed, with the diff and what it is meant to do",
        ),
    )


def _test_verifier(facts: Facts) -> NewAgent:
    command = f"`{facts.test_command}`" if facts.test_command else "the tests"
    return NewAgent(
        "test-verifier",
        f"Runs {command} and judges whether the tests would notice the change being "
        "wrong.",
        facts.tests,
        when_to_use=(
            "after a change and its tests are written, before they are trusted",
        ),
    )


def _testing_specialist(
    facts: Facts, sources: Sequence[str], tests: Sequence[str]
) -> NewAgent:
    examples = _examples(facts, sources) or "its files"
    manner = f"for code like {examples}; the original has none"
    if tests:
        manner = f"in the manner of {_examples(facts, tests[:1])}"
    return NewAgent(
        "testing-specialist",
        f"Writes tests {manner}.",
        facts.tests,
        capabilities=tuple(facts.naming),
        when_to_use=(
            "when behaviour is added, or a fault is mended that no test had noticed",
        ),
    )


def specialists(facts: Facts) -> list[NewAgent]:
    """Return one each for the language, a named architecture, and two frameworks that files speak of."""
    language = facts.analysis.primary_language
    architecture = facts.analysis.architecture
    agents = [_specialist(facts, language, facts.sources(), facts.naming)]
    if architecture not in _SHAPES:
        agents.append(_specialist(facts, architecture, facts.sources(), facts.layers))
    frameworks = [f.name for f in facts.analysis.frameworks if f.purpose != "testing"]
    used = [name for name in frameworks if facts.sources(about=name)]
    for name in used[:2]:
        agents.append(_specialist(facts, name, facts.sources(about=name), []))
    return [
        agent
        for agent in agents
        if agent.example_files and AGENT_NAME.fullmatch(agent.name)
    ]


def _specialist(
    facts: Facts, field: str, files: Sequence[str], lines: Sequence[str]
) -> NewAgent:
    examples = _examples(facts, files)
    return NewAgent(
        f"{slug(field)}-specialist",
        f"Writes and changes {field} code, as in {examples}.",
        f"Source files of the package that are of its kind: {len(files)}.",
        technologies=(field,),
        capabilities=tuple(lines or facts.patterns.values()),
        when_to_use=(f"when a change touches code like {examples}",),
        example_files=tuple(files[:3]),
    )


def _examples(facts: Facts, files: Sequence[str]) -> str:
    return " and ".join(f"`{path}`" for path in facts.files(files)[:2])


def with_known_agents(
    recommended: Recommendation, inventory: Inventory
) -> Recommendation:
    """Return the recommendation without existing agents that do not exist."""
    names = inventory.names()
    for agent in recommended.use_existing:
        if agent.name not in names:
            log_warning(
                f"agent {agent.name!r} was left out: there is none of that name to use"
            )
    used = tuple(agent for agent in recommended.use_existing if agent.name in names)
    return replace(recommended, use_existing=used)
