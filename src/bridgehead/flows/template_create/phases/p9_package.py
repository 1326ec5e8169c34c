"""Phase 9: the whole package, checked, scored and put in its place (flows §11)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridgehead.flows.template_create.agents import Recommendation, front_matter_of
from bridgehead.flows.template_create.choices import Choices
from bridgehead.flows.template_create.phases.p2_manifest import Manifest, with_contents
from bridgehead.flows.template_create.phases.p3_settings import Settings
from bridgehead.flows.template_create.phases.p4_templates import TemplateSet
from bridgehead.flows.template_create.phases.p8_documentation import MAIN_DOCUMENT
from bridgehead.flows.template_create.phases.placeholders import badly_cased
from bridgehead.flows.template_create.staging import Staging
from bridgehead.flows.values.codec import to_plain

WEIGHTS: Final = {
    "completeness": 0.5,
    "placeholder consistency": 0.1,
    "pattern fidelity": 0.1,
    "documentation": 0.1,
    "agents": 0.1,
    "manifest": 0.1,
}
GRADES: Final = ((9.5, "A+"), (9.0, "A"), (8.5, "A-"), (8.0, "B+"), (7.0, "B"), (6.0, "C"))
PRODUCTION_READY: Final = 8.0
_WORDS: Final = ("architecture", "technology stack", "quality", "pattern")


@dataclass(frozen=True)
class PackageQuality:
    """Six scores of 0 to 10 and what they come to."""

    scores: dict[str, float]

    @property
    def overall(self) -> float:
        return round(sum(self.scores[name] * weight for name, weight in WEIGHTS.items()), 1)

    @property
    def grade(self) -> str:
        return next((grade for least, grade in GRADES if self.overall >= least), "F")


def assess(
    manifest: Manifest, templates: TemplateSet, main_document: str | None, agents: Mapping[str, str | None]
) -> PackageQuality:
    """The scores of a package. `agents`: the files by name; None for one that is missing or cannot be read."""
    scores = {
        "completeness": templates.completeness_score,
        "placeholder consistency": _placeholders(templates),
        "pattern fidelity": _fidelity(templates),
        "documentation": _documentation(main_document, agents),
        "agents": _agents(main_document or "", agents),
        "manifest": _manifest(manifest, templates),
    }
    return PackageQuality({name: round(max(0.0, min(10.0, score)), 2) for name, score in scores.items()})


def report(quality: PackageQuality, templates: TemplateSet, fallbacks: Sequence[str], name: str) -> str:
    """`validation-report.md`."""
    ready = "ready for production" if quality.overall >= PRODUCTION_READY else "not ready for production"
    rows = [f"| {part} | {quality.scores[part]:g} | {weight:g} |" for part, weight in WEIGHTS.items()]
    parts = [
        f"# Validation of {name}",
        f"Overall **{quality.overall:g} of 10**, grade **{quality.grade}**: {ready}.",
        "\n".join(["| part | score | weight |", "| --- | --- | --- |", *rows]),
        _listed("Fallbacks", fallbacks, "Every agent was asked and its answer was used."),
        _listed(
            "What is missing", templates.issues, "Nothing that the names of the files would let one expect."
        ),
        _listed("Warnings", templates.warnings, "None."),
    ]
    return "\n\n".join(parts) + "\n"


def _listed(title: str, lines: Sequence[str], otherwise: str) -> str:
    body = "\n".join(f"- {line}" for line in lines) or otherwise
    return f"## {title}\n\n{body}"


def _placeholders(made: TemplateSet) -> float:
    if not made.templates:
        return 10.0
    violations = sum(
        len(badly_cased(template.content)) for template in made.templates if template.placeholders
    )
    return 10 - min(3.0, 3 * violations / len(made.templates))


def _fidelity(made: TemplateSet) -> float:
    first = sorted(made.templates, key=lambda template: template.template_path)[:5]
    if not first:
        return 0.0
    scores = [
        10
        - (0 if template.placeholders else 2)
        - (1 if len(template.content) < 50 else 0)
        - (2 if template.quality_score < 7 else 0)
        for template in first
    ]
    return sum(scores) / len(scores)


def _documentation(text: str | None, agents: Mapping[str, str | None]) -> float:
    if text is None:
        return 0.0
    score = 10.0 - (3 if len(text) < 500 else 0)
    score -= sum(1 for word in _WORDS if word not in text.lower())
    score -= 0 if "```" in text else 2
    named = [name for name in agents if name in text]
    if agents:
        score -= 2 if not named else 1 if len(named) < len(agents) else 0
    return score


def _agents(text: str, agents: Mapping[str, str | None]) -> float:
    score = 10.0
    for name, content in agents.items():
        if content is None:
            score -= 2
        elif front_matter_of(content) is None:
            score -= 1
        score -= 0 if name in text else 0.5
    return score


def _manifest(manifest: Manifest, made: TemplateSet) -> float:
    score = 10.0 - 2 * sum(
        1 for value in (manifest.name, manifest.language, manifest.architecture) if not value
    )
    used = {name for template in made.templates for name in template.placeholders}
    score -= min(2.0, 0.5 * len(set(manifest.placeholders) - used))
    score -= 0 if manifest.patterns else 1
    return score - (0 if 1 <= manifest.complexity <= 10 else 1)


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
        text = report(PackageQuality(package.scores), contents.templates, contents.fallbacks, manifest.name)
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
