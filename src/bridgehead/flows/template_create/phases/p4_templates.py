"""Phase 4: make templates of the example files, and prove that they hold under other names (flows §11). Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from bridgehead.flows.template_create.phases.placeholders import (
    Vocabulary,
    filled,
    opened,
    opened_path,
    placeholders_in,
    values_for,
    vocabulary_of,
)
from bridgehead.flows.template_create.project.analysis import (
    UNKNOWN,
    CodebaseAnalysis,
    ExampleFile,
)
from bridgehead.flows.template_create.project.architecture import layer_of, patterns_of
from bridgehead.flows.template_create.project.dependencies import is_dependency_file
from bridgehead.flows.template_create.project.heuristics import example_of
from bridgehead.flows.template_create.project.languages import (
    is_test,
    language_of,
    languages_by_files,
    slug,
    spell,
    words_of,
)
from bridgehead.flows.template_create.project.references import References, module_of
from bridgehead.flows.template_create.project.sampling import is_generated
from bridgehead.flows.template_create.project.syntax import (
    EXTRA,
    has_grammar,
    names_in,
    parses,
)

OTHER: Final = "other"
LONGEST_NAME: Final = 255


@dataclass(frozen=True)
class Template:
    """One template file, what it was made from, and what it is called in a project made from it."""

    original_path: str
    template_path: str
    content: str
    placeholders: tuple[str, ...] = ()
    language: str = ""
    purpose: str = ""
    patterns: tuple[str, ...] = ()
    path: str = ""
    """The original path with the project's names left open."""
    needs: tuple[str, ...] = ()
    """Files of the original that this one refers to and that are not in the package."""

    @property
    def description(self) -> str:
        """The path in a project made from the package, and what the file is for."""
        purpose = f": {self.purpose}" if self.purpose else ""
        return f"`{self.path or self.original_path}`{purpose}"


@dataclass(frozen=True)
class TemplateSet:
    """The result of phase 4, with what was noticed while it was made."""

    templates: tuple[Template, ...] = ()
    warnings: tuple[str, ...] = ()
    entity: str = ""
    """The thing the project is about, which another project has another one of."""


def make_templates(
    analysis: CodebaseAnalysis,
    texts: Mapping[str, str],
    *,
    author: str = "",
    most: int = 20,
) -> TemplateSet:
    """Return templates of the analysis's example files and of the files of `texts` that those refer to."""
    references = References(texts)
    vocabulary = _vocabulary(analysis, texts, author)
    made: dict[str, Template] = {}
    warnings: list[str] = []
    for example in with_references(analysis.example_files, texts, references, most):
        text = texts.get(example.path, "")
        refusal = _refusal(example.path, text)
        if refusal:
            warnings.append(f"{example.path} was left out: {refusal}")
            continue
        template = make_template(example, text, analysis, vocabulary)
        path = _free(template.template_path, made)
        made[example.path] = replace(template, template_path=path)
    templates = [
        replace(template, needs=_needs(template, references, made))
        for template in made.values()
    ]
    is_used = any("{{Entit" in template.content for template in templates)
    entity = vocabulary.entity if is_used else ""
    return TemplateSet(tuple(templates), tuple(warnings), entity)


def _vocabulary(
    analysis: CodebaseAnalysis, texts: Mapping[str, str], author: str
) -> Vocabulary:
    language = analysis.primary_language
    if language == UNKNOWN:
        language = next(iter(languages_by_files(texts)), UNKNOWN)
    names = {
        path: names_in(text, path) for path, text in texts.items() if has_grammar(path)
    }
    own = [path for path in texts if language_of(path) or is_dependency_file(path)]
    return vocabulary_of(
        analysis.project_name,
        language,
        names,
        own,
        author=author,
        module=module_of(texts),
    )


