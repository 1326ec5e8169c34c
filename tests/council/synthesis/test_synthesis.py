"""Stage A and the council verdict: independent of the order of seats, recomputable, never laxer than it may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.contract.report import Output
from bridgehead.contract.verdict import decide_verdict
from bridgehead.contract.words import OutputType, Severity, Status, TaskType, Verdict
from bridgehead.council.findings.problems import distinct_problems
from bridgehead.council.reporting.report import FindingClass
from bridgehead.council.reporting.seat_report import SeatFacts, skipped_report
from bridgehead.council.synthesis.cross_challenge_notes import (
    ChallengeNote,
    NoteOutcome,
    apply_note,
    guard_note,
    read_note,
)
from bridgehead.council.synthesis.finding import CouncilFinding, SeatReport
from bridgehead.council.synthesis.join import stage_a
from bridgehead.council.synthesis.verdict import council_verdict
from council.support.driving import AT, task

BRIDGES = ("claude", "codex", "gemini", "static", "rig:winbox")
TITLES = (
    "order id reaches the query",
    "session cookie lacks secure flag",
    "retry loop without any bound",
)

outputs_of = st.lists(
    st.tuples(
        st.sampled_from(TITLES),
        st.sampled_from([None, *Severity]),
        st.sampled_from([OutputType.FINDING, OutputType.COMPLIANCE_GAP]),
        st.sampled_from([None, "R-1", "R-2"]),
        st.booleans(),
    ),
    max_size=3,
)


def output(
    number: int,
    prefix: str,
    fields: tuple[str, Severity | None, OutputType, str | None, bool],
) -> Output:
    title, severity, kind, requirement, met = fields
    made = Output(
        id=f"{prefix}{number:03d}",
        type=kind,
        severity=severity,
        status=None,
        title=title,
        description=title,
        evidence=None,
        action=None,
        domain="security",
        agent="x",
    )
    if requirement is None:
        return made
    return msgspec.structs.replace(made, requirement_id=requirement, met=met)


def seat_report(bridge: str, found: Sequence[Output], **fields: object) -> SeatReport:
    blank = skipped_report(
        task(), SeatFacts(bridge, 60, AT, AT, connection="cli"), "none"
    )
    made = msgspec.structs.replace(
        blank, status=Status.COMPLETED, outputs=tuple(found), **fields
    )
    return SeatReport(made, verified=bridge != "rig:unknown")


@st.composite
def reports(draw: st.DrawFn) -> list[SeatReport]:
    names = draw(
        st.lists(st.sampled_from(BRIDGES), min_size=1, max_size=4, unique=True)
    )
    return [
        seat_report(
            name,
            [
                output(n, name[0].upper(), one)
                for n, one in enumerate(draw(outputs_of), start=1)
            ],
        )
        for name in names
    ]


def verdict(
    findings: Sequence[CouncilFinding], seats: Sequence[SeatReport], task_type: TaskType
) -> Verdict | None:
    several = sum(seat.makes_a_council for seat in seats) > 1
    return council_verdict(
        findings, task_type=task_type, mode=None, several_seats=several
    )


def told(findings: Sequence[CouncilFinding]) -> list[tuple[object, ...]]:
    return sorted(
        (one.id, one.cls, one.severity or "", one.seats, one.shared_cli_path, one.title)
        for one in findings
    )


@settings(max_examples=80)
@given(
    reports(),
    st.randoms(use_true_random=False),
    st.sampled_from([TaskType.REVIEW, TaskType.AUDIT]),
)
def test_property_the_order_of_seats_changes_neither_findings_nor_verdict(
    seats: list[SeatReport], chance: object, task_type: TaskType
) -> None:
    shuffled = list(seats)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = stage_a(seats, task_type), stage_a(shuffled, task_type)
    assert told(one) == told(other)
    assert verdict(one, seats, task_type) is verdict(other, shuffled, task_type)


@settings(max_examples=80)
@given(reports(), st.sampled_from([TaskType.REVIEW, TaskType.AUDIT]))
def test_property_every_live_item_is_in_one_finding_or_a_position(
    seats: list[SeatReport], task_type: TaskType
) -> None:
    findings = stage_a(seats, task_type)
    joined = [
        (source.seat.name, source.output.id)
        for one in findings
        for source in one.sources
    ]
    live = [(seat.name, found.id) for seat in seats for found in seat.report.outputs]
    missing = [key for key in live if key not in joined]
    met = {
        (seat.name, found.id)
        for seat in seats
        for found in seat.report.outputs
        if found.met is True
    }
    assert len(joined) == len(set(joined))
    assert set(missing) <= met


@settings(max_examples=60)
@given(reports())
def test_property_a_council_of_one_judges_as_its_bridge_does(
    seats: list[SeatReport],
) -> None:
    alone = [seats[0]]
    findings = stage_a(alone, TaskType.REVIEW)
    own = decide_verdict(
        TaskType.REVIEW, Status.COMPLETED, distinct_problems(seats[0].report.outputs)
    )
    assert verdict(findings, alone, TaskType.REVIEW) is own


@settings(max_examples=60)
@given(
    reports(), st.lists(st.sampled_from(list(NoteOutcome)), max_size=4), st.booleans()
)
def test_property_stage_b_never_raises_a_severity_and_withdraws_only_with_evidence(
    seats: list[SeatReport], outcomes: list[NoteOutcome], cites: bool
) -> None:
    for finding in stage_a(seats, TaskType.REVIEW):
        after = finding
        for outcome in outcomes:
            note = ChallengeNote(
                finding.id,
                outcome,
                new_severity=Severity.CRITICAL,
                cites_evidence=cites,
            )
            after = apply_note(after, note)
        before_rank = finding.severity.rank if finding.severity else 0
        assert (after.severity.rank if after.severity else 0) <= before_rank
        assert after.cls is not FindingClass.WITHDRAWN or cites


def sql(bridge: str, severity: Severity, **fields: object) -> SeatReport:
    return seat_report(
        bridge,
        [
            output(
                1,
                bridge[0].upper(),
                (TITLES[0], severity, OutputType.FINDING, None, False),
            )
        ],
        **fields,
    )


def test_static_confirms_as_evidence_and_never_as_a_voice() -> None:
    (finding,) = stage_a(
        [sql("claude", Severity.HIGH), sql("static", Severity.LOW)], TaskType.REVIEW
    )
    assert (finding.cls, finding.confirming_seats) == (FindingClass.SINGLE, ("claude",))
    assert finding.has_static_evidence
    assert "static-analysis" not in finding.model_families


def test_met_and_unmet_of_one_requirement_are_a_dispute_with_both_positions() -> None:
    gap = output(
        1,
        "C",
        ("not hashed anywhere", Severity.HIGH, OutputType.COMPLIANCE_GAP, "R-1", False),
    )
    met = output(
        1,
        "X",
        ("hashing is done in login", Severity.INFO, OutputType.FINDING, "R-1", True),
    )
    (finding,) = stage_a(
        [seat_report("claude", [gap]), seat_report("codex", [met])], TaskType.AUDIT
    )
    assert finding.cls is FindingClass.DISPUTED
    assert [one.bridge for one in finding.positions] == ["claude", "codex"]


def test_a_bridge_that_says_met_and_unmet_disputes_what_another_says_unmet() -> None:
    gap = (TITLES[0], Severity.HIGH, OutputType.COMPLIANCE_GAP, "R-1", False)
    met = output(2, "C", (TITLES[1], Severity.INFO, OutputType.FINDING, "R-1", True))
    seats = [
        seat_report("claude", [output(1, "C", gap), met]),
        seat_report("codex", [output(1, "X", gap)]),
    ]
    (finding,) = stage_a(seats, TaskType.AUDIT)
    assert finding.cls is FindingClass.DISPUTED
    assert [one.bridge for one in finding.positions] == ["claude", "codex", "claude"]


@pytest.mark.parametrize("outcome", [NoteOutcome.DOWNGRADED, NoteOutcome.WITHDRAWN])
@pytest.mark.parametrize(
    ("cites", "static", "families", "refused"),
    [
        (False, False, 1, "no evidence that was found is cited"),
        (False, False, 2, "no evidence that was found is cited"),
        (True, False, 1, ""),
        (True, True, 1, "static analysis reports it too"),
        (True, True, 2, ""),
    ],
)
def test_one_rule_says_what_may_be_withdrawn_or_lowered(
    outcome: NoteOutcome, cites: bool, static: bool, families: int, refused: str
) -> None:
    seats = [sql("claude", Severity.HIGH), sql("gemini", Severity.HIGH)]
    if static:
        seats.append(sql("static", Severity.HIGH))
    (finding,) = stage_a(seats, TaskType.REVIEW)
    note = ChallengeNote(
        finding.id, outcome, new_severity=Severity.INFO, cites_evidence=cites
    )

    guarded = guard_note(finding, note, families=families)
    after = apply_note(finding, guarded)

    assert refused in guarded.refused and bool(refused) == bool(guarded.refused)
    is_taken_back = after.severity is Severity.INFO or (
        after.cls is FindingClass.WITHDRAWN
    )
    assert is_taken_back is not bool(refused)
    if outcome is NoteOutcome.DOWNGRADED:
        assert after.cls is FindingClass.MULTI, "a refused note does not dispute it"


def test_a_downgrade_without_a_severity_is_a_confirmation() -> None:
    (finding,) = stage_a([sql("claude", Severity.CRITICAL)], TaskType.REVIEW)
    note = read_note(
        {"finding_id": finding.id, "outcome": "downgraded", "mechanism": "x"},
        [finding.id],
    )
    assert note is not None
    assert apply_note(finding, note).severity is Severity.CRITICAL


def test_an_unknown_family_stands_behind_nothing() -> None:
    known = sql("claude", Severity.HIGH, model_family="anthropic/claude")
    unknown = sql("rig:winbox", Severity.HIGH, model_family="unknown")
    (finding,) = stage_a([known, unknown], TaskType.REVIEW)
    assert finding.cls is FindingClass.MULTI
    assert finding.model_families == {"anthropic/claude"}


@pytest.mark.parametrize(
    ("connections", "confidence"),
    [(("cli", "cli"), "medium"), (("cli", "mcp"), "high")],
)
def test_a_shared_path_caps_the_confidence(
    connections: tuple[str, str], confidence: str
) -> None:
    quoted = {
        "outcome": "passed",
        "strength": "quote",
        "reason": None,
        "references": [],
    }
    seats = []
    for bridge, connection in zip(("claude", "codex"), connections, strict=True):
        seat = sql(bridge, Severity.HIGH, connection_used=connection)
        checked = tuple(
            msgspec.structs.replace(one, evidence_check=quoted)
            for one in seat.report.outputs
        )
        seats.append(
            replace(seat, report=msgspec.structs.replace(seat.report, outputs=checked))
        )
    (finding,) = stage_a(seats, TaskType.REVIEW)
    assert finding.confidence == confidence


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"finding_id": "X", "outcome": "confirmed"},
        {"finding_id": "SS001", "outcome": "praised"},
    ],
)
def test_notes_on_unknown_findings_or_with_unknown_outcomes_are_ignored(
    fields: dict[str, str],
) -> None:
    assert read_note(fields, ["SS001"]) is None


def test_outputs_that_a_person_split_are_two_findings() -> None:
    about = (
        "order id reaches the query",
        Severity.HIGH,
        OutputType.FINDING,
        None,
        False,
    )
    seats = [
        seat_report(
            name,
            [
                msgspec.structs.replace(
                    output(1, name[0].upper(), about), fingerprint=f"v1:{name}"
                )
            ],
        )
        for name in ("claude", "codex")
    ]

    assert len(stage_a(seats, TaskType.REVIEW)) == 1
    assert len(stage_a(seats, TaskType.REVIEW, [("v1:codex", "v1:claude")])) == 2
    assert len(stage_a(seats, TaskType.REVIEW, [("v1:codex", "v1:gemini")])) == 1
