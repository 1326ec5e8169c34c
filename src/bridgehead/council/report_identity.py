"""A council's findings against what is known from before: dismissals of the project, findings of earlier runs (§25)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from bridgehead.contract.verdict import JUDGED_TASKS
from bridgehead.council.finding_entry import anchor_of
from bridgehead.council.findings.dismissals import Dismissable, Dismissed, apply_dismissals, read_entry
from bridgehead.council.findings.history import Comparison, FoundAgain, Run, compare
from bridgehead.council.findings.tree import Tree
from bridgehead.council.joint import SeatReport
from bridgehead.council.plan import CouncilPlan
from bridgehead.council.report import ComparedFinding, DismissedFinding, FindingEntry, RunComparison
from bridgehead.council.surroundings import Surroundings


def apply_to_entries(
    plan: CouncilPlan, around: Surroundings, standing: Sequence[FindingEntry], tree: Tree
) -> Dismissed:
    """What the dismissals file says about the findings that stand."""
    candidates = [
        Dismissable(entry.id, entry.severity, entry.title, entry.fingerprints, anchor_of(entry))
        for entry in standing
    ]
    return apply_dismissals(plan.dismissals.tables, candidates, tree, around.renames, plan.today)


def counts_for_gate(entry: FindingEntry, plan: CouncilPlan, dismissed: Dismissed) -> bool:
    """Whether a gate looks at a finding: a change cannot quietly silence its own review (council §24)."""
    number = dismissed.dismissed.get(entry.id)
    if number is None:
        return True
    return plan.dismissals.is_new(number) and not plan.options.allow_new_dismissals


def dismissed_finding(entry: FindingEntry, plan: CouncilPlan, number: int) -> DismissedFinding:
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
    entry: FindingEntry, plan: CouncilPlan, dismissed: Dismissed, comparison: Comparison | None
) -> FindingEntry:
    """The entry with its state since the last run, and a word on dismissals that come near it."""
    changes: dict[str, Any] = {}
    if comparison is not None:
        changes["state"] = comparison.current[entry.id].state
    note = dismissed.notes.get(entry.id)
    if note is not None and (told := read_entry(plan.dismissals.tables[note.entry])) is not None:
        changes["dismissal_note"] = (
            f"dismissed before ({told.title}, {told.reason}, {told.author}, {told.date}): {note.why}"
        )
    proposed = dismissed.proposed.get(entry.id)
    if proposed is not None and (told := read_entry(plan.dismissals.tables[proposed])) is not None:
        changes["resembles_dismissed"] = f"{told.title} ({told.reason}, {told.author}, {told.date})"
    return msgspec.structs.replace(entry, **changes)


def compare_entries(
    plan: CouncilPlan,
    around: Surroundings,
    seats: Sequence[SeatReport],
    standing: Sequence[FindingEntry],
    tree: Tree,
) -> tuple[Comparison | None, Run]:
    """What became of earlier findings, for task types where that means something; and this run as history sees it."""
    completed = [seat for seat in seats if seat.report.status == "COMPLETED"]
    run = Run(
        findings={entry.id: _found(entry) for entry in standing},
        seats_completed=frozenset(seat.bridge for seat in completed),
        files=frozenset(tree.paths),
        domains_covered=frozenset(domain for seat in completed for domain in seat.report.domains_covered),
        scope=plan.task.scope_entries,
    )
    if plan.task.task_type not in JUDGED_TASKS:
        return None, run
    return compare(plan.records, run, tree, around.renames), run


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


def told_comparison(
    plan: CouncilPlan, comparison: Comparison | None, standing: Sequence[FindingEntry]
) -> RunComparison:
    """The comparison as the report lists it; empty when there is nothing to compare with."""
    if comparison is None or (plan.previous_review_id is None and not plan.records):
        return RunComparison(previous_review_id=plan.previous_review_id)
    lists: dict[str, list[ComparedFinding]] = {
        name: [] for name in ("new", "persistent", "fixed", "regressed", "unknown")
    }
    for entry in standing:
        told = ComparedFinding(id=entry.id, fingerprint=entry.fingerprint, title=entry.title)
        lists[comparison.current[entry.id].state].append(told)
    known = {record.key: record for record in plan.records}
    for key, state in comparison.previous.items():
        if state.state in ("fixed", "unknown"):
            how = state.how or state.why
            # The key of a record may count on (`-2`); the fingerprint it was last seen under is the name to show.
            fingerprint, title = known[key].fingerprints[0], known[key].title
            lists[state.state].append(ComparedFinding(id=None, fingerprint=fingerprint, title=title, how=how))
    return RunComparison(
        previous_review_id=plan.previous_review_id, **{name: tuple(found) for name, found in lists.items()}
    )
