"""Phase 2: what the template is, as its manifest says it (flows §11). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from bridgehead.flows.template_create.choices import TEMPLATE_NAME, Choices
from bridgehead.flows.template_create.phases.p4_proof import Origin
from bridgehead.flows.template_create.phases.p4_templates import TemplateSet
from bridgehead.flows.template_create.phases.placeholders import AUTHOR, NAMESPACE, SUFFIX_OF
from bridgehead.flows.template_create.project.analysis import UNKNOWN, CodebaseAnalysis
from bridgehead.flows.template_create.project.languages import slug
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
class ManifestFramework:
    name: str
    version: str
    purpose: str


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
    frameworks: tuple[ManifestFramework, ...] = ()
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

    @property
    def is_complete(self) -> bool:
        return bool(self.schema_version)


_STANDARD: Final = ("ProjectName", NAMESPACE, AUTHOR)
_OF: Final = {"Project": "the project", "Entity": "the thing it is about", "Entities": "the same, several of them"}
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
            "{{Namespace}}", "Root package or namespace", None, "^[A-Za-z][A-Za-z0-9_]*([./-][A-Za-z][A-Za-z0-9_]*)*$"
        ),
        AUTHOR: Placeholder("{{Author}}", "Who writes the project", required=False),
    }
    for prefix, whose in _OF.items():
        for style, suffix in SUFFIX_OF.items():
            name, (shape, pattern) = f"{prefix}{suffix}", _AS[style]
            made[name] = Placeholder(f"{{{{{name}}}}}", f"Name of {whose}, in {shape}", None, pattern)
    return made


PLACEHOLDERS: Final = _described()

_UI: Final = frozenset({"React", "Vue", "Svelte", "Angular", "Next.js"})
_MOBILE: Final = frozenset({"React Native", "MAUI", "Flutter"})


def make_manifest(analysis: CodebaseAnalysis, choices: Choices, now: datetime) -> Manifest:
    """The manifest of a template made from `analysis`."""
    name = choices.template_name or template_name(analysis)
    tests = [framework for framework in analysis.frameworks if framework.purpose == "testing"]
    others = [framework for framework in analysis.frameworks if framework.purpose != "testing"]
    return Manifest(
        schema_version=SCHEMA_VERSION,
        name=name,
        display_name=" ".join(word.capitalize() for word in name.split("-")),
        description=describe(analysis),
        version="1.0.0",
        author=choices.author,
        language=analysis.primary_language,
        language_version=analysis.language_version,
        frameworks=tuple(ManifestFramework(f.name, f.version, f.purpose) for f in (*others, *tests)),
        architecture=analysis.architecture,
        patterns=analysis.patterns,
        layers=tuple(layer.name for layer in analysis.layers),
        placeholders={name: PLACEHOLDERS[name] for name in _STANDARD},
        tags=_tags(analysis),
        category=_category(analysis),
        complexity=1 + min(3, len(analysis.layers)) + min(3, len(analysis.frameworks)) + min(3, len(analysis.patterns)),
        compatible_with=_compatible_with(analysis),
        created_at=utc_text(now),
        source_project=choices.project_path if choices.record_source else None,
        confidence_score=round(analysis.overall_confidence * 100),
    )


def with_contents(manifest: Manifest, made: TemplateSet, origin: Origin, agents: Iterable[str]) -> Manifest:
    """The manifest of a finished package: its files, the placeholders they use, the agents it counts on."""
    used = {name for template in made.templates for name in template.placeholders}
    return replace(
        manifest,
        placeholders={**manifest.placeholders, **{name: PLACEHOLDERS[name] for name in sorted(used)}},
        requires=tuple(f"agent:{name}" for name in agents),
        origin=origin,
        files=tuple(ManifestFile(t.template_path, t.path, t.needs) for t in made.templates),
    )


def template_name(analysis: CodebaseAnalysis) -> str:
    """`<language>-<architecture>-template`, cut where it grows too long to be a name."""
    words = [slug(part) for part in (analysis.primary_language, analysis.architecture) if part != UNKNOWN]
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
    named = (analysis.primary_language, analysis.architecture, *(f.name for f in analysis.frameworks))
    return tuple(sorted({tag for name in (*named, *analysis.patterns) if name != UNKNOWN and (tag := slug(name))}))


def _compatible_with(analysis: CodebaseAnalysis) -> tuple[str, ...]:
    version = analysis.language_version
    return (f"{analysis.primary_language} {version}",) if version else ()


def _category(analysis: CodebaseAnalysis) -> str:
    names = {framework.name for framework in analysis.frameworks}
    if names & _MOBILE or analysis.primary_language == "Swift":
        return "mobile"
    has_core = any(framework.purpose in ("core", "data") for framework in analysis.frameworks)
    if names & _UI:
        return "fullstack" if has_core else "frontend"
    return "backend" if has_core else "general"
