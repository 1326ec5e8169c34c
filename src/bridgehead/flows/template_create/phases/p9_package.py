"""Phase 9: the whole package, proven and put in its place (flows §11)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridgehead.flows.template_create.agents import Recommendation
from bridgehead.flows.template_create.choices import Choices
from bridgehead.flows.template_create.phases.p2_manifest import (
    Manifest,
    Settings,
    with_contents,
)
from bridgehead.flows.template_create.phases.p4_templates import (
    Origin,
    Proof,
    TemplateSet,
    prove,
)
from bridgehead.flows.template_create.phases.p8_documentation import MAIN_DOCUMENT
from bridgehead.flows.template_create.staging import Staging
from bridgehead.flows.values.codec import to_plain

PROVEN: Final = (
    "A file is proven when, filled in under two other names, it parses "
    "and refers to the same files as before."
)
NOT_RUN: Final = (
    "The project's own build and tests were not run: "
    "`bridgehead template check --build` does that."
)


class IncompletePackage(Exception):
    """The staging directory lacks what earlier phases put there."""

    def __init__(self, missing: Sequence[str]) -> None:
        super().__init__(
            f"the package lacks {', '.join(missing)}: "
            "its staging directory changed while the run was paused"
        )


@dataclass(frozen=True)
class Contents:
    """Everything a package is made of besides its documents and agents, which are on disk."""

    manifest: Manifest
    settings: Settings
    templates: TemplateSet
    recommendation: Recommendation
    fallbacks: tuple[str, ...] = ()
    project_name: str = ""


@dataclass(frozen=True)
class Package:
    """The result of phase 9."""

    path: str
    name: str
    templates: int
    agents: tuple[str, ...]
    score: float | None
    grade: str
    proof: Proof


def assemble(staging: Staging, contents: Contents, choices: Choices) -> Package:
    """Write what is missing, check the whole, and install it. Doing it again changes nothing."""
    used = [agent.name for agent in contents.recommendation.use_existing]
    origin = Origin(
        contents.manifest.language,
        contents.project_name,
        contents.templates.entity,
        choices.author,
    )
    manifest = with_contents(contents.manifest, contents.templates, origin, used)
    document = to_json(manifest)
    if staging.is_installed(document):
        staging.remove_replaced()
        return _proven(Staging.installed(staging.output), contents, manifest)
    files = {
        template.template_path: template.content
        for template in contents.templates.templates
    }
    files["manifest.json"] = document
    files["settings.json"] = to_json(contents.settings)
    staging.write(files)
    package = _proven(staging, contents, manifest)
    if choices.validate:
        text = report(package.proof, contents, manifest.name)
        staging.write({"validation-report.md": text})
    refuse_incomplete(staging, contents)
    staging.install(force=choices.force)
    return package


def report(proof: Proof, contents: Contents, name: str) -> str:
    """Return `validation-report.md`."""
    if proof.score is None:
        headline = "No score: there is no file whose form could be checked."
    else:
        headline = (
            f"**{proof.proven} of {proof.files}** files are proven: "
            f"score **{proof.score:g}** ({proof.grade})."
        )
    parts = [
        f"# Validation of {name}",
        headline,
        PROVEN,
        _listed("What is wrong", proof.problems, "Nothing was found."),
        _listed("What is not proven", proof.unproven, "Every file was proven."),
        _listed(
            "Fallbacks",
            contents.fallbacks,
            "Every agent was asked and its answer was used.",
        ),
        _listed("Warnings", contents.templates.warnings, "None."),
        NOT_RUN,
    ]
    return "\n\n".join(parts) + "\n"


def refuse_incomplete(staging: Staging, contents: Contents) -> None:
    """Raise unless the package holds what its own manifest and documents speak of."""
    agents = [f"agents/{agent.name}.md" for agent in contents.recommendation.create_new]
    templates = [template.template_path for template in contents.templates.templates]
    wanted = ("manifest.json", "settings.json", MAIN_DOCUMENT, *agents, *templates)
    missing = [name for name in wanted if staging.read(name) is None]
    if missing:
        raise IncompletePackage(missing)


def to_json(value: Any) -> str:
    """Return a document of the package, without members that say nothing."""
    plain: dict[str, Any] = {
        key: item for key, item in to_plain(value).items() if item is not None
    }
    return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def _listed(title: str, lines: Sequence[str], otherwise: str) -> str:
    body = "\n".join(f"- {line}" for line in lines) or otherwise
    return f"## {title}\n\n{body}"


def _proven(staging: Staging, contents: Contents, manifest: Manifest) -> Package:
    made = [agent.name for agent in contents.recommendation.create_new]
    proof = prove(
        contents.templates.templates, manifest.origin or Origin(manifest.language, "")
    )
    return Package(
        path=str(staging.output),
        name=manifest.name,
        templates=len(contents.templates.templates),
        agents=tuple(dict.fromkeys((*made, *staging.agents()))),
        score=proof.score,
        grade=proof.grade,
        proof=proof,
    )
