"""Phases 2 and 3: the manifest of a template, and the settings that code made from it follows (flows §11). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from bridgehead.flows.template_create.choices import Choices
from bridgehead.flows.template_create.phases.p4_templates import Origin, TemplateSet
from bridgehead.flows.template_create.phases.placeholders import (
    AUTHOR,
    ENTITIES,
    ENTITY,
    NAMESPACE,
    PROJECT,
    SUFFIX_OF,
    placed,
)
from bridgehead.flows.template_create.project.analysis import (
    UNKNOWN,
    CodebaseAnalysis,
    Framework,
    Layer,
    Style,
)
from bridgehead.flows.template_create.project.languages import (
    CASE_STYLES,
    case_style,
    endings_of,
    slug,
    spell,
    words_of,
)
from bridgehead.flows.values.times import utc_text

SCHEMA_VERSION: Final = "1.0.0"


@dataclass(frozen=True)
class Placeholder:
    name: str
    description: str
    default_value: str | None = None
    pattern: str | None = None
    required: bool = True


@dataclass(frozen=True)
class ManifestFile:
    """Where a template's file lies in a project made from the package."""

    template: str
    path: str
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """`manifest.json`, in the order of its keys."""

    # Every member has a default: state files of other writers may say less (flows §4).
    schema_version: str = ""
    name: str = ""
    display_name: str = ""
    description: str = ""
    version: str = "1.0.0"
    author: str = ""
    language: str = ""
    language_version: str = ""
    frameworks: tuple[Framework, ...] = ()
    architecture: str = ""
    patterns: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    placeholders: dict[str, Placeholder] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    category: str = "general"
    complexity: int = 1
    compatible_with: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    created_at: str = ""
    source_project: str | None = None
    confidence_score: int = 0
    origin: Origin | None = None
    files: tuple[ManifestFile, ...] = ()


_STANDARD: Final = ("ProjectName", NAMESPACE, AUTHOR)
_SUBJECTS: Final = {
    PROJECT: "the project",
    ENTITY: "the thing it is about",
    ENTITIES: "the same, several of them",
}
# What a spelling is called, and the pattern of names that are spelled so.
_SPELLINGS: Final = {
    "pascal": ("PascalCase", "^[A-Z][A-Za-z0-9]*$"),
    "camel": ("camelCase", "^[a-z][A-Za-z0-9]*$"),
    "snake": ("snake_case", "^[a-z][a-z0-9]*(_[a-z0-9]+)*$"),
    "kebab": ("kebab-case", "^[a-z][a-z0-9]*(-[a-z0-9]+)*$"),
    "upper": ("UPPER_CASE", "^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$"),
    "flat": ("one lower-case word", "^[a-z][a-z0-9]*$"),
    "title": ("words with capitals", None),
    "words": ("lower-case words", None),
}
_DOTTED: Final = "^[A-Za-z][A-Za-z0-9_]*([./-][A-Za-z][A-Za-z0-9_]*)*$"


def _described() -> dict[str, Placeholder]:
    made = {
        NAMESPACE: Placeholder(
            "{{Namespace}}", "Root package or namespace", None, _DOTTED
        ),
        AUTHOR: Placeholder("{{Author}}", "Who writes the project", required=False),
    }
    for prefix, whose in _SUBJECTS.items():
        for style, (shape, pattern) in _SPELLINGS.items():
            name = f"{prefix}{SUFFIX_OF[style]}"
            about = f"Name of {whose}, in {shape}"
            made[name] = Placeholder(f"{{{{{name}}}}}", about, None, pattern)
    return made


PLACEHOLDERS: Final = _described()

_UI: Final = frozenset({"React", "Vue", "Svelte", "Angular", "Next.js"})
_MOBILE: Final = frozenset({"React Native", "MAUI", "Flutter"})


def make_manifest(
    analysis: CodebaseAnalysis, choices: Choices, now: datetime
) -> Manifest:
    """Return the manifest of a template made from `analysis`."""
    name = choices.template_name or template_name(analysis)
    language = f"{analysis.primary_language} {analysis.language_version}"
    frameworks = sorted(
        analysis.frameworks, key=lambda framework: framework.purpose == "testing"
    )
    parts = (analysis.layers, frameworks, analysis.patterns)
    return Manifest(
        schema_version=SCHEMA_VERSION,
        name=name,
        display_name=name.replace("-", " ").title(),
        description=describe(analysis),
        author=choices.author,
        language=analysis.primary_language,
        language_version=analysis.language_version,
        frameworks=tuple(frameworks),
        architecture=analysis.architecture,
        patterns=analysis.patterns,
        layers=tuple(layer.name for layer in analysis.layers),
        placeholders={name: PLACEHOLDERS[name] for name in _STANDARD},
        tags=_tags(analysis),
        category=_category(analysis),
        complexity=1 + sum(min(3, len(part)) for part in parts),
        compatible_with=(language,) if analysis.language_version else (),
        created_at=utc_text(now),
        source_project=choices.project_path if choices.record_source else None,
        confidence_score=round(analysis.overall_confidence * 100),
    )


def with_contents(
    manifest: Manifest, made: TemplateSet, origin: Origin, agents: Iterable[str]
) -> Manifest:
    """Return the manifest of a finished package: its files, the placeholders they use, the agents it counts on."""
    used: set[str] = set()
    files = []
    for template in made.templates:
        used.update(template.placeholders)
        files.append(
            ManifestFile(template.template_path, template.path, template.needs)
        )
    return replace(
        manifest,
        placeholders={
            **manifest.placeholders,
            **{name: PLACEHOLDERS[name] for name in sorted(used)},
        },
        requires=tuple(f"agent:{name}" for name in agents),
        origin=origin,
        files=tuple(files),
    )


