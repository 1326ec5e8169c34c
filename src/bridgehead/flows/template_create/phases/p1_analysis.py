"""Phase 1: look at the project, ask the architectural reviewer, fall back on the heuristics (flows §11, §12)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

from bridgehead.flows.engine.context import PhasedContext
from bridgehead.flows.errors import log_warning
from bridgehead.flows.template_create.answers.judge import ANSWER_SCHEMAS, judge_of
from bridgehead.flows.template_create.choices import Choices
from bridgehead.flows.template_create.project.analysis import (
    BUILD,
    UNKNOWN,
    CodebaseAnalysis,
)
from bridgehead.flows.template_create.project.heuristics import MOST_EXAMPLES, analyse
from bridgehead.flows.template_create.project.sampling import (
    Sample,
    directory_tree,
    first_lines,
)
from bridgehead.flows.template_create.project.tree import look_at, read_text
from bridgehead.flows.template_create.prompts import SCALE, Prompt
from bridgehead.flows.words import ANSWER_SCHEMA, AgentName

TIMEOUT_SECONDS: Final = 120

TASK: Final = """\
Analyse the code base shown below, so that a template for similar projects can be made from it.
Cover five topics:
1. technology: languages, frameworks with versions, build tools, package manager;
2. architecture: the overall pattern, its layers and where they live, the key abstractions;
3. patterns: recurring ways of building things, each with files that show it;
4. testing: framework, organisation, how much is covered;
5. quality indicators: design principles, organisation, documentation, naming conventions."""

SCHEMA: Final = """\
## Your answer

Answer with one JSON object and nothing else. Members marked * are required.

{
  "technology_stack": {                                     *
    "primary_language": "Python",                           *
    "secondary_languages": ["..."],
    "frameworks": [{"name": "...", "version": "...", "confidence": 0.9}],
    "build_tools": ["..."], "package_manager": "...", "confidence": 0.9
  },
  "architecture": {
    "pattern": "...", "layers": [{"name": "...", "directories": ["..."], "description": "..."}],
    "module_structure": "...", "key_abstractions": ["..."], "confidence": 0.9
  },
  "patterns": [{
    "name": "...",                                          *
    "confidence": 0.9,                                      *
    "category": "design | error_handling | di | state | navigation | other",
    "usage_frequency": "rare | occasional | common | pervasive",
    "example_files": ["path"], "description": "..."
  }],
  "testing": {"framework": "...", "patterns": ["..."], "organization": "...",
              "coverage_estimate": "low | medium | high", "confidence": 0.9},
  "quality_indicators": {"solid_compliance": 1-10, "code_organization": 1-10,
    "documentation_level": "low | medium | high",
    "naming_conventions": {"classes": "PascalCase", "methods": "...", "variables": "...",
                           "files": "..."}},
  "example_files": [{"path": "...", "purpose": "...", "layer": "...", "patterns_used": ["..."]}],
  "overall_confidence": 0.0-1.0,                            *
  "analysis_notes": "..."
}

