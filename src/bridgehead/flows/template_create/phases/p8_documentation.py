"""Phase 8: `CLAUDE.md` and its rules or documents, for agents that are really on disk (flows §11). Pure.

Every sentence rests on `Facts`: what has no file of the package to show for it is not said.
"""

from __future__ import annotations

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
from bridgehead.flows.template_create.project.architecture import SIGNS
from bridgehead.flows.template_create.project.languages import (
    LANGUAGE_OF,
    case_style,
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
_DECLARES: Final = r"\b(?:class|def|func|function|fn|type|struct|interface|enum|record|trait)\s+(?:\([^)\n]*\)\s*)?"
_TESTS_LIE: Final = {
    "separate": "lie in a tree of their own",
    "mirror": "lie in a tree that mirrors the sources",
    "adjacent": "lie beside what they test",
}


class Facts:
    """What was seen of the original, line by line, in the paths and names that a project made from the package has."""

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
            one.original_path: one.path or one.original_path for one in made.templates
        }

    def files(self, originals: Iterable[str]) -> list[str]:
        return [self._path_of[path] for path in originals if path in self._path_of]

    def sources(self, *, tests: bool = False, about: str = "") -> list[str]:
        """The original paths of source files of the package, or of tests; `about`: only those that name it."""
        main, word = self.analysis.primary_language, rf"\b{re.escape(about)}\b"
        found = [
            one
            for one in self.templates
            if (one.language == main if about else one.language)
        ]
        found = [
            one for one in found if not about or re.search(word, one.content.lower())
        ]
        found.sort(
            key=lambda one: (one.language != main, not one.patterns)
        )  # those that show most first
        return [
            one.original_path for one in found if is_test(one.original_path) == tests
        ]

    def reading(self, originals: Iterable[str]) -> list[str]:
        """Files to read, each with what it says of itself."""
        said = {one.original_path: one.purpose for one in self.templates}
        known = [path for path in originals if path in said]
        return [
            f"`{self._path_of[path]}`" + (f": {said[path]}" if said[path] else "")
            for path in known
        ]

    @cached_property
    def commands(self) -> list[str]:
        lines = (line.split(" ") for line in self.analysis.commands)
        return [
            " ".join(
                self._directory(word) or word if "/" in word else word for word in words
            )
            for words in lines
        ]

    @property
    def test_command(self) -> str:
        return next((line for line in self.commands if "test" in line), "")

    @cached_property
    def layout(self) -> list[str]:
        folders: dict[str, list[str]] = {}
        for path in sorted(self._path_of.values()):
            folder, _, name = path.rpartition("/")
            folders.setdefault(f"{folder or '.'}/", []).append(f"`{name}`")
        some = [
            (folder, names[:MOST_NAMED] + ["…"] * (len(names) > MOST_NAMED))
            for folder, names in folders.items()
        ]
        return [f"`{folder}`: {', '.join(names)}" for folder, names in some]

    @cached_property
    def layers(self) -> list[str]:
        lines = []
        for layer in self.analysis.layers:
            places = [
                place
                for name in layer.directories[:4]
                if (place := self._directory(name))
            ]
            inside = [
                path
                for name in layer.directories
                for path in self.sources()
                if path.startswith(f"{name}/")
            ]
            if places and inside:
                such = f"**{layer.name}** in {_listed(places)}, e.g. `{self._path_of[inside[0]]}`"
                lines.append(
                    f"{such}: {layer.description}" if layer.description else such
                )
        return lines

    @cached_property
    def naming(self) -> list[str]:
        words = {**self._words(_TOKEN), **self._words(rf"{_DECLARES}({_TOKEN})")}
        lines = []
        for element, convention in self.settings.naming_conventions.items():
            seen = self.analysis.naming.examples.get(element, ())
            fit = [name for name in seen if case_style(name) == convention.case_style]
            shown = [
                f"`{found[0]}` in `{found[1]}`"
                for name in fit
                if (found := words.get(name))
            ]
            if element == "file":
                stems = {
                    PurePosixPath(path).name.split(".")[0]: path
                    for path in self._path_of
                }
                shown = [
                    f"`{self._path_of[stems[name]]}`" for name in fit if name in stems
                ]
            if shown:
                lines.append(
                    f"{_ELEMENTS[element]}: {convention.case_style}, e.g. {shown[0]}"
                )
        return lines

    @cached_property
    def patterns(self) -> dict[str, str]:
        """By name: how often it is used, what it is, and a place that shows it."""
        found = {}
        for pattern in self.analysis.pattern_details:
            if shown := self._shown(pattern):
                said = (
                    f": {pattern.description.rstrip('.')}"
                    if pattern.description
                    else ""
                )
                found[pattern.name] = (
                    f"**{pattern.name}** ({pattern.usage_frequency}){said}, e.g. {shown}"
                )
        return found

    @cached_property
    def abstractions(self) -> list[str]:
        declared = self._words(rf"{_DECLARES}({_TOKEN})")
        known = [
            declared[name]
            for name in self.analysis.key_abstractions
            if name in declared
        ]
        return [f"`{name}` (`{path}`)" for name, path in known[:MOST_NAMED]]

    @cached_property
    def tests(self) -> str:
        testing, shown = self.analysis.testing, self.files(self.sources(tests=True))
        if not self.analysis.has_tests and not shown:
            return "The original has no tests."
        kinds = f" ({', '.join(testing.patterns)})" if testing.patterns else ""
        said = (
            [] if testing.framework == UNKNOWN else [f"use {testing.framework}{kinds}"]
        )
        said += [f"are run with `{self.test_command}`"] if self.test_command else []
        such = f", e.g. {_listed(shown[:2])}" if shown else ""
        return f"Tests {', '.join([*said, _TESTS_LIE[self.settings.file_organization.test_location]])}{such}."

    @cached_property
    def style(self) -> str:
        style = self.settings.code_style
        indent = (
            "tabs" if style.indentation == "tabs" else f"{style.indent_size} spaces"
        )
        commas = "with" if style.trailing_commas else "without"
        shown = self.files(self.sources())
        such = f", as in `{shown[0]}`" if shown else ""
        return f"Lines of at most {style.line_length} characters, indented by {indent}, {commas} trailing commas{such}."

    def neighbourhoods(self, originals: Iterable[str]) -> tuple[str, ...]:
        """Globs for the directories in which such files lie, each once."""
        found = [PurePosixPath(path) for path in originals if "/" in path]
        where = [(self._directory(str(path.parent)), path.suffix) for path in found]
        return tuple(
            dict.fromkeys(f"{place}/**/*{suffix}" for place, suffix in where if place)
        )

    def _directory(self, original: str) -> str:
        """A directory of the original as the package has it; empty when it has no file there."""
        inside = next(
            (
                new
                for path, new in self._path_of.items()
                if path.startswith(f"{original}/")
            ),
            "",
        )
        return "/".join(inside.split("/")[: original.count("/") + 1])

    def _words(self, pattern: str) -> dict[str, tuple[str, str]]:
        """A word of the original -> the same with its names left open, and a file that has it."""
        found: dict[str, tuple[str, str]] = {}
        for one in (one for one in self.templates if one.language):
            for token in dict.fromkeys(re.findall(pattern, one.content)):
                found.setdefault(
                    filled(token, self._values),
                    (token, self._path_of[one.original_path]),
                )
        return found

    def _shown(self, pattern: Pattern) -> str:
        """The line of a file that shows a pattern, where its sign is known, else the file; empty when there is none."""
        sign = next(
            (sign for sign in SIGNS if sign.name.lower() == pattern.name.lower()), None
        )
        own = [
            one for one in self.templates if one.original_path in pattern.example_files
        ]
        if sign is None:
            return _listed(self.files(pattern.example_files)[:2])
        for one in (*own, *(other for other in self.templates if other.language)):
            text = filled(one.content, self._values)
            if hit := re.search(sign.text, text, re.MULTILINE):
                line = one.content.split("\n")[
                    text.count("\n", 0, hit.end() - 1)
                ].strip()
                where = f"`{self._path_of[one.original_path]}`"
                return (
                    where
                    if "`" in line or len(line) > LONGEST_EXAMPLE
                    else f"`{line}` in {where}"
                )
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
    """The documents by path. `agents` are the agent files as on disk, plus descriptions of the existing ones used."""
    documents = {
        MAIN_DOCUMENT: within(main_document(manifest, facts, agents), size_limit)
    }
    more = rules(facts, agents) if rules_structure else references(facts)
    return {path: escape_controls(text) for path, text in {**documents, **more}.items()}


