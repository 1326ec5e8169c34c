"""Read a finished package, check it, and make a project or feature from it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path, PurePosixPath
from typing import Final

from bridgehead.flows.errors import FlowMistake
from bridgehead.flows.template_create.phases.p2_manifest import Manifest
from bridgehead.flows.template_create.phases.p4_templates import (
    Origin,
    Proof,
    Template,
    prove,
)
from bridgehead.flows.template_create.phases.p8_documentation import MAIN_DOCUMENT
from bridgehead.flows.template_create.phases.placeholders import (
    filled,
    placeholders_in,
    values_for,
)
from bridgehead.flows.template_create.project.knowledge import KNOWLEDGE
from bridgehead.flows.template_create.project.languages import language_of, words_of
from bridgehead.flows.template_create.staging import Staging
from bridgehead.flows.values.codec import Unfit, from_plain

_RESERVED: Final = frozenset(KNOWLEDGE["words"]["reserved"])


class NotAPackage(FlowMistake):
    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} is not a template package: {reason}",
            hint="`bridgehead flow run template-create` makes one; "
            "`bridgehead template list DIR` finds them",
        )


@dataclass(frozen=True)
class TemplatePackage:
    """A package as it lies on disk."""

    path: Path
    manifest: Manifest
    origin: Origin
    templates: tuple[Template, ...]


@dataclass(frozen=True)
class Made:
    """The result of `template new`."""

    path: Path
    files: tuple[str, ...]
    missing: tuple[str, ...] = ()
    """Files that the new ones refer to, which the package does not have."""


def open_package(path: Path) -> TemplatePackage:
    """Read a package; raise NotAPackage if it is not valid.

    No path in it is trusted.
    """
    staging = Staging.installed(path)
    text = staging.read("manifest.json")
    if text is None:
        raise NotAPackage(path, "it has no manifest.json")
    try:
        manifest: Manifest = from_plain(json.loads(text), Manifest)
    except (ValueError, Unfit) as error:
        raise NotAPackage(path, f"its manifest.json cannot be read ({error})") from None
    if manifest.origin is None:
        raise NotAPackage(
            path,
            "it was made by an earlier version and does not say where its files belong",
        )
    templates = tuple(_templates(staging, manifest, manifest.origin))
    return TemplatePackage(path, manifest, manifest.origin, templates)


def _templates(
    staging: Staging, manifest: Manifest, origin: Origin
) -> Iterator[Template]:
    names = values_for(
        origin.language, origin.project_name, origin.entity, origin.author
    )
    for file in manifest.files:
        content = staging.read(file.template)
        if content is None:
            raise NotAPackage(staging.path, f"{file.template} is missing or not text")
        original = filled(file.path, names)
        yield Template(
            original,
            file.template,
            content,
            placeholders_in(content),
            language=language_of(original) or "",
            path=file.path,
            needs=file.needs,
        )


def packages_below(root: Path) -> Iterator[TemplatePackage]:
    """Yield the packages in a directory and in the directories directly below it."""
    for path in (root, *sorted(root.iterdir())):
        if path.is_symlink() or not path.is_dir():
            continue
        try:
            yield open_package(path)
        except FlowMistake:
            continue


def check(package: TemplatePackage) -> Proof:
    """Fill the package in under other names, and see whether it holds."""
    return prove(package.templates, package.origin)


def make(
    package: TemplatePackage,
    target: Path,
    *,
    name: str,
    entity: str = "",
    author: str = "",
    feature: bool = False,
) -> Made:
    """Write a project below `target`.

    With `feature`, only add the entity's files to an existing project.
    """
    values = _new_values(package, name, entity, author)
    chosen = [t for t in package.templates if not feature or "Entit" in t.path]
    if not chosen:
        raise FlowMistake(
            f"{package.manifest.name} has no files named after its entity; omit "
            "--feature"
        )
    files = {_safe(filled(t.path, values)): filled(t.content, values) for t in chosen}
    if len(files) < len(chosen):
        raise FlowMistake(
            f"with these names, two files of {package.manifest.name} would have the "
            "same path; "
            "choose another --entity"
        )
    if feature:
        _refuse_existing(target, files)
        Staging.installed(target).write(files)
    else:
        for path, text in _documents(package.path):
            files.setdefault(path, filled(text, values))
        _install(target, files)
    missing: set[str] = set()
    for template in chosen:
        missing.update(template.needs)
    missing -= {template.original_path for template in chosen}
    return Made(target, tuple(sorted(files)), tuple(sorted(missing)))


def _install(target: Path, files: dict[str, str]) -> None:
    """Put a new project in its place, complete or not at all."""
    staging = Staging(target, f"new-{os.getpid()}")
    try:
        staging.write(files)
        staging.install(force=False)
    except BaseException:
        shutil.rmtree(staging.path, ignore_errors=True)
        raise


def _documents(package: Path) -> Iterator[tuple[str, str]]:
    """Yield what the package says of its projects, by the path it has in them."""
    staging = Staging.installed(package)
    paths = [package / MAIN_DOCUMENT]
    for folder in (".claude/rules", "agents", "docs"):
        paths += sorted((package / folder).rglob("*.md"))
    for path in paths:
        name = path.relative_to(package).as_posix()
        text = staging.read(name)
        if text is not None:
            yield re.sub("^agents/", ".claude/agents/", name), text


def _new_values(
    package: TemplatePackage, name: str, entity: str, author: str
) -> dict[str, str]:
    origin = package.origin
    template = package.manifest.name
    _refuse_name("--name", name)
    if origin.entity and not entity:
        raise FlowMistake(
            f"{template} is about {origin.entity}; give the entity of the new project",
            hint=f'for example --entity "{origin.entity}" to keep it',
        )
    if entity and not origin.entity:
        raise FlowMistake(f"{template} has no entity to replace; omit --entity")
    if entity:
        _refuse_name("--entity", entity)
    return values_for(origin.language, name, entity, author or package.manifest.author)


def _refuse_name(option: str, value: str) -> None:
    words = words_of(value)
    if not re.fullmatch(r"[ _-]*[A-Za-z][A-Za-z0-9 _-]*", value):
        raise FlowMistake(
            f"{option} {value!r} cannot be a name in code: "
            "letters, digits and spaces, a letter first"
        )
    word = "".join(words)
    if len(words) == 1 and (word in _RESERVED or iskeyword(word)):
        raise FlowMistake(
            f"{option} {value!r} cannot be a name in code: it is a reserved word"
        )


def _refuse_existing(target: Path, files: dict[str, str]) -> None:
    if not target.is_dir():
        raise FlowMistake(
            f"{target} is not a directory; --feature adds files to an existing project"
        )
    there = [name for name in files if os.path.lexists(target / name)]
    if there:
        others = len(there) - 1
        more = f" and {others} more" if others else ""
        raise FlowMistake(
            f"{target / there[0]}{more} already exists; nothing was written"
        )


def _safe(path: str) -> str:
    parts = PurePosixPath(path).parts
    is_inside = parts and not path.startswith("/") and ".." not in parts
    if not is_inside or "\\" in path or not path.isprintable():
        raise FlowMistake(
            f"the package would write to {path!r}, which is not inside a project"
        )
    if parts[0] == ".git":
        raise FlowMistake(f"the package would write to {path!r}, which belongs to git")
    return path
