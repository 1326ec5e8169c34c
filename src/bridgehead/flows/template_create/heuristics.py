"""Analyse a project without an agent (flows §11): from paths, dependency files and source texts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bridgehead.flows.template_create import dependencies
from bridgehead.flows.template_create.analysis import (
    BUILD,
    UNKNOWN,
    CodebaseAnalysis,
    ExampleFile,
    Framework,
    Testing,
)
from bridgehead.flows.template_create.conventions import key_abstractions_in, naming_in, quality_in, style_in
from bridgehead.flows.template_create.languages import is_test, language_of, languages_by_files
from bridgehead.flows.template_create.layers import architecture_of, layer_of, layers_in, module_structure_of
from bridgehead.flows.template_create.patterns import patterns_in, patterns_of
from bridgehead.flows.template_create.purposes import stated_purpose
from bridgehead.flows.template_create.words_in_names import words_of

# Technology, architecture, quality: what upstream's heuristics claim for themselves.
CONFIDENCES: Final = (0.75, 0.70, 0.60)
MOST_BUILD_FILES: Final = 3
MOST_EXAMPLES: Final = 20


@dataclass(frozen=True)
class Material:
    """What was found below a root: all paths, and the texts of those that were read."""

    paths: Sequence[str]
    texts: Mapping[str, str]
    samples: Sequence[str] = ()
    directory_name: str = ""


def analyse(material: Material) -> CodebaseAnalysis:
    """The analysis that needs nobody's judgement. Useful on its own, and honest about how sure it is."""
    languages = languages_by_files(material.paths)
    primary = languages[0] if languages else UNKNOWN
    sources = {path: text for path, text in material.texts.items() if language_of(path)}
    main = {
        path: text for path, text in sources.items() if language_of(path) == primary and not is_test(path)
    }
    frameworks = dependencies.frameworks_in(dependencies.dependencies_in(material.texts))
    layers = layers_in(material.paths)
    patterns = patterns_in(main or sources)
    return CodebaseAnalysis(
        primary_language=primary,
        framework=_framework(frameworks),
        patterns=tuple(pattern.name for pattern in patterns),
        secondary_languages=tuple(languages[1:5]),
        frameworks=tuple(frameworks),
        build_tools=_by_file(dependencies.BUILD_TOOLS, material.paths),
        package_manager=next(iter(_by_file(dependencies.PACKAGE_MANAGERS, material.paths)), UNKNOWN),
        language_version=dependencies.language_version_in(material.texts),
        architecture=architecture_of(layers, material.paths),
        layers=tuple(layers),
        module_structure=module_structure_of(material.paths),
        key_abstractions=tuple(key_abstractions_in(main)),
        pattern_details=tuple(patterns),
        testing=_testing(material.paths, frameworks),
        quality=quality_in(main, material.paths, len(layers)),
        naming=naming_in(main),
        style=style_in(main),
        example_files=examples_in(material),
        project_name=dependencies.project_name_in(material.texts) or material.directory_name,
        overall_confidence=round(sum(CONFIDENCES) / len(CONFIDENCES), 4),
    )


def examples_in(material: Material) -> tuple[ExampleFile, ...]:
    """The files to make templates of: how it is built, what it is made of, how it is tested."""
    build = [build_file(path) for path in build_files_in(material)]
    tests = [path for path in material.samples if is_test(path)]
    sources = [path for path in material.samples if not is_test(path)]
    room = max(0, MOST_EXAMPLES - len(build) - len(tests))
    described = [example_of(path, material.texts.get(path, "")) for path in (*sources[:room], *tests)]
    return (*build, *described)


def build_files_in(material: Material) -> list[str]:
    """The files at the root that say how the project is built: every project like this one needs its own."""
    names = (*dependencies.PACKAGE_MANAGERS, *dependencies.BUILD_TOOLS)
    at_root = [name for name in dict.fromkeys(names) if name in material.texts and "lock" not in name]
    return at_root[:MOST_BUILD_FILES]


def build_file(name: str) -> ExampleFile:
    tool = dependencies.BUILD_TOOLS.get(name) or dependencies.PACKAGE_MANAGERS[name]
    return ExampleFile(name, f"What the project is built with ({tool})", BUILD)


def example_of(path: str, text: str) -> ExampleFile:
    """A sample described: which layer it is in, which patterns it shows, what it is for or seems to be."""
    kind = "tests" if is_test(path) else "source"
    subject = " ".join(words_of(path.rpartition("/")[2].split(".")[0])) or path
    return ExampleFile(
        path,
        stated_purpose(text) or f"{language_of(path) or 'text'} {kind}: {subject}",
        layer_of(path) or "",
        tuple(patterns_of(text)),
    )


def _framework(frameworks: Sequence[Framework]) -> str:
    return next((framework.name for framework in frameworks if framework.purpose != "testing"), UNKNOWN)


def _by_file(table: Mapping[str, str], paths: Sequence[str]) -> tuple[str, ...]:
    """The tools whose files lie at the root, in the order of the table, each once."""
    at_root = {path for path in paths if "/" not in path}
    return tuple(dict.fromkeys(tool for name, tool in table.items() if name in at_root))


def _testing(paths: Sequence[str], frameworks: Sequence[Framework]) -> Testing:
    tests = [path for path in paths if language_of(path) and is_test(path)]
    sources = sum(1 for path in paths if language_of(path)) - len(tests)
    ratio = len(tests) / max(1, sources)
    return Testing(
        framework=_test_framework(frameworks),
        organization=_organization(tests, paths),
        coverage_estimate="high" if ratio >= 0.5 else "medium" if ratio >= 0.2 else "low",
        patterns=("property-based tests",) if any(f.name == "hypothesis" for f in frameworks) else (),
    )


def _test_framework(frameworks: Sequence[Framework]) -> str:
    """The tool that runs the tests; hypothesis and its like only help."""
    tools = [framework.name for framework in frameworks if framework.purpose == "testing"]
    return next((name for name in sorted(tools, key=lambda name: name == "hypothesis")), UNKNOWN)


def _organization(tests: Sequence[str], paths: Sequence[str]) -> str:
    """none, separate (a tree of their own), mirror (that tree has the shape of the sources) or adjacent."""
    if not tests:
        return "none"
    apart = [path for path in tests if path.split("/")[0].lower() in ("test", "tests", "spec", "specs")]
    if len(apart) * 2 < len(tests):
        return "adjacent"
    of_sources = {
        part for path in paths if not is_test(path) and language_of(path) for part in path.split("/")[:-1]
    }
    of_tests = {part for path in apart for part in path.split("/")[1:-1]}
    return "mirror" if len(of_tests & of_sources) > 2 else "separate"