def main_document(manifest: Manifest, facts: Facts, agents: Mapping[str, str]) -> str:
    """The sections in their fixed order; one that has nothing to say is left out."""
    kind = (
        ""
        if facts.analysis.architecture == UNKNOWN
        else f"Architecture: {facts.analysis.architecture}."
    )
    parts = (
        f"Key abstractions: {', '.join(facts.abstractions)}."
        if facts.abstractions
        else ""
    )
    sections = {
        "Architecture overview": "\n\n".join(
            filter(None, (kind, bullets(facts.layers), parts))
        ),
        "Technology stack": _technology(facts.analysis),
        "Commands": bullets(f"`{line}`" for line in facts.commands),
        "Project structure": bullets(facts.layout),
        "Naming conventions": bullets(facts.naming),
        "Patterns": bullets(facts.patterns.values()),
        "Examples": _examples(facts.templates),
        "Quality standards": bullets((facts.style, facts.tests)),
        "Agent usage": bullets(
            f"`{name}`: {_description(text)}" for name, text in agents.items()
        ),
    }
    body = "\n\n".join(
        f"## {title}\n\n{text}" for title, text in sections.items() if text
    )
    return f"# {{{{ProjectTitle}}}}\n\n{manifest.description}.\n\n{body}\n"


def rules(facts: Facts, agents: Mapping[str, str]) -> dict[str, str]:
    """Rules that are read where they apply: `paths:` says to which files."""
    extensions = [
        ext
        for ext, language in LANGUAGE_OF.items()
        if language == facts.analysis.primary_language
    ]
    sources = [f"**/*{extension}" for extension in extensions] or ["**/*"]
    tests = ["**/tests/**", "**/*test*"]
    made = {
        ".claude/rules/code-style.md": _rule(
            "Code style", sources, bullets((facts.style, *facts.naming))
        ),
        ".claude/rules/testing.md": _rule("Testing", tests, bullets([facts.tests])),
    }
    examples = {
        found.name: found.example_files for found in facts.analysis.pattern_details
    }
    for name, said in list(facts.patterns.items())[:MOST_RULES]:
        paths = facts.neighbourhoods(examples[name]) or tuple(sources)
        made[f".claude/rules/patterns/{slug(name) or 'pattern'}.md"] = _rule(
            name, paths, f"{said}."
        )
    for name, text in list(agents.items())[:MOST_RULES]:
        made[f".claude/rules/guidance/{name}.md"] = _rule(
            f"When to ask {name}", sources, _description(text)
        )
    return made


