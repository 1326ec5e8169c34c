"""Analyse a project without an agent (flows §11): conventions, purposes, dependencies, from paths and texts. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from bridgehead.flows.template_create.project import dependencies
from bridgehead.flows.template_create.project.analysis import (
    BUILD,
    UNKNOWN,
    CodebaseAnalysis,
    ExampleFile,
    Framework,
    Naming,
    Style,
    Testing,
)
from bridgehead.flows.template_create.project.architecture import (
    architecture_of,
    layer_of,
    layers_in,
    patterns_in,
    patterns_of,
)
from bridgehead.flows.template_create.project.languages import (
    case_style,
    common_style,
    is_test,
    language_of,
    languages_by_files,
    words_of,
)
from bridgehead.flows.template_create.project.sampling import is_generated

_CLASSES: Final = re.compile(
    r"\b(?:class|interface|struct|trait|enum|record)\s+([A-Za-z_]\w*)|^type ([A-Za-z_]\w*) (?:struct|interface)\b",
    re.MULTILINE,
)
_METHODS: Final = re.compile(
    r"\b(?:def|fn|func|function)\s+(?:\([^)]*\)\s*)?([A-Za-z_]\w*)"
    r"|^[ \t]*(?:public|private|protected|internal) [^\n(=;]{0,80} ([A-Za-z_]\w*)\(",
    re.MULTILINE,
)
_DECLARED: Final = r"\b(?:let|const|var|val)\s+(?:mut\s+)?([A-Za-z_]\w*)|^[ \t]*([A-Za-z_]\w*)\s*:=[^=]"
_ASSIGNED: Final = r"^[ \t]*([A-Za-z_]\w*)\s*(?::[^=\n]+)?=[^=]"
_INDENT: Final = re.compile(r"^( +|\t+)\S", re.MULTILINE)
_TRAILING_COMMA: Final = re.compile(r",[ \t]*\n[ \t]*[\])}]")
_OPEN_LIST: Final = re.compile(r"[^\s,][ \t]*\n[ \t]*[\])]")


def naming_in(texts: Mapping[str, str]) -> Naming:
    """The case styles most names are written in, with names that show it."""
    joined = list(texts.values())
    declares = not all(language_of(path) in ("Python", "Ruby") for path in texts)
    names = {
        "class": _found(_CLASSES, joined),
        "method": _found(_METHODS, joined),
        "variable": _found(
            re.compile(_DECLARED if declares else _ASSIGNED, re.MULTILINE), joined
        ),
        "file": [PurePosixPath(path).name.split(".")[0] for path in texts],
    }
    styles = {element: common_style(found) for element, found in names.items()}
    examples = {
        element: _telling(found, styles[element]) for element, found in names.items()
    }
    return Naming(
        classes=styles["class"],
        methods=styles["method"],
        variables=styles["variable"],
        files=styles["file"],
        examples={element: shown for element, shown in examples.items() if shown},
    )


def key_abstractions_in(texts: Mapping[str, str], most: int = 12) -> list[str]:
    """The types other files speak of most, leaving out those only their own file mentions."""
    declared = {
        name
        for name in _found(_CLASSES, texts.values())
        if len(name) > 3 and name[0].isupper()
    }
    mentions = Counter(
        word
        for text in texts.values()
        for word in set(re.findall(r"\b[A-Z]\w{3,}\b", text)) & declared
    )
    ranked = sorted(mentions, key=lambda name: (-mentions[name], name))
    return [name for name in ranked if mentions[name] > 1][:most]


def style_in(texts: Mapping[str, str]) -> Style:
    """Indentation, line length and trailing commas as most files have them."""
    joined = "\n".join(texts.values())
    indents = [found[1] for found in _INDENT.finditer(joined)]
    tabs = sum(1 for indent in indents if indent[0] == "\t")
    return Style(
        indentation="tabs" if tabs * 2 > len(indents) else "spaces",
        indent_size=_indent_size(
            [len(indent) for indent in indents if indent[0] == " "]
        ),
        line_length=_line_length(joined.splitlines()),
        trailing_commas=len(_TRAILING_COMMA.findall(joined))
        > len(_OPEN_LIST.findall(joined)) / 2,
    )


def _telling(names: Iterable[str], style: str, most: int = 12) -> tuple[str, ...]:
    """The names of two or three words that occur most: one word shows no style, a long one is no example."""
    public = [
        name
        for name in names
        if not name.startswith("_") and 2 <= len(words_of(name)) <= 3
    ]
    count = Counter(name for name in public if case_style(name) == style)
    return tuple(sorted(count, key=lambda name: (-count[name], name))[:most])


def _found(pattern: re.Pattern[str], texts: Iterable[str]) -> list[str]:
    return [
        name
        for text in texts
        for match in pattern.finditer(text)
        for name in match.groups()
        if name
    ]


def _indent_size(widths: list[int]) -> int:
    """The step most indents are a multiple of; 8 to 1, and 4 where nothing is indented."""
    if not widths:
        return 4
    fits = {
        size: sum(1 for width in widths if width % size == 0) / len(widths)
        for size in (8, 4, 3, 2)
    }
    return next((size for size, share in fits.items() if share >= 0.9), 2)


def _line_length(lines: list[str]) -> int:
    """The limit the lines keep to: the usual one at or above all but the longest hundredth."""
    if not lines:
        return 100
    lengths = sorted(len(line) for line in lines)
    nearly_longest = lengths[int(len(lengths) * 0.99)]
    return next(
        (
            limit
            for limit in (79, 88, 100, 110, 120, 140, 160)
            if nearly_longest <= limit
        ),
        200,
    )


LONGEST: Final = 120
_DOCSTRING: Final = re.compile(
    r"""\s*(?:#[^\n]*\n\s*)*[rR]?("{3}|'{3})\s*(?P<said>[^\n]+)"""
)
_BLOCK: Final = re.compile(r"\s*/\*+!?\s*\n?\s*\*?\s*(?P<said>[^\n]+)")
_LINES: Final = re.compile(
    r"\s*(?:#!\S[^\n]*\n)?\s*(?://+!?|#(?!!))\s*(?P<said>[^\n]+)"
)
# What stands at the head of a file for lawyers and tools says nothing about it.
_FORMAL: Final = re.compile(
    r"copyright|licen[cs]e|spdx|coding[:=]|eslint|noqa|mypy:|pylint|@ts-|generated"
    r"|^#?(?:if \(|pragma |nullable |region |include [<\"]|define )",
    re.IGNORECASE,
)


