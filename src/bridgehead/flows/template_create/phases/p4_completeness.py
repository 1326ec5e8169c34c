"""Phase 4, second half: whether the templates cover what can be done with each entity (flows §11). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from bridgehead.flows.template_create.phases.p4_templates import Template, TemplateSet
from bridgehead.flows.template_create.project.languages import pascal, words_of

OPERATION_WORDS: Final = {
    "Create": ("create", "add", "insert", "new", "post"),
    "Read": ("get", "query", "list", "find", "fetch", "read", "retrieve"),
    "Update": ("update", "edit", "modify", "put", "patch"),
    "Delete": ("delete", "remove", "destroy"),
    "List": ("list", "getall", "query", "search"),
}
CRUD: Final = ("Create", "Read", "Update", "Delete")
# Of two operations that share a word the first has it, so that List is left with Search.
_OPERATION_OF: Final = {
    word: operation for operation, words in reversed(OPERATION_WORDS.items()) for word in words
}
LAYERS: Final = {
    "Domain": ("domain", "core"),
    "UseCases": ("usecases", "application"),
    "Web": ("web", "api", "endpoints"),
    "Infrastructure": ("infrastructure", "persistence"),
}
_LAYER_OF: Final = {fragment: layer for layer, fragments in LAYERS.items() for fragment in fragments}
UTILITY_DIRECTORIES: Final = frozenset(
    ("upload", "scripts", "bin", "tools", "migrations", "seeds", "fixtures", "data", "test", "tests")
)
UTILITY_PREFIXES: Final = ("upload-", "migrate-", "seed-", "script-", "tool-")
# Which sibling a missing operation is cloned from, best first.
_SIBLINGS: Final = {
    "Create": ("Update", "Read", "Delete"),
    "Read": ("Create", "Update", "Delete"),
    "Update": ("Create", "Read", "Delete"),
    "Delete": ("Update", "Create", "Read"),
}
_ROLE_WORDS: Final = frozenset(
    "handler endpoint command query validator request response service usecase controller all by id".split()
)


@dataclass(frozen=True)
class Operation:
    """A template that does one thing with one entity."""

    entity: str
    operation: str
    layer: str
    template: Template


@dataclass(frozen=True)
class Issue:
    """Something that is missing."""

    kind: str
    severity: str
    entity: str
    operation: str
    layer: str

    def __str__(self) -> str:
        if self.kind == "incomplete_crud":
            return f"{self.severity}: {self.entity} has no {self.operation} template"
        return f"{self.severity}: {self.operation} of {self.entity} is missing in {self.layer}"


def check_completeness(made: TemplateSet) -> TemplateSet:
    """The set with missing operations cloned from their siblings, and a score for what it then covers."""
    operations = [found for template in made.templates if (found := operation_of(template))]
    missing = [*incomplete_crud(operations), *layer_asymmetry(operations)]
    clones = [clone for issue in missing if (clone := clone_for(issue, operations)) is not None]
    taken = {template.template_path for template in made.templates}
    added = tuple(clone for clone in clones if clone.template_path not in taken)
    left = [str(issue) for issue in missing if clone_for(issue, operations) is None]
    templates = (*made.templates, *added)
    return replace(
        made,
        templates=templates,
        warnings=(*made.warnings, *(f"{clone.template_path} was made from its sibling" for clone in added)),
        completeness_score=score(len(templates), len(left)),
        issues=tuple(left),
    )


def operation_of(template: Template) -> Operation | None:
    """What a template does with what; None for utilities and for files whose names do not say."""
    found = PurePosixPath(template.original_path)
    directories = [part.lower() for part in found.parts[:-1]]
    if UTILITY_DIRECTORIES & set(directories) or found.name.lower().startswith(UTILITY_PREFIXES):
        return None
    words = words_of(found.name.split(".")[0])
    if len(words) < 2 or words[0] not in _OPERATION_OF:
        return None
    entity = pascal(" ".join(_singular(word) for word in words[1:] if word not in _ROLE_WORDS))
    return Operation(entity, _OPERATION_OF[words[0]], _layer(directories), template) if entity else None


def _layer(directories: Sequence[str]) -> str:
    """The layer that the innermost directory names, itself or in a part of its name: `shop.usecases`, `use_cases`."""
    fragments = [
        fragment for name in reversed(directories) for fragment in name.replace("_", "").split(".")[::-1]
    ]
    return next((_LAYER_OF[fragment] for fragment in fragments if fragment in _LAYER_OF), "")


def incomplete_crud(operations: Sequence[Operation]) -> list[Issue]:
    """An entity with two operations or more should have all of CRUD, in each layer that has any."""
    issues = []
    for entity in dict.fromkeys(found.entity for found in operations):
        present = {found.operation for found in operations if found.entity == entity}
        if len(present) >= 2:
            layer = next(found.layer for found in operations if found.entity == entity)
            lacking = [operation for operation in CRUD if operation not in present]
            issues += [Issue("incomplete_crud", "high", entity, operation, layer) for operation in lacking]
    return issues


def layer_asymmetry(operations: Sequence[Operation]) -> list[Issue]:
    """What can be done should be reachable, and what is reachable should be done somewhere."""
    inside = {(found.entity, found.operation) for found in operations if found.layer == "UseCases"}
    outside = {(found.entity, found.operation) for found in operations if found.layer == "Web"}
    if not inside or not outside:
        return []
    unreachable = [Issue("layer_asymmetry", "high", *pair, "Web") for pair in sorted(inside - outside)]
    undone = [Issue("layer_asymmetry", "medium", *pair, "UseCases") for pair in sorted(outside - inside)]
    return [*unreachable, *undone]


def clone_for(issue: Issue, operations: Sequence[Operation]) -> Template | None:
    """The missing template made from the sibling most like it. Asymmetry between layers cannot be mended so."""
    if issue.kind != "incomplete_crud":
        return None
    siblings = {found.operation: found for found in operations if found.entity == issue.entity}
    source = next((siblings[name] for name in _SIBLINGS[issue.operation] if name in siblings), None)
    return None if source is None else _renamed(source, issue.operation)


def score(generated: int, recommended: int) -> float:
    """10 × what is there / what should be."""
    expected = generated + recommended
    return 10.0 if expected == 0 else round(max(0.0, min(10.0, 10 * generated / expected)), 2)


def _renamed(source: Operation, operation: str) -> Template:
    template = source.template
    name = PurePosixPath(template.original_path).name
    old = words_of(name)[0]
    new = OPERATION_WORDS[operation][0]

    def rename(text: str) -> str:
        return text.replace(old.capitalize(), new.capitalize()).replace(old, new)

    path = PurePosixPath(template.template_path)
    return replace(
        template,
        template_path=str(path.with_name(rename(path.name))),
        content=rename(template.content),
        purpose=f"{operation} of {source.entity}, made after {name}",
        quality_score=min(template.quality_score, 7.0),
    )


def _singular(word: str) -> str:
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word
