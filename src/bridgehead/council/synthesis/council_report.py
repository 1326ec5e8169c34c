"""Put a council's report together: findings by class, participants, requirements and
verdict (council §14.5).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final

from bridgehead.contract.looks import Look, LookKind
from bridgehead.contract.report import Output, Usage
from bridgehead.contract.task import Requirement
from bridgehead.contract.words import OutputState, Verdict
from bridgehead.council.attendance import Attendance
from bridgehead.council.calls import sum_known
from bridgehead.council.debate.five_phase import debate_verdict
from bridgehead.council.findings.history import FindingRecord
from bridgehead.council.interfaces import RunInputs
from bridgehead.council.reporting.report import (
    COUNCIL,
    DEBATE,
    DEBATE_FALLBACK,
    STATIC,
    AbortedReport,
    CouncilReport,
    FindingClass,
    FindingEntry,
    Participant,
    RequirementEntry,
    by_class,
)
from bridgehead.council.request.plan import CouncilPlan, is_judged
from bridgehead.council.synthesis.coverage import (
    domain_looks,
    file_looks,
    missing,
    uncovered,
    unseen_files,
    who_looked,
)
from bridgehead.council.synthesis.cross_challenge import COMPLETED
from bridgehead.council.synthesis.finding import CouncilFinding, SeatReport
from bridgehead.council.synthesis.proposals import proposal_entries
from bridgehead.council.synthesis.reported_findings import (
    comparison_entry,
    dismissal_warnings,
    sort_findings,
)
from bridgehead.council.synthesis.synthesis import CrossDebate
from bridgehead.council.synthesis.verdict import council_verdict, stands

UNMET: Final = "unmet"
DISPUTED: Final = "disputed"
MET: Final = "met"
NOT_MENTIONED: Final = "not_mentioned"


def assemble_report(
    plan: CouncilPlan,
    inputs: RunInputs,
    seats: Sequence[SeatReport],
    attendance: Attendance,
    findings: Sequence[CouncilFinding],
    debated: CrossDebate,
    *,
    pending: Sequence[dict[str, str]],
    warnings: Sequence[str],
    at: str,
) -> tuple[CouncilReport, tuple[FindingRecord, ...]]:
    """Return the report on the findings after Stage B, and the history records after this run."""
    task = plan.task
    available = [seat for seat in seats if seat.name in attendance.available]
    waiting = [request["bridge"] for request in pending]
    missed: tuple[Look, ...] = ()
    if is_judged(task.task_type, task.mode):
        missed = _missed(plan, inputs, seats, available, waiting, findings)
    reported = sort_findings(plan, inputs, seats, findings, debated, missed)
    open_findings = reported.open
    unread = tuple(look.on for look in missed if look.kind is LookKind.FILE)
    looked = who_looked(available, task.domains, findings)
    required_missing = missing(plan.require, looked)
    verdict = _verdict(plan, seats, findings, open_findings)
    gate_verdict = _verdict(plan, seats, findings, reported.gated)
    all_warnings = [
        *plan.warnings,
        *warnings,
        *dismissal_warnings(reported.dismissals),
    ]
    all_warnings += [f"required_missing:{name}" for name in required_missing]
    unearned = (*missed, *required_missing)
    report = CouncilReport(
        type=_report_type(plan, seats),
        review_id=plan.review_id,
        verdict=stands(verdict, unearned),
        gate_verdict=stands(gate_verdict, unearned),
        untouched_findings=reported.untouched,
        incomplete=bool(unearned),
        unread=unread,
        not_looked_at=missed,
        looked=looked,
        required_missing=required_missing,
        timestamp=at,
        mode=task.mode,
        task_type=task.task_type,
        bridges_invoked=attendance.invoked,
        bridges_available=attendance.available,
        bridges_skipped=attendance.skipped,
        bridges_pending=tuple(pending),
        auto_skipped_halted_bridges=attendance.auto_skipped,
        partial_coverage=attendance.partial_coverage,
        skip_reasons=dict(attendance.skip_reasons),
        domains_covered=_union(seat.report.domains_covered for seat in available),
        domain_reasons=dict(plan.domain_reasons),
        intensity=task.intensity,
        fallback=plan.options.fallback,
        debate_rounds=debated.rounds,
        multi_source_confirmed=by_class(open_findings, FindingClass.MULTI),
        single_source_findings=by_class(open_findings, FindingClass.SINGLE),
        disputed_findings=by_class(open_findings, FindingClass.DISPUTED),
        integration_findings=by_class(open_findings, FindingClass.INTEGRATION),
        downgraded_findings=reported.downgraded,
        withdrawn_findings=reported.withdrawn,
        dismissed_findings=reported.dismissed,
        comparison=comparison_entry(reported),
        challenge_notes=tuple(note.to_json() for note in debated.notes),
        synthesis_notes=plan.notes,
        stage_b=debated.outcome,
        warnings=tuple(all_warnings),
        council_type=_council_type(seats),
        diversity_sources=_union(seat.report.diversity_sources for seat in available),
        participants=tuple(_participant(seat, task.files) for seat in seats),
        models_used=_union(_models(seat) for seat in available),
        runtimes_used=_distinct(seat.report.runtime or seat.name for seat in available),
        toolchains_used=_distinct(seat.report.toolchain for seat in available),
        exchange_modes_used=_distinct(seat.report.exchange_mode for seat in available),
        debate_layers=_debate_layers(seats, debated),
        requirements=requirement_entries(
            task.requirements, available, reported.standing
        ),
        context_policy=task.context_policy,
        context_overflow=_context_overflow(seats),
        supersedes=None,
        usage=_total_usage([*(seat.report.usage for seat in seats), debated.usage]),
        scope=task.scope_text,
        files=task.files,
        loc=task.loc,
        recommendation=debated.recommendation,
        proposals=proposal_entries(plan, findings, debated),
        contradictions=debated.contradictions,
    )
    return report, reported.records()


def aborted(plan: CouncilPlan, attendance: Attendance, *, at: str) -> AbortedReport:
    """Return the report of a council that came to nothing.

    Seats that were halted and then skipped are listed as halted (council §14.8).
    """
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


def requirement_entries(
    requirements: Sequence[Requirement],
    seats: Iterable[SeatReport],
    standing: Sequence[FindingEntry],
) -> tuple[RequirementEntry, ...]:
    """Return one entry per requirement, in the order of the audit."""
    judgements = _requirement_judgements(seats)
    return tuple(
        RequirementEntry(
            id=requirement.id,
            level=requirement.level.value,
            text=requirement.text,
            state=_requirement_state(judgements.get(requirement.id, set())),
            findings=tuple(
                entry.id for entry in standing if entry.requirement_id == requirement.id
            ),
        )
        for requirement in requirements
    )


def _requirement_judgements(seats: Iterable[SeatReport]) -> dict[str, set[bool]]:
    """Return, by the requirement's id, whether the seats say it is met."""
    judgements: dict[str, set[bool]] = {}
    for seat in seats:
        for output in seat.report.outputs:
            if output.status is OutputState.WITHDRAWN:
                continue
            if isinstance(output.requirement_id, str):
                met = output.met is True
                judgements.setdefault(output.requirement_id, set()).add(met)
    return judgements


