"""Phases 2 and 3: what the template is, as its manifest says it, and how code made from it is written and where it goes
(flows §11). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from bridgehead.flows.template_create.choices import TEMPLATE_NAME, Choices
from bridgehead.flows.template_create.phases.p4_templates import Origin, TemplateSet
from bridgehead.flows.template_create.phases.placeholders import (
    AUTHOR,
    NAMESPACE,
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
    LANGUAGE_OF,
    case_style,
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
_OF: Final = {
    "Project": "the project",
    "Entity": "the thing it is about",
    "Entities": "the same, several of them",
}
_AS: Final = {
    "pascal": ("PascalCase", "^[A-Z][A-Za-z0-9]*$"),
    "camel": ("camelCase", "^[a-z][A-Za-z0-9]*$"),
    "snake": ("snake_case", "^[a-z][a-z0-9]*(_[a-z0-9]+)*$"),
    "kebab": ("kebab-case", "^[a-z][a-z0-9]*(-[a-z0-9]+)*$"),
    "upper": ("UPPER_CASE", "^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$"),
    "flat": ("one lower-case word", "^[a-z][a-z0-9]*$"),
    "title": ("words with capitals", None),
    "words": ("lower-case words", None),
}


def _described() -> dict[str, Placeholder]:
    made = {
        NAMESPACE: Placeholder(
            "{{Namespace}}",
            "Root package or namespace",
            None,
            "^[A-Za-z][A-Za-z0-9_]*([./-][A-Za-z][A-Za-z0-9_]*)*$",
        ),
        AUTHOR: Placeholder("{{Author}}", "Who writes the project", required=False),
    }
    for prefix, whose in _OF.items():
        for style, suffix in SUFFIX_OF.items():
            name, (shape, pattern) = f"{prefix}{suffix}", _AS[style]
            made[name] = Placeholder(
                f"{{{{{name}}}}}", f"Name of {whose}, in {shape}", None, pattern
            )
    return made


PLACEHOLDERS: Final = _described()

_UI: Final = frozenset({"React", "Vue", "Svelte", "Angular", "Next.js"})
_MOBILE: Final = frozenset({"React Native", "MAUI", "Flutter"})


def make_manifest(
    analysis: CodebaseAnalysis, choices: Choices, now: datetime
) -> Manifest:
    """The manifest of a template made from `analysis`."""
    name = choices.template_name or template_name(analysis)
    version = analysis.language_version
    return Manifest(
        schema_version=SCHEMA_VERSION,
        name=name,
        display_name=" ".join(word.capitalize() for word in name.split("-")),
        description=describe(analysis),
        author=choices.author,
        language=analysis.primary_language,
        language_version=version,
        frameworks=tuple(
            sorted(
                analysis.frameworks,
                key=lambda framework: framework.purpose == "testing",
            )
        ),
        architecture=analysis.architecture,
        patterns=analysis.patterns,
        layers=tuple(layer.name for layer in analysis.layers),
        placeholders={name: PLACEHOLDERS[name] for name in _STANDARD},
        tags=_tags(analysis),
        category=_category(analysis),
        complexity=1
        + min(3, len(analysis.layers))
        + min(3, len(analysis.frameworks))
        + min(3, len(analysis.patterns)),
        compatible_with=(f"{analysis.primary_language} {version}",) if version else (),
        created_at=utc_text(now),
        source_project=choices.project_path if choices.record_source else None,
        confidence_score=round(analysis.overall_confidence * 100),
    )


def with_contents(
    manifest: Manifest, made: TemplateSet, origin: Origin, agents: Iterable[str]
) -> Manifest:
    """The manifest of a finished package: its files, the placeholders they use, the agents it counts on."""
    used = {name for template in made.templates for name in template.placeholders}
    return replace(
        manifest,
        placeholders={
            **manifest.placeholders,
            **{name: PLACEHOLDERS[name] for name in sorted(used)},
        },
        requires=tuple(f"agent:{name}" for name in agents),
        origin=origin,
        files=tuple(
            ManifestFile(t.template_path, t.path, t.needs) for t in made.templates
        ),
    )


def template_name(analysis: CodebaseAnalysis) -> str:
    """`<language>-<architecture>-template`, cut where it grows too long to be a name."""
    words = [
        slug(part)
        for part in (analysis.primary_language, analysis.architecture)
        if part != UNKNOWN
    ]
    stem = "-".join(word for word in words if word)[:41].strip("-")
    name = f"{stem}-template" if stem else "project-template"
    assert TEMPLATE_NAME.fullmatch(name)
    return name


def describe(analysis: CodebaseAnalysis) -> str:
    """One sentence about the kind of project."""
    built_on = [f.name for f in analysis.frameworks if f.purpose != "testing"][:3]
    using = f" with {', '.join(built_on)}" if built_on else ""
    shape = "" if analysis.architecture == UNKNOWN else f"{analysis.architecture} "
    return f"{shape}{analysis.primary_language} project{using}"


def _tags(analysis: CodebaseAnalysis) -> tuple[str, ...]:
    named = (
        analysis.primary_language,
        analysis.architecture,
        *(f.name for f in analysis.frameworks),
    )
    return tuple(
        sorted(
            {
                tag
                for name in (*named, *analysis.patterns)
                if name != UNKNOWN and (tag := slug(name))
            }
        )
    )


def _category(analysis: CodebaseAnalysis) -> str:
    names = {framework.name for framework in analysis.frameworks}
    if names & _MOBILE or analysis.primary_language == "Swift":
        return "mobile"
    has_core = any(
        framework.purpose in ("core", "data") for framework in analysis.frameworks
    )
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
    """The settings that code like the analysed one follows."""
    style = analysis.style
    return Settings(
        naming_conventions=_naming(analysis),
        file_organization=FileOrganization(
            by_layer=len(analysis.layers) > 1,
            by_feature=len(analysis.layers) <= 1,
            test_location=_test_location(analysis.testing.organization),
        ),
        layer_mappings={
            layer.name: _mapping(layer, analysis) for layer in analysis.layers
        },
        code_style=Style(
            style.indentation if style.indentation in ("spaces", "tabs") else "spaces",
            max(1, min(8, style.indent_size)),
            max(40, min(200, style.line_length)),
            style.trailing_commas,
        ),
        generation_options={
            "include_tests": analysis.has_tests,
            "include_documentation": True,
        },
    )


def _naming(analysis: CodebaseAnalysis) -> dict[str, NamingConvention]:
    seen = analysis.naming
    usual = _USUAL.get(
        analysis.primary_language,
        ("PascalCase", "camelCase", "camelCase", "PascalCase"),
    )
    said = (seen.classes, seen.methods, seen.variables, seen.files)
    conventions = {}
    for element, wanted, default in zip(
        ("class", "method", "variable", "file"), said, usual, strict=True
    ):
        style = wanted if wanted in CASE_STYLES else default
        own = tuple(
            name for name in seen.examples.get(element, ()) if case_style(name) == style
        )
        conventions[element] = NamingConvention(
            element, CASE_STYLES[style].pattern, style, examples=own[:3]
        )
    return conventions


def _test_location(organization: str) -> str:
    words = organization.lower()
    if "adjacent" in words or "beside" in words or "co-located" in words:
        return "adjacent"
    return "mirror" if "mirror" in words else "separate"


def _mapping(layer: Layer, analysis: CodebaseAnalysis) -> LayerMapping:
    directory = layer.directories[0] if layer.directories else layer.name.lower()
    namespace = spell(words_of(analysis.project_name), "snake")
    inside = [part for part in directory.split("/") if part not in ("src", namespace)]
    extensions = [
        ext
        for ext, language in LANGUAGE_OF.items()
        if language == analysis.primary_language
    ]
    return LayerMapping(
        layer.name,
        placed(directory, analysis.project_name),
        ".".join(["{{Namespace}}", *inside]),
        tuple(f"*{extension}" for extension in extensions),
    )
