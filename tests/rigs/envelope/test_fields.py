"""The shapes of single fields: thread ids, dates, commits, hashes."""

from __future__ import annotations

import pytest

from bridgehead.errors import UserError
from bridgehead.rigs.envelope import fields
from bridgehead.rigs.envelope.fields import (
    StatusClass,
    listed_status_class,
    parse_status,
    status_class,
    tidy_status,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ab", True),
        ("00", True),
        ("cuda-build-03", True),
        ("a--b", True),
        ("a", False),
        ("", False),
        ("a-", False),
        ("-a", False),
        ("A1", False),
        ("ab\n", False),
        ("..", False),
        ("a/b", False),
    ],
)
def test_thread_ids(text: str, expected: bool) -> None:
    assert fields.is_thread_id(text) is expected


@pytest.mark.parametrize(
    ("text", "date", "timestamp"),
    [
        ("2026-05-15", True, False),
        ("2026-13-45", True, False),
        ("2026-05-15T10:30:00", True, True),
        ("2026-05-15T10:30:00Z", True, True),
        ("2026-05-15T10:30:00.123456789+0200", True, True),
        ("2026-05-15T10:30:00-02:00", True, True),
        ("2026-05-15T10:30Z", False, False),
        ("2026-05-15 10:30:00", False, False),
        ("2026-05-15T10:30:00.Z", False, False),
        ("2026-05-15T10:30:00z", False, False),
        ("2026-05-15\n", False, False),
        ("٢٠٢٦-٠٥-١٥", False, False),
    ],
)
def test_dates_and_timestamps_by_their_shape(
    text: str, date: bool, timestamp: bool
) -> None:
    assert fields.is_date(text) is date
    assert fields.is_timestamp(text) is timestamp


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a1b2c3d", True),
        ("0" * 40, True),
        ("a1b2c3", False),
        ("0" * 41, False),
        ("A1B2C3D", False),
        ("a1b2c3d\n", False),
    ],
)
def test_commit_references(text: str, expected: bool) -> None:
    assert fields.is_commit_ref(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0" * 64, True),
        ("0" * 63, False),
        ("0" * 65, False),
        ("A" * 64, False),
        ("0" * 64 + "\n", False),
    ],
)
def test_body_hashes(text: str, expected: bool) -> None:
    assert fields.is_body_hash(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("✅ done", True),
        ("▶\u00a0x", True),
        ("▶\ufeffx", True),
        ("▶\nx", True),  # ECMAScript's \s takes the line feed, its dot does not
        ("▶  ", True),
        ("✅done", False),
        ("✅", False),
        ("✅ ", False),
        (" ✅ done", False),
        ("▶\ufe0f go", False),
        ("▶ one\ntwo", False),
        ("▶ one\u2028two", False),
        ("▶\x1cx", False),
        ("▶\x85x", False),
        ("▶\u200bx", False),
        ("", False),
    ],
)
def test_statuses(text: str, expected: bool) -> None:
    assert fields.is_status(text) is expected


def test_a_new_thread_may_not_have_a_name_that_listings_skip() -> None:
    assert fields.parse_new_thread_id("demo-01") == "demo-01"
    assert fields.parse_thread_id("dist") == "dist"
    with pytest.raises(UserError, match="reserved"):
        fields.parse_new_thread_id("dist")


@pytest.mark.parametrize(
    "typed", ["a", "demo-", "..", "../evil", "Bad_Id", "", "node_modules"]
)
def test_bad_thread_ids_are_refused(typed: str) -> None:
    with pytest.raises(UserError, match="is not a valid kebab-case slug"):
        fields.parse_new_thread_id(typed)


def test_message_types_are_taken_exactly() -> None:
    assert fields.parse_message_type("ACK") == "ACK"
    with pytest.raises(
        UserError, match='unknown message type "ack" — must be one of: REQUEST, '
    ):
        fields.parse_message_type("ack")


def test_only_three_types_can_be_relayed() -> None:
    assert fields.parse_relay_type("DECISIONS") == "DECISIONS"
    with pytest.raises(
        UserError,
        match=r'unknown type "HANDOFF" — must be one of: DECISIONS, RESPONSE, ACK$',
    ):
        fields.parse_relay_type("HANDOFF")


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
def test_one_emoji_presentation_selector_and_outer_blanks_are_dropped(
    typed: str, expected: str
) -> None:
    assert tidy_status(typed) == expected


@pytest.mark.parametrize("typed", ["hello", "", "  "])
def test_a_status_without_marker_is_refused(typed: str) -> None:
    with pytest.raises(UserError, match="unrecognized status marker"):
        parse_status(typed)


def test_a_marked_status_is_taken() -> None:
    assert parse_status(" ⏸\ufe0f Mike picks ") == "⏸ Mike picks"