def _requirement_state(judgements: set[bool]) -> str:
    if not judgements:
        return NOT_MENTIONED
    if len(judgements) > 1:
        return DISPUTED
    return MET if True in judgements else UNMET


def _verdict(
    plan: CouncilPlan,
    seats: Sequence[SeatReport],
    findings: Sequence[CouncilFinding],
    entries: Sequence[FindingEntry],
) -> Verdict | None:
    """Return the verdict on those findings that the entries name.

    A finding of which nothing that it cites exists is shown and does not count; the look
    that brought it is one in part (coverage.py).
    """
    wanted = {entry.id for entry in entries}
    named = [
        finding
        for finding in findings
        if finding.id in wanted and finding.not_found is None
    ]
    task = plan.task
    if plan.is_debate and is_judged(task.task_type, task.mode):
        outputs: list[Output] = []
        for finding in named:
            outputs.extend(source.output for source in finding.sources)
        return debate_verdict(outputs, plan.preset)
    return council_verdict(
        named,
        task_type=task.task_type,
        mode=task.mode,
        several_seats=several_seats(plan, seats),
    )


def several_seats(plan: CouncilPlan, seats: Sequence[SeatReport]) -> bool:
    """Tell if the table for several seats applies (council §14.4)."""
    if plan.options.fallback or plan.takes_first_available:
        return False
    counting = [
        seat
        for seat in seats
        if seat.report.status == "COMPLETED" and seat.makes_a_council
    ]
    return len(counting) > 1


