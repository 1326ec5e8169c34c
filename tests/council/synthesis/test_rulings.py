"""What becomes of a challenged finding after everybody was heard, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.contract.words import OutputType, Severity
from bridgehead.council.reporting.report import FindingClass
from bridgehead.council.synthesis.cross_challenge_notes import (
    ChallengeNote,
    NoteOutcome,
)
from bridgehead.council.synthesis.finding import COORDINATOR, CouncilFinding
from bridgehead.council.synthesis.rulings import (
    OwnerAnswer,
    OwnerStance,
    apply_ruling,
    is_open,
    read_answer,
    rule,
    seats_against,
)

C, L, D, W = (
    NoteOutcome.CONFIRMED,
    NoteOutcome.DOWNGRADED,
    NoteOutcome.DISPUTED,
    NoteOutcome.WITHDRAWN,
)


def finding(severity: Severity = Severity.HIGH) -> CouncilFinding:
    return CouncilFinding(
        cls=FindingClass.SINGLE,
        type=OutputType.FINDING,
        severity=severity,
        title="A",
        description="A.",
        evidence=None,
        action=None,
        domains=("security",),
        id="SS001",
    )


def says(outcome: NoteOutcome, *, proof: bool = True, **fields: Any) -> ChallengeNote:
    return ChallengeNote("SS001", outcome, "doubt", cites_evidence=proof, **fields)


def owner(stance: OwnerStance, **fields: Any) -> OwnerAnswer:
    proof = stance is not OwnerStance.UNPROVEN
    usual = {"seat": "claude", "reason": "because", "cites_evidence": proof}
    return OwnerAnswer(stance=stance, **{**usual, **fields})


def outcome(*given: Any, **fields: Any) -> NoteOutcome | None:
    ruled = rule(finding(fields.pop("severity", Severity.HIGH)), *given, **fields)
    return None if ruled is None else ruled.outcome


@pytest.mark.parametrize("proposed", [L, D, W])
def test_a_defence_that_cites_what_is_there_makes_a_dispute(
    proposed: NoteOutcome,
) -> None:
    note = says(proposed, new_severity=Severity.LOW)
    assert outcome(note, [owner(OwnerStance.DEFENDS)]) is D


@pytest.mark.parametrize("answers", [[], [owner(OwnerStance.UNPROVEN)]])
@pytest.mark.parametrize("proposed", [L, D, W])
def test_without_a_defence_what_was_proposed_applies(
    proposed: NoteOutcome, answers: list[OwnerAnswer]
) -> None:
    note = says(proposed, new_severity=Severity.LOW)
    assert outcome(note, answers) is proposed


@pytest.mark.parametrize("proposed", [L, D, W])
def test_who_cannot_be_heard_is_not_overruled(proposed: NoteOutcome) -> None:
    note = says(proposed, new_severity=Severity.LOW)
    assert outcome(note, [], heard=False) is D


@pytest.mark.parametrize("proposed", [L, D, W])
def test_what_all_owners_withdraw_is_withdrawn(proposed: NoteOutcome) -> None:
    note = says(proposed, new_severity=Severity.LOW)
    assert outcome(note, [owner(OwnerStance.WITHDRAWS)]) is W


def test_one_of_two_owners_that_defends_makes_a_dispute() -> None:
    answers = [
        owner(OwnerStance.DEFENDS),
        owner(OwnerStance.WITHDRAWS, seat="codex", cites_evidence=False),
    ]
    assert outcome(says(D), answers) is D


@pytest.mark.parametrize(
    ("severity", "guarded", "proven"),
    [
        (Severity.HIGH, True, False),
        (Severity.CRITICAL, True, False),
        (Severity.MEDIUM, True, True),
        (Severity.HIGH, False, True),
    ],
)
def test_a_polite_word_withdraws_nothing_serious(
    severity: Severity, guarded: bool, proven: bool
) -> None:
    polite = owner(OwnerStance.WITHDRAWS, cites_evidence=False)
    ruled = rule(finding(severity), says(D, proof=False), [polite], guarded=guarded)
    assert ruled is not None
    after = apply_ruling(finding(severity), ruled, [polite])
    expected = FindingClass.WITHDRAWN if proven else FindingClass.DISPUTED
    assert after.cls is expected


def test_owners_that_lower_it_agree_on_the_highest_of_their_severities() -> None:
    answers = [
        owner(OwnerStance.LOWERS, severity=Severity.LOW),
        owner(OwnerStance.LOWERS, seat="codex", severity=Severity.MEDIUM),
    ]
    ruled = rule(finding(), says(W), answers)
    assert ruled is not None
    after = apply_ruling(finding(), ruled, answers)
    assert (after.severity, after.severity_original) == (Severity.MEDIUM, Severity.HIGH)


def test_two_that_want_it_withdrawn_with_proof_outweigh_a_defence() -> None:
    assert outcome(says(W), [owner(OwnerStance.DEFENDS)], [says(W, by="gemini")]) is W
    gives_in = owner(OwnerStance.WITHDRAWS, seat="codex")
    assert outcome(says(W), [owner(OwnerStance.DEFENDS), gives_in]) is W


def test_two_without_proof_outweigh_nothing() -> None:
    opinions = [says(W, proof=False, by="gemini")]
    note = says(W, proof=False)
    assert outcome(note, [owner(OwnerStance.DEFENDS)], opinions) is D


def test_it_falls_if_most_that_did_not_report_it_doubt_it_and_one_has_proof() -> None:
    doubts = [says(W, by="gemini"), says(D, proof=False, by="codex")]
    assert outcome(says(C), [], doubts) is W
    assert outcome(says(D), [owner(OwnerStance.DEFENDS)], doubts) is W


def test_a_coordinator_that_reported_it_is_none_of_those_that_did_not() -> None:
    opinions = [says(W, by="gemini"), says(D, by="codex"), says(C, by="openai")]
    assert outcome(says(C), [], opinions, by_owner=True) is W
    assert outcome(says(D), [], opinions[:1], by_owner=True) is D


def test_half_of_them_are_not_most() -> None:
    opinions = [says(W, by="gemini"), says(D, by="codex"), says(C, by="openai")]
    assert outcome(says(C), [], opinions) is D


def test_a_single_opinion_with_proof_makes_a_dispute() -> None:
    assert outcome(says(C), [], [says(W, by="gemini"), says(C, by="codex")]) is D


def test_a_single_opinion_without_proof_changes_nothing() -> None:
    assert outcome(says(C), [], [says(W, proof=False, by="gemini")]) is None
    assert outcome(says(C), [], [says(D, by="gemini")]) is None
    assert outcome(None, []) is None


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        (says(C), False),
        (says(D), True),
        (says(W), True),
        (says(L), False),
        (says(L, new_severity=Severity.HIGH), False),
        (says(L, new_severity=Severity.LOW), True),
    ],
)
def test_owners_are_heard_only_where_a_note_would_change_something(
    note: ChallengeNote, expected: bool
) -> None:
    assert is_open(note, finding()) is expected


@pytest.mark.parametrize(
    ("fields", "stance"),
    [
        ({"status": "withdrawn", "defense": "x"}, OwnerStance.WITHDRAWS),
        ({"status": "revised", "severity": "low"}, OwnerStance.LOWERS),
        ({"status": "revised", "severity": "CRITICAL"}, OwnerStance.DEFENDS),
        ({"status": "revised", "severity": "HIGH"}, OwnerStance.DEFENDS),
        ({"status": " Confirmed ", "defense": "x"}, OwnerStance.DEFENDS),
        ({"status": "perhaps"}, None),
        ({}, None),
    ],
)
def test_what_an_owner_says_is_read(fields: dict[str, Any], stance: Any) -> None:
    answer = read_answer(fields, finding(), "claude", cites_evidence=True)
    assert (answer.stance if answer else None) is stance


def test_a_confirmation_that_cites_nothing_is_no_defence() -> None:
    answer = read_answer(
        {"status": "confirmed"}, finding(), "claude", cites_evidence=False
    )
    assert answer is not None
    assert answer.stance is OwnerStance.UNPROVEN


def test_only_words_that_cite_what_is_there_count_against_a_finding() -> None:
    cited = OwnerAnswer("claude", OwnerStance.WITHDRAWS, "store.py:3", True)
    polite = OwnerAnswer("gemini", OwnerStance.LOWERS, "fine", False)
    defended = OwnerAnswer("opencode", OwnerStance.DEFENDS, "store.py:3", True)
    proof = ChallengeNote(
        "MMC001", NoteOutcome.WITHDRAWN, by="codex", cites_evidence=True
    )
    word = ChallengeNote("MMC001", NoteOutcome.DOWNGRADED, by=COORDINATOR)

    against = seats_against([cited, polite, defended], [proof, word])

    assert against == ["claude", "codex"]
