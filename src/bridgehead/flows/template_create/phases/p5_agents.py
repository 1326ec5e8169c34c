"""Phase 5: which agents exist, and which the template should bring, by the reviewer or from the basic set (flows
§11).
"""

from __future__ import annotations

import json
import re
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
    """The user's own agents, those of the base template, and those of this account."""
    return Inventory(
        user_custom=tuple(_agents(Path(root) / AGENTS_DIRECTORY, "custom")),
        template=tuple(_agents(Path(base_template) / "agents", "template"))
        if base_template
        else (),
        global_agents=tuple(_agents(Path.home() / AGENTS_DIRECTORY, "global")),
    )


def _agents(directory: Path, source: str) -> Iterator[ExistingAgent]:
    try:
        names = sorted(
            path.name for path in directory.iterdir() if path.suffix == ".md"
        )
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
    return (
        tuple(value)
        if isinstance(value, list)
        else tuple(filter(None, map(str.strip, value.split(","))))
    )


TIMEOUT_SECONDS: Final = 180

TASK: Final = """\
Decide which specialised agents a template for projects like the one analysed below should bring. Use agents that exist
before making new ones: the user's own (custom) come before those of the template, those before the global ones, and an
agent that exists under a name is never made again. Aim at 7 to 9 agents in total, each with a clear field of its own
that follows from the technologies and patterns of the analysis. Say nothing that would be true of any project: name the
files, commands and conventions an agent is to know."""

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

# Names that say no more of a project than that it has directories.
_SHAPES: Final = frozenset({UNKNOWN, "Modular", "Layered", "Flat"})


def run_phase(ctx: PhasedContext, choices: Choices, facts: Facts) -> Recommendation:
    """What the agent recommends, else the basic set."""
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
    """The inventory under the keys of the state file."""
    lists = (inventory.user_custom, inventory.template, inventory.global_agents)
    return dict(
        zip(("user_custom", "template", "global"), map(to_plain, lists), strict=True)
    )


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
    """The basic set: used where it exists, made where it does not, so that no document names an agent nobody has."""
    known = {agent.name: agent for agent in inventory.all()}
    wanted = basic_set(facts)
    used = [
        replace(known[one.name], description=one.description)
        for one in wanted
        if one.name in known
    ]
    made = [
        agent
        for agent in (*wanted, *(specialists(facts) if heuristic else ()))
        if agent.name not in known
    ]
    return Recommendation(tuple(used), tuple(made), fallback_reason=str(failure))


def basic_set(facts: Facts) -> list[NewAgent]:
    """Agents that are known everywhere under these names (flows §11), described by what each meets in this project."""
    built_on = (
        facts.analysis.primary_language,
        *(f.name for f in facts.analysis.frameworks),
    )
    sources, tests = facts.sources(), facts.sources(tests=True)
    shown = (
        " and ".join(f"`{path}`" for path in facts.files(sources)[:2]) or "its files"
    )
    came = f"The package has {len(facts.templates)} files of the original in {len(facts.layout)} directories"
    seen = f"{len(facts.naming)} conventions of naming and {len(facts.patterns)} patterns show in them."
    places = [
        re.split(", |: ", line)[0]
        for line in (facts.layers if len(facts.layers) > 2 else facts.layout)
    ]
    run = f"`{facts.test_command}`" if facts.test_command else "the tests"
    like = (
        f"in the manner of `{facts.files(tests)[0]}`"
        if tests
        else f"for code like {shown}; the original has none"
    )
    rows = {
        "architectural-reviewer": (
            f"Reviews whether a change keeps to the layout: {', '.join(places[:4]) or 'one directory'}.",
            f"{came}; what belongs where is listed below.",
            "when a change adds a module, moves one, or lets one directory import another",
            (*facts.layers, *facts.layout),
        ),
        "code-reviewer": (
            f"Reviews changes for faults, and for the conventions that {shown} show.",
            f"{came}; {seen}",
            "before a change is committed, with the diff and what it is meant to do",
            (facts.style, *facts.naming, *facts.patterns.values()),
        ),
        "test-verifier": (
            f"Runs {run} and judges whether the tests would notice the change being wrong.",
            facts.tests,
            "after a change and its tests are written, before they are trusted",
            (),
        ),
        "testing-specialist": (
            f"Writes tests {like}.",
            facts.tests,
            "when behaviour is added, or a fault is mended that no test had noticed",
            tuple(facts.naming),
        ),
    }
    return [
        NewAgent(
            name,
            description,
            why,
            technologies=tuple(tech for tech in built_on if tech != UNKNOWN)[:5],
            capabilities=capabilities,
            when_to_use=(when,),
            example_files=tuple(
                ((*tests, *sources) if "test" in name else sources)[:3]
            ),
        )
        for name, (description, why, when, capabilities) in rows.items()
    ]


def specialists(facts: Facts) -> list[NewAgent]:
    """One each for the language, a named architecture and up to two frameworks that files of the package speak of."""
    language, architecture = (
        facts.analysis.primary_language,
        facts.analysis.architecture,
    )
    frameworks = [f.name for f in facts.analysis.frameworks if f.purpose != "testing"]
    spoken = [
        (name, files)
        for name in frameworks
        if (files := facts.sources(about=name.lower()))
    ]
    fields = {
        language: facts.sources(),
        architecture: facts.sources(),
        **dict(spoken[:2]),
    }
    agents = []
    for field, files in fields.items():
        name, shown = (
            f"{slug(field)}-specialist",
            " and ".join(f"`{path}`" for path in facts.files(files)[:2]),
        )
        if not AGENT_NAME.fullmatch(name) or not shown or field in _SHAPES:
            continue
        lines = (
            facts.layers
            if field == architecture
            else facts.naming
            if field == language
            else ()
        )
        agents.append(
            NewAgent(
                name,
                f"Writes and changes {field} code, as in {shown}.",
                f"Source files of the package that are of its kind: {len(files)}.",
                technologies=(field,),
                capabilities=tuple(lines or facts.patterns.values()),
                when_to_use=(f"when a change touches code like {shown}",),
                example_files=tuple(files[:3]),
            )
        )
    return agents


def with_known_agents(
    recommended: Recommendation, inventory: Inventory
) -> Recommendation:
    """Only agents that exist can be used; one the agent dreamt of is left out."""
    names = inventory.names()
    used = tuple(agent for agent in recommended.use_existing if agent.name in names)
    for agent in recommended.use_existing:
        if agent.name not in names:
            log_warning(
                f"agent {agent.name!r} was left out: there is none of that name to use"
            )
    return replace(recommended, use_existing=used)
