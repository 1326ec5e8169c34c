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
_DECLARED: Final = re.compile(
    r"\b(?:let|const|var|val)\s+(?:mut\s+)?([A-Za-z_]\w*)|^[ \t]*([A-Za-z_]\w*)\s*:=[^=]",
    re.MULTILINE,
)
_ASSIGNED: Final = re.compile(
    r"^[ \t]*([A-Za-z_]\w*)\s*(?::[^=\n]+)?=[^=]", re.MULTILINE
)
_INDENT: Final = re.compile(r"^( +|\t+)\S", re.MULTILINE)
_TRAILING_COMMA: Final = re.compile(r",[ \t]*\n[ \t]*[\])}]")
_OPEN_LIST: Final = re.compile(r"[^\s,][ \t]*\n[ \t]*[\])]")


def naming_in(texts: Mapping[str, str]) -> Naming:
    """Return the case style of most names of each kind, with names that show it."""
    languages = {language_of(path) for path in texts}
    assigns = languages <= {"Python", "Ruby"}
    joined = "\n".join(texts.values())
    names = {
        "class": _names(_CLASSES, joined),
        "method": _names(_METHODS, joined),
        "variable": _names(_ASSIGNED if assigns else _DECLARED, joined),
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


def key_abstractions_in(texts: Mapping[str, str]) -> list[str]:
    """Return the types that most files speak of, and more than one."""
    declared = set(_names(_CLASSES, "\n".join(texts.values())))
    mentions: Counter[str] = Counter()
    for text in texts.values():
        mentions.update(declared & set(re.findall(r"\b[A-Z]\w{3,}\b", text)))
    ranked = sorted(mentions, key=lambda name: (-mentions[name], name))
    return [name for name in ranked if mentions[name] > 1][:MOST_SHOWN]


def style_in(texts: Mapping[str, str]) -> Style:
    """Return the indentation, line length and trailing commas that most files have."""
    joined = "\n".join(texts.values())
    indents = _INDENT.findall(joined)
    tabs = [indent for indent in indents if indent[0] == "\t"]
    widths = [len(indent) for indent in indents if indent[0] == " "]
    commas = len(_TRAILING_COMMA.findall(joined))
    return Style(
        indentation="tabs" if len(tabs) * 2 > len(indents) else "spaces",
        indent_size=_indent_size(widths),
        line_length=_line_length(joined.splitlines()),
        trailing_commas=commas > len(_OPEN_LIST.findall(joined)) / 2,
    )


def _names(pattern: re.Pattern[str], text: str) -> list[str]:
    return [match[match.lastindex or 0] for match in pattern.finditer(text)]


def _telling(names: Iterable[str], style: str) -> tuple[str, ...]:
    """Return the most frequent names of two or three words: one shows no style, more are no example."""
    counts = Counter(
        name
        for name in names
        if not name.startswith("_")
        and 2 <= len(words_of(name)) <= 3
        and case_style(name) == style
    )
    ranked = sorted(counts, key=lambda name: (-counts[name], name))
    return tuple(ranked[:MOST_SHOWN])


def _indent_size(widths: list[int]) -> int:
    """Return the step of which nine in ten indents are a multiple; 4 where nothing is indented."""
    if not widths:
        return 4
    for size in (8, 4, 3):
        multiples = [width for width in widths if width % size == 0]
        if len(multiples) >= 0.9 * len(widths):
            return size
    return 2


def _line_length(lines: list[str]) -> int:
    """Return the usual limit that all lines keep to but the longest hundredth."""
    if not lines:
        return 100
    lengths = sorted(len(line) for line in lines)
    nearly_longest = lengths[int(len(lengths) * 0.99)]
    limits = (79, 88, 100, 110, 120, 140, 160)
    return next((limit for limit in limits if nearly_longest <= limit), 200)


LONGEST: Final = 120
MOST_SHOWN: Final = 12
# A docstring, a block comment, or comment lines at the head of a file.
_HEADS: Final = (
    re.compile(r"""\s*(?:#[^\n]*\n\s*)*[rR]?(?:"{3}|'{3})\s*([^\n]+)"""),
    re.compile(r"\s*/\*+!?\s*\n?\s*\*?\s*([^\n]+)"),
    re.compile(r"\s*(?:#!\S[^\n]*\n)?\s*(?://+!?|#(?!!))\s*([^\n]+)"),
)
_SENTENCE: Final = re.compile(r"""(.*?)(?:[.!?]?(?:"{3}|'{3}|\*/|$)|[.!?]\s)""")
# What stands at the head of a file for lawyers and tools says nothing about it.
_FORMAL: Final = re.compile(
    r"copyright|licen[cs]e|spdx|coding[:=]|eslint|noqa|mypy:|pylint|@ts-|generated"
    r"|^#?(?:if \(|pragma |nullable |region |include [<\"]|define )",
    re.IGNORECASE,
)


def stated_purpose(text: str) -> str:
    """Return one line in the file's own words; empty if it does not say what it is."""
    heads = (pattern.match(text) for pattern in _HEADS)
    head = next((head for head in heads if head), None)
    sentence = _SENTENCE.match(head[1]) if head else None
    words = sentence[1].split() if sentence else []
    purpose = " ".join(words)
    if len(words) < 2 or _FORMAL.search(purpose):
        return ""
    if len(purpose) > LONGEST:
        return f"{purpose[: LONGEST - 1].rsplit(' ', 1)[0]}…"
    return purpose


# What upstream's heuristics claim for technology, architecture and quality, as a mean.
CONFIDENCE: Final = 0.6833
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
    """Return the analysis that needs nobody's judgement."""
    texts = material.texts
    paths = [
        path for path in material.paths if not is_generated(path, texts.get(path, ""))
    ]
    languages = languages_by_files(paths) or [UNKNOWN]
    sources = {
        path: texts[path] for path in paths if language_of(path) and path in texts
    }
    main = {
        path: text
        for path, text in sources.items()
        if language_of(path) == languages[0] and not is_test(path)
    }
    found = dependencies.dependencies_in(texts)
    frameworks = dependencies.frameworks_in(found, main.values())
    named = [
        framework.name for framework in frameworks if framework.purpose != "testing"
    ]
    managers = _by_file(dependencies.PACKAGE_MANAGERS, paths)
    layers = layers_in(paths)
    patterns = patterns_in(main or sources)
    project_name = dependencies.project_name_in(texts, paths)
    known = {**dict.fromkeys(paths, ""), **texts}
    return CodebaseAnalysis(
        primary_language=languages[0],
        framework=named[0] if named else UNKNOWN,
        patterns=tuple(pattern.name for pattern in patterns),
        secondary_languages=tuple(languages[1:5]),
        frameworks=tuple(frameworks),
        build_tools=_by_file(dependencies.BUILD_TOOLS, paths),
        package_manager=managers[0] if managers else UNKNOWN,
        language_version=dependencies.language_version_in(texts),
        architecture=architecture_of(layers, paths),
        layers=tuple(layers),
        key_abstractions=tuple(key_abstractions_in(main)),
        pattern_details=tuple(patterns),
        testing=_testing(paths, frameworks, sources),
        naming=naming_in(main),
        style=style_in(main),
        example_files=examples_in(material),
        project_name=project_name or material.directory_name,
        commands=tuple(dependencies.commands_in(known)),
        dependencies=tuple(dependency.name for dependency in found),
        overall_confidence=CONFIDENCE,
    )


def examples_in(material: Material) -> tuple[ExampleFile, ...]:
    """Return the files to make templates of: how it is built, made and tested. A small project is taken whole."""
    chosen = [
        path
        for path, text in material.texts.items()
        if language_of(path) and text.strip()
    ]
    if len(chosen) > 2 * MOST_EXAMPLES:
        chosen = sorted(material.samples, key=is_test)
    examples = [example_of(path, material.texts.get(path, "")) for path in chosen]
    return (*build_files_in(material.texts), *examples)


def build_files_in(texts: Mapping[str, str]) -> list[ExampleFile]:
    """Return the files that say how the project is built: every project like this one needs its own."""
    tools = {**dependencies.PACKAGE_MANAGERS, **dependencies.BUILD_TOOLS}
    names = [name for name in tools if name in texts and "lock" not in name]
    endings = (".csproj", ".fsproj", ".sln", ".slnx")
    names += [path for path in texts if path.endswith(endings)]
    return [
        ExampleFile(
            name, f"What the project is built with ({tools.get(name, '.NET')})", BUILD
        )
        for name in names[:MOST_BUILD_FILES]
    ]


def example_of(path: str, text: str) -> ExampleFile:
    """Return a file with its layer, its patterns, and what it says it is for."""
    return ExampleFile(
        path, stated_purpose(text), layer_of(path) or "", tuple(patterns_of(text))
    )


def _by_file(table: Mapping[str, str], paths: Sequence[str]) -> tuple[str, ...]:
    """Return the tools whose files lie at the root, in the order of the table, each once."""
    tools = [tool for name, tool in table.items() if name in paths]
    return tuple(dict.fromkeys(tools))


def _testing(
    paths: Sequence[str], frameworks: Sequence[Framework], texts: Mapping[str, str]
) -> Testing:
    tests = [path for path in paths if language_of(path) and is_test(path)]
    tools = [
        framework.name for framework in frameworks if framework.purpose == "testing"
    ]
    words = "".join(texts.get(path, "") for path in tests)
    for module in ("unittest", "testing"):
        if f"import {module}\n" in words or f'"{module}"' in words:
            tools.append(module)
    tools.sort(key=lambda name: name == "hypothesis")  # it runs no tests itself
    return Testing(
        framework=tools[0] if tools else UNKNOWN,
        organization=_organization(tests, paths),
        patterns=("property-based tests",) if "hypothesis" in tools else (),
    )


def _organization(tests: Sequence[str], paths: Sequence[str]) -> str:
    """Return none, adjacent, separate (a tree of their own) or mirror (in the shape of the sources)."""
    if not tests:
        return "none"
    roots = ("test", "tests", "spec", "specs")
    apart = [path for path in tests if path.split("/")[0].lower() in roots]
    if len(apart) * 2 < len(tests):
        return "adjacent"
    of_tests: set[str] = set()
    for path in apart:
        of_tests.update(path.split("/")[1:-1])
    of_sources: set[str] = set()
    for path in paths:
        if language_of(path) and not is_test(path):
            of_sources.update(path.split("/")[:-1])
    return "mirror" if len(of_tests & of_sources) > 2 else "separate"
