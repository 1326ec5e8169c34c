"""Phase 9: the whole package, checked and put in its place (flows §11)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bridgehead.flows.codec import to_plain
from bridgehead.flows.template_create.agents import Recommendation
from bridgehead.flows.template_create.choices import Choices
from bridgehead.flows.template_create.documentation import MAIN_DOCUMENT
from bridgehead.flows.template_create.manifest import Manifest, with_contents
from bridgehead.flows.template_create.quality import Quality, assess, report
from bridgehead.flows.template_create.settings import Settings
from bridgehead.flows.template_create.staging import Staging
from bridgehead.flows.template_create.templates import TemplateSet

REQUIRED_FILES = ("manifest.json", "settings.json", MAIN_DOCUMENT)


class IncompletePackage(Exception):
    """The staging directory lacks what earlier phases put there."""

    def __init__(self, missing: Sequence[str]) -> None:
        super().__init__(
            f"the package lacks {', '.join(missing)}: its staging directory was changed while the run was paused"
        )


@dataclass(frozen=True)
class Contents:
    """Everything a package is made of besides its documents and agents, which are on disk."""

    manifest: Manifest
    settings: Settings
    templates: TemplateSet
    recommendation: Recommendation
    fallbacks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Package:
    """The result of phase 9."""

    path: str
    name: str
    templates: int
    agents: tuple[str, ...]
    score: float
    grade: str
    scores: dict[str, float]


def assemble(staging: Staging, contents: Contents, choices: Choices) -> Package:
    """Write what is missing, check the whole, and install it. Doing it again changes nothing."""
    manifest = _final_manifest(contents)
    document = to_json(manifest)
    if staging.is_installed(document):
        staging.remove_replaced()
        return _assessed(Staging.installed(staging.output), contents, manifest)
    files = {template.template_path: template.content for template in contents.templates.templates}
    staging.write({**files, "manifest.json": document, "settings.json": to_json(contents.settings)})
    package = _assessed(staging, contents, manifest)
    if choices.validate:
        text = report(Quality(package.scores), contents.templates, contents.fallbacks, manifest.name)
        staging.write({"validation-report.md": text})
    refuse_incomplete(staging, contents)
    staging.install(force=choices.force)
    return package


def refuse_incomplete(staging: Staging, contents: Contents) -> None:
    """A package must hold what its own manifest and documents speak of."""
    agents = [f"agents/{agent.name}.md" for agent in contents.recommendation.create_new]
    templates = [template.template_path for template in contents.templates.templates]
    missing = [name for name in (*REQUIRED_FILES, *agents, *templates) if staging.read(name) is None]
    if missing:
        raise IncompletePackage(missing)


def to_json(value: Any) -> str:
    """A document of the package: without members that say nothing."""
    plain: dict[str, Any] = {key: item for key, item in to_plain(value).items() if item is not None}
    return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def _final_manifest(contents: Contents) -> Manifest:
    used = {name for template in contents.templates.templates for name in template.placeholders}
    return with_contents(contents.manifest, used, [a.name for a in contents.recommendation.use_existing])


def _assessed(staging: Staging, contents: Contents, manifest: Manifest) -> Package:
    made = [agent.name for agent in contents.recommendation.create_new]
    on_disk = staging.agents()
    agents = {name: on_disk.get(name) for name in dict.fromkeys((*made, *on_disk))}
    quality = assess(manifest, contents.templates, staging.read(MAIN_DOCUMENT), agents)
    return Package(
        path=str(staging.output),
        name=manifest.name,
        templates=len(contents.templates.templates),
        agents=tuple(agents),
        score=quality.overall,
        grade=quality.grade,
        scores=quality.scores,
    )
