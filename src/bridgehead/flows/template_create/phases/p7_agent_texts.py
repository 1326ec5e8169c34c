"""Phases 6 and 7: the basic text of each agent file, then written out by the content enhancer (flows §11, §12)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridgehead.flows.engine.context import PhasedContext
from bridgehead.flows.template_create.agents import (
    EnhancedAgent,
    Enhancement,
    NewAgent,
    block_list,
    front_matter_of,
    yaml_text,
)
from bridgehead.flows.template_create.answers.judge import ANSWER_SCHEMAS, judge_of
from bridgehead.flows.template_create.phases.p2_manifest import Settings
from bridgehead.flows.template_create.phases.p4_templates import Template, catalogue
from bridgehead.flows.template_create.phases.p8_documentation import Facts, bullets
from bridgehead.flows.template_create.project.sampling import Sample, first_lines
from bridgehead.flows.template_create.project.tree import read_text
from bridgehead.flows.template_create.prompts import SCALE, Prompt
from bridgehead.flows.values.codec import to_plain
from bridgehead.flows.words import ANSWER_SCHEMA, AgentName
from bridgehead.host.terminal import escape_controls

TIMEOUT_SECONDS: Final = 300
BATCH: Final = 4
SAMPLES: Final = 6
SAMPLE_LINES: Final = 120
LONGEST_CONTENT: Final = 200_000
COMMANDS, FILES = "## Commands", "## Files To Read First"

TASK: Final = """\
Write out the agents below, so that each can work in projects made from this template without further instruction. Give
each of them nine sections:
1. header: front matter with name, description, tools, tags;
2. purpose, in 50 to 100 words;
3. when to use, 3 to 4 cases;
4. capabilities, 5 to 7;
5. related files, 2 to 3 of the catalogue;
6. code examples, 2 to 3, taken from the samples;
7. best practices, 3 to 5;
8. common patterns, 2 to 3;
9. integration points with the other agents.
Each text has at least 150 lines, at least 2 code examples from the samples, at least 2 references to files of the
catalogue by their paths there, the commands of the project, and deserves a quality score of 8 or more. Leave out what
would be true of any project. Keep every name as it is."""

SCHEMA: Final = """\
## Your answer

Answer with one JSON object and nothing else. Members marked * are required.

