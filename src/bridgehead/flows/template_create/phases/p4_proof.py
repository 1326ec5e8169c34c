"""Phase 4, second half: fill the templates twice under other names and see whether they hold (flows §11). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bridgehead.flows.template_create.phases.p4_templates import Template
from bridgehead.flows.template_create.phases.placeholders import filled, values_for
from bridgehead.flows.template_create.project.languages import language_of
from bridgehead.flows.template_create.project.references import References
from bridgehead.flows.template_create.project.syntax import EXTRA, parses

# Names of one, two and three words: each shows other mistakes.
TRIALS: Final = (("Acme Web Shop", "Order Line"), ("Lighthouse", "Keeper"))
GRADES: Final = ((9.5, "A+"), (9.0, "A"), (8.5, "A-"), (8.0, "B+"), (7.0, "B"), (6.0, "C"))


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
        return "" if score is None else next((grade for least, grade in GRADES if score >= least), "F")


def prove(templates: Sequence[Template], origin: Origin) -> Proof:
    """Every file parses and refers to the same files as in the original, whatever the new project is called."""
    before = _Project(templates, values_for(origin.language, origin.project_name, origin.entity, origin.author))
    trials = [
        _Project(templates, values_for(origin.language, name, entity if origin.entity else ""))
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
        if wrong or doubts or parses(before.text(template), template.original_path) is not None:
            counted += 1
            proven += not (wrong or doubts)
    return Proof(counted, proven, tuple(problems), tuple(unproven))


class _Project:
    """The files that come of the templates under one set of names."""

    def __init__(self, templates: Sequence[Template], values: Mapping[str, str]) -> None:
        self._path_of = {t.template_path: filled(t.path or t.original_path, values) for t in templates}
        self._texts = {self._path_of[t.template_path]: filled(t.content, values) for t in templates}
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
    if parses(before.text(template), template.original_path) and not parses(after.text(template), path):
        wrong.append(f"{template.template_path}: {path} does not parse")
    then, now = before.references(template), after.references(template)
    lost = [old for old, new in zip(then, now, strict=False) if old is not None and new != old]
    if len(then) != len(now) or lost:
        wrong.append(f"{template.template_path}: {path} no longer finds {', '.join(lost) or 'its imports'}")
    return wrong


def _doubts(template: Template, before: _Project) -> list[str]:
    well_formed = parses(before.text(template), template.original_path)
    doubts = [f"{template.template_path}: it needs {path}, which is not in the package" for path in template.needs]
    if well_formed is False:
        doubts.append(f"{template.template_path}: the original does not parse")
    if well_formed is None and language_of(template.original_path):
        doubts.append(
            f"{template.template_path}: no grammar for {template.language} (extra `{EXTRA}` has Python, JavaScript, "
            "TypeScript, Go, Rust, C#, Java)"
        )
    return doubts