def references(facts: Facts) -> dict[str, str]:
    """The same knowledge as documents (`--no-rules-structure`)."""
    return {
        "docs/patterns/README.md": f"# Patterns\n\n{bullets(facts.patterns.values())}\n",
        "docs/reference/README.md": f"# Reference\n\n{catalogue(facts.templates)}\n",
    }


def within(text: str, limit: int) -> str:
    """`text` cut at a line so that it stays within `limit` bytes."""
    if len(text.encode()) <= limit:
        return text
    note = "\n(cut to the size limit)\n"
    kept = text.encode()[: max(0, limit - len(note.encode()))].decode(errors="ignore")
    return kept[: kept.rfind("\n") + 1] + note


def _technology(analysis: CodebaseAnalysis) -> str:
    lines = [
        f"- Language: {analysis.primary_language} {analysis.language_version}".rstrip()
    ]
    lines += [
        f"- {f.name} {f.version} ({f.purpose})".replace("  ", " ")
        for f in analysis.frameworks
    ]
    if analysis.build_tools:
        lines.append(f"- Build: {', '.join(analysis.build_tools)}")
    if analysis.package_manager != UNKNOWN:
        lines.append(f"- Packages: {analysis.package_manager}")
    return "\n".join(lines)


def _examples(templates: Sequence[Template]) -> str:
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
    excerpt = code_block(
        first_lines(shown.content, EXAMPLE_LINES), fence_word(shown.original_path)
    )
    described = catalogue([template for template in templates if template.purpose])
    return "\n\n".join(
        filter(
            None, (described, f"From `{shown.path or shown.original_path}`:", excerpt)
        )
    )


def _description(text: str) -> str:
    """What an agent file says of itself; a plain sentence stands for itself."""
    head = front_matter_of(text)
    if head is None:
        return " ".join(text.split())[:300] or "an agent of this machine."
    found = head.get("description", "")
    return (found if isinstance(found, str) else " ".join(found)) or "see its file."


def _rule(title: str, paths: Sequence[str], text: str) -> str:
    return "\n".join(
        ["---", *block_list("paths", paths), "---", "", f"# {title}", "", text, ""]
    )
