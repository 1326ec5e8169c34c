"""Put a council's report together: findings by class, requirements, dismissals, comparison with earlier runs,
verdict (§14.5, §25).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from bridgehead.contract.report import Usage
from bridgehead.contract.task import Requirement
from bridgehead.contract.verdict import JUDGED_TASKS
from bridgehead.contract.words import OutputState, Status, Verdict
from bridgehead.council.attendance import Attendance
from bridgehead.council.calls import sum_known
from bridgehead.council.debate.five_phase import debate_verdict
from bridgehead.council.findings.acted_on import acted_on
from bridgehead.council.findings.dismissals import (
    Dismissable,
    Dismissed,
    apply_dismissals,
    read_entry,
)
from bridgehead.council.findings.fingerprint import place_fingerprints
from bridgehead.council.findings.history import (
    Comparison,
    FindingRecord,
    FoundAgain,
    Run,
    carry_forward,
    compare,
)
from bridgehead.council.findings.tree import Tree
from bridgehead.council.interfaces import RunInputs
from bridgehead.council.reporting.report import (
    COUNCIL,
    DEBATE,
    DEBATE_FALLBACK,
    STATIC,
    AbortedReport,
    ComparedFinding,
    CouncilReport,
    DismissedFinding,
    Downgraded,
    FindingClass,
    FindingEntry,
    Participant,
    RequirementEntry,
    RunComparison,
    Withdrawn,
    anchor_of,
    by_class,
)
from bridgehead.council.request.plan import CouncilPlan, is_judged
from bridgehead.council.synthesis.cross_challenge import COMPLETED, FAILED
from bridgehead.council.synthesis.finding import CALLER, CouncilFinding, SeatReport
from bridgehead.council.synthesis.finding_entry import finding_entry
from bridgehead.council.synthesis.proposals import proposal_entries
from bridgehead.council.synthesis.synthesis import CrossDebate
from bridgehead.council.synthesis.verdict import council_verdict

UNMET, DISPUTED, MET, NOT_MENTIONED = "unmet", "disputed", "met", "not_mentioned"
# By what the seats say, met or not; who says both is disputed.
_STATES: Final = {
    frozenset[bool](): NOT_MENTIONED,
    frozenset({True}): MET,
    frozenset({False}): UNMET,
}


def apply_to_entries(
    plan: CouncilPlan, inputs: RunInputs, standing: Sequence[FindingEntry], tree: Tree
) -> Dismissed:
    """What the dismissals file says about the findings that stand."""
    candidates = [
        Dismissable(
            entry.id,
            entry.severity,
            entry.title,
            entry.fingerprints,
            anchor_of(entry),
            place_fingerprints(entry.evidence_check, entry.type, tree, inputs.renames),
        )
        for entry in standing
    ]
    return apply_dismissals(
        plan.dismissals.tables, candidates, tree, inputs.renames, plan.today
    )


def counts_for_gate(
    entry: FindingEntry, plan: CouncilPlan, dismissed: Dismissed
) -> bool:
    """Whether a gate looks at a finding: a change cannot quietly silence its own review (council §24)."""
    number = dismissed.dismissed.get(entry.id)
    if number is None:
        return True
    return plan.dismissals.is_new(number) and not plan.options.allow_new_dismissals


def dismissed_finding(
    entry: FindingEntry, plan: CouncilPlan, number: int
) -> DismissedFinding:
    """A dismissed finding with the reason that stands in the file."""
    table = read_entry(plan.dismissals.tables[number])
    if table is None:
        raise AssertionError("an entry that applies can be read")
    return DismissedFinding(
        id=entry.id,
        title=entry.title,
        severity=entry.severity,
        fingerprint=entry.fingerprint,
        reason=table.reason,
        author=table.author,
        date=table.date.isoformat(),
        expires=table.expires.isoformat() if table.expires else None,
        dismissed_in_this_change=plan.dismissals.is_new(number),
        finding=entry,
    )


def dismissal_warnings(dismissed: Dismissed) -> tuple[str, ...]:
    """Entries without effect, by their place in the file."""
    return tuple(
        f"dismissal_{status.status}:{number + 1}"
        for number, status in enumerate(dismissed.entries)
        if status.status in ("invalid", "expired")
    )


def annotated(
    entry: FindingEntry,
    plan: CouncilPlan,
    dismissed: Dismissed,
    comparison: Comparison | None,
) -> FindingEntry:
    """The entry with its state since the last run, and a word on dismissals that come near it."""
    changes: dict[str, Any] = {}
    if comparison is not None:
        changes["state"] = comparison.current[entry.id].state
    note = dismissed.notes.get(entry.id)
    if (
        note is not None
        and (told := read_entry(plan.dismissals.tables[note.entry])) is not None
    ):
        changes["dismissal_note"] = (
            f"dismissed before ({told.title}, {told.reason}, {told.author}, {told.date}): {note.why}"
        )
    proposed = dismissed.proposed.get(entry.id)
    if (
        proposed is not None
        and (told := read_entry(plan.dismissals.tables[proposed])) is not None
    ):
        changes["resembles_dismissed"] = (
            f"{told.title} ({told.reason}, {told.author}, {told.date})"
        )
    return msgspec.structs.replace(entry, **changes)


def compare_entries(
    plan: CouncilPlan,
    inputs: RunInputs,
    seats: Sequence[SeatReport],
    standing: Sequence[FindingEntry],
    tree: Tree,
) -> tuple[Comparison | None, Run]:
    """What became of earlier findings, for task types where that means something; and this run as history sees it."""
    completed = [seat for seat in seats if seat.report.status == "COMPLETED"]
    run = Run(
        findings={entry.id: _found(entry) for entry in standing},
        seats_completed=frozenset(seat.name for seat in completed),
        files=frozenset(tree.paths),
        domains_covered=frozenset(
            domain for seat in completed for domain in seat.report.domains_covered
        ),
        scope=plan.task.scope_entries,
    )
    if plan.task.task_type not in JUDGED_TASKS:
        return None, run
    return compare(plan.records, run, tree, inputs.renames), run


def _found(entry: FindingEntry) -> FoundAgain:
    anchor = anchor_of(entry)
    own_first = dict.fromkeys((entry.fingerprint, *entry.fingerprints))
    return FoundAgain(
        type=entry.type,
        title=entry.title,
        description=entry.description,
        fingerprints=tuple(own_first),
        requirement_id=entry.requirement_id,
        path=anchor.path if anchor else None,
        lines=anchor.lines if anchor else None,
        seats=tuple(dict.fromkeys(source.bridge for source in entry.source_findings)),
        domains=entry.domains,
    )


def comparison_entry(
    plan: CouncilPlan, comparison: Comparison | None, standing: Sequence[FindingEntry]
) -> RunComparison:
    """The comparison as the report lists it; empty when there is nothing to compare with."""
    if comparison is None or (plan.previous_review_id is None and not plan.records):
        return RunComparison(previous_review_id=plan.previous_review_id)
    lists: dict[str, list[ComparedFinding]] = {
        name: [] for name in ("new", "persistent", "fixed", "regressed", "unknown")
    }
    for entry in standing:
        told = ComparedFinding(
            id=entry.id, fingerprint=entry.fingerprint, title=entry.title
        )
        lists[comparison.current[entry.id].state].append(told)
    known = {record.key: record for record in plan.records}
    for key, state in comparison.previous.items():
        if state.state in ("fixed", "unknown"):
            how = state.how or state.why
            # The key of a record may count on (`-2`); the fingerprint it was last seen under is the name to show.
            fingerprint, title = known[key].fingerprints[0], known[key].title
            lists[state.state].append(
                ComparedFinding(id=None, fingerprint=fingerprint, title=title, how=how)
            )
    return RunComparison(
        previous_review_id=plan.previous_review_id,
        **{name: tuple(found) for name, found in lists.items()},
    )


def requirement_entries(
    requirements: Sequence[Requirement],
    seats: Iterable[SeatReport],
    standing: Sequence[FindingEntry],
) -> tuple[RequirementEntry, ...]:
    """One entry per requirement, in the order of the audit."""
    said: dict[str, set[bool]] = {}
    for seat in seats:
        for output in seat.report.outputs:
            if (
                isinstance(output.requirement_id, str)
                and output.status is not OutputState.WITHDRAWN
            ):
                said.setdefault(output.requirement_id, set()).add(output.met is True)
    return tuple(
        RequirementEntry(
            id=one.id,
            level=one.level.value,
            text=one.text,
            state=_STATES.get(frozenset(said.get(one.id, ())), DISPUTED),
            findings=tuple(
                entry.id for entry in standing if entry.requirement_id == one.id
            ),
        )
        for one in requirements
    )


def _dismissed_fingerprints(plan: CouncilPlan) -> frozenset[str]:
    entries = [read_entry(table) for table in plan.dismissals.tables]
    return frozenset(entry.fingerprint for entry in entries if entry is not None)


def families_of(seats: Sequence[SeatReport]) -> frozenset[str]:
    """The model families that took part to the end."""
    return frozenset(
        seat.report.model_family
        for seat in seats
        if seat.confirms and seat.report.status is Status.COMPLETED
    )


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
    """The report on the findings after Stage B, and the history records as they are after this run."""
    tree = inputs.tree or Tree.of({})
    failed = debated.outcome == FAILED
    known = acted_on(plan.records, _dismissed_fingerprints(plan))
    entries = [
        finding_entry(
            one,
            inputs.tree,
            inputs.renames,
            debated.notes,
            coordinator_failed=failed,
            looked=len(families_of(seats)),
            acted_on=known,
        )
        for one in findings
    ]
    standing = [entry for entry in entries if entry.cls is not FindingClass.WITHDRAWN]
    dismissed = apply_to_entries(plan, inputs, standing, tree)
    comparison, run = compare_entries(plan, inputs, seats, standing, tree)
    standing = [annotated(entry, plan, dismissed, comparison) for entry in standing]
    apart = {entry.id for entry in standing if not touches(entry, inputs)}
    left = [
        entry
        for entry in standing
        if entry.id not in dismissed.dismissed and entry.id not in apart
    ]
    gated = [
        entry
        for entry in standing
        if counts_for_gate(entry, plan, dismissed) and entry.id not in apart
    ]
    used = [seat for seat in seats if seat.report.bridge in attendance.available]
    unread = (
        unread_files(used) if is_judged(plan.task.task_type, plan.task.mode) else ()
    )
    report = CouncilReport(
        type=_report_type(plan, seats),
        review_id=plan.review_id,
        verdict=_unless_unread(_verdict(plan, seats, findings, left), unread),
        gate_verdict=_unless_unread(_verdict(plan, seats, findings, gated), unread),
        untouched_findings=tuple(
            entry
            for entry in standing
            if entry.id in apart and entry.id not in dismissed.dismissed
        ),
        incomplete=bool(unread),
        unread=unread,
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
        domain_reasons=dict(plan.domain_reasons),
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
            if one.severity_original is not None
            and one.cls is not FindingClass.WITHDRAWN
        ),
        withdrawn_findings=tuple(
            Withdrawn(
                id=entry.id, title=entry.title, reason=one.reason or "", finding=entry
            )
            for entry, one in zip(entries, findings, strict=True)
            if one.cls is FindingClass.WITHDRAWN
        ),
        dismissed_findings=tuple(
            dismissed_finding(entry, plan, dismissed.dismissed[entry.id])
            for entry in standing
            if entry.id in dismissed.dismissed
        ),
        comparison=comparison_entry(plan, comparison, left),
        challenge_notes=tuple(note.to_json() for note in debated.notes),
        synthesis_notes=(
            *plan.notes,
            *([f"read by no seat: {', '.join(unread)}"] if unread else []),
        ),
        stage_b=debated.outcome,
        warnings=(
            *plan.warnings,
            *warnings,
            *dismissal_warnings(dismissed),
            *([f"unread_files:{len(unread)}"] if unread else []),
        ),
        council_type=_council_type(seats),
        diversity_sources=_union(seat.report.diversity_sources for seat in used),
        participants=tuple(_participant(seat, plan.task.files) for seat in seats),
        models_used=_union(_models(seat) for seat in used),
        runtimes_used=_union((seat.report.runtime or seat.name,) for seat in used),
        toolchains_used=_union(
            (seat.report.toolchain,) for seat in used if seat.report.toolchain
        ),
        exchange_modes_used=_union(
            (seat.report.exchange_mode,) for seat in used if seat.report.exchange_mode
        ),
        debate_layers=_layers(seats, debated),
        requirements=requirement_entries(plan.task.requirements, used, standing),
        context_policy=plan.task.context_policy,
        context_overflow=tuple(
            {"bridge": seat.name, **one}
            for seat in seats
            for one in seat.report.context_overflow
        ),
        supersedes=None,
        usage=_total_usage([*(seat.report.usage for seat in seats), debated.usage]),
        scope=plan.task.scope_text,
        files=plan.task.files,
        loc=plan.task.loc,
        recommendation=debated.recommendation,
        proposals=proposal_entries(plan, findings, debated),
        contradictions=debated.contradictions,
    )
    records = (
        carry_forward(plan.records, run, comparison)
        if comparison is not None
        else plan.records
    )
    return report, records


def aborted(plan: CouncilPlan, attendance: Attendance, *, at: str) -> AbortedReport:
    """The report of a council that came to nothing; converted seats are listed as halted (council §14.8)."""
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


def _verdict(
    plan: CouncilPlan,
    seats: Sequence[SeatReport],
    findings: Sequence[CouncilFinding],
    entries: Sequence[FindingEntry],
) -> Verdict | None:
    """The verdict on those findings that the entries name."""
    wanted = {entry.id for entry in entries}
    named = [finding for finding in findings if finding.id in wanted]
    task = plan.task
    if plan.is_debate and is_judged(task.task_type, task.mode):
        return debate_verdict(
            [source.output for finding in named for source in finding.sources],
            plan.preset,
        )
    several = several_seats(plan, seats)
    return council_verdict(
        named, task_type=task.task_type, mode=task.mode, several_seats=several
    )


def several_seats(plan: CouncilPlan, seats: Sequence[SeatReport]) -> bool:
    """Whether the table for several seats applies (council §14.4)."""
    counting = [
        seat
        for seat in seats
        if seat.report.status == "COMPLETED" and seat.makes_a_council
    ]
    return (
        len(counting) > 1
        and not plan.options.fallback
        and not plan.takes_first_available
    )


def touches(entry: FindingEntry, inputs: RunInputs) -> bool:
    """Whether a finding is about the reviewed change: on its lines, or at no line at all."""
    anchor = anchor_of(entry)
    if inputs.touched is None or anchor is None:
        return True
    first, last = anchor.lines
    return any(
        first <= end and start <= last
        for start, end in inputs.touched.get(anchor.path, ())
    )


def unread_files(seats: Sequence[SeatReport]) -> tuple[str, ...]:
    """What none of these seats has seen."""
    unseen = [_unseen(seat) for seat in seats if seat.name != CALLER]
    return (
        tuple(path for path in unseen[0] if all(path in other for other in unseen))
        if unseen
        else ()
    )


def _unseen(seat: SeatReport) -> tuple[str, ...]:
    return (
        seat.report.unseen_files if isinstance(seat.report.unseen_files, tuple) else ()
    )


def _unless_unread(verdict: Verdict | None, unread: Sequence[str]) -> Verdict | None:
    """Nobody passes what nobody has read; what is bad already stays so."""
    return None if unread and verdict is Verdict.PASS else verdict


def _participant(seat: SeatReport, files: int | None) -> Participant:
    report = seat.report
    unseen = len(_unseen(seat))
    return Participant(
        bridge=report.bridge,
        status=report.status.value,
        model_family=report.model_family,
        connection=report.connection_used,
        models=_models(seat),
        outputs=len(report.outputs),
        debate_rounds=report.debate_rounds,
        verdict=_unless_unread(report.verdict, _unseen(seat)),
        confidence=report.confidence,
        usage=report.usage,
        verified=seat.verified,
        remote=report.remote if isinstance(report.remote, dict) else None,
        reason=report.skip_reason or report.halt_reason,
        coverage=100 * max(files - unseen, 0) // files if unseen and files else None,
    )


def _models(seat: SeatReport) -> tuple[str, ...]:
    models = seat.report.models_used
    return models if isinstance(models, tuple) else ()


def _council_type(seats: Sequence[SeatReport]) -> str:
    models = [
        seat
        for seat in seats
        if seat.report.status == "COMPLETED" and seat.name != STATIC
    ]
    if not models:
        return "static-analysis"
    return "multi-runtime-council" if len(models) > 1 else "single-runtime-council"


def _report_type(plan: CouncilPlan, seats: Sequence[SeatReport]) -> str:
    if not plan.is_debate:
        return COUNCIL
    # Where nobody was challenged phases 3 and 4 were skipped (council §17).
    debated = any(seat.report.debate_rounds for seat in seats)
    return DEBATE if debated else DEBATE_FALLBACK


def _layers(seats: Sequence[SeatReport], debated: CrossDebate) -> tuple[str, ...]:
    inside = any(seat.report.debate_rounds for seat in seats)
    layers = (
        "intra-bridge" if inside else "",
        "cross-bridge" if debated.outcome == COMPLETED else "",
    )
    return tuple(filter(None, layers))


def _total_usage(used: Sequence[Usage]) -> Usage:
    # A sum that leaves somebody out would be taken for the whole.
    is_known = not any(one.calls and one.cost_usd is None for one in used)
    return Usage(
        calls=sum(one.calls for one in used),
        prompt_chars=sum(one.prompt_chars for one in used),
        reply_chars=sum(one.reply_chars for one in used),
        tokens_in=sum_known(one.tokens_in for one in used),
        tokens_out=sum_known(one.tokens_out for one in used),
        cost_usd=sum_known(one.cost_usd for one in used) if is_known else None,
    )


def _union(groups: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(entry for group in groups for entry in group))
