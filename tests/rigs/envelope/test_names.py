"""File names of envelopes, and ids of rigs."""

from __future__ import annotations

import pytest

from bridgehead.errors import UserError
from bridgehead.rigs.envelope import names
from bridgehead.rigs.envelope.names import (
    RigId,
    is_rig_id,
    parse_recipients,
    suggestion,
)


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        (set(), "ACK.md"),
        ({"REQUEST.md"}, "ACK.md"),
        ({"ACK.md"}, "ACK-2.md"),
        ({"ACK.md", "ACK-3.md"}, "ACK-2.md"),
        ({"ACK-2.md"}, "ACK.md"),
    ],
)
def test_the_first_free_name_is_taken_and_gaps_are_filled(
    taken: set[str], expected: str
) -> None:
    assert names.next_filename("ACK", taken) == expected


def test_there_is_no_highest_number() -> None:
    taken = {"ACK.md", *(f"ACK-{number}.md" for number in range(2, 1500))}
    assert names.next_filename("ACK", taken) == "ACK-1500.md"


def test_a_relay_turn_is_named_after_the_time_of_its_nonce() -> None:
    assert names.relay_filename("01HZX9K3T7-A4B7C9D2E1") == "RELAY-01HZX9K3T7.md"


def test_a_resolution_file_closes_a_thread_and_a_second_one_does_not() -> None:
    assert names.is_closed({"REQUEST.md", "RESOLUTION.md"})
    assert not names.is_closed({"RESOLUTION-2.md"})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("demo-01", True),
        ("dist", False),
        ("node_modules", False),
        (".git", False),
        ("a", False),
        ("Demo", False),
    ],
)
def test_which_directories_are_threads(name: str, expected: bool) -> None:
    assert names.is_thread_directory(name) is expected


@pytest.mark.parametrize(
    ("path", "thread", "envelope"),
    [
        ("demo-01/ACK.md", "demo-01", ("demo-01", "ACK.md")),
        ("demo-01/café.md", "demo-01", ("demo-01", "café.md")),
        ("demo-01/sub/ACK.md", "demo-01", None),
        ("demo-01/notes.txt", "demo-01", None),
        ("dist/ACK.md", "dist", None),
        ("README.md", None, None),
        ("demo-01", None, None),
        (".bridge/config.yaml", None, None),
    ],
)
def test_what_a_path_says(
    path: str, thread: str | None, envelope: tuple[str, str] | None
) -> None:
    assert names.thread_of(path) == thread
    assert names.envelope_at(path) == envelope
    assert envelope is None or "/".join(envelope) == path


@pytest.mark.parametrize("text", ["x", "mac-m5max", "a--b", "mac-", "r2"])
def test_odd_but_legal_ids_are_rig_ids(text: str) -> None:
    assert is_rig_id(text)


@pytest.mark.parametrize(
    "text", ["", "Mac", "5080", "-a", "mac_m5", "mac m5", "mac\n", "é", "a²"]
)
def test_other_spellings_are_not(text: str) -> None:
    assert not is_rig_id(text)


def test_what_is_typed_is_trimmed_and_lowercased() -> None:
    assert RigId.parse("\u00a0Mac-M5max ") == "mac-m5max"


def test_a_relay_rig_is_told_by_its_suffix() -> None:
    assert RigId.parse("mike-relay").is_relay
    assert not RigId.parse("relay-mike").is_relay
    assert not RigId.parse("mike-relay-desk").is_relay


def test_a_bad_id_is_refused_with_the_place_it_came_from() -> None:
    with pytest.raises(
        UserError, match=r'--to: rig id "bad_rig" is not a canonical kebab-case slug'
    ):
        RigId.parse("Bad_Rig", where="--to")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Mac", "mac"), ("mac\n", "mac"), ("mac", None), ("5080", None), ("", None)],
)
def test_suggestions_are_made_only_for_untidy_spellings(
    text: str, expected: str | None
) -> None:
    assert suggestion(text) == expected


def test_recipients_are_split_at_commas_and_kept_in_order_with_repetitions() -> None:
    assert parse_recipients(["B, a,,", "b"]) == ("b", "a", "b")


@pytest.mark.parametrize("typed", [[], [""], [" , "]])
def test_at_least_one_recipient_must_remain(typed: list[str]) -> None:
    with pytest.raises(UserError, match=r"`--to <rig-id>` is required \(one or more\)"):
        parse_recipients(typed)
