"""What is said about a run: the summary of each phase, the fallbacks it took, and the result at the end. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridgehead.flows.template_create.agent_enhancement import EnhancedSet
from bridgehead.flows.template_create.agents import Recommendation
from bridgehead.flows.template_create.analysis import CodebaseAnalysis
from bridgehead.flows.template_create.package import Package
from bridgehead.flows.template_create.templates import TemplateSet


def fallbacks_of(
    analysis: CodebaseAnalysis, recommendation: Recommendation, enhanced: EnhancedSet
) -> tuple[str, ...]:
    """Where the run had to do without an agent, and why; never silent (flows §6)."""
    found = []
    if analysis.fallback_reason:
        found.append(f"codebase_analysis: heuristic analysis ({analysis.fallback_reason})")
    if recommendation.fallback_reason:
        found.append(f"agent_creation: basic agents ({recommendation.fallback_reason})")
    reasons = dict.fromkeys(enhanced.fallbacks)  # several requests may have failed for one reason
    found += [f"agent_enhancement: basic texts kept ({reason})" for reason in reasons]
    if enhanced.kept_basic and not enhanced.fallbacks:
        found.append(f"agent_enhancement: basic text kept for {', '.join(enhanced.kept_basic)}")
    return tuple(found)


def summary_of(package: Package, templates: TemplateSet, fallbacks: tuple[str, ...]) -> dict[str, Any]:
    """What the command prints."""
    return {
        "template": package.name,
        "output_path": package.path,
        "templates": package.templates,
        "agents": list(package.agents),
        "score": package.score,
        "grade": package.grade,
        "fallbacks": list(fallbacks),
        "issues": list(templates.issues),
        "warnings": list(templates.warnings),
    }


def told(summary: Callable[[Any], str], value: Any) -> str:
    """A phase restored from a state file may have no result to speak of."""
    return "restored" if value is None else summary(value)


def told_analysis(analysis: CodebaseAnalysis) -> str:
    return (
        f"{analysis.primary_language}, {analysis.architecture}, {len(analysis.layers)} layers, "
        f"{len(analysis.patterns)} patterns, confidence {analysis.overall_confidence:g}"
        f"{because(analysis.fallback_reason)}"
    )


def told_templates(made: TemplateSet) -> str:
    return f"{len(made.templates)} templates, completeness {made.completeness_score:g} of 10"


def told_enhancement(enhanced: EnhancedSet) -> str:
    better = len(enhanced.agents) - len(enhanced.kept_basic)
    return (
        f"{better} of {len(enhanced.agents)} enhanced{because('; '.join(dict.fromkeys(enhanced.fallbacks)))}"
    )


def because(reason: str) -> str:
    return f" (fallback: {reason})" if reason else ""
