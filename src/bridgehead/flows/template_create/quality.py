"""Phase 9, second half: score a package as it lies there, and say so in a report (flows §11). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bridgehead.flows.template_create.front_matter import front_matter_of
from bridgehead.flows.template_create.manifest import Manifest
from bridgehead.flows.template_create.placeholders import badly_cased
from bridgehead.flows.template_create.templates import TemplateSet

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
class Quality:
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
) -> Quality:
    """The scores of a package. `agents`: the files by name; None for one that is missing or cannot be read."""
    scores = {
        "completeness": templates.completeness_score,
        "placeholder consistency": _placeholders(templates),
        "pattern fidelity": _fidelity(templates),
        "documentation": _documentation(main_document, agents),
        "agents": _agents(main_document or "", agents),
        "manifest": _manifest(manifest, templates),
    }
    return Quality({name: round(max(0.0, min(10.0, score)), 2) for name, score in scores.items()})


def report(quality: Quality, templates: TemplateSet, fallbacks: Sequence[str], name: str) -> str:
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
