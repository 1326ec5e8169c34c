"""States of a finding under any sequence of events (council §9.7)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridgehead.contract.words import OutputState
from bridgehead.council.debate.ledger import (
    FINAL,
    ChallengeState,
    FindingState,
    Ruling,
    placement,
)

ids = st.sampled_from(["CH001", "CH002", "CH003"])
events = st.lists(
    st.one_of(
        st.tuples(st.just("challenge"), ids),
        st.tuples(st.just("defend"), ids),
        st.tuples(st.just("revise"), ids),
        st.tuples(st.just("withdraw"), ids),
        st.tuples(st.sampled_from(list(Ruling)), ids),
    ),
    max_size=20,
)


def happen(state: FindingState, event: tuple[str, str]) -> bool:
    what, key = event
    match what:
        case "challenge":
            return state.challenge(key)
        case "defend":
            return state.defend(key)
        case "revise":
            return state.revise(key)
        case "withdraw":
            return state.withdraw()
        case _:
            return state.rule(key, Ruling(what))


@given(events, st.integers(1, 3), st.integers(0, 3))
def test_property_a_withdrawn_finding_never_comes_back(
    happened: list[tuple[str, str]], origin: int, rounds: int
) -> None:
    state = FindingState(origin)
    for event in happened:
        was_withdrawn = state.withdrawn
        changed = happen(state, event)
        assert not (was_withdrawn and changed)
    assert (state.status(rounds) is OutputState.WITHDRAWN) == state.withdrawn


@given(events)
def test_property_final_challenges_stay_as_they_are(
    happened: list[tuple[str, str]],
) -> None:
    state = FindingState()
    settled: dict[str, ChallengeState] = {}
    for event in happened:
        happen(state, event)
        for key, challenge in state.challenges.items():
            if key in settled:
                assert challenge is settled[key]
            if challenge in FINAL:
                settled[key] = challenge


@given(events, st.integers(0, 3))
def test_property_an_unresolved_challenge_is_never_dropped(
    happened: list[tuple[str, str]], rounds: int
) -> None:
    state = FindingState()
    for event in happened:
        happen(state, event)
    if state.unresolved and not state.withdrawn:
        assert state.status(rounds) is OutputState.DISPUTED


@given(events, st.integers(1, 3), st.integers(0, 3))
def test_property_every_finding_is_placed_in_outputs_or_among_the_withdrawn(
    happened: list[tuple[str, str]], origin: int, rounds: int
) -> None:
    state = FindingState(origin)
    for event in happened:
        happen(state, event)
    places = placement(state.status(rounds))
    assert ("outputs" in places) != ("withdrawn_outputs" in places)


def test_one_revision_answers_several_challenges_and_counts_once() -> None:
    state = FindingState()
    state.challenge("CH001")
    state.challenge("CH002")
    state.revise("CH001", "CH002")
    assert state.revision == 1
    assert state.status(1) is OutputState.REVISED