{
  "enhanced_agents": [{                                            *
    "name": "...",                                                 *
    "enhanced_content": "the complete Markdown file",              *
    "template_references": [{"template": "...", "relevance": "primary | secondary", "patterns_shown": ["..."]}],
    "code_examples_count": 2, "line_count": 150, "sections_included": ["..."], "quality_score": 1-10
  }],
  "enhancement_summary": {"total_agents": 0, "average_line_count": 0, "average_quality_score": 0,
                          "templates_referenced": ["..."]},
  "confidence": 0.0-1.0,                                           *
  "notes": "..."
}"""


@dataclass(frozen=True)
class EnhancedSet:
    """The result of phase 7: the text of every agent file, and what was not enhanced, with the reason."""

    agents: tuple[EnhancedAgent, ...] = ()
    fallbacks: tuple[str, ...] = ()
    kept_basic: tuple[str, ...] = ()


def run_phase(
    ctx: PhasedContext, basics: Mapping[str, str], facts: Facts, project_path: str
) -> EnhancedSet:
    """One request per four agents, one after another."""
    if not basics:
        return EnhancedSet()
    paths = [example.path for example in facts.analysis.example_files]
    samples = ctx.step("code_samples", read_samples, project_path, paths)
    answers = [
        ctx.ask(
            "agent_enhancement",
            agent=AgentName.AGENT_CONTENT_ENHANCER.value,
            prompt=enhancement_prompt(
                batch, facts.templates, samples, facts.settings, ctx.uuid()
            ),
            timeout=TIMEOUT_SECONDS,
            result=Enhancement,
            context={ANSWER_SCHEMA: ANSWER_SCHEMAS[7]},
            judge=judge_of(7),
            fallback=lambda failure: Enhancement(fallback_reason=str(failure)),
        )
        for batch in batches(basics)
    ]
    return apply(basics, answers)


def batches(basics: Mapping[str, str]) -> list[dict[str, str]]:
    names = list(basics)
    return [
        {name: basics[name] for name in names[start : start + BATCH]}
        for start in range(0, len(names), BATCH)
    ]


def read_samples(project_path: str, paths: Sequence[str]) -> list[Sample]:
    """Longer pieces of the first example files that can be read."""
    samples: list[Sample] = []
    for path in paths:
        text = read_text(Path(project_path), path) if len(samples) < SAMPLES else None
        if text is not None:
            samples.append(Sample(path, first_lines(text, SAMPLE_LINES)))
    return samples


def enhancement_prompt(
    batch: Mapping[str, str],
    templates: Sequence[Template],
    samples: Sequence[Sample],
    settings: Settings,
    seed: str,
) -> str:
    prompt = Prompt(TASK, seed)
    prompt.say(SCALE)
    for name, text in batch.items():
        prompt.foreign(f"Agent {name}", text, origin=f"phase 6, agent {name}")
    prompt.foreign(
        "Template catalogue", catalogue(templates), origin="phase 4, template paths"
    )
    prompt.foreign(
        "Settings", json.dumps(to_plain(settings), indent=1), origin="phase 3, settings"
    )
    for sample in samples:
        prompt.sample(sample.path, sample.content)
    return prompt.text(SCHEMA)


def apply(basics: Mapping[str, str], answers: Sequence[Enhancement]) -> EnhancedSet:
    """The better text of each agent: the enhanced one where it is fit to be used, else the basic one."""
    offered = {
        agent.name: agent.content.replace("\r\n", "\n")
        for answer in answers
        for agent in answer.agents
    }
    chosen, kept = [], []
    for name, basic in basics.items():
        content = _grounded(offered.get(name, ""), basic)
        usable = is_usable(name, content, basic)
        if not usable:
            kept.append(name)
        chosen.append(EnhancedAgent(name, content if usable else basic))
    reasons = tuple(
        answer.fallback_reason for answer in answers if answer.fallback_reason
    )
    return EnhancedSet(tuple(chosen), reasons, tuple(kept))


def is_usable(name: str, content: str, basic: str) -> bool:
    """It has front matter of this agent, is not shorter than what it replaces, and hides nothing from a reader."""
    head = front_matter_of(content)
    if head is None or head.get("name", name) != name or len(content) > LONGEST_CONTENT:
        return False
    if escape_controls(content) != content:
        return False
    return len(content.splitlines()) >= len(basic.splitlines())


def _grounded(content: str, basic: str) -> str:
    """The text with the basic one's commands and files at its end, where it names none of them itself."""
    for heading in (COMMANDS, FILES):
        section = basic.partition(f"\n{heading}\n")[2].partition("\n## ")[0].strip()
        named = [
            line.split("`")[1] for line in section.splitlines() if line.count("`") > 1
        ]
        if content and named and not any(name in content for name in named):
            content = f"{content.rstrip()}\n\n{heading}\n\n{section}\n"
    return content.rstrip("\n") + "\n"


def render_agent(agent: NewAgent, facts: Facts) -> str:
    """The file of an agent, complete enough to be used as it is."""
    title = " ".join(word.capitalize() for word in agent.name.split("-"))
    head = [
        "---",
        f"name: {yaml_text(agent.name)}",
        f"description: {yaml_text(agent.description)}",
        f"priority: {agent.priority}",
        *block_list("technologies", agent.technologies),
        "---",
    ]
    known = [path for path in agent.example_files if facts.files([path])]
    files = (
        known or facts.sources(tests="test" in agent.name)[:3] or facts.sources()[:3]
    )
    sections = {
        "## Purpose": agent.description,
        "## Why This Agent Exists": agent.rationale,
        "## Technologies": bullets(agent.technologies),
        "## Usage": "Ask this agent:\n\n" + bullets(agent.when_to_use)
        if agent.when_to_use
        else "",
        "## Capabilities": bullets((*agent.responsibilities, *agent.capabilities)),
        COMMANDS: bullets(f"`{line}`" for line in facts.analysis.commands),
        FILES: bullets(facts.reading(files)),
    }
    body = [
        f"# {title}",
        *(f"{heading}\n\n{text}" for heading, text in sections.items() if text),
    ]
    return escape_controls("\n\n".join(["\n".join(head), *body])) + "\n"