def with_references(
    examples: Sequence[ExampleFile],
    texts: Mapping[str, str],
    references: References,
    most: int,
) -> list[ExampleFile]:
    """Return the examples with all they import, as far as there is room, then with the other files these name.

    An example that would bring in too much is left out. If all do, the first ones come as they are.
    """
    written = {
        example.path: example
        for example in examples
        if not is_generated(example.path, texts.get(example.path, ""))
    }
    chosen: dict[str, None] = {}
    for path in written:
        imported = _reached([path], references.imports, texts)
        together = {path: None, **dict.fromkeys(sorted(imported))}
        if len(chosen | together) <= most:
            chosen |= together
    if not any(language_of(path) for path in chosen):
        room = max(0, most - len(chosen))
        chosen |= dict.fromkeys(list(written)[:room])
    named = _reached(chosen, references.named, texts)
    paths = [*chosen, *(path for path in named if path not in chosen)]
    return [written.get(path) or example_of(path, texts[path]) for path in paths[:most]]


def _reached(
    paths: Iterable[str],
    step: Callable[[str], Iterable[str | None]],
    texts: Mapping[str, str],
) -> dict[str, None]:
    """Return the files and everything that one step after the other leads to, save what programs write."""
    reached = dict.fromkeys(paths)
    waiting = deque(reached)
    while waiting:
        for path in step(waiting.popleft()):
            if path is None or path in reached or is_generated(path, texts[path]):
                continue
            reached[path] = None
            waiting.append(path)
    return reached


def make_template(
    example: ExampleFile, text: str, analysis: CodebaseAnalysis, vocabulary: Vocabulary
) -> Template:
    """Return one file with the project's own names left open."""
    content = opened(text, example.path, vocabulary)
    original = values_for(
        vocabulary.language, analysis.project_name, vocabulary.entity, vocabulary.author
    )
    if filled(content, original) != text:
        content = text  # it speaks in placeholders: it is somebody's template already
    patterns = example.patterns_used
    if not patterns and language_of(example.path):
        patterns = tuple(patterns_of(text))
    return Template(
        original_path=example.path,
        template_path=template_path(example, analysis.project_name),
        content=content,
        placeholders=placeholders_in(content) if content != text else (),
        language=language_of(example.path) or "",
        purpose=opened(example.purpose, "purpose.md", vocabulary),
        patterns=patterns,
        path=opened_path(example.path, vocabulary),
    )


def template_path(example: ExampleFile, project_name: str) -> str:
    """Return `templates/<layer>/…/<file>.template`, with the layer that the analysis or the directory says."""
    layer = slug(example.layer or layer_of(example.path) or "") or OTHER
    if is_test(example.path):
        layer = "tests"
    *folders, name = example.path.split("/")
    own = {"src", spell(words_of(project_name), "snake"), project_name, layer, "tests"}
    inside = [part for part in folders if part not in own and part[0] != "."]
    return "/".join(("templates", layer, *inside[-2:], f"{name}.template"))


def catalogue(templates: Sequence[Template]) -> str:
    """Return the templates as a list for readers and prompts."""
    lines = []
    for template in templates:
        patterns = f" ({', '.join(template.patterns)})" if template.patterns else ""
        lines.append(f"- {template.description}{patterns}")
    return "\n".join(lines)


def _refusal(path: str, text: str) -> str:
    if not text.strip():
        return "it is empty or not to be read"
    if len(f"{PurePosixPath(path).name}.template".encode()) > LONGEST_NAME:
        return "its name is too long for a template"
    return "elsewhere its name would be a path" if "\\" in path else ""


def _needs(
    template: Template, references: References, made: Mapping[str, Template]
) -> tuple[str, ...]:
    found = dict.fromkeys(references.of(template.original_path))
    return tuple(path for path in found if path is not None and path not in made)


def _free(path: str, taken: Mapping[str, Template]) -> str:
    """Return the path, with a number if two files of different directories would meet."""
    paths = {template.template_path for template in taken.values()}
    base = PurePosixPath(path.removesuffix(".template"))
    number = 1
    while path in paths:
        number += 1
        name = f"{base.stem}-{number}{base.suffix}"
        path = f"{base.with_name(name)}.template"
    return path


# Names of one, two and three words: each shows other mistakes.
TRIALS: Final = (("Acme Web Shop", "Order Line"), ("Lighthouse", "Keeper"))
GRADES: Final = (
    (9.5, "A+"),
    (9.0, "A"),
    (8.5, "A-"),
    (8.0, "B+"),
    (7.0, "B"),
    (6.0, "C"),
)


