"""Stage A: join what the seats found and say of each problem who stands behind it (council §14.2). Mechanical."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, product
from typing import Final

from bridgehead.contract.ids import id_sort_key, numbered_id
from bridgehead.contract.words import (
    OutputState,
    OutputType,
    Status,
    TaskType,
    severity_rank,
)
from bridgehead.council.findings.joining import Comment, Pair, is_same_problem, join
from bridgehead.council.reporting.report import FindingClass, StatedPosition
from bridgehead.council.synthesis.finding import (
    COORDINATOR,
    ID_PREFIX,
    CouncilFinding,
    SeatReport,
    Source,
    highest_number,
)

DISPUTED_STEPS: Final = 3
CLI: Final = "cli"


def stage_a(
    reports: Sequence[SeatReport],
    task_type: TaskType,
    splits: Sequence[tuple[str, str]] = (),
) -> list[CouncilFinding]:
    """Every live item of the COMPLETED seats, joined, classified and numbered; `splits` are not joined again."""
    completed = [seat for seat in reports if seat.report.status is Status.COMPLETED]
    live = [
        Source(seat, output)
        for seat in completed
        for output in seat.report.outputs
        if output.status is not OutputState.WITHDRAWN
    ]
    withdrawn = [
        (Source(seat, output), Comment.of(output))
        for seat in completed
        if seat.confirms
        for output in seat.report.withdrawn_outputs
    ]
    met = _met_elsewhere(live) if task_type is TaskType.AUDIT else []
    positions_only = set(map(id, met))
    own_entry = [source for source in live if id(source) not in positions_only]
    joined = [
        _classified(members, withdrawn, met) for members in _clusters(own_entry, splits)
    ]
    return number(joined)


def number(findings: Iterable[CouncilFinding]) -> list[CouncilFinding]:
    """Give ids per class, in order of severity and first source; findings that have one keep it (council §14.6)."""
    ordered = sorted(findings, key=_numbering_order)
    taken = {cls: highest_number(ordered, cls) for cls in ID_PREFIX}
    numbered: list[CouncilFinding] = []
    for finding in ordered:
        if finding.id:
            numbered.append(finding)
            continue
        taken[finding.cls] += 1
        numbered.append(
            replace(finding, id=numbered_id(ID_PREFIX[finding.cls], taken[finding.cls]))
        )
    return numbered


def _numbering_order(finding: CouncilFinding) -> tuple[object, ...]:
    if not finding.sources:
        return -severity_rank(finding.severity), ("~", 0, ""), finding.title
    first = finding.sources[0]
    return (
        -severity_rank(finding.severity),
        id_sort_key(first.output.id),
        first.seat.name,
    )


def _clusters(
    sources: Sequence[Source], splits: Sequence[tuple[str, str]]
) -> list[tuple[Source, ...]]:
    """Same matcher as inside a seat, domain not required; order severity, seat, id."""
    by_key = {f"{place}": source for place, source in enumerate(sources)}
    candidates = [
        replace(Comment.of(source.output), id=key) for key, source in by_key.items()
    ]

    def order(candidate: Comment) -> tuple[object, ...]:
        source = by_key[candidate.id]
        return (
            -severity_rank(candidate.severity),
            source.seat.name,
            id_sort_key(source.output.id),
        )

    found = join(
        candidates,
        same_domain=False,
        order=order,
        kept_apart=_kept_apart(by_key, splits),
    )
    return [tuple(by_key[key] for key in joined.ids) for joined in found]


def _kept_apart(
    by_key: Mapping[str, Source], splits: Sequence[tuple[str, str]]
) -> set[Pair]:
    """The pairs of sources that carry the fingerprints of a split, one on each side."""
    apart: set[Pair] = set()
    for one, other in splits:
        first = [key for key, source in by_key.items() if _carries(source, one)]
        second = [key for key, source in by_key.items() if _carries(source, other)]
        apart.update(frozenset(pair) for pair in product(first, second))
    return apart


def _carries(source: Source, fingerprint: str) -> bool:
    names = source.output.fingerprints
    return source.output.fingerprint == fingerprint or (
        isinstance(names, tuple) and fingerprint in names
    )


def _classified(
    members: tuple[Source, ...],
    withdrawn: Sequence[tuple[Source, Comment]],
    met: Sequence[Source],
) -> CouncilFinding:
    lead = members[0].output
    types = {source.output.type for source in members}
    finding = CouncilFinding(
        cls=FindingClass.SINGLE,
        type=OutputType.COMPLIANCE_GAP
        if OutputType.COMPLIANCE_GAP in types
        else lead.type,
        severity=max((source.output.severity for source in members), key=severity_rank),
        title=lead.title,
        description=lead.description,
        evidence=_first_text(source.output.evidence for source in members),
        action=_first_text(source.output.action for source in members),
        domains=tuple(dict.fromkeys(source.output.domain for source in members)),
        sources=members,
        requirement_id=_first_text(
            source.output.requirement_id
            for source in members
            if isinstance(source.output.requirement_id, str)
        ),
    )
    against = _withdrawn_by_others(finding, withdrawn) + _met_by_others(finding, met)
    if finding.not_found is not None:
        # Evidence that is not there confirms nobody, however many seats agree on it (hazard 14).
        against += (
            StatedPosition(
                COORDINATOR, None, f"evidence_not_found: {finding.not_found}"
            ),
        )
    if against or _severities_apart(finding):
        own = tuple(source.stated() for source in _one_per_seat(members))
        return replace(finding, cls=FindingClass.DISPUTED, positions=(*own, *against))
    if len(finding.confirming_seats) < 2:
        return finding
    over_cli = {
        one.seat.name
        for one in members
        if one.seat.confirms and one.seat.report.connection_used == CLI
    }
    return replace(finding, cls=FindingClass.MULTI, shared_cli_path=len(over_cli) >= 2)


def _withdrawn_by_others(
    finding: CouncilFinding, withdrawn: Sequence[tuple[Source, Comment]]
) -> tuple[StatedPosition, ...]:
    """Seats that raised the same problem, have no live item of it left, and took it back (rule a)."""
    if not withdrawn:
        return ()
    leader = Comment.of(finding.sources[0].output)
    return tuple(
        source.stated(_withdrawal_text(source))
        for source, candidate in withdrawn
        if source.seat.name not in finding.seats
        and is_same_problem(leader, candidate, same_domain=False)
    )


def _severities_apart(finding: CouncilFinding) -> bool:
    """Confirming seats so far apart that they cannot mean the same (rule b)."""
    votes = [finding.votes[seat] for seat in finding.confirming_seats]
    ranks = [severity.rank for severity in votes if severity is not None]
    return len(ranks) >= 2 and max(ranks) - min(ranks) >= DISPUTED_STEPS


def _met_elsewhere(live: Sequence[Source]) -> list[Source]:
    """Items that say a requirement is met which another seat says is unmet (rule c): positions, no entries."""
    unmet: dict[str, set[str]] = {}
    for source in live:
        if (
            isinstance(source.output.requirement_id, str)
            and source.output.met is not True
        ):
            unmet.setdefault(source.output.requirement_id, set()).add(source.seat.name)
    return [
        source
        for source in live
        if source.output.met is True
        and source.seat.confirms
        and isinstance(source.output.requirement_id, str)
        and unmet.get(source.output.requirement_id, set()) - {source.seat.name}
    ]


def _met_by_others(
    finding: CouncilFinding, met: Sequence[Source]
) -> tuple[StatedPosition, ...]:
    unmet = {
        (source.seat.name, source.output.requirement_id)
        for source in finding.sources
        if isinstance(source.output.requirement_id, str)
        and source.output.met is not True
    }
    return tuple(
        source.stated(f"says the requirement is met: {source.output.title}")
        for source in met
        if any(
            seat != source.seat.name and wanted == source.output.requirement_id
            for seat, wanted in unmet
        )
    )


def _one_per_seat(members: Sequence[Source]) -> list[Source]:
    ordered = sorted(members, key=lambda source: source.seat.name)
    return [
        next(group)
        for _, group in groupby(ordered, key=lambda source: source.seat.name)
    ]


def _withdrawal_text(source: Source) -> str:
    reason = source.output.withdrawal_reason
    why = f": {reason}" if isinstance(reason, str) and reason else ""
    return f"raised and withdrew it{why}"


def _first_text(texts: Iterable[str | None]) -> str | None:
    return next((text for text in texts if text), None)