def stated_purpose(text: str) -> str:
    """One line in the file's own words; empty when it does not say, or says something else there."""
    for pattern in (_DOCSTRING, _BLOCK, _LINES):
        found = pattern.match(text)
        if found is not None:
            said = _first_sentence(re.split(r'"""|\'\'\'|\*/', found["said"])[0])
            return "" if _FORMAL.search(said) or len(said.split()) < 2 else said
    return ""


def _first_sentence(line: str) -> str:
    sentence = re.match(r".*?[.!?](?=\s|$)", line)
    said = " ".join((sentence[0] if sentence else line).split()).rstrip(".")
    return said if len(said) <= LONGEST else f"{said[: LONGEST - 1].rsplit(' ', 1)[0]}…"


# Technology, architecture, quality: what upstream's heuristics claim for themselves.
CONFIDENCES: Final = (0.75, 0.70, 0.60)
MOST_BUILD_FILES: Final = 20
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
    paths = [
        path
        for path in material.paths
        if not is_generated(path, material.texts.get(path, ""))
    ]
    languages = languages_by_files(paths)
    primary = languages[0] if languages else UNKNOWN
    sources = {
        path: material.texts[path]
        for path in paths
        if language_of(path) and path in material.texts
    }
    main = {
        path: text
        for path, text in sources.items()
        if language_of(path) == primary and not is_test(path)
    }
    found = dependencies.dependencies_in(material.texts)
    frameworks = dependencies.frameworks_in(found, main.values())
    layers = layers_in(paths)
    patterns = patterns_in(main or sources)
    return CodebaseAnalysis(
        primary_language=primary,
        framework=next(
            (
                framework.name
                for framework in frameworks
                if framework.purpose != "testing"
            ),
            UNKNOWN,
        ),
        patterns=tuple(pattern.name for pattern in patterns),
        secondary_languages=tuple(languages[1:5]),
        frameworks=tuple(frameworks),
        build_tools=_by_file(dependencies.BUILD_TOOLS, paths),
        package_manager=next(
            iter(_by_file(dependencies.PACKAGE_MANAGERS, paths)), UNKNOWN
        ),
        language_version=dependencies.language_version_in(material.texts),
        architecture=architecture_of(layers, paths),
        layers=tuple(layers),
        key_abstractions=tuple(key_abstractions_in(main)),
        pattern_details=tuple(patterns),
        testing=_testing(paths, frameworks, sources),
        naming=naming_in(main),
        style=style_in(main),
        example_files=examples_in(material),
        project_name=dependencies.project_name_in(material.texts, paths)
        or material.directory_name,
        commands=tuple(
            dependencies.commands_in({**dict.fromkeys(paths, ""), **material.texts})
        ),
        dependencies=tuple(dependency.name for dependency in found),
        overall_confidence=round(sum(CONFIDENCES) / len(CONFIDENCES), 4),
    )