@dataclass(frozen=True)
class Origin:
    """What the templates were made from: the names that give the original back."""

    language: str
    project_name: str
    entity: str = ""
    author: str = ""


@dataclass(frozen=True)
class Proof:
    """What filling a package in showed."""

    files: int = 0
    """Source and data files, whose form can be checked; other texts have none."""
    proven: int = 0
    problems: tuple[str, ...] = ()
    """What is wrong once the templates are filled in."""
    unproven: tuple[str, ...] = ()
    """What could not be shown, and why."""

    @property
    def score(self) -> float | None:
        """10 × what is proven, rounded down; None where there is nothing to prove."""
        return int(100 * self.proven / self.files) / 10 if self.files else None

    @property
    def grade(self) -> str:
        score = self.score
        if score is None:
            return ""
        return next((grade for least, grade in GRADES if score >= least), "F")


def prove(templates: Sequence[Template], origin: Origin) -> Proof:
    """Check that every file parses and refers to the same files as before, whatever the new project is called."""
    original = values_for(
        origin.language, origin.project_name, origin.entity, origin.author
    )
    before = _Project(templates, original)
    trials = []
    for name, entity in TRIALS:
        values = values_for(origin.language, name, entity if origin.entity else "")
        trials.append(_Project(templates, values))
    counted = 0
    proven = 0
    problems: list[str] = []
    unproven: list[str] = []
    for template in templates:
        wrong: dict[str, None] = {}
        for trial in trials:
            wrong |= dict.fromkeys(_wrong(template, before, trial))
        doubts = _doubts(template, before)
        problems += wrong
        unproven += doubts
        if wrong or doubts:
            counted += 1
        elif before.parses(template) is not None:
            counted += 1
            proven += 1
    return Proof(counted, proven, tuple(problems), tuple(unproven))


class _Project:
    """The files that come of the templates under one set of names."""

    def __init__(
        self, templates: Sequence[Template], values: Mapping[str, str]
    ) -> None:
        self._path_of: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        for template in templates:
            path = filled(template.path or template.original_path, values)
            self._path_of[template.template_path] = path
            self._texts[path] = filled(template.content, values)
        self._template_at = {path: name for name, path in self._path_of.items()}
        self._references = References(self._texts)

    def path(self, template: Template) -> str:
        return self._path_of[template.template_path]

    def parses(self, template: Template) -> bool | None:
        path = self.path(template)
        return parses(self._texts[path], path)

    def is_shared(self, template: Template) -> bool:
        return self._template_at[self.path(template)] != template.template_path

    def references(self, template: Template) -> list[str | None]:
        """Return the templates of the files that a file refers to."""
        found = self._references.of(self.path(template))
        return [None if path is None else self._template_at[path] for path in found]


def _wrong(template: Template, before: _Project, after: _Project) -> Iterator[str]:
    path = after.path(template)
    if after.is_shared(template):
        yield f"{template.template_path}: another file becomes {path} too"
        return
    if before.parses(template) and not after.parses(template):
        yield f"{template.template_path}: {path} does not parse"
    old = before.references(template)
    new = after.references(template)
    pairs = zip(old, new, strict=False)
    lost = [then for then, now in pairs if then and then != now]
    if lost or len(old) != len(new):
        names = ", ".join(lost) or "its imports"
        yield f"{template.template_path}: {path} no longer finds {names}"


def _doubts(template: Template, before: _Project) -> list[str]:
    name = template.template_path
    doubts = [
        f"{name}: it needs {path}, which is not in the package"
        for path in template.needs
    ]
    well_formed = before.parses(template)
    if well_formed is False:
        doubts.append(f"{name}: the original does not parse")
    if well_formed is None and template.language:
        doubts.append(
            f"{name}: no grammar for {template.language} (extra `{EXTRA}` has Python, "
            "JavaScript, TypeScript, Go, Rust, C#, Java)"
        )
    return doubts
