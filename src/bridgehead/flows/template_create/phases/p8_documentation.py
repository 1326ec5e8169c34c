"""Phase 8: `CLAUDE.md` and its rules or documents, for agents that are on disk (flows §11). Pure.

Every sentence rests on `Facts`: what no file of the package shows is left out.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final

from bridgehead.flows.template_create.agents import block_list, front_matter_of
from bridgehead.flows.template_create.phases.p2_manifest import Manifest, Settings
from bridgehead.flows.template_create.phases.p4_templates import (
    Template,
    TemplateSet,
    catalogue,
)
from bridgehead.flows.template_create.phases.placeholders import filled, values_for
from bridgehead.flows.template_create.project.analysis import (
    UNKNOWN,
    CodebaseAnalysis,
    Pattern,
)
from bridgehead.flows.template_create.project.architecture import SIGN_OF
from bridgehead.flows.template_create.project.languages import (
    case_style,
    endings_of,
    fence_word,
    is_test,
    slug,
)
from bridgehead.flows.template_create.project.sampling import first_lines
from bridgehead.flows.template_create.prompts import code_block
from bridgehead.host.terminal import escape_controls

MAIN_DOCUMENT: Final = "CLAUDE.md"
EXAMPLE_LINES: Final = 25
MOST_RULES: Final = 12
MOST_NAMED: Final = 8
LONGEST_EXAMPLE: Final = 90
_ELEMENTS: Final = {
    "class": "types",
    "method": "functions",
    "variable": "variables",
    "file": "files",
}
_TOKEN: Final = r"(?:\{\{\w+\}\}|\w)+"
_DECLARES: Final = (
    r"\b(?:class|def|func|function|fn|type|struct|interface|enum|record|trait)"
    r"\s+(?:\([^)\n]*\)\s*)?"
)
_DECLARED: Final = rf"{_DECLARES}({_TOKEN})"
_TESTS_LIE: Final = {
    "separate": "lie in a tree of their own",
    "mirror": "lie in a tree that mirrors the sources",
    "adjacent": "lie beside what they test",
}


class Facts:
    """What was seen of the original, in the paths and names of a project made from the package."""

    def __init__(
        self, analysis: CodebaseAnalysis, settings: Settings, made: TemplateSet
    ) -> None:
        self.analysis = analysis
        self.settings = settings
        self.templates = made.templates
        self._values = values_for(
            analysis.primary_language, analysis.project_name, made.entity
        )
        self._path_of = {
            template.original_path: template.path or template.original_path
            for template in made.templates
        }

    def files(self, originals: Iterable[str]) -> list[str]:
        """Return the new paths of those files of the original that the package has."""
        return [self._path_of[path] for path in originals if path in self._path_of]

    def sources(self, *, tests: bool = False, about: str = "") -> list[str]:
        """Return the original paths of sources or of tests, those that show most first.

        With `about`, return only files of the main language that speak of it.
        """
        main = self.analysis.primary_language
        found = [
            template
            for template in self.templates
            if template.language and is_test(template.original_path) == tests
        ]
        if about:
            word = re.compile(rf"\b{re.escape(about)}\b", re.IGNORECASE)
            found = [template for template in found if word.search(template.content)]
            found = [template for template in found if template.language == main]
        found.sort(
            key=lambda template: (template.language != main, not template.patterns)
        )
        return [template.original_path for template in found]

    def reading(self, originals: Iterable[str]) -> list[str]:
        """Return the files to read, each with what it says of itself."""
        wanted = list(originals)
        known = [
            template for template in self.templates if template.original_path in wanted
        ]
        known.sort(key=lambda template: wanted.index(template.original_path))
        return [template.description for template in known]

    @property
    def test_command(self) -> str:
        return next((line for line in self.analysis.commands if "test" in line), "")

    @cached_property
    def layout(self) -> list[str]:
        """The directories with the files in them."""
        folders: dict[str, list[str]] = {}
        for path in sorted(self._path_of.values()):
            folder, _, name = path.rpartition("/")
            folders.setdefault(folder or ".", []).append(f"`{name}`")
        lines = []
        for folder, names in folders.items():
            shown = names[:MOST_NAMED]
            if len(names) > MOST_NAMED:
                shown.append("…")
            lines.append(f"`{folder}/`: {', '.join(shown)}")
        return lines

    @cached_property
    def layers(self) -> list[str]:
        """The layers that files of the package are in."""
        lines = []
        for layer in self.analysis.layers:
            prefixes = tuple(f"{name}/" for name in layer.directories)
            inside = [path for path in self.sources() if path.startswith(prefixes)]
            places = filter(None, map(self._directory, layer.directories[:4]))
            if inside:
                example = self._path_of[inside[0]]
                line = f"**{layer.name}** in {_listed(places)}, e.g. `{example}`"
                if layer.description:
                    line = f"{line}: {layer.description}"
                lines.append(line)
        return lines

    @cached_property
    def naming(self) -> list[str]:
        """The naming conventions of which the package has an example."""
        words = self._words(_TOKEN)
        words |= self._words(_DECLARED)
        files = {
            PurePosixPath(path).name.split(".")[0]: f"`{new}`"
            for path, new in self._path_of.items()
        }
        lines = []
        for element, convention in self.settings.naming_conventions.items():
            examples = files if element == "file" else words
            names = self.analysis.naming.examples.get(element, ())
            shown = [
                examples[name]
                for name in names
                if name in examples and case_style(name) == convention.case_style
            ]
            if shown:
                kind = _ELEMENTS[element]
                lines.append(f"{kind}: {convention.case_style}, e.g. {shown[0]}")
        return lines

    @cached_property
    def patterns(self) -> dict[str, str]:
        """By name: how often a pattern is used, what it is, and a place that shows it."""
        found = {}
        for pattern in self.analysis.pattern_details:
            shown = self._shown(pattern)
            if shown:
                line = f"**{pattern.name}** ({pattern.usage_frequency})"
                if pattern.description:
                    line = f"{line}: {pattern.description.rstrip('.')}"
                found[pattern.name] = f"{line}, e.g. {shown}"
        return found

    @cached_property
    def abstractions(self) -> list[str]:
        """The key types, each with the file that declares it."""
        declared = self._words(_DECLARED)
        known = [name for name in self.analysis.key_abstractions if name in declared]
        return [
            declared[name].replace("` in `", "` (`") + ")"
            for name in known[:MOST_NAMED]
        ]

    @cached_property
    def tests(self) -> str:
        """What the tests use, how they are run and where they lie."""
        testing = self.analysis.testing
        shown = self.files(self.sources(tests=True))
        if not self.analysis.has_tests and not shown:
            return "The original has no tests."
        parts = []
        if testing.framework != UNKNOWN:
            kinds = f" ({', '.join(testing.patterns)})" if testing.patterns else ""
            parts.append(f"use {testing.framework}{kinds}")
        if self.test_command:
            parts.append(f"are run with `{self.test_command}`")
        parts.append(_TESTS_LIE[self.settings.file_organization.test_location])
        if shown:
            parts.append(f"e.g. {_listed(shown[:2])}")
        return f"Tests {', '.join(parts)}."

    @cached_property
    def style(self) -> str:
        style = self.settings.code_style
        indent = f"{style.indent_size} spaces"
        if style.indentation == "tabs":
            indent = "tabs"
        commas = "with" if style.trailing_commas else "without"
        shown = self.files(self.sources()[:1])
        example = f", as in {_listed(shown)}" if shown else ""
        return (
            f"Lines of at most {style.line_length} characters, indented by {indent}, "
            f"{commas} trailing commas{example}."
        )

    def globs(self, originals: Iterable[str]) -> list[str]:
        """Return globs for the directories in which such files lie, each once."""
        found = []
        for path in originals:
            place = self._directory(posixpath.dirname(path))
            if place:
                found.append(f"{place}/**/*{PurePosixPath(path).suffix}")
        return list(dict.fromkeys(found))

    def _directory(self, original: str) -> str:
        """Return a directory of the original as the package has it; empty if it has no file there."""
        for path, new in self._path_of.items():
            if original and path.startswith(f"{original}/"):
                return "/".join(new.split("/")[: original.count("/") + 1])
        return ""

    def _words(self, pattern: str) -> dict[str, str]:
        """Return the words of the original, each as the package has it and with a file that has it."""
        found: dict[str, str] = {}
        for template in self.templates:
            if template.language:
                path = self._path_of[template.original_path]
                for word in dict.fromkeys(re.findall(pattern, template.content)):
                    original = filled(word, self._values)
                    found.setdefault(original, f"`{word}` in `{path}`")
        return found

    def _shown(self, pattern: Pattern) -> str:
        """Return the line that shows a pattern if its sign is known, else its files; empty if there is none."""
        sign = SIGN_OF.get(pattern.name.lower())
        if sign is None:
            return _listed(self.files(pattern.example_files)[:2])
        sources = [template for template in self.templates if template.language]
        sources.sort(
            key=lambda template: template.original_path not in pattern.example_files
        )
        for template in sources:
            text = filled(template.content, self._values)
            match = re.search(sign.text, text, re.MULTILINE)
            if match:
                row = text.count("\n", 0, match.end() - 1)
                line = template.content.split("\n")[row].strip()
                path = self._path_of[template.original_path]
                if "`" in line or len(line) > LONGEST_EXAMPLE:
                    return f"`{path}`"
                return f"`{line}` in `{path}`"
        return ""


def _listed(paths: Iterable[str]) -> str:
    return ", ".join(f"`{path}`" for path in paths)


def bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {' '.join(line.split())}" for line in lines)


def make_documents(
    manifest: Manifest,
    facts: Facts,
    agents: Mapping[str, str],
    *,
    rules_structure: bool = True,
    size_limit: int,
) -> dict[str, str]:
    """Return the documents by path. `agents` are the agent files, plus descriptions of existing agents used."""
    descriptions = {name: _description(text) for name, text in agents.items()}
    main = within(main_document(manifest, facts, descriptions), size_limit)
    more = rules(facts, descriptions) if rules_structure else references(facts)
    documents = {MAIN_DOCUMENT: main, **more}
    return {path: escape_controls(text) for path, text in documents.items()}


def main_document(manifest: Manifest, facts: Facts, agents: Mapping[str, str]) -> str:
    """Return the sections in their fixed order, without those that have nothing to say."""
    overview = [bullets(facts.layers)]
    if facts.analysis.architecture != UNKNOWN:
        overview.insert(0, f"Architecture: {facts.analysis.architecture}.")
    if facts.abstractions:
        overview.append(f"Key abstractions: {', '.join(facts.abstractions)}.")
    commands = [f"`{line}`" for line in facts.analysis.commands]
    usage = [f"`{name}`: {text}" for name, text in agents.items()]
    sections = {
        "Architecture overview": "\n\n".join(filter(None, overview)),
        "Technology stack": bullets(_technology(facts.analysis)),
        "Commands": bullets(commands),
        "Project structure": bullets(facts.layout),
        "Naming conventions": bullets(facts.naming),
        "Patterns": bullets(facts.patterns.values()),
        "Examples": _examples(facts.templates),
        "Quality standards": bullets((facts.style, facts.tests)),
        "Agent usage": bullets(usage),
    }
    parts = [f"## {title}\n\n{text}" for title, text in sections.items() if text]
    heading = f"# {{{{ProjectTitle}}}}\n\n{manifest.description}."
    return "\n\n".join((heading, *parts)) + "\n"


def rules(facts: Facts, agents: Mapping[str, str]) -> dict[str, str]:
    """Return rules that are read where they apply: `paths:` says to which files."""
    endings = endings_of(facts.analysis.primary_language)
    sources = [f"**/*{ending}" for ending in endings] or ["**/*"]
    tests = ["**/tests/**", "**/*test*"]
    style = bullets((facts.style, *facts.naming))
    made = {
        "code-style": _rule("Code style", sources, style),
        "testing": _rule("Testing", tests, bullets([facts.tests])),
    }
    examples = {
        found.name: found.example_files for found in facts.analysis.pattern_details
    }
    for name, line in list(facts.patterns.items())[:MOST_RULES]:
        paths = facts.globs(examples[name]) or sources
        file = slug(name) or "pattern"
        made[f"patterns/{file}"] = _rule(name, paths, f"{line}.")
    for name, text in list(agents.items())[:MOST_RULES]:
        made[f"guidance/{name}"] = _rule(f"When to ask {name}", sources, text)
    return {f".claude/rules/{name}.md": text for name, text in made.items()}


def references(facts: Facts) -> dict[str, str]:
    """Return the same knowledge as documents (`--no-rules-structure`)."""
    return {
        "docs/patterns/README.md": f"# Patterns\n\n{bullets(facts.patterns.values())}\n",
        "docs/reference/README.md": f"# Reference\n\n{catalogue(facts.templates)}\n",
    }


def within(text: str, limit: int) -> str:
    """Return `text` cut at a line so that it stays within `limit` bytes."""
    if len(text.encode()) <= limit:
        return text
    note = "\n(cut to the size limit)\n"
    room = max(0, limit - len(note))
    kept = text.encode()[:room].decode(errors="ignore")
    end_of_line = kept.rfind("\n") + 1
    return kept[:end_of_line] + note


def _technology(analysis: CodebaseAnalysis) -> list[str]:
    lines = [f"Language: {analysis.primary_language} {analysis.language_version}"]
    lines += [
        f"{framework.name} {framework.version} ({framework.purpose})"
        for framework in analysis.frameworks
    ]
    if analysis.build_tools:
        lines.append(f"Build: {', '.join(analysis.build_tools)}")
    if analysis.package_manager != UNKNOWN:
        lines.append(f"Packages: {analysis.package_manager}")
    return lines


def _examples(templates: Sequence[Template]) -> str:
    """Return the list of the templates, and the head of the shortest one that shows a pattern."""
    if not templates:
        return ""
    shown = min(
        templates,
        key=lambda template: (
            not template.patterns,
            len(template.content),
            template.template_path,
        ),
    )
    excerpt = first_lines(shown.content, EXAMPLE_LINES)
    parts = (
        catalogue([template for template in templates if template.purpose]),
        f"From `{shown.path or shown.original_path}`:",
        code_block(excerpt, fence_word(shown.original_path)),
    )
    return "\n\n".join(filter(None, parts))


def _description(text: str) -> str:
    """Return what an agent file says of itself; a plain sentence stands for itself."""
    head = front_matter_of(text)
    if head is None:
        return " ".join(text.split())[:300] or "an agent of this machine."
    description = head.get("description") or "see its file."
    return description if isinstance(description, str) else " ".join(description)


def _rule(title: str, paths: Sequence[str], text: str) -> str:
    head = ["---", *block_list("paths", paths), "---"]
    return "\n".join([*head, "", f"# {title}", "", text, ""])
