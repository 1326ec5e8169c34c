"""Phase 8: `CLAUDE.md` and its rules or documents, for agents that are really on disk (flows §11). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from bridgehead.flows.template_create.agents import block_list, front_matter_of
from bridgehead.flows.template_create.phases.p2_manifest import Manifest, Settings
from bridgehead.flows.template_create.phases.p4_templates import Template, catalogue
from bridgehead.flows.template_create.phases.placeholders import placed
from bridgehead.flows.template_create.project.analysis import UNKNOWN, CodebaseAnalysis, Pattern
from bridgehead.flows.template_create.project.languages import LANGUAGE_OF, fence_word, slug
from bridgehead.flows.template_create.project.sampling import first_lines
from bridgehead.flows.template_create.prompts import code_block
from bridgehead.host.terminal import escape_controls

MAIN_DOCUMENT: Final = "CLAUDE.md"
EXAMPLE_LINES: Final = 25
MOST_RULES: Final = 12


class Shown(NamedTuple):
    """Files of the original as a project made from the template knows them: it has templates, not the originals."""

    project_name: str
    template_of: Mapping[str, str]

    def templates(self, originals: Iterable[str]) -> list[str]:
        return [self.template_of[path] for path in originals if path in self.template_of]

    def neighbourhoods(self, originals: Iterable[str]) -> tuple[str, ...]:
        """Globs for the directories in which such files lie, each once."""
        found = [PurePosixPath(path) for path in originals if "/" in path]
        globs = [f"{placed(str(path.parent), self.project_name)}/**/*{path.suffix}" for path in found]
        return tuple(dict.fromkeys(globs))


def make_documents(
    manifest: Manifest,
    settings: Settings,
    analysis: CodebaseAnalysis,
    templates: Sequence[Template],
    agents: Mapping[str, str],
    *,
    rules_structure: bool = True,
    size_limit: int,
) -> dict[str, str]:
    """The documents by path. `agents` are the agent files as on disk, plus descriptions of the existing ones used."""
    main = main_document(manifest, settings, analysis, templates, agents)
    documents = {MAIN_DOCUMENT: within(main, size_limit)}
    shown = Shown(analysis.project_name, {made.original_path: made.template_path for made in templates})
    more = rules(settings, analysis, agents, shown) if rules_structure else references(analysis, templates, shown)
    return {path: escape_controls(text) for path, text in {**documents, **more}.items()}


def main_document(
    manifest: Manifest,
    settings: Settings,
    analysis: CodebaseAnalysis,
    templates: Sequence[Template],
    agents: Mapping[str, str],
) -> str:
    """The sections in their fixed order."""
    sections = {
        "Architecture overview": _architecture(analysis),
        "Technology stack": _technology(analysis),
        **({"Commands": "\n".join(f"- `{line}`" for line in analysis.commands)} if analysis.commands else {}),
        "Project structure": _structure(settings),
        "Naming conventions": _naming(settings),
        "Patterns": _patterns(analysis.pattern_details, analysis.patterns),
        "Examples": _examples(templates),
        "Quality standards": "\n".join(
            (_style(settings), _testing(analysis), "- A change follows the patterns above or says why not.")
        ),
        "Agent usage": _agents(agents),
    }
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items())
    return f"# {manifest.display_name}\n\n{manifest.description}.\n\n{body}\n"


def rules(settings: Settings, analysis: CodebaseAnalysis, agents: Mapping[str, str], shown: Shown) -> dict[str, str]:
    """Rules that are read where they apply: `paths:` says to which files."""
    extensions = [ext for ext, language in LANGUAGE_OF.items() if language == analysis.primary_language]
    sources = [f"**/*{extension}" for extension in extensions] or ["**/*"]
    tests = ["**/tests/**", "**/*test*"]
    made = {
        ".claude/rules/code-style.md": _rule("Code style", sources, _style(settings)),
        ".claude/rules/testing.md": _rule("Testing", tests, _testing(analysis)),
    }
    for pattern in analysis.pattern_details[:MOST_RULES]:
        paths = shown.neighbourhoods(pattern.example_files) or tuple(sources)
        name = slug(pattern.name) or "pattern"
        made[f".claude/rules/patterns/{name}.md"] = _rule(pattern.name, paths, _pattern(pattern, shown))
    for name, text in list(agents.items())[:MOST_RULES]:
        made[f".claude/rules/guidance/{name}.md"] = _rule(f"When to ask {name}", sources, _description(text))
    return made


def references(analysis: CodebaseAnalysis, templates: Sequence[Template], shown: Shown) -> dict[str, str]:
    """The same knowledge as documents (`--no-rules-structure`)."""
    described = [f"## {found.name}\n\n{_pattern(found, shown)}" for found in analysis.pattern_details]
    patterns = "\n\n".join(described)
    listed = catalogue(templates) or "There are no templates."
    return {
        "docs/patterns/README.md": f"# Patterns\n\n{patterns or _none('patterns')}\n",
        "docs/reference/README.md": f"# Reference\n\n{listed}\n",
    }


def within(text: str, limit: int) -> str:
    """`text` cut at a line so that it stays within `limit` bytes."""
    if len(text.encode()) <= limit:
        return text
    note = "\n(cut to the size limit)\n"
    kept = text.encode()[: max(0, limit - len(note.encode()))].decode(errors="ignore")
    return kept[: kept.rfind("\n") + 1] + note


def _architecture(analysis: CodebaseAnalysis) -> str:
    lines = [f"Architecture: {analysis.architecture}.", ""] if analysis.architecture != UNKNOWN else []
    for layer in analysis.layers:
        places = [f"`{placed(name, analysis.project_name)}`" for name in layer.directories[:4]]
        where = f" ({', '.join(places)})" if places else ""
        lines.append(f"- **{layer.name}**{where}" + (f": {layer.description}" if layer.description else ""))
    if analysis.key_abstractions:
        lines += ["", f"Key abstractions: {', '.join(f'`{name}`' for name in analysis.key_abstractions)}."]
    return "\n".join(lines).strip() or _none("layers")


def _technology(analysis: CodebaseAnalysis) -> str:
    lines = [f"- Language: {analysis.primary_language} {analysis.language_version}".rstrip()]
    lines += [f"- {f.name} {f.version} ({f.purpose})".replace("  ", " ") for f in analysis.frameworks]
    if analysis.build_tools:
        lines.append(f"- Build: {', '.join(analysis.build_tools)}")
    if analysis.package_manager != UNKNOWN:
        lines.append(f"- Packages: {analysis.package_manager}")
    return "\n".join(lines)


def _structure(settings: Settings) -> str:
    rows = [f"- `{m.directory}`: {m.name}, namespace `{m.namespace_pattern}`" for m in settings.layer_mappings.values()]
    tests = {
        "separate": "in a tree of their own",
        "mirror": "in a tree that mirrors the sources",
        "adjacent": "beside what they test",
    }
    return "\n".join([*rows, f"- Tests are {tests[settings.file_organization.test_location]}."])


def _naming(settings: Settings) -> str:
    return "\n".join(
        f"- {convention.element_type}: {convention.case_style}, e.g. "
        + ", ".join(f"`{name}`" for name in convention.examples)
        for convention in settings.naming_conventions.values()
    )


def _patterns(details: Sequence[Pattern], names: Sequence[str]) -> str:
    lines = [
        f"- **{found.name}** ({found.usage_frequency})" + (f": {found.description}" if found.description else "")
        for found in details
    ]
    return "\n".join(lines or [f"- {name}" for name in names]) or _none("patterns")


def _examples(templates: Sequence[Template]) -> str:
    if not templates:
        return _none("templates")
    shown = min(templates, key=lambda template: (not template.patterns, len(template.content), template.template_path))
    excerpt = code_block(first_lines(shown.content, EXAMPLE_LINES), fence_word(shown.original_path))
    return f"{catalogue(templates)}\n\nFrom `{shown.template_path}`:\n\n{excerpt}"


def _style(settings: Settings) -> str:
    style = settings.code_style
    indent = "tabs" if style.indentation == "tabs" else f"{style.indent_size} spaces"
    commas = "with" if style.trailing_commas else "without"
    return f"- Lines of at most {style.line_length} characters, indented by {indent}, {commas} trailing commas."


def _testing(analysis: CodebaseAnalysis) -> str:
    testing = analysis.testing
    if not analysis.has_tests:
        return "- The original has no tests; new code should bring its own."
    tool = "" if testing.framework == UNKNOWN else f" with {testing.framework}"
    kinds = f" ({', '.join(testing.patterns)})" if testing.patterns else ""
    return f"- Every change is tested{tool}{kinds}; coverage of the original is {testing.coverage_estimate}."


def _agents(agents: Mapping[str, str]) -> str:
    if not agents:
        return "This template brings no agents."
    return "\n".join(f"- `{name}`: {_description(text)}" for name, text in agents.items())


def _description(text: str) -> str:
    """What an agent file says of itself; a plain sentence stands for itself."""
    head = front_matter_of(text)
    if head is None:
        return " ".join(text.split())[:300] or "an agent of this machine."
    found = head.get("description", "")
    return (found if isinstance(found, str) else " ".join(found)) or "see its file."


def _pattern(pattern: Pattern, shown: Shown) -> str:
    templates = "\n".join(f"- `{path}`" for path in shown.templates(pattern.example_files))
    listed = f"\n\nTemplates that show it:\n\n{templates}" if templates else ""
    return f"{pattern.description or pattern.name}{listed}"


def _rule(title: str, paths: Sequence[str], text: str) -> str:
    return "\n".join(["---", *block_list("paths", paths), "---", "", f"# {title}", "", text, ""])


def _none(what: str) -> str:
    return f"No {what} were found."
