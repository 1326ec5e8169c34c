"""The report of one seat (council §12): made from what it analysed, or for a seat that was skipped or halted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bridgehead.contract.report import (
    Artifacts,
    BridgeReport,
    DisputedOutput,
    ModelWarning,
    Output,
    Usage,
)
from bridgehead.contract.task import BridgeInput
from bridgehead.contract.verdict import decide_verdict
from bridgehead.contract.words import Confidence, LocalCouncilType, Status
from bridgehead.council.findings.problems import distinct_problems
from bridgehead.council.request.plan import is_judged

EXCERPT_CHARACTERS: Final = 500
CUT_MARK: Final = " [...]"
MODEL_FAMILY: Final = {
    "claude": "anthropic/claude",
    "gemini": "google/gemini",
    "codex": "openai/codex",
    "opencode": "multi-provider",
    "openai": "openai-compatible",
    "static": "static-analysis",
}


def excerpt(text: str, limit: int = EXCERPT_CHARACTERS) -> str:
    """The beginning of `text`, marked when it was cut."""
    stripped = text.strip()
    return stripped if len(stripped) <= limit else stripped[:limit] + CUT_MARK


@dataclass(frozen=True, slots=True)
class SeatFacts:
    """What a report says about the seat itself, whatever its status."""

    name: str
    timeout_seconds: int
    started_at: str
    finished_at: str
    model_family: str | None = None
    connection: str | None = None
    usage: Usage = field(default_factory=Usage)
    prompt_sizes: Mapping[int, int] = field(default_factory=dict)
    model_validation_warnings: tuple[ModelWarning, ...] = ()
    warnings: tuple[str, ...] = ()
    context_overflow: tuple[dict[str, Any], ...] = ()
    unexplored_domains: tuple[str, ...] = ()
    termination_reason: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Analysed:
    """What a COMPLETED seat found, under the names of the report."""

    outputs: tuple[Output, ...]
    confidence: Confidence
    local_council_type: LocalCouncilType
    domains_covered: tuple[str, ...] = ()
    debate_rounds: int = 0
    withdrawn_outputs: tuple[Output, ...] = ()
    disputed_outputs: tuple[DisputedOutput, ...] = ()
    degradation_reason: str | None = None
    diversity_sources: tuple[str, ...] = ()
    runtime: str | None = None
    toolchain: str | None = None
    exchange_mode: str | None = None


def completed_report(
    task: BridgeInput, facts: SeatFacts, found: Analysed
) -> BridgeReport:
    """The report of a seat whose analysis ran; the verdict follows from its outputs alone."""
    judged = is_judged(task.task_type, task.mode)
    verdict = (
        decide_verdict(
            task.task_type, Status.COMPLETED, distinct_problems(found.outputs)
        )
        if judged
        else None
    )
    return BridgeReport(
        **_common(task, facts),
        status=Status.COMPLETED,
        skip_reason=None,
        halt_reason=None,
        halt_message=None,
        verdict=verdict,
        local_council_degraded=found.degradation_reason is not None,
        **{name: getattr(found, name) for name in Analysed.__slots__},
    )


def skipped_report(task: BridgeInput, facts: SeatFacts, reason: str) -> BridgeReport:
    """A seat that could not take part; nobody has to do anything."""
    # The code whole, what follows it no longer than an excerpt; cutting twice changes nothing.
    code, colon, told = reason.partition(": ")
    return BridgeReport(
        **_common(task, facts),
        **_empty(Status.SKIPPED, skip_reason=code + colon + excerpt(told)),
    )


def halted_report(
    task: BridgeInput, facts: SeatFacts, reason: str, message: str
) -> BridgeReport:
    """A seat that needs a person's decision; only the council may turn this into SKIPPED."""
    return BridgeReport(
        **_common(task, facts),
        **_empty(Status.HALTED, halt_reason=reason, halt_message=message),
    )


def decide_confidence(
    *,
    agents_failed: bool,
    domains_missing: bool,
    disputed: int,
    items: int,
    degraded: bool,
    unseen: bool = False,
) -> Confidence:
    """Start high, one step down for each doubt, never below low (council §11)."""
    doubts = [
        agents_failed,
        domains_missing,
        items > 0 and 3 * disputed >= items,
        degraded,
        unseen,
    ]
    steps = (Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW)
    return steps[min(sum(doubts), len(steps) - 1)]


def raised_facts(output: Output, round_number: int) -> dict[str, Any]:
    """What the log says of an item when it is raised."""
    names = ("id", "type", "severity", "title", "domain", "agent")
    return {**{name: getattr(output, name) for name in names}, "round": round_number}


def closing_facts(report: BridgeReport, at: str) -> dict[str, Any]:
    """What the last line of a seat's log says."""
    return {
        "status": report.status.value,
        "verdict": report.verdict,
        "output_count": len(report.outputs),
        "reason": report.skip_reason or report.halt_reason,
        "timestamp": at,
    }


def _common(task: BridgeInput, facts: SeatFacts) -> dict[str, Any]:
    return {
        "bridge": facts.name,
        "model_family": facts.model_family or MODEL_FAMILY.get(facts.name, "unknown"),
        "session_id": task.session_id,
        "task_type": task.task_type,
        "capability_profile": task.capability_profile,
        "connection_used": facts.connection,
        **{
            f"prompt_size_chars_r{number}": facts.prompt_sizes.get(number)
            for number in range(1, 5)
        },
        "model_validation_warnings": facts.model_validation_warnings,
        "timeout_s": facts.timeout_seconds,
        "started_at": facts.started_at,
        "finished_at": facts.finished_at,
        "usage": facts.usage,
        "termination_reason": facts.termination_reason,
        "unexplored_domains": facts.unexplored_domains,
        "context_overflow": facts.context_overflow,
        "warnings": facts.warnings,
        "artifacts": Artifacts(),
        **facts.extra,
    }


def _empty(status: Status, **reasons: str) -> dict[str, Any]:
    nothing: dict[str, Any] = {
        "domains_covered": (),
        "outputs": (),
        "withdrawn_outputs": (),
        "disputed_outputs": (),
        "diversity_sources": (),
    }
    nulls = [
        "skip_reason",
        "halt_reason",
        "halt_message",
        "debate_rounds",
        "verdict",
        "confidence",
        "local_council_type",
        "local_council_degraded",
        "degradation_reason",
        "runtime",
        "toolchain",
        "exchange_mode",
    ]
    return {"status": status, **dict.fromkeys(nulls), **nothing, **reasons}
