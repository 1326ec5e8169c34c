"""Show a run to a person: a line for each phase on stderr, and the result."""

from __future__ import annotations

import os
import sys
from typing import Any, Final, TextIO

from bridgehead.errors import plural
from bridgehead.flows.template_create.agents import Recommendation
from bridgehead.flows.template_create.phases.p4_templates import TemplateSet
from bridgehead.flows.template_create.phases.p7_agent_texts import EnhancedSet
from bridgehead.flows.template_create.phases.p9_package import Package
from bridgehead.flows.template_create.project.analysis import CodebaseAnalysis
from bridgehead.host.terminal import escape_controls, truncate, width

PHASES: Final = 9


class Progress:
    """Prints a line for each finished phase, but only to a real terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._watched = self._stream.isatty() and os.environ.get("TERM") != "dumb"

    def finished(self, number: int, name: str, summary: str) -> None:
        """Show that phase `number` has ended, with this result."""
        if not self._watched:
            return
        title = name.replace("_", " ")
        text = escape_controls(f"{title}: {summary}", keep="")
        line = f"template-create {number}/{PHASES} {text}"
        self._stream.write(truncate(line, width(self._stream) - 1) + "\n")
        self._stream.flush()


def fallbacks_of(
    analysis: CodebaseAnalysis, recommendation: Recommendation, enhanced: EnhancedSet
) -> tuple[str, ...]:
    """Return where the run had to do without an agent, and why (flows §6)."""
    found = []
    if analysis.fallback_reason:
        reason = analysis.fallback_reason
        found.append(f"codebase_analysis: heuristic analysis ({reason})")
    if recommendation.fallback_reason:
        found.append(f"agent_creation: basic agents ({recommendation.fallback_reason})")
    for reason in dict.fromkeys(enhanced.fallbacks):
        found.append(f"agent_enhancement: basic texts kept ({reason})")
    if enhanced.kept_basic and not enhanced.fallbacks:
        names = ", ".join(enhanced.kept_basic)
        found.append(f"agent_enhancement: basic text kept for {names}")
    return tuple(found)


def summary_of(
    package: Package, templates: TemplateSet, fallbacks: tuple[str, ...]
) -> dict[str, Any]:
    """Return what the command prints."""
    return {
        "template": package.name,
        "output_path": package.path,
        "templates": package.templates,
        "agents": list(package.agents),
        "score": package.score,
        "grade": package.grade,
        "proven": f"{package.proof.proven} of {package.proof.files} files",
        "problems": list(package.proof.problems),
        "not_proven": list(package.proof.unproven),
        "fallbacks": list(fallbacks),
        "warnings": list(templates.warnings),
    }


def analysis_summary(analysis: CodebaseAnalysis) -> str:
    parts = [
        analysis.primary_language,
        analysis.architecture,
        plural(len(analysis.layers), "layer"),
        plural(len(analysis.patterns), "pattern"),
        f"confidence {analysis.overall_confidence:g}",
    ]
    return ", ".join(parts) + _because(analysis.fallback_reason)


def templates_summary(made: TemplateSet) -> str:
    about = f", about {made.entity}" if made.entity else ""
    return plural(len(made.templates), "template") + about


def recommendation_summary(found: Recommendation) -> str:
    new = len(found.create_new)
    existing = len(found.use_existing)
    return f"{new} to make, {existing} exist{_because(found.fallback_reason)}"


def enhancement_summary(enhanced: EnhancedSet) -> str:
    better = len(enhanced.agents) - len(enhanced.kept_basic)
    reasons = "; ".join(dict.fromkeys(enhanced.fallbacks))
    return f"{better} of {len(enhanced.agents)} enhanced{_because(reasons)}"


def package_summary(package: Package) -> str:
    proof = package.proof
    return f"{package.path}, {proof.proven} of {proof.files} files proven"


def _because(reason: str) -> str:
    return f" (fallback: {reason})" if reason else ""
