"""What phase 1 finds out about a project, whoever finds it out: an agent or the heuristics.

Every member has a default, so that a state file that says less (the published example does) can be resumed
(flows §4).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

UNKNOWN: Final = "Unknown"
BUILD: Final = "Build"
"""The layer of files that say how a project is built."""


@dataclass(frozen=True)
class Framework:
    """A library the project is built on, with what it is used for: core, ui, data or testing."""

    name: str
    version: str = ""
    purpose: str = "core"


@dataclass(frozen=True)
class Layer:
    """A part of the architecture and the directories it lives in."""

    name: str
    directories: tuple[str, ...] = ()
    description: str = ""


@dataclass(frozen=True)
class Pattern:
    """A recurring way of building things, with files that show it."""

    name: str
    usage_frequency: str = "common"
    description: str = ""
    example_files: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExampleFile:
    """A file worth making a template of."""

    path: str
    purpose: str = ""
    layer: str = ""
    patterns_used: tuple[str, ...] = ()


@dataclass(frozen=True)
class Testing:
    framework: str = UNKNOWN
    organization: str = UNKNOWN
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Naming:
    """How things are called, each as a case style such as `snake_case`; empty where nothing was seen."""

    classes: str = ""
    methods: str = ""
    variables: str = ""
    files: str = ""
    examples: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the project, by element: class, method, variable, file."""


@dataclass(frozen=True)
class Style:
    """How the text of the source files is laid out."""

    indentation: str = "spaces"
    indent_size: int = 4
    line_length: int = 100
    trailing_commas: bool = False


@dataclass(frozen=True)
class CodebaseAnalysis:
    """The result of phase 1. `patterns` are names; their details are in `pattern_details`."""

    primary_language: str = UNKNOWN
    framework: str = UNKNOWN
    patterns: tuple[str, ...] = ()
    secondary_languages: tuple[str, ...] = ()
    frameworks: tuple[Framework, ...] = ()
    build_tools: tuple[str, ...] = ()
    package_manager: str = UNKNOWN
    language_version: str = ""
    architecture: str = UNKNOWN
    layers: tuple[Layer, ...] = ()
    key_abstractions: tuple[str, ...] = ()
    pattern_details: tuple[Pattern, ...] = ()
    testing: Testing = Testing()
    naming: Naming = field(default_factory=Naming)
    style: Style = Style()
    example_files: tuple[ExampleFile, ...] = ()
    project_name: str = ""
    dependencies: tuple[str, ...] = ()
    """The names in the dependency files, which bear out what anybody says about frameworks."""
    commands: tuple[str, ...] = ()
    """What the project's own files let one run: targets, scripts, the tools of its language."""
    overall_confidence: float = 0.0
    agent_used: bool = False
    fallback_reason: str = ""

    @property
    def has_tests(self) -> bool:
        return self.testing.framework != UNKNOWN or self.testing.organization not in (
            "",
            UNKNOWN,
            "none",
        )
