"""Ids: how they are made, sorted, shown."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.contract.ids import (
    bridge_prefix,
    id_sort_key,
    is_session_id,
    model_slugs,
    numbered_id,
    run_id,
    shortest_endings,
)


@pytest.mark.parametrize(("number", "shown"), [(1, "C001"), (999, "C999"), (1000, "C1000")])
def test_ids_have_at_least_three_digits(number: int, shown: str) -> None:
    assert numbered_id("C", number) == shown


def test_ids_sort_by_prefix_then_number() -> None:
    ids = ["C1000", "O-merged-002", "C999", "C002", "CH001", "O-merged-010"]

    assert sorted(ids, key=id_sort_key) == ["C002", "C999", "C1000", "CH001", "O-merged-002", "O-merged-010"]


@pytest.mark.parametrize(
    ("bridge", "prefix"),
    [("claude", "C"), ("openai", "A"), ("static", "S"), ("rig:win-5080", "R"), ("acme", None)],
)
def test_each_bridge_has_its_prefix(bridge: str, prefix: str | None) -> None:
    assert bridge_prefix(bridge) == prefix


@pytest.mark.parametrize(
    ("models", "slugs"),
    [
        (["openai/gpt", "google/gem"], ["openai", "google"]),
        (["zai/glm-5", "zai/GLM 4.7"], ["glm-5", "glm-4-7"]),
        (["a/x.y", "a/x-y", "a/x y"], ["x-y", "x-y-2", "x-y-3"]),
        (["one/a/b"], ["one"]),
        ([], []),
    ],
)
def test_model_slugs_are_short_and_distinct(models: list[str], slugs: list[str]) -> None:
    assert model_slugs(models) == slugs


@pytest.mark.parametrize(
    ("text", "good"),
    [("r1", True), ("a.b_c-D", True), ("", False), ("a b", False), ("x" * 128, True), ("é", False)],
)
def test_session_ids(text: str, good: bool) -> None:
    assert is_session_id(text) is good


def test_a_run_id_reads_as_its_time() -> None:
    assert run_id("council", datetime(2026, 11, 15, 10, 15, 2, tzinfo=UTC)) == "council-20261115-101502"


def test_ids_are_shown_by_their_shortest_unique_ending() -> None:
    shown = shortest_endings(
        ["council-20261115-101502", "council-20261115-094410", "council-20261114-094410"]
    )

    assert shown["council-20261115-101502"] == "1502"
    assert shown["council-20261114-094410"] == "4-094410"


@given(st.lists(st.text(alphabet="ab", min_size=1, max_size=8), unique=True, max_size=30), st.integers(1, 4))
def test_property_an_ending_names_exactly_one_id_unless_it_is_whole(ids: list[str], least: int) -> None:
    for full, ending in shortest_endings(ids, least=least).items():
        assert full.endswith(ending)
        assert ending == full or [other for other in ids if other.endswith(ending)] == [full]
