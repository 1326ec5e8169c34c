"""Put a council's report together: findings by class, dismissals, comparison with earlier runs, verdict (§14.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bridgehead.contract.report import Usage
from bridgehead.contract.words import Verdict
from bridgehead.council.council_verdict import council_verdict
from bridgehead.council.finding_entry import by_class, finding_entry
from bridgehead.council.findings.history import Record, carry_forward
from bridgehead.council.findings.tree import Tree
from bridgehead.council.five_phase import debate_verdict
from bridgehead.council.halted import Attendance
from bridgehead.council.joint import STATIC, JointFinding, SeatReport
from bridgehead.council.layer_one import CrossDebate
from bridgehead.council.modes import is_judged
from bridgehead.council.plan import CouncilPlan
from bridgehead.council.proposal_report import told_proposals
from bridgehead.council.report import (
    COUNCIL,
    DEBATE,
    DEBATE_FALLBACK,
    AbortedReport,
    CouncilReport,
    Downgraded,
    FindingClass,
    FindingEntry,
    Participant,
    Withdrawn,
)
from bridgehead.council.report_identity import (
    annotated,
    apply_to_entries,
    compare_entries,
    counts_for_gate,
    dismissal_warnings,
    dismissed_finding,
    told_comparison,
)
from bridgehead.council.requirements import told_requirements
from bridgehead.council.stage_b import COMPLETED, FAILED
from bridgehead.council.surroundings import Surroundings


@dataclass(frozen=True, slots=True)
class Assembled:
    """The report, and the history records as they are after this run."""

    report: CouncilReport
    records: tuple[Record, ...]


def assemble_report(
    plan: CouncilPlan,
    around: Surroundings,
    seats: Sequence[SeatReport],
    attendance: Attendance,
    findings: Sequence[JointFinding],
    debated: CrossDebate,
    *,
    pending: Sequence[dict[str, str]],
    warnings: Sequence[str],
    at: str,
) -> Assembled:
    """The report on the findings after Stage B."""
    tree = around.tree or Tree.of({})
    failed = debated.outcome == FAILED
    entries = [finding_entry(one, around.tree, around.renames, coordinator_failed=failed) for one in findings]
    standing = [entry for entry in entries if entry.cls is not FindingClass.WITHDRAWN]
    dismissed = apply_to_entries(plan, around, standing, tree)
    comparison, run = compare_entries(plan, around, seats, standing, tree)
    standing = [annotated(entry, plan, dismissed, comparison) for entry in standing]
    left = [entry for entry in standing if entry.id not in dismissed.dismissed]
    tasks = _Verdicts(plan, seats, findings)
    used = [seat for seat in seats if seat.report.bridge in attendance.available]
    report = CouncilReport(
        type=_report_type(plan, seats),
        review_id=plan.review_id,
        verdict=tasks.of(left),
        gate_verdict=tasks.of([entry for entry in standing if counts_for_gate(entry, plan, dismissed)]),
        timestamp=at,
        mode=plan.task.mode,
        task_type=plan.task.task_type,
        bridges_invoked=attendance.invoked,
        bridges_available=attendance.available,
        bridges_skipped=attendance.skipped,
        bridges_pending=tuple(pending),
        auto_skipped_halted_bridges=attendance.auto_skipped,
        partial_coverage=attendance.partial_coverage,
        skip_reasons=dict(attendance.skip_reasons),
        domains_covered=_union(seat.report.domains_covered for seat in used),
        intensity=plan.task.intensity,
        fallback=plan.options.fallback,
        debate_rounds=debated.rounds,
        multi_source_confirmed=by_class(left, FindingClass.MULTI),
        single_source_findings=by_class(left, FindingClass.SINGLE),
        disputed_findings=by_class(left, FindingClass.DISPUTED),
        integration_findings=by_class(left, FindingClass.INTEGRATION),
        downgraded_findings=tuple(
            Downgraded(one.id, one.severity_original, one.severity, one.reason or "")
            for one in findings
            if one.severity_original is not None and one.cls is not FindingClass.WITHDRAWN
        ),
        withdrawn_findings=tuple(
            Withdrawn(id=entry.id, title=entry.title, reason=one.reason or "", finding=entry)
            for entry, one in zip(entries, findings, strict=True)
            if one.cls is FindingClass.WITHDRAWN
        ),
        dismissed_findings=tuple(
            dismissed_finding(entry, plan, dismissed.dismissed[entry.id])
            for entry in standing
            if entry.id in dismissed.dismissed
        ),
        comparison=told_comparison(plan, comparison, standing),
        challenge_notes=tuple(note.to_json() for note in debated.notes),
        synthesis_notes=plan.notes,
        stage_b=debated.outcome,
        warnings=(*plan.warnings, *warnings, *dismissal_warnings(dismissed)),
        council_type=_council_type(seats),
        diversity_sources=_union(seat.report.diversity_sources for seat in used),
        participants=tuple(map(_participant, seats)),
        models_used=_union(_models(seat) for seat in used),
        runtimes_used=_union((seat.report.runtime or seat.bridge,) for seat in used),
        toolchains_used=_union((seat.report.toolchain,) for seat in used if seat.report.toolchain),
        exchange_modes_used=_union(
            (seat.report.exchange_mode,) for seat in used if seat.report.exchange_mode
        ),
        debate_layers=_layers(seats, debated),
        requirements=told_requirements(plan.task.requirements, used, standing),
        context_policy=plan.task.context_policy,
        context_overflow=tuple(
            {"bridge": seat.bridge, **one} for seat in seats for one in seat.report.context_overflow
        ),
        supersedes=None,
        usage=_total_usage([*(seat.report.usage for seat in seats), debated.usage]),
        scope=plan.task.scope_text,
        files=plan.task.files,
        loc=plan.task.loc,
        recommendation=debated.recommendation,
        proposals=told_proposals(plan, findings, debated),
        contradictions=debated.contradictions,
    )
    records = carry_forward(plan.records, run, comparison) if comparison is not None else plan.records
    return Assembled(report, records)


def aborted(plan: CouncilPlan, attendance: Attendance, *, at: str) -> AbortedReport:
    """The report of a council that came to nothing; converted bridges are listed as halted (council §14.8)."""
    return AbortedReport(
        type=COUNCIL,
        status="ABORTED",
        review_id=plan.review_id,
        abort_reason=attendance.abort_reason or "",
        bridges_attempted=attendance.invoked,
        bridges_skipped=attendance.skipped_by_themselves,
        bridges_halted=attendance.halted,
        skip_reasons=dict(attendance.skip_reasons),
        auto_skipped_halted_bridges=attendance.auto_skipped,
        partial_coverage=attendance.partial_coverage,
        timestamp=at,
    )


@dataclass(frozen=True, slots=True)
class _Verdicts:
    plan: CouncilPlan
    seats: Sequence[SeatReport]
    findings: Sequence[JointFinding]

    def of(self, entries: Sequence[FindingEntry]) -> Verdict | None:
        """The verdict on those findings that the entries name."""
        wanted = {entry.id for entry in entries}
        findings = [finding for finding in self.findings if finding.id in wanted]
        task = self.plan.task
        if self.plan.is_debate and is_judged(task.task_type, task.mode):
            outputs = [source.output for finding in findings for source in finding.sources]
            return debate_verdict(outputs, self.plan.preset)
        return council_verdict(
            findings,
            task_type=self.plan.task.task_type,
            mode=self.plan.task.mode,
            several_bridges=several_bridges(self.plan, self.seats),
        )


def several_bridges(plan: CouncilPlan, seats: Sequence[SeatReport]) -> bool:
    """Whether the table for several bridges applies (council §14.4)."""
    counting = [seat for seat in seats if seat.report.status == "COMPLETED" and seat.makes_a_council]
    return len(counting) > 1 and not plan.options.fallback and not plan.takes_first_available


def _participant(seat: SeatReport) -> Participant:
    report = seat.report
    return Participant(
        bridge=report.bridge,
        status=report.status.value,
        model_family=report.model_family,
        connection=report.connection_used,
        models=_models(seat),
        outputs=len(report.outputs),
        debate_rounds=report.debate_rounds,
        verdict=report.verdict,
        confidence=report.confidence,
        usage=report.usage,
        verified=seat.verified,
        remote=report.remote if isinstance(report.remote, dict) else None,
        reason=report.skip_reason or report.halt_reason,
    )


def _models(seat: SeatReport) -> tuple[str, ...]:
    models = seat.report.models_used
    return models if isinstance(models, tuple) else ()


def _council_type(seats: Sequence[SeatReport]) -> str:
    completed = [seat for seat in seats if seat.report.status == "COMPLETED"]
    models = [seat for seat in completed if seat.bridge != STATIC]
    if not models:
        return "static-analysis"
    return "multi-runtime-council" if len(models) > 1 else "single-runtime-council"


def _report_type(plan: CouncilPlan, seats: Sequence[SeatReport]) -> str:
    if not plan.is_debate:
        return COUNCIL
    # Without messaging phases 3 and 4 were skipped (council §17).
    debated = any(seat.report.dispatch_mode == "agent-teams" for seat in seats)
    return DEBATE if debated else DEBATE_FALLBACK


def _layers(seats: Sequence[SeatReport], debated: CrossDebate) -> tuple[str, ...]:
    inside = any(seat.report.debate_rounds for seat in seats)
    layers = ("intra-bridge" if inside else "", "cross-bridge" if debated.outcome == COMPLETED else "")
    return tuple(filter(None, layers))


def _total_usage(used: Sequence[Usage]) -> Usage:
    def total(name: str) -> Any:
        known = [getattr(usage, name) for usage in used if getattr(usage, name) is not None]
        return sum(known) if known else None

    return Usage(
        calls=total("calls") or 0,
        prompt_chars=total("prompt_chars") or 0,
        reply_chars=total("reply_chars") or 0,
        tokens_in=total("tokens_in"),
        tokens_out=total("tokens_out"),
        cost_usd=total("cost_usd"),
    )


def _union(groups: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(entry for group in groups for entry in group))