def template_name(analysis: CodebaseAnalysis) -> str:
    """Return `<language>-<architecture>-template`, cut where it grows too long to be a name."""
    parts = (analysis.primary_language, analysis.architecture)
    words = [slug(part) for part in parts if part != UNKNOWN]
    stem = "-".join(filter(None, words))[:41].strip("-")
    return f"{stem or 'project'}-template"


def describe(analysis: CodebaseAnalysis) -> str:
    """One sentence about the kind of project."""
    built_on = [f.name for f in analysis.frameworks if f.purpose != "testing"][:3]
    using = f" with {', '.join(built_on)}" if built_on else ""
    shape = "" if analysis.architecture == UNKNOWN else f"{analysis.architecture} "
    return f"{shape}{analysis.primary_language} project{using}"


def _tags(analysis: CodebaseAnalysis) -> tuple[str, ...]:
    frameworks = [framework.name for framework in analysis.frameworks]
    named = {
        analysis.primary_language,
        analysis.architecture,
        *frameworks,
        *analysis.patterns,
    }
    tags = {slug(name) for name in named - {UNKNOWN}}
    return tuple(sorted(tags - {""}))


def _category(analysis: CodebaseAnalysis) -> str:
    names = {framework.name for framework in analysis.frameworks}
    purposes = {framework.purpose for framework in analysis.frameworks}
    has_core = bool(purposes & {"core", "data"})
    if names & _MOBILE or analysis.primary_language == "Swift":
        return "mobile"
    if names & _UI:
        return "fullstack" if has_core else "frontend"
    return "backend" if has_core else "general"


# What each language's own guides say, for what the samples do not show.
_USUAL: Final = {
    "Python": ("PascalCase", "snake_case", "snake_case", "snake_case"),
    "Ruby": ("PascalCase", "snake_case", "snake_case", "snake_case"),
    "Rust": ("PascalCase", "snake_case", "snake_case", "snake_case"),
    "Go": ("PascalCase", "PascalCase", "camelCase", "snake_case"),
    "C#": ("PascalCase", "PascalCase", "camelCase", "PascalCase"),
    "TypeScript": ("PascalCase", "camelCase", "camelCase", "kebab-case"),
    "JavaScript": ("PascalCase", "camelCase", "camelCase", "kebab-case"),
}


_USUAL_ELSEWHERE: Final = ("PascalCase", "camelCase", "camelCase", "PascalCase")
_ELEMENTS: Final = ("class", "method", "variable", "file")


@dataclass(frozen=True)
class NamingConvention:
    element_type: str
    pattern: str
    case_style: str
    prefix: str = ""
    suffix: str = ""
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class FileOrganization:
    by_layer: bool = True
    by_feature: bool = False
    test_location: str = "separate"
    max_files_per_directory: int = 30


@dataclass(frozen=True)
class LayerMapping:
    name: str
    directory: str
    namespace_pattern: str
    file_patterns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """`settings.json`, in the order of its keys."""

    schema_version: str = SCHEMA_VERSION
    naming_conventions: dict[str, NamingConvention] = field(default_factory=dict)
    file_organization: FileOrganization = FileOrganization()
    layer_mappings: dict[str, LayerMapping] = field(default_factory=dict)
    code_style: Style = field(default_factory=Style)
    generation_options: dict[str, bool] = field(default_factory=dict)


def make_settings(analysis: CodebaseAnalysis) -> Settings:
    """Return the settings that code like the analysed one follows."""
    style = analysis.style
    is_layered = len(analysis.layers) > 1
    organization = FileOrganization(
        by_layer=is_layered,
        by_feature=not is_layered,
        test_location=_test_location(analysis.testing.organization),
    )
    return Settings(
        naming_conventions=_naming(analysis),
        file_organization=organization,
        layer_mappings={
            layer.name: _mapping(layer, analysis) for layer in analysis.layers
        },
        code_style=replace(
            style,
            indentation="tabs" if style.indentation == "tabs" else "spaces",
            indent_size=max(1, min(8, style.indent_size)),
            line_length=max(40, min(200, style.line_length)),
        ),
        generation_options={
            "include_tests": analysis.has_tests,
            "include_documentation": True,
        },
    )


def _naming(analysis: CodebaseAnalysis) -> dict[str, NamingConvention]:
    naming = analysis.naming
    seen = (naming.classes, naming.methods, naming.variables, naming.files)
    usual = _USUAL.get(analysis.primary_language, _USUAL_ELSEWHERE)
    conventions = {}
    for element, style, default in zip(_ELEMENTS, seen, usual, strict=True):
        if style not in CASE_STYLES:
            style = default
        names = naming.examples.get(element, ())
        own = [name for name in names if case_style(name) == style]
        pattern = CASE_STYLES[style].pattern
        conventions[element] = NamingConvention(
            element, pattern, style, examples=tuple(own[:3])
        )
    return conventions


def _test_location(organization: str) -> str:
    if re.search(r"(?i)adjacent|beside|co-located", organization):
        return "adjacent"
    return "mirror" if "mirror" in organization.lower() else "separate"


def _mapping(layer: Layer, analysis: CodebaseAnalysis) -> LayerMapping:
    directory = layer.directories[0] if layer.directories else layer.name.lower()
    own = ("src", spell(words_of(analysis.project_name), "snake"))
    inside = [part for part in directory.split("/") if part not in own]
    endings = endings_of(analysis.primary_language)
    return LayerMapping(
        layer.name,
        placed(directory, analysis.project_name),
        ".".join(["{{Namespace}}", *inside]),
        tuple(f"*{ending}" for ending in endings),
    )
