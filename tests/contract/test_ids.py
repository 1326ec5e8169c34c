"""Ids: how they are made, sorted, shown."""

from __future__ import annotations

import pytest

from bridgehead.contract.ids import id_sort_key, model_slugs, numbered_id


@pytest.mark.parametrize(
    ("number", "shown"), [(1, "C001"), (999, "C999"), (1000, "C1000")]
)
def test_ids_have_at_least_three_digits(number: int, shown: str) -> None:
    assert numbered_id("C", number) == shown


def test_ids_sort_by_prefix_then_number() -> None:
    ids = ["C1000", "O-merged-002", "C999", "C002", "CH001", "O-merged-010"]

    assert sorted(ids, key=id_sort_key) == [
        "C002",
        "C999",
        "C1000",
        "CH001",
        "O-merged-002",
        "O-merged-010",
    ]


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
def test_model_slugs_are_short_and_distinct(
    models: list[str], slugs: list[str]
) -> None:
    assert model_slugs(models) == slugs
