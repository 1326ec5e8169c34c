from __future__ import annotations

import pytest

from bridgehead.rigs.envelope.fields import (
    MarkerUnrecognised,
    StatusClass,
    listed_status_class,
    parse_status,
    status_class,
    tidy_status,
)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("▶ go", StatusClass.ACTIVE),
        ("⏸ wait", StatusClass.PENDING),
        ("🎯 found", StatusClass.TARGETED),
        ("✅ done", StatusClass.COMPLETED),
        ("❌ no", StatusClass.CANCELLED),
        ("✅done", StatusClass.COMPLETED),
        (" \ufeff▶ go", StatusClass.ACTIVE),
        ("\x85▶ go", None),
        ("done ✅", None),
        ("", None),
        (None, None),
        (5, None),
    ],
)
def test_the_class_follows_from_the_first_visible_character(
    status: object, expected: StatusClass | None
) -> None:
    assert status_class(status) is expected


def test_listings_take_an_unmarked_status_for_active() -> None:
    assert listed_status_class("done") is StatusClass.ACTIVE
    assert listed_status_class("❌ no") is StatusClass.CANCELLED


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("▶\ufe0f go", "▶ go"),
        ("  ✅ done ", "✅ done"),
        ("▶\ufe0f\ufe0f go", "▶\ufe0f go"),
        ("a\ufe0f", "a\ufe0f"),
    ],
)
def test_one_emoji_presentation_selector_and_outer_blanks_are_dropped(typed: str, expected: str) -> None:
    assert tidy_status(typed) == expected


@pytest.mark.parametrize("typed", ["hello", "", "  "])
def test_a_status_without_marker_is_refused(typed: str) -> None:
    with pytest.raises(MarkerUnrecognised, match="unrecognized status marker"):
        parse_status(typed)


def test_a_marked_status_is_taken() -> None:
    assert parse_status(" ⏸\ufe0f Mike picks ") == "⏸ Mike picks"
