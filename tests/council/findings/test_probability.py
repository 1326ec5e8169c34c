"""How likely a finding is, and what a repository teaches about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridgehead.contract.words import OutputType
from bridgehead.council.findings.acted_on import ActedOn, Count, acted_on
from bridgehead.council.findings.history import FindingRecord
from bridgehead.council.findings.probability import (
    ChallengeOutcome,
    Checked,
    Estimate,
    Signs,
    probability,
    shipped_prior,
)

ONE_OF_FOUR = Signs(seats=("codex",), families=1, looked=4, domains=("security",))


def estimate(signs: Signs, record: ActedOn | None = None) -> Estimate:
    return probability(signs, record or ActedOn(), shipped_prior())


def test_each_further_family_that_reports_it_makes_a_finding_likelier() -> None:
    values = [
        estimate(replace(ONE_OF_FOUR, families=count)).value for count in (1, 2, 3, 4)
    ]

    assert values == sorted(set(values))
    assert values[0] < 0.25
    assert values[3] > 0.7


def test_a_family_that_looked_and_said_nothing_makes_it_less_likely() -> None:
    alone = replace(ONE_OF_FOUR, looked=1)

    assert estimate(ONE_OF_FOUR).value < estimate(alone).value


@pytest.mark.parametrize(
    ("change", "is_raised", "reason"),
    [
        ({"evidence": Checked.QUOTED}, True, "evidence quoted"),
        ({"evidence": Checked.NOT_FOUND}, False, "evidence not found"),
        ({"static": True}, True, "found by static analysis"),
        ({"challenge": ChallengeOutcome.SURVIVED}, True, "challenged: survived"),
        ({"challenge": ChallengeOutcome.DISPUTED}, False, "challenged: disputed"),
    ],
)
def test_what_was_checked_moves_the_probability_and_is_named(
    change: dict[str, object], is_raised: bool, reason: str
) -> None:
    usual = estimate(ONE_OF_FOUR)
    moved = estimate(replace(ONE_OF_FOUR, **change))

    assert (moved.value > usual.value) is is_raised
    assert reason in moved.reasons
    assert reason not in usual.reasons


def test_a_seat_that_is_acted_on_here_is_believed_and_its_counts_are_shown() -> None:
    believed = ActedOn({("codex", "security"): Count(14, 17)})
    doubted = ActedOn({("codex", "security"): Count(1, 17)})

    found = estimate(ONE_OF_FOUR, believed)
    assert found.value > estimate(ONE_OF_FOUR).value
    assert "codex/security here: 14 of 17 acted on" in found.reasons
    assert estimate(ONE_OF_FOUR, doubted).value < estimate(ONE_OF_FOUR).value


def test_counts_of_another_domain_change_nothing() -> None:
    elsewhere = ActedOn({("codex", "api"): Count(0, 40)})

    assert estimate(ONE_OF_FOUR, elsewhere) == estimate(ONE_OF_FOUR)


def record(name: str, state: str, how: str | None = None) -> FindingRecord:
    return FindingRecord(
        type=OutputType.FINDING,
        title="",
        description="",
        fingerprints=(name,),
        seats=("codex",),
        domains=("security",),
        key=name,
        state=state,
        how=how,
    )


def test_changed_lines_count_as_acted_on_and_dismissals_as_not() -> None:
    records = [
        record("v1:a", "fixed", "code_changed"),
        record("v1:b", "fixed", "file_deleted"),
        record("v1:c", "open"),
        record("v1:d", "fixed", "not_reported"),
        record("v1:e", "open"),
    ]
    found = acted_on(records, {"v1:e"})

    assert found.counts == {("codex", "security"): Count(2, 3)}
    assert list(found.sentences()) == ["codex/security here: 2 of 3 acted on"]


def test_no_history_counts_nothing() -> None:
    assert acted_on([], {"v1:e"}) == ActedOn()
