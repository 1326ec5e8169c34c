"""Phase 3: how code made from the template is written and where it goes (flows §11). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from bridgehead.flows.template_create.phases.p2_manifest import SCHEMA_VERSION
from bridgehead.flows.template_create.phases.placeholders import placed
from bridgehead.flows.template_create.project.analysis import CodebaseAnalysis, Layer
from bridgehead.flows.template_create.project.languages import (
    CASE_STYLES,
    LANGUAGE_OF,
    camel,
    case_style,
    kebab,
    pascal,
    snake,
)

_FORMS: Final[Mapping[str, Callable[[str], str]]] = {
    "PascalCase": pascal,
    "camelCase": camel,
    "snake_case": snake,
    "kebab-case": kebab,
    "SCREAMING_SNAKE_CASE": lambda name: snake(name).upper(),
}
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
_ELEMENTS: Final = {"class": "order line", "method": "find order", "variable": "order total", "file": "order line"}


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
class CodeStyle:
    indentation: str = "spaces"
    indent_size: int = 4
    line_length: int = 100
    trailing_commas: bool = False


@dataclass(frozen=True)
class Settings:
    """`settings.json`, in the order of its keys."""

    schema_version: str = SCHEMA_VERSION
    naming_conventions: dict[str, NamingConvention] = field(default_factory=dict)
    file_organization: FileOrganization = FileOrganization()
    layer_mappings: dict[str, LayerMapping] = field(default_factory=dict)
    code_style: CodeStyle = CodeStyle()
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
        layer_mappings={layer.name: _mapping(layer, analysis) for layer in analysis.layers},
        code_style=CodeStyle(
            style.indentation if style.indentation in ("spaces", "tabs") else "spaces",
            max(1, min(8, style.indent_size)),
            max(40, min(200, style.line_length)),
            style.trailing_commas,
        ),
        generation_options={"include_tests": analysis.has_tests, "include_documentation": True},
    )


def _naming(analysis: CodebaseAnalysis) -> dict[str, NamingConvention]:
    seen = analysis.naming
    usual = _USUAL.get(analysis.primary_language, ("PascalCase", "camelCase", "camelCase", "PascalCase"))
    said = (seen.classes, seen.methods, seen.variables, seen.files)
    conventions = {}
    for (element, example), wanted, default in zip(_ELEMENTS.items(), said, usual, strict=True):
        style = wanted if wanted in CASE_STYLES else default
        own = tuple(name for name in seen.examples.get(element, ()) if case_style(name) == style)
        conventions[element] = NamingConvention(
            element, CASE_STYLES[style].pattern, style, examples=own or (_FORMS[style](example),)
        )
    return conventions


def _test_location(organization: str) -> str:
    words = organization.lower()
    if "adjacent" in words or "beside" in words or "co-located" in words:
        return "adjacent"
    return "mirror" if "mirror" in words else "separate"


def _mapping(layer: Layer, analysis: CodebaseAnalysis) -> LayerMapping:
    directory = layer.directories[0] if layer.directories else layer.name.lower()
    inside = [part for part in directory.split("/") if part not in ("src", snake(analysis.project_name))]
    extensions = [ext for ext, language in LANGUAGE_OF.items() if language == analysis.primary_language]
    return LayerMapping(
        layer.name,
        placed(directory, analysis.project_name),
        ".".join(["{{Namespace}}", *inside]),
        tuple(f"*{extension}" for extension in extensions),
    )
