"""Phases 6 and 7: the basic text of each agent file, then written out by the content enhancer (flows §11, §12)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
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
from bridgehead.flows.template_create.project.analysis import CodebaseAnalysis
from bridgehead.flows.template_create.project.sampling import Sample, first_lines
from bridgehead.flows.template_create.project.tree import read_text
from bridgehead.flows.template_create.prompts import SCALE, Prompt
from bridgehead.flows.values.codec import to_plain
from bridgehead.flows.words import ANSWER_SCHEMA, NOTHING, AgentName
from bridgehead.host.terminal import escape_controls

TIMEOUT_SECONDS: Final = 300
BATCH: Final = 4
SAMPLES: Final = 6
SAMPLE_LINES: Final = 120
LONGEST_CONTENT: Final = 200_000

TASK: Final = """\
Write out the agents below, so that each can work in projects made from this template without further instruction. Give
each of them nine sections:
1. header: front matter with name, description, tools, tags;
2. purpose, in 50 to 100 words;
3. when to use, 3 to 4 cases;
4. capabilities, 5 to 7;
5. related templates, 2 to 3 of the catalogue;
6. code examples, 2 to 3, taken from the samples;
7. best practices, 3 to 5;
8. common patterns, 2 to 3;
9. integration points with the other agents.
Each text has at least 150 lines, at least 2 code examples from the samples, at least 2 references to templates, and
deserves a quality score of 8 or more. Keep every name as it is."""

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
    ctx: PhasedContext,
    basics: Mapping[str, str],
    analysis: CodebaseAnalysis,
    templates: Sequence[Template],
    settings: Settings,
    project_path: str,
) -> EnhancedSet:
    """One request per four agents, one after another."""
    if not basics:
        return EnhancedSet()
    paths = [example.path for example in analysis.example_files]
    samples = ctx.step("code_samples", read_samples, project_path, paths)
    answers = [
        ctx.ask(
            "agent_enhancement",
            agent=AgentName.AGENT_CONTENT_ENHANCER.value,
            prompt=enhancement_prompt(batch, templates, samples, settings, ctx.uuid()),
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
    return [{name: basics[name] for name in names[start : start + BATCH]} for start in range(0, len(names), BATCH)]


def read_samples(project_path: str, paths: Sequence[str]) -> list[Sample]:
    """Longer pieces of the first example files that can be read."""
    samples: list[Sample] = []
    for path in paths:
        text = read_text(Path(project_path), path) if len(samples) < SAMPLES else None
        if text is not None:
            samples.append(Sample(path, first_lines(text, SAMPLE_LINES)))
    return samples


def enhancement_prompt(
    batch: Mapping[str, str], templates: Sequence[Template], samples: Sequence[Sample], settings: Settings, seed: str
) -> str:
    prompt = Prompt(TASK, seed)
    prompt.say(SCALE)
    for name, text in batch.items():
        prompt.foreign(f"Agent {name}", text, origin=f"phase 6, agent {name}")
    prompt.foreign("Template catalogue", catalogue(templates), origin="phase 4, template paths")
    prompt.foreign("Settings", json.dumps(to_plain(settings), indent=1), origin="phase 3, settings")
    for sample in samples:
        prompt.sample(sample.path, sample.content)
    return prompt.text(SCHEMA)


def apply(basics: Mapping[str, str], answers: Sequence[Enhancement]) -> EnhancedSet:
    """The better text of each agent: the enhanced one where it is fit to be used, else the basic one."""
    offered = {agent.name: _with_our_ends(agent.content) for answer in answers for agent in answer.agents}
    chosen, kept = [], []
    for name, basic in basics.items():
        content = offered.get(name, "")
        usable = is_usable(name, content, basic)
        if not usable:
            kept.append(name)
        chosen.append(EnhancedAgent(name, content if usable else basic))
    reasons = tuple(answer.fallback_reason for answer in answers if answer.fallback_reason)
    return EnhancedSet(tuple(chosen), reasons, tuple(kept))


def is_usable(name: str, content: str, basic: str) -> bool:
    """It has front matter of this agent, is not shorter than what it replaces, and hides nothing from a reader."""
    head = front_matter_of(content)
    if head is None or head.get("name", name) != name or len(content) > LONGEST_CONTENT:
        return False
    if escape_controls(content) != content:
        return False
    return len(content.splitlines()) >= len(basic.splitlines())


def _with_our_ends(content: str) -> str:
    """The text with the line ends of all our files, whichever its writer has."""
    return content.replace("\r\n", "\n").rstrip("\n") + "\n"


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