def examples_in(material: Material) -> tuple[ExampleFile, ...]:
    """The files to make templates of: how it is built, made and tested. A small project is taken whole."""
    tests = [path for path in material.samples if is_test(path)]
    sources = [path for path in material.samples if not is_test(path)]
    room = max(0, MOST_EXAMPLES - len(tests))
    every = [
        path
        for path, text in material.texts.items()
        if language_of(path) and text.strip()
    ]
    chosen = every if len(every) <= 2 * MOST_EXAMPLES else (*sources[:room], *tests)
    return (
        *build_files_in(material),
        *(example_of(path, material.texts.get(path, "")) for path in chosen),
    )


def build_files_in(material: Material) -> list[ExampleFile]:
    """The files at the root that say how the project is built: every project like this one needs its own."""
    tools = {**dependencies.PACKAGE_MANAGERS, **dependencies.BUILD_TOOLS}
    at_root = [name for name in tools if name in material.texts and "lock" not in name]
    projects = [
        path
        for path in material.texts
        if path.endswith((".csproj", ".fsproj", ".sln", ".slnx"))
    ]
    names = [*at_root, *projects][:MOST_BUILD_FILES]
    return [
        ExampleFile(
            name, f"What the project is built with ({tools.get(name, '.NET')})", BUILD
        )
        for name in names
    ]


def example_of(path: str, text: str) -> ExampleFile:
    """A sample described: which layer it is in, which patterns it shows, what it says it is for."""
    return ExampleFile(
        path, stated_purpose(text), layer_of(path) or "", tuple(patterns_of(text))
    )


def _by_file(table: Mapping[str, str], paths: Sequence[str]) -> tuple[str, ...]:
    """The tools whose files lie at the root, in the order of the table, each once."""
    at_root = {path for path in paths if "/" not in path}
    return tuple(dict.fromkeys(tool for name, tool in table.items() if name in at_root))


def _testing(
    paths: Sequence[str], frameworks: Sequence[Framework], texts: Mapping[str, str]
) -> Testing:
    tests = [path for path in paths if language_of(path) and is_test(path)]
    return Testing(
        framework=_test_framework(frameworks, [texts.get(path, "") for path in tests]),
        organization=_organization(tests, paths),
        patterns=("property-based tests",)
        if any(f.name == "hypothesis" for f in frameworks)
        else (),
    )


def _test_framework(frameworks: Sequence[Framework], tests: Sequence[str]) -> str:
    """The tool that runs the tests; hypothesis and its like only help."""
    tools = [
        framework.name for framework in frameworks if framework.purpose == "testing"
    ]
    said = "".join(tests)
    tools += [
        name
        for name in ("unittest", "testing")
        if f"import {name}\n" in said or f'"{name}"' in said
    ]
    return min(tools, key=lambda name: name == "hypothesis", default=UNKNOWN)


def _organization(tests: Sequence[str], paths: Sequence[str]) -> str:
    """none, separate (a tree of their own), mirror (that tree has the shape of the sources) or adjacent."""
    if not tests:
        return "none"
    apart = [
        path
        for path in tests
        if path.split("/")[0].lower() in ("test", "tests", "spec", "specs")
    ]
    if len(apart) * 2 < len(tests):
        return "adjacent"
    of_sources = {
        part
        for path in paths
        if not is_test(path) and language_of(path)
        for part in path.split("/")[:-1]
    }
    of_tests = {part for path in apart for part in path.split("/")[1:-1]}
    return "mirror" if len(of_tests & of_sources) > 2 else "separate"
