"""Phase 4: templates of the example files and of what they refer to, and the proof that they hold when they are filled
twice under other names (flows §11). Pure; the texts have been read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    """Templates of the analysis's example files and of the files of `texts` that those refer to."""
    references = References(texts)
    language = analysis.primary_language
    if language == UNKNOWN:
        language = next(iter(languages_by_files(texts)), UNKNOWN)
    names = {
        path: names_in(text, path) for path, text in texts.items() if has_grammar(path)
    }
    own = [path for path in texts if language_of(path) or is_dependency_file(path)]
    vocabulary = vocabulary_of(
        analysis.project_name,
        language,
        names,
        own,
        author=author,
        module=module_of(texts),
    )
    made: dict[str, Template] = {}
    warnings: list[str] = []
    for example in with_references(analysis.example_files, texts, references, most):
        text = texts.get(example.path)
        refusal = _refusal(example.path, text)
        if refusal or text is None:
            warnings.append(f"{example.path} was left out: {refusal}")
        else:
            template = make_template(example, text, analysis, vocabulary)
            made[example.path] = replace(
                template, template_path=_free(template.template_path, made)
            )
    templates = [
        replace(template, needs=_needs(template, references, made))
        for template in made.values()
    ]
    uses_entity = any(
        name.startswith("Entit")
        for template in templates
        for name in template.placeholders
    )
    return TemplateSet(
        tuple(templates), tuple(warnings), vocabulary.entity if uses_entity else ""
    )


def with_references(
    examples: Sequence[ExampleFile],
    texts: Mapping[str, str],
    references: References,
    most: int,
) -> list[ExampleFile]:
    """The examples with all they import, as far as there is room, then with the other files these name.

    An example that would bring in too much is left out; where that is true of all, the first ones come as they are.
    """
    written = [
        example
        for example in examples
        if not is_generated(example.path, texts.get(example.path, ""))
    ]
    chosen: dict[str, ExampleFile] = {}
    for example in written:
        together = (
            _reached([example.path], references.imports, texts).keys() - chosen.keys()
        )
        if len(chosen) + len(together) <= most:
            chosen[example.path] = example
            chosen |= {
                path: example_of(path, texts[path])
                for path in sorted(together - {example.path})
            }
    if not any(language_of(path) for path in chosen):
        chosen |= {
            example.path: example for example in written[: max(0, most - len(chosen))]
        }
    named = [
        path for path in _reached(chosen, references.named, texts) if path not in chosen
    ]
    return [
        *chosen.values(),
        *(example_of(path, texts[path]) for path in named[: most - len(chosen)]),
    ]


def _reached(
    paths: Iterable[str],
    step: Callable[[str], Iterable[str | None]],
    texts: Mapping[str, str],
) -> dict[str, None]:
    """The files and everything that one step after the other leads to, save what programs write."""
    reached, waiting = dict.fromkeys(paths), deque(paths)
    while waiting:
        for found in step(waiting.popleft()):
            if (
                found is not None
                and found not in reached
                and not is_generated(found, texts[found])
            ):
                reached[found] = None
                waiting.append(found)
    return reached


def make_template(
    example: ExampleFile, text: str, analysis: CodebaseAnalysis, vocabulary: Vocabulary
) -> Template:
    """One file with the project's own names left open."""
    content = opened(text, example.path, vocabulary)
    original = values_for(
        vocabulary.language, analysis.project_name, vocabulary.entity, vocabulary.author
    )
    if filled(content, original) != text:
        content = text  # the text itself speaks in placeholders: it is somebody's template already
    return Template(
        original_path=example.path,
        template_path=template_path(example, analysis.project_name),
        content=content,
        placeholders=placeholders_in(content) if content != text else (),
        language=language_of(example.path) or "",
        purpose=opened(example.purpose, "purpose.md", vocabulary),
        patterns=example.patterns_used
        or (tuple(patterns_of(text)) if language_of(example.path) else ()),
        path=opened_path(example.path, vocabulary),
    )


def template_path(example: ExampleFile, project_name: str) -> str:
    """`templates/<layer>/…/<file>.template`; the layer as the analysis says, else by directory, else `other`."""
    layer = (
        "tests"
        if is_test(example.path)
        else slug(example.layer or layer_of(example.path) or "") or OTHER
    )
    found = PurePosixPath(example.path)
    own = {"src", spell(words_of(project_name), "snake"), project_name, layer, "tests"}
    inside = [
        part
        for part in found.parts[:-1]
        if part not in own and not part.startswith(".")
    ]
    return "/".join(("templates", layer, *inside[-2:], f"{found.name}.template"))