`example_files` are the 10 to 20 existing files that are most worth turning into templates."""


@dataclass(frozen=True)
class Survey:
    """What was seen of the project. Kept in the journal only: a state file must not carry source code."""

    analysis: CodebaseAnalysis
    samples: tuple[Sample, ...]
    tree: str


def run_phase(ctx: PhasedContext, choices: Choices) -> CodebaseAnalysis:
    """Return the agent's analysis completed by what was counted, or the heuristics' own."""
    survey = ctx.step(
        "survey", survey_project, choices.project_path, choices.output_path
    )
    answered: CodebaseAnalysis = ctx.ask(
        "codebase_analysis",
        agent=AgentName.ARCHITECTURAL_REVIEWER.value,
        prompt=analysis_prompt(survey, ctx.uuid()),
        timeout=TIMEOUT_SECONDS,
        result=CodebaseAnalysis,
        context={ANSWER_SCHEMA: ANSWER_SCHEMAS[1]},
        judge=judge_of(1),
        fallback=lambda failure: replace(survey.analysis, fallback_reason=str(failure)),
    )
    if not answered.agent_used:
        return answered
    named = [example.path for example in answered.example_files]
    existing = ctx.step(
        "existing_examples",
        existing_files,
        choices.project_path,
        named,
        result=list[str],
    )
    return complete(answered, survey.analysis, existing)


def survey_project(project_path: str, output_path: str) -> Survey:
    """Look at the project on disk."""
    seen = look_at(Path(project_path), leave_out=Path(output_path))
    samples = tuple(
        Sample(path, first_lines(seen.texts[path])) for path in seen.samples
    )
    return Survey(analyse(seen), samples, directory_tree(seen.paths))


def analysis_prompt(survey: Survey, seed: str) -> str:
    analysis = survey.analysis
    names = [
        f"{framework.name} {framework.version}".rstrip()
        for framework in analysis.frameworks
    ]
    tools = [*analysis.build_tools, analysis.package_manager]
    frameworks = ", ".join(names) or "none"
    named = f"frameworks: {frameworks}\nbuilt with: {', '.join(tools)}"
    prompt = Prompt(TASK, seed)
    prompt.say(SCALE)
    prompt.foreign(
        "Directories, with their numbers of files",
        survey.tree,
        origin="directory names",
    )
    prompt.foreign("What the dependency files name", named, origin="dependency files")
    for sample in survey.samples:
        prompt.sample(sample.path, sample.content)
    return prompt.text(SCHEMA)


def complete(
    answered: CodebaseAnalysis, counted: CodebaseAnalysis, existing: Sequence[str]
) -> CodebaseAnalysis:
    """Return an answer with what can only be counted, and with example files that are there."""
    answered = without_false_claims(answered, counted)
    directories = {layer.name: layer.directories for layer in counted.layers}
    layers = [
        replace(layer, directories=layer.directories or directories.get(layer.name, ()))
        for layer in answered.layers
    ]
    # The samples do not show everything that the dependency files name.
    named = {framework.name.lower() for framework in answered.frameworks}
    unseen = [
        framework
        for framework in counted.frameworks
        if framework.name.lower() not in named
    ]
    chosen = [example for example in answered.example_files if example.path in existing]
    examples = {example.path: example for example in counted.example_files}
    if chosen:
        examples = {
            path: example
            for path, example in examples.items()
            if example.layer == BUILD
        }
        examples |= {example.path: example for example in chosen[:MOST_EXAMPLES]}
    return replace(
        answered,
        layers=tuple(layers),
        frameworks=(*answered.frameworks, *unseen),
        language_version=counted.language_version,
        commands=counted.commands,
        naming=replace(answered.naming, examples=counted.naming.examples),
        style=counted.style,
        project_name=counted.project_name,
        example_files=tuple(examples.values()),
    )


def without_false_claims(
    answered: CodebaseAnalysis, counted: CodebaseAnalysis
) -> CodebaseAnalysis:
    """Return what an agent says of languages and frameworks, as far as files of the project bear it out."""
    languages = (counted.primary_language, *counted.secondary_languages)
    primary = answered.primary_language
    if primary not in languages and counted.primary_language != UNKNOWN:
        log_warning(
            f"the agent's language {primary!r} was dropped: the project has no such "
            "file"
        )
        primary = counted.primary_language
    dependencies = {_plain(name) for name in counted.dependencies}
    kept = []
    for framework in answered.frameworks:
        if not dependencies or _is_named(framework.name, dependencies):
            kept.append(framework)
        else:
            log_warning(
                f"the agent's framework {framework.name!r} was dropped: no dependency "
                "file names it"
            )
    main = answered.framework
    if answered.frameworks and main not in [framework.name for framework in kept]:
        main = counted.framework
    return replace(
        answered, primary_language=primary, framework=main, frameworks=tuple(kept)
    )


def _is_named(framework: str, dependencies: set[str]) -> bool:
    plain = _plain(framework)
    return any(
        plain in name or (len(name) > 2 and name in plain) for name in dependencies
    )


def _plain(name: str) -> str:
    return re.sub(r"\W|_", "", name.lower())


def existing_files(project_path: str, paths: Iterable[str]) -> list[str]:
    """Return those of the paths an agent named that are files of the project which may be read."""
    found = []
    for path in dict.fromkeys(paths):
        is_plain = str(PurePosixPath(path)) == path and path.isprintable()
        is_inside = ".." not in path.split("/") and "\\" not in path
        if is_plain and is_inside and read_text(Path(project_path), path) is not None:
            found.append(path)
        else:
            log_warning(
                f"the agent's example file {path!r} was dropped: there is no such file"
            )
    return found
