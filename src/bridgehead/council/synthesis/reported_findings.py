"""Sort a council's findings for its report: what stands, what was dismissed or withdrawn,
and what became of the findings of earlier runs (council §14.5, §24, §25).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bridgehead.contract.looks import Look, LookKind
from bridgehead.contract.verdict import JUDGED_TASKS
from bridgehead.contract.words import Status
from bridgehead.council.findings.acted_on import acted_on
from bridgehead.council.findings.dismissals import (
    Dismissable,
    Dismissal,
    Dismissed,
    apply_dismissals,
    code_of,
    read_entry,
)
from bridgehead.council.findings.evidence import Anchor, check_evidence
from bridgehead.council.findings.fingerprint import (
    cited_anchors,
    is_weak,
    place_identity,
)
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
    STATIC,
    ComparedFinding,
    DismissedFinding,
    Downgraded,
    FindingClass,
    FindingEntry,
    RunComparison,
    Withdrawn,
    anchor_of,
)
from bridgehead.council.request.plan import CouncilPlan
from bridgehead.council.synthesis.coverage import doubtful_files
from bridgehead.council.synthesis.cross_challenge import FAILED
from bridgehead.council.synthesis.finding import CouncilFinding, SeatReport
from bridgehead.council.synthesis.finding_entry import finding_entry
from bridgehead.council.synthesis.synthesis import CrossDebate


@dataclass(frozen=True, slots=True)
class ReportedFindings:
    """The findings of one run after Stage B, as its report sorts them."""

    plan: CouncilPlan
    inputs: RunInputs
    findings: Sequence[CouncilFinding]
    entries: Sequence[FindingEntry]
    """One for each finding, in the same order."""
    standing: Sequence[FindingEntry]
    """The entries that were not withdrawn."""
    dismissals: Dismissed
    comparison: Comparison | None
    """None for task types where earlier findings mean nothing."""
    run: Run

    @property
    def open(self) -> list[FindingEntry]:
        """Return what the report lists: nobody dismissed it, and it is about the change."""
        return [
            entry
            for entry in self.standing
            if not self._is_dismissed(entry) and touches(entry, self.inputs)
        ]

    @property
    def gated(self) -> list[FindingEntry]:
        """Return what a gate looks at."""
        return [
            entry
            for entry in self.standing
            if self._counts_for_gate(entry) and touches(entry, self.inputs)
        ]

    @property
    def untouched(self) -> tuple[FindingEntry, ...]:
        """Return what stands on lines that the change leaves alone."""
        return tuple(
            entry
            for entry in self.standing
            if not self._is_dismissed(entry) and not touches(entry, self.inputs)
        )

    @property
    def downgraded(self) -> tuple[Downgraded, ...]:
        """Return the severity before and after of what the debate lowered."""
        downgraded = []
        for finding in self.findings:
            if finding.severity_original is None:
                continue
            if finding.cls is FindingClass.WITHDRAWN:
                continue
            entry = Downgraded(
                finding.id,
                finding.severity_original,
                finding.severity,
                finding.reason or "",
            )
            downgraded.append(entry)
        return tuple(downgraded)

    @property
    def withdrawn(self) -> tuple[Withdrawn, ...]:
        """Return what the debate withdrew, with the reason."""
        return tuple(
            Withdrawn(
                id=entry.id,
                title=entry.title,
                reason=finding.reason or "",
                finding=entry,
            )
            for entry, finding in zip(self.entries, self.findings, strict=True)
            if finding.cls is FindingClass.WITHDRAWN
        )

    @property
    def dismissed(self) -> tuple[DismissedFinding, ...]:
        """Return what the dismissals file dismisses, with the reason that stands there."""
        return tuple(
            _dismissed_finding(entry, self.plan, self.dismissals.dismissed[entry.id])
            for entry in self.standing
            if self._is_dismissed(entry)
        )

    def records(self) -> tuple[FindingRecord, ...]:
        """Return the history records as they are after this run."""
        if self.comparison is None:
            return self.plan.records
        return carry_forward(self.plan.records, self.run, self.comparison)

    def _is_dismissed(self, entry: FindingEntry) -> bool:
        return entry.id in self.dismissals.dismissed

    def _counts_for_gate(self, entry: FindingEntry) -> bool:
        """Tell if a gate looks at it: a change cannot silence its own review (council §24)."""
        number = self.dismissals.dismissed.get(entry.id)
        if number is None:
            return True
        if self.plan.options.allow_new_dismissals:
            return False
        return self.plan.dismissals.is_new(number)


def sort_findings(
    plan: CouncilPlan,
    inputs: RunInputs,
    seats: Sequence[SeatReport],
    findings: Sequence[CouncilFinding],
    debated: CrossDebate,
    missed: Sequence[Look] = (),
) -> ReportedFindings:
    """Return the findings after Stage B, held against the dismissals file and earlier runs.

    Of what was `missed` nothing is known: no earlier finding there is fixed.
    """
    tree = inputs.tree or Tree.of({})
    known = acted_on(plan.records, _dismissed_fingerprints(plan))
    entries = [
        finding_entry(
            finding,
            inputs.tree,
            inputs.renames,
            debated.notes,
            coordinator_failed=debated.outcome == FAILED,
            looked=len(families_of(seats)),
            acted_on=known,
        )
        for finding in findings
    ]
    occurrences = {
        entry.id: occurrences_of(finding, entry, tree)
        for finding, entry in zip(findings, entries, strict=True)
    }
    entries = [
        msgspec.structs.replace(
            entry,
            occurrences=_current(_names(occurrences[entry.id], entry, tree, inputs)),
        )
        for entry in entries
    ]
    standing = [entry for entry in entries if entry.cls is not FindingClass.WITHDRAWN]
    dismissals = _apply_dismissals_file(plan, inputs, standing, tree, occurrences)
    run = _run_of(plan, seats, standing, tree, missed)
    comparison = None
    if plan.task.task_type in JUDGED_TASKS:
        comparison = compare(plan.records, run, tree, inputs.renames)
    return ReportedFindings(
        plan=plan,
        inputs=inputs,
        findings=findings,
        entries=entries,
        standing=[
            _annotated(entry, plan, dismissals, comparison) for entry in standing
        ],
        dismissals=dismissals,
        comparison=comparison,
        run=run,
    )


def _dismissed_fingerprints(plan: CouncilPlan) -> frozenset[str]:
    entries = [read_entry(table) for table in plan.dismissals.tables]
    return frozenset(entry.fingerprint for entry in entries if entry is not None)


def families_of(seats: Sequence[SeatReport]) -> frozenset[str]:
    """Return the model families that took part to the end."""
    return frozenset(
        seat.report.model_family
        for seat in seats
        if seat.confirms and seat.report.status is Status.COMPLETED
    )


def touches(entry: FindingEntry, inputs: RunInputs) -> bool:
    """Tell if a finding is about the reviewed change: on its lines, or at no line at all."""
    anchor = anchor_of(entry)
    if inputs.touched is None or anchor is None:
        return True
    first, last = anchor.lines
    return any(
        first <= end and start <= last
        for start, end in inputs.touched.get(anchor.path, ())
    )


def dismissal_warnings(dismissals: Dismissed) -> tuple[str, ...]:
    """Return a warning for each entry of the file that has no effect, by its place there."""
    return tuple(
        f"dismissal_{entry.status}:{number}"
        for number, entry in enumerate(dismissals.entries, start=1)
        if entry.status in ("invalid", "expired")
    )


def comparison_entry(reported: ReportedFindings) -> RunComparison:
    """Return the comparison as the report lists it; empty if there is nothing to compare with."""
    plan = reported.plan
    comparison = reported.comparison
    has_earlier_run = plan.previous_review_id is not None or bool(plan.records)
    if comparison is None or not has_earlier_run:
        return RunComparison(previous_review_id=plan.previous_review_id)
    lists: dict[str, list[ComparedFinding]] = {
        "new": [],
        "persistent": [],
        "fixed": [],
        "regressed": [],
        "unknown": [],
    }
    for entry in reported.open:
        current = ComparedFinding(
            id=entry.id, fingerprint=entry.fingerprint, title=entry.title
        )
        lists[comparison.current[entry.id].state].append(current)
    records = {record.key: record for record in plan.records}
    for key, state in comparison.previous.items():
        if state.state not in ("fixed", "unknown"):
            continue
        # The key of a record may count on (`-2`); the fingerprint it was last seen
        # under is the name to show.
        earlier = ComparedFinding(
            id=None,
            fingerprint=records[key].fingerprints[0],
            title=records[key].title,
            how=state.how or state.why,
        )
        lists[state.state].append(earlier)
    return RunComparison(
        previous_review_id=plan.previous_review_id,
        **{name: tuple(findings) for name, findings in lists.items()},
    )


def occurrences_of(
    finding: CouncilFinding, entry: FindingEntry, tree: Tree
) -> list[Anchor]:
    """Return where the same defect is.

    Static analysis lists every place of it. What a model cites besides is context, unless
    it is the same line once more.
    """
    found: list[Anchor] = []
    for source in finding.sources:
        if source.seat.name == STATIC:
            check = check_evidence(source.output.evidence, tree)
            found += cited_anchors(check.to_json())
    anchor = anchor_of(entry)
    if anchor is not None:
        own = code_of(anchor, tree, 1)
        cited = cited_anchors(entry.evidence_check)
        found += [anchor, *(one for one in cited if code_of(one, tree, 1) == own)]
    return found


def _current(places: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(names[0] for names in places)


def _names(
    anchors: Sequence[Anchor], entry: FindingEntry, tree: Tree, inputs: RunInputs
) -> tuple[tuple[str, ...], ...]:
    """Return the names of these places, each place once."""
    found = (
        place_identity(anchor, entry.type, tree, inputs.renames) for anchor in anchors
    )
    return tuple(
        dict.fromkeys(one.all for one in found if not is_weak(one.fingerprint))
    )


def _apply_dismissals_file(
    plan: CouncilPlan,
    inputs: RunInputs,
    standing: Sequence[FindingEntry],
    tree: Tree,
    occurrences: Mapping[str, Sequence[Anchor]],
) -> Dismissed:
    candidates = [
        Dismissable(
            entry.id,
            entry.severity,
            entry.title,
            entry.fingerprints,
            anchor_of(entry),
            _names(cited_anchors(entry.evidence_check), entry, tree, inputs),
            _names(occurrences[entry.id], entry, tree, inputs),
        )
        for entry in standing
    ]
    return apply_dismissals(
        plan.dismissals.tables, candidates, tree, inputs.renames, plan.today
    )


def _dismissed_finding(
    entry: FindingEntry, plan: CouncilPlan, number: int
) -> DismissedFinding:
    dismissal = read_entry(plan.dismissals.tables[number])
    if dismissal is None:
        raise AssertionError("an entry that applies can be read")
    return DismissedFinding(
        id=entry.id,
        title=entry.title,
        severity=entry.severity,
        fingerprint=entry.fingerprint,
        reason=dismissal.reason,
        author=dismissal.author,
        date=dismissal.date.isoformat(),
        expires=dismissal.expires.isoformat() if dismissal.expires else None,
        dismissed_in_this_change=plan.dismissals.is_new(number),
        finding=entry,
    )


def _annotated(
    entry: FindingEntry,
    plan: CouncilPlan,
    dismissals: Dismissed,
    comparison: Comparison | None,
) -> FindingEntry:
    """Return the entry with its state since the last run and a note on dismissals near it."""
    changes: dict[str, Any] = {}
    if comparison is not None:
        changes["state"] = comparison.current[entry.id].state
    note = dismissals.notes.get(entry.id)
    if note is not None:
        before = _dismissal(plan, note.entry)
        if before is not None:
            changes["dismissal_note"] = (
                f"dismissed before ({before.title}, {before.reason}, "
                f"{before.author}, {before.date}): {note.why}"
            )
    alike = _dismissal(plan, dismissals.proposed.get(entry.id))
    if alike is not None:
        changes["resembles_dismissed"] = (
            f"{alike.title} ({alike.reason}, {alike.author}, {alike.date})"
        )
    return msgspec.structs.replace(entry, **changes)


def _dismissal(plan: CouncilPlan, number: int | None) -> Dismissal | None:
    """Return the entry at this place of the dismissals file, if it can be read."""
    if number is None:
        return None
    return read_entry(plan.dismissals.tables[number])


def _run_of(
    plan: CouncilPlan,
    seats: Sequence[SeatReport],
    standing: Sequence[FindingEntry],
    tree: Tree,
    missed: Sequence[Look],
) -> Run:
    """Return this run as the history sees it."""
    completed = [seat for seat in seats if seat.report.status == "COMPLETED"]
    domains: set[str] = set()
    for seat in completed:
        domains.update(seat.report.domains_covered)
    return Run(
        findings={entry.id: _found(entry) for entry in standing},
        seats_completed=frozenset(seat.name for seat in completed),
        files=frozenset(tree.paths),
        domains_covered=frozenset(domains),
        unlooked_files=doubtful_files(seats).union(_of_kind(missed, LookKind.FILE)),
        unlooked_domains=frozenset(_of_kind(missed, LookKind.DOMAIN)),
        scope=plan.task.scope_entries,
    )


def _of_kind(missed: Sequence[Look], kind: LookKind) -> list[str]:
    return [look.on for look in missed if look.kind is kind]


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