def catalogue(templates: Sequence[Template]) -> str:
    """Return the templates as a list for readers and prompts."""
    lines = []
    for template in templates:
        patterns = f" ({', '.join(template.patterns)})" if template.patterns else ""
        lines.append(f"- {template.description}{patterns}")
    return "\n".join(lines)


def _refusal(path: str, text: str | None) -> str:
    if text is None or not text.strip():
        return "it is empty or not to be read"
    if len(f"{PurePosixPath(path).name}.template".encode()) > LONGEST_NAME:
        return "its name is too long for a template"
    return "elsewhere its name would be a path" if "\\" in path else ""


def _needs(
    template: Template, references: References, made: Mapping[str, Template]
) -> tuple[str, ...]:
    found = references.of(template.original_path)
    return tuple(
        dict.fromkeys(path for path in found if path is not None and path not in made)
    )


def _free(path: str, taken: Mapping[str, Template]) -> str:
    """`path`, or the same with a number where two files of different directories would meet."""
    paths = {template.template_path for template in taken.values()}
    stem, number = path.removesuffix(".template"), 2
    while path in paths:
        base = PurePosixPath(stem)
        path = f"{base.with_name(f'{base.stem}-{number}{base.suffix}')}.template"
        number += 1
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
        return (
            ""
            if score is None
            else next((grade for least, grade in GRADES if score >= least), "F")
        )


def prove(templates: Sequence[Template], origin: Origin) -> Proof:
    """Every file parses and refers to the same files as in the original, whatever the new project is called."""
    before = _Project(
        templates,
        values_for(origin.language, origin.project_name, origin.entity, origin.author),
    )
    trials = [
        _Project(
            templates,
            values_for(origin.language, name, entity if origin.entity else ""),
        )
        for name, entity in TRIALS
    ]
    counted = proven = 0
    problems: list[str] = []
    unproven: list[str] = []
    for template in templates:
        wrong = [line for trial in trials for line in _wrong(template, before, trial)]
        doubts = _doubts(template, before)
        problems += dict.fromkeys(wrong)
        unproven += doubts
        if (
            wrong
            or doubts
            or parses(before.text(template), template.original_path) is not None
        ):
            counted += 1
            proven += not (wrong or doubts)
    return Proof(counted, proven, tuple(problems), tuple(unproven))


class _Project:
    """The files that come of the templates under one set of names."""

    def __init__(
        self, templates: Sequence[Template], values: Mapping[str, str]
    ) -> None:
        self._path_of = {
            t.template_path: filled(t.path or t.original_path, values)
            for t in templates
        }
        self._texts = {
            self._path_of[t.template_path]: filled(t.content, values) for t in templates
        }
        self._references = References(self._texts)
        self._template_at = {path: name for name, path in self._path_of.items()}

    def path(self, template: Template) -> str:
        return self._path_of[template.template_path]

    def text(self, template: Template) -> str:
        return self._texts[self.path(template)]

    def is_shared(self, template: Template) -> bool:
        return self._template_at[self.path(template)] != template.template_path

    def references(self, template: Template) -> list[str | None]:
        """The templates of the files that a file refers to."""
        found = self._references.of(self.path(template))
        return [None if path is None else self._template_at[path] for path in found]


def _wrong(template: Template, before: _Project, after: _Project) -> list[str]:
    path = after.path(template)
    if after.is_shared(template):
        return [f"{template.template_path}: another file becomes {path} too"]
    wrong = []
    if parses(before.text(template), template.original_path) and not parses(
        after.text(template), path
    ):
        wrong.append(f"{template.template_path}: {path} does not parse")
    then, now = before.references(template), after.references(template)
    lost = [
        old
        for old, new in zip(then, now, strict=False)
        if old is not None and new != old
    ]
    if len(then) != len(now) or lost:
        wrong.append(
            f"{template.template_path}: {path} no longer finds {', '.join(lost) or 'its imports'}"
        )
    return wrong


def _doubts(template: Template, before: _Project) -> list[str]:
    well_formed = parses(before.text(template), template.original_path)
    doubts = [
        f"{template.template_path}: it needs {path}, which is not in the package"
        for path in template.needs
    ]
    if well_formed is False:
        doubts.append(f"{template.template_path}: the original does not parse")
    if well_formed is None and language_of(template.original_path):
        doubts.append(
            f"{template.template_path}: no grammar for {template.language} (extra `{EXTRA}` has Python, JavaScript, "
            "TypeScript, Go, Rust, C#, Java)"
        )
    return doubts