def _missed(
    plan: CouncilPlan,
    inputs: RunInputs,
    seats: Sequence[SeatReport],
    available: Sequence[SeatReport],
    pending: Sequence[str],
    findings: Sequence[CouncilFinding],
) -> tuple[Look, ...]:
    """Return what nobody able has looked at to the end: files, then domains."""
    on_domains = domain_looks(
        seats,
        plan.task.domains,
        named=plan.options.runtimes,
        pending=pending,
        findings=findings,
    )
    return uncovered([*file_looks(available, inputs.hidden), *on_domains])


def _participant(seat: SeatReport, files: int | None) -> Participant:
    report = seat.report
    unseen = unseen_files(seat)
    return Participant(
        bridge=report.bridge,
        status=report.status.value,
        model_family=report.model_family,
        connection=report.connection_used,
        models=_models(seat),
        outputs=len(report.outputs),
        debate_rounds=report.debate_rounds,
        verdict=stands(report.verdict, unseen),
        confidence=report.confidence,
        usage=report.usage,
        verified=seat.verified,
        remote=report.remote if isinstance(report.remote, dict) else None,
        reason=report.skip_reason or report.halt_reason,
        coverage=_coverage(len(unseen), files),
    )


def _coverage(unseen: int, files: int | None) -> int | None:
    """Return the percentage of files a seat has seen; None if it is all or unknown."""
    if not unseen or not files:
        return None
    return 100 * max(files - unseen, 0) // files


def _models(seat: SeatReport) -> tuple[str, ...]:
    models = seat.report.models_used
    return models if isinstance(models, tuple) else ()


def _council_type(seats: Sequence[SeatReport]) -> str:
    with_models = [
        seat
        for seat in seats
        if seat.report.status == "COMPLETED" and seat.name != STATIC
    ]
    if not with_models:
        return "static-analysis"
    return "multi-runtime-council" if len(with_models) > 1 else "single-runtime-council"


def _report_type(plan: CouncilPlan, seats: Sequence[SeatReport]) -> str:
    if not plan.is_debate:
        return COUNCIL
    # Where nobody was challenged, phases 3 and 4 were skipped (council §17).
    return DEBATE if _any_seat_debated(seats) else DEBATE_FALLBACK


def _debate_layers(
    seats: Sequence[SeatReport], debated: CrossDebate
) -> tuple[str, ...]:
    layers = []
    if _any_seat_debated(seats):
        layers.append("intra-bridge")
    if debated.outcome == COMPLETED:
        layers.append("cross-bridge")
    return tuple(layers)


def _any_seat_debated(seats: Sequence[SeatReport]) -> bool:
    return any(seat.report.debate_rounds for seat in seats)


def _context_overflow(seats: Sequence[SeatReport]) -> tuple[dict[str, Any], ...]:
    overflow: list[dict[str, Any]] = []
    for seat in seats:
        for entry in seat.report.context_overflow:
            overflow.append({"bridge": seat.name, **entry})
    return tuple(overflow)


def _total_usage(usages: Sequence[Usage]) -> Usage:
    # A sum that leaves somebody out would be taken for the whole.
    is_cost_known = not any(usage.calls and usage.cost_usd is None for usage in usages)
    cost = sum_known(usage.cost_usd for usage in usages) if is_cost_known else None
    return Usage(
        calls=sum(usage.calls for usage in usages),
        prompt_chars=sum(usage.prompt_chars for usage in usages),
        reply_chars=sum(usage.reply_chars for usage in usages),
        tokens_in=sum_known(usage.tokens_in for usage in usages),
        tokens_out=sum_known(usage.tokens_out for usage in usages),
        cost_usd=cost,
    )


def _union(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return every entry of the groups once, in order."""
    return tuple(dict.fromkeys(chain.from_iterable(groups)))


def _distinct(values: Iterable[str | None]) -> tuple[str, ...]:
    """Return the values that are there, each once, in order."""
    return tuple(dict.fromkeys(value for value in values if value))
