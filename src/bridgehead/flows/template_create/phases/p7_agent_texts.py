"""Phases 6 and 7: the basic text of each agent file, then written out by the content enhancer (flows §11, §12)."""

from __future__ import annotations

import json
import re
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
from bridgehead.flows.template_create.phases.p4_templates import catalogue
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
COMMANDS: Final = "## Commands"
FILES: Final = "## Files To Read First"

TASK: Final = """\
Write out the agents below, so that each can work in projects made from this template without
further instruction. Give each of them nine sections:
1. header: front matter with name, description, tools, tags;
2. purpose, in 50 to 100 words;
3. when to use, 3 to 4 cases;
4. capabilities, 5 to 7;
5. related files, 2 to 3 of the catalogue;
6. code examples, 2 to 3, taken from the samples;
7. best practices, 3 to 5;
8. common patterns, 2 to 3;
9. integration points with the other agents.
Each text has at least 150 lines, at least 2 code examples from the samples, at least 2
references to files of the catalogue by their paths there, the commands of the project, and
deserves a quality score of 8 or more. Leave out what would be true of any project. Keep every
name as it is."""

SCHEMA: Final = """\
## Your answer

Answer with one JSON object and nothing else. Members marked * are required.

{
  "enhanced_agents": [{                                            *
    "name": "...",                                                 *
    "enhanced_content": "the complete Markdown file",              *
    "template_references": [{"template": "...", "relevance": "primary | secondary",
                             "patterns_shown": ["..."]}],
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
    """Ask for the texts of four agents at a time, one request after another."""
    if not basics:
        return EnhancedSet()
    paths = [example.path for example in facts.analysis.example_files]
    samples = ctx.step("code_samples", read_samples, project_path, paths)
    answers = []
    for batch in batches(basics):
        answer = ctx.ask(
            "agent_enhancement",
            agent=AgentName.AGENT_CONTENT_ENHANCER.value,
            prompt=enhancement_prompt(batch, facts, samples, ctx.uuid()),
            timeout=TIMEOUT_SECONDS,
            result=Enhancement,
            context={ANSWER_SCHEMA: ANSWER_SCHEMAS[7]},
            judge=judge_of(7),
            fallback=lambda failure: Enhancement(fallback_reason=str(failure)),
        )
        answers.append(answer)
    return apply(basics, answers)


def batches(basics: Mapping[str, str]) -> list[dict[str, str]]:
    items = list(basics.items())
    return [dict(items[start : start + BATCH]) for start in range(0, len(items), BATCH)]


def read_samples(project_path: str, paths: Sequence[str]) -> list[Sample]:
    """Return longer pieces of the first example files that can be read."""
    samples: list[Sample] = []
    for path in paths:
        text = read_text(Path(project_path), path)
        if text is not None:
            samples.append(Sample(path, first_lines(text, SAMPLE_LINES)))
        if len(samples) == SAMPLES:
            break
    return samples


def enhancement_prompt(
    batch: Mapping[str, str], facts: Facts, samples: Sequence[Sample], seed: str
) -> str:
    prompt = Prompt(TASK, seed)
    prompt.say(SCALE)
    for name, text in batch.items():
        prompt.foreign(f"Agent {name}", text, origin=f"phase 6, agent {name}")
    catalogued = catalogue(facts.templates)
    prompt.foreign("Template catalogue", catalogued, origin="phase 4, template paths")
    settings = json.dumps(to_plain(facts.settings), indent=1)
    prompt.foreign("Settings", settings, origin="phase 3, settings")
    for sample in samples:
        prompt.sample(sample.path, sample.content)
    return prompt.text(SCHEMA)


def apply(basics: Mapping[str, str], answers: Sequence[Enhancement]) -> EnhancedSet:
    """Return the enhanced text of each agent where it is fit to be used, else the basic one."""
    offered: dict[str, str] = {}
    for answer in answers:
        offered |= {agent.name: agent.content for agent in answer.agents}
    chosen = []
    kept = []
    for name, basic in basics.items():
        content = _grounded(offered.get(name, "").replace("\r\n", "\n"), basic)
        if not is_usable(name, content, basic):
            content = basic
            kept.append(name)
        chosen.append(EnhancedAgent(name, content))
    reasons = [answer.fallback_reason for answer in answers if answer.fallback_reason]
    return EnhancedSet(tuple(chosen), tuple(reasons), tuple(kept))


def is_usable(name: str, content: str, basic: str) -> bool:
    """Tell whether a text has front matter of its agent, is not shorter than the basic one, and hides nothing."""
    head = front_matter_of(content)
    return (
        head is not None
        and head.get("name", name) == name
        and len(content) <= LONGEST_CONTENT
        and len(content.splitlines()) >= len(basic.splitlines())
        and escape_controls(content) == content
    )


def _grounded(content: str, basic: str) -> str:
    """Return the text with the commands and files of the basic one at its end, where it names none of them."""
    for heading in (COMMANDS, FILES):
        after_heading = basic.partition(f"\n{heading}\n")[2]
        section = after_heading.partition("\n## ")[0].strip()
        named = re.findall(r"^[^`\n]*`([^`\n]+)`", section, re.MULTILINE)
        if content and named and not any(name in content for name in named):
            content = f"{content.rstrip()}\n\n{heading}\n\n{section}\n"
    return content.rstrip("\n") + "\n"


def render_agent(agent: NewAgent, facts: Facts) -> str:
    """Return the file of an agent, complete enough to be used as it is."""
    head = [
        "---",
        f"name: {yaml_text(agent.name)}",
        f"description: {yaml_text(agent.description)}",
        f"priority: {agent.priority}",
        *block_list("technologies", agent.technologies),
        "---",
    ]
    reading = (
        facts.reading(agent.example_files)
        or facts.reading(facts.sources(tests="test" in agent.name)[:3])
        or facts.reading(facts.sources()[:3])
    )
    usage = ""
    if agent.when_to_use:
        usage = f"Ask this agent:\n\n{bullets(agent.when_to_use)}"
    sections = {
        "## Purpose": agent.description,
        "## Why This Agent Exists": agent.rationale,
        "## Technologies": bullets(agent.technologies),
        "## Usage": usage,
        "## Capabilities": bullets((*agent.responsibilities, *agent.capabilities)),
        COMMANDS: bullets(f"`{line}`" for line in facts.analysis.commands),
        FILES: bullets(reading),
    }
    body = [f"{heading}\n\n{text}" for heading, text in sections.items() if text]
    title = f"# {agent.name.replace('-', ' ').title()}"
    return escape_controls("\n\n".join(["\n".join(head), title, *body])) + "\n"
