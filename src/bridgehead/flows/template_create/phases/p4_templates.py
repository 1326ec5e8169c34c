"""Phase 4: make templates of the example files (flows §11). Pure; the texts have been read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from bridgehead.flows.template_create.phases.placeholders import (
    badly_cased,
    entity_of,
    entity_replacements,
    placeholders_in,
    project_replacements,
    substitute,
    with_name_left_open,
)
from bridgehead.flows.template_create.project.analysis import BUILD, CodebaseAnalysis, ExampleFile
from bridgehead.flows.template_create.project.architecture import layer_of, patterns_of
from bridgehead.flows.template_create.project.languages import is_test, language_of, slug, snake, suffix_of

OTHER: Final = "other"
SHORTEST_CONTENT: Final = 50
LONGEST_NAME: Final = 255


@dataclass(frozen=True)
class Template:
    """One template file, and what it was made from."""

    original_path: str
    template_path: str
    content: str
    placeholders: tuple[str, ...] = ()
    file_type: str = ""
    language: str = ""
    purpose: str = ""
    quality_score: float = 0.0
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True)
class TemplateSet:
    """The result of phase 4, with what was noticed while it was made."""

    templates: tuple[Template, ...] = ()
    warnings: tuple[str, ...] = ()
    completeness_score: float = 10.0
    issues: tuple[str, ...] = ()


def make_templates(
    analysis: CodebaseAnalysis, texts: Mapping[str, str], *, author: str = "", most: int = 20
) -> TemplateSet:
    """Templates of the analysis's example files, as far as their texts could be read."""
    made: dict[str, Template] = {}
    warnings: list[str] = []
    for example in analysis.example_files:
        text = texts.get(example.path)
        if text is None or not text.strip():
            warnings.append(f"{example.path} was left out: it is empty or not to be read")
        elif len(f"{PurePosixPath(example.path).name}.template".encode()) > LONGEST_NAME:
            warnings.append(f"{example.path} was left out: its name is too long for a template")
        elif "\\" in example.path:
            warnings.append(f"{example.path} was left out: elsewhere its name would be a path")
        elif len(made) < most:
            template = make_template(example, text, analysis, author)
            template = replace(template, template_path=_free(template.template_path, made))
            made[template.template_path] = template
            warnings += validate(template)
    return TemplateSet(tuple(made.values()), tuple(warnings))


def make_template(example: ExampleFile, text: str, analysis: CodebaseAnalysis, author: str = "") -> Template:
    """One file with the project's own values replaced. A text that uses double braces itself is kept as it is."""
    replacements = project_replacements(analysis.project_name, author)
    entity = entity_of(text)
    if entity is not None:
        replacements += entity_replacements(entity)
    content = text if "{{" in text else substitute(text, replacements)
    if "{{" not in text and example.layer == BUILD:
        content = with_name_left_open(content, analysis.project_name)
    placeholders = () if "{{" in text else placeholders_in(content)
    template = Template(
        original_path=example.path,
        template_path=template_path(example, analysis.project_name),
        content=content,
        placeholders=placeholders,
        file_type=suffix_of(example.path).lstrip("."),
        language=language_of(example.path) or "",
        purpose=substitute(example.purpose, project_replacements(analysis.project_name, author)),
        patterns=example.patterns_used or (tuple(patterns_of(text)) if language_of(example.path) else ()),
    )
    return replace(template, quality_score=_quality(template))


def template_path(example: ExampleFile, project_name: str) -> str:
    """`templates/<layer>/…/<file>.template`; the layer as the analysis says, else by directory, else `other`."""
    layer = "tests" if is_test(example.path) else slug(example.layer or layer_of(example.path) or "") or OTHER
    found = PurePosixPath(example.path)
    own = {"src", snake(project_name), project_name, layer, "tests"}
    inside = [part for part in found.parts[:-1] if part not in own and not part.startswith(".")]
    return "/".join(("templates", layer, *inside[-2:], f"{found.name}.template"))


def validate(template: Template) -> list[str]:
    """What is to be said about a template; an empty one never gets here."""
    warnings = []
    if not template.placeholders:
        warnings.append(f"{template.template_path} has no placeholders")
    if template.placeholders and badly_cased(template.content):
        warnings.append(f"{template.template_path} has placeholders that are not in PascalCase")
    missing = [name for name in template.placeholders if f"{{{{{name}}}}}" not in template.content]
    return [
        *warnings,
        *(f"{template.template_path} does not contain its placeholder {name}" for name in missing),
    ]


def catalogue(templates: Sequence[Template]) -> str:
    """The templates as a list for readers and prompts: path, purpose, patterns."""
    return "\n".join(
        f"- {template.template_path}: {template.purpose or template.language}"
        + (f" ({', '.join(template.patterns)})" if template.patterns else "")
        for template in templates
    )


def _quality(template: Template) -> float:
    score = 10.0
    score -= 0 if template.placeholders else 2
    score -= 1 if len(template.content) < SHORTEST_CONTENT else 0
    score -= 1 if len(template.content.splitlines()) > 400 else 0
    return score - (0 if template.patterns else 0.5)


def _free(path: str, taken: Mapping[str, Template]) -> str:
    """`path`, or the same with a number where two files of different directories would meet."""
    stem, number = path.removesuffix(".template"), 2
    while path in taken:
        base = PurePosixPath(stem)
        path = f"{base.with_name(f'{base.stem}-{number}{base.suffix}')}.template"
        number += 1
    return path
